rule dataset:
    "The images and labels that users learn, as one file."
    input:
        lambda wildcards: ancient(study.idx_files(depends(wildcards)["variant"])),
    output:
        data="store/dataset/{address}/data.npz",
    log:
        "logs/dataset/{address}.log",
    benchmark:
        "logs/dataset/{address}.tsv"
    retries: 2
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        depends=depends,
    message:
        "data set {params.depends[variant]}"
    script:
        "../scripts/dataset.py"


rule channel:
    "Where users are, what links and data they have."
    output:
        users="store/channel/{address}/{shard}/users.parquet",
        links="store/channel/{address}/{shard}/links.parquet",
    log:
        "logs/channel/{address}/{shard}.log",
    benchmark:
        "logs/channel/{address}/{shard}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=10,
    params:
        depends=depends,
    message:
        "{params.depends[system]}: channel of realizations {wildcards.shard} ({wildcards.address})"
    script:
        "../scripts/channel.py"
