# Federated rounds: accuracy and loss.
rule train:
    input:
        data=dataset_file,
        users=covering(rules.channel.output.users),
        schedule=covering(rules.schedule.output.schedule),
        noise=covering(rules.noise.output.noise),
    output:
        history="results/{scenario}/train/{scheduler}-{noise}/{shard}/history.parquet",
    log:
        "logs/{scenario}/train/{scheduler}-{noise}/{shard}.log",
    benchmark:
        "benchmarks/jobs/{scenario}/train/{scheduler}-{noise}/{shard}.tsv"
    conda:
        "../envs/environment.yaml"
    # One thread a job: several jobs fill the cores better than several threads fill one, and the
    # order of additions, so the last digits, do not depend on the number of cores.
    threads: 1
    resources:
        mem_mb=3000,
        runtime=240,
    params:
        depends=depends("train"),
    message:
        "{wildcards.scenario}: training, {wildcards.scheduler} schedule, {wildcards.noise} noise, realizations {wildcards.shard}"
    script:
        "../scripts/train.py"
