rule schedule:
    "Who transmits, on what, with which power."
    input:
        unpack(inputs()),
    output:
        schedule="store/schedule/{address}/{shard}/schedule.parquet",
        schedule_status="store/schedule/{address}/{shard}/schedule_status.parquet",
    log:
        "logs/schedule/{address}/{shard}.log",
    benchmark:
        "logs/schedule/{address}/{shard}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        depends=depends(),
    message:
        "{params.depends[system]}: {params.depends[variant]} schedule of realizations {wildcards.shard} ({wildcards.address})"
    script:
        "../scripts/stage.py"
