rule account:
    "The privacy that each user is left with."
    input:
        unpack(inputs()),
    output:
        leakage="store/account/{address}/{shard}/leakage.parquet",
        outcome="store/account/{address}/{shard}/outcome.parquet",
    log:
        "logs/account/{address}/{shard}.log",
    benchmark:
        "logs/account/{address}/{shard}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        depends=depends(),
    message:
        "{params.depends[system]}: privacy of realizations {wildcards.shard} ({wildcards.address})"
    script:
        "../scripts/stage.py"
