# How much differential-privacy noise each user adds.
rule noise:
    input:
        users=rules.channel.output.users,
        schedule=rules.schedule.output.schedule,
    output:
        noise="results/{scenario}/noise/{scheduler}-{noise}/{shard}/noise.parquet",
        noise_status="results/{scenario}/noise/{scheduler}-{noise}/{shard}/noise_status.parquet",
    log:
        "logs/{scenario}/noise/{scheduler}-{noise}/{shard}.log",
    benchmark:
        "benchmarks/jobs/{scenario}/noise/{scheduler}-{noise}/{shard}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        depends=depends("noise", variant="noise"),
    message:
        "{wildcards.scenario}: {wildcards.noise} noise on the {wildcards.scheduler} schedule of realizations {wildcards.shard}"
    script:
        "../scripts/noise.py"
