# Who transmits, on what, with which power.
rule schedule:
    input:
        users=rules.channel.output.users,
        links=rules.channel.output.links,
    output:
        schedule="results/{scenario}/schedule/{scheduler}/{shard}/schedule.parquet",
        schedule_status="results/{scenario}/schedule/{scheduler}/{shard}/schedule_status.parquet",
    log:
        "logs/{scenario}/schedule/{scheduler}/{shard}.log",
    benchmark:
        "benchmarks/jobs/{scenario}/schedule/{scheduler}/{shard}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        depends=depends("schedule", variant="scheduler"),
    message:
        "{wildcards.scenario}: {wildcards.scheduler} schedule of realizations {wildcards.shard}"
    script:
        "../scripts/schedule.py"
