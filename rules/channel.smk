# Where users are, what links and data they have.
rule dataset:
    input:
        lambda wildcards: study.idx_files(wildcards.dataset),
    output:
        "resources/{dataset}.npz",
    log:
        "logs/dataset/{dataset}.log",
    benchmark:
        "benchmarks/jobs/dataset/{dataset}.tsv"
    retries: 2
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    message:
        "Data set {wildcards.dataset}"
    script:
        "../scripts/dataset.py"


rule channel:
    output:
        users="results/{scenario}/channel/{shard}/users.parquet",
        links="results/{scenario}/channel/{shard}/links.parquet",
    log:
        "logs/{scenario}/channel/{shard}.log",
    benchmark:
        "benchmarks/jobs/{scenario}/channel/{shard}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        depends=depends("channel"),
    message:
        "{wildcards.scenario}: channel of realizations {wildcards.shard}"
    script:
        "../scripts/channel.py"
