rule train:
    "Federated rounds: accuracy and loss."
    input:
        unpack(inputs()),
    output:
        history="store/train/{address}/{shard}/history.parquet",
        holdings="store/train/{address}/{shard}/holdings.parquet",
    log:
        "logs/train/{address}/{shard}.log",
    benchmark:
        "logs/train/{address}/{shard}.tsv"
    conda:
        "../envs/environment.yaml"
    # One thread a job: several jobs fill the cores better than several threads fill one, and the
    # order of additions, so the last digits, do not depend on the number of cores.
    threads: 1
    resources:
        mem_mb=lambda wildcards: max(
            3000, int(scenario.checks.training_bytes(planned.owners[wildcards.address])[0] / 2**20)
        ),
        runtime=240,
        device=lambda wildcards: device(planned.owners[wildcards.address]),
        gpu=lambda wildcards: gpus(planned.owners[wildcards.address]),
    params:
        depends=depends(),
    message:
        "{params.depends[system]}: training of realizations {wildcards.shard} ({wildcards.address})"
    script:
        "../scripts/stage.py"
