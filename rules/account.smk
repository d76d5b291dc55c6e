# The privacy each user is left with.
rule account:
    input:
        users=rules.channel.output.users,
        schedule=rules.schedule.output.schedule,
        noise=rules.noise.output.noise,
    output:
        leakage="results/{scenario}/account/{scheduler}-{noise}/{shard}/leakage.parquet",
        outcome="results/{scenario}/account/{scheduler}-{noise}/{shard}/outcome.parquet",
    log:
        "logs/{scenario}/account/{scheduler}-{noise}/{shard}.log",
    benchmark:
        "benchmarks/jobs/{scenario}/account/{scheduler}-{noise}/{shard}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        depends=depends("account"),
    message:
        "{wildcards.scenario}: privacy, {wildcards.scheduler} schedule, {wildcards.noise} noise, realizations {wildcards.shard}"
    script:
        "../scripts/account.py"
