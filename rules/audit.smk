# What an attack on the training path finds, beside what account states.
rule audit:
    input:
        users=first_shard(rules.channel.output.users),
        schedule=first_shard(rules.schedule.output.schedule),
        noise=first_shard(rules.noise.output.noise),
        leakage=first_shard(rules.account.output.leakage),
        outcome=first_shard(rules.account.output.outcome),
    output:
        audit="results/{scenario}/audit/{scheduler}-{noise}/audit.parquet",
    log:
        "logs/{scenario}/audit/{scheduler}-{noise}.log",
    benchmark:
        "benchmarks/jobs/{scenario}/audit/{scheduler}-{noise}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=3000,
        runtime=30,
    params:
        depends=depends("audit"),
    message:
        "{wildcards.scenario}: audit of the privacy, {wildcards.scheduler} schedule, {wildcards.noise} noise"
    script:
        "../scripts/audit.py"
