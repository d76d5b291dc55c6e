rule noise:
    "How much differential-privacy noise each user adds."
    input:
        unpack(inputs()),
    output:
        noise="store/noise/{address}/{shard}/noise.parquet",
        noise_status="store/noise/{address}/{shard}/noise_status.parquet",
    log:
        "logs/noise/{address}/{shard}.log",
    benchmark:
        "logs/noise/{address}/{shard}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        depends=depends(),
    message:
        "{params.depends[system]}: {params.depends[variant]} noise of realizations {wildcards.shard} ({wildcards.address})"
    script:
        "../scripts/stage.py"
