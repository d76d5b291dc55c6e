rule dataset:
    "The images and labels that users learn, as one file."
    input:
        unpack(inputs()),
    output:
        dataset="store/dataset/{address}/dataset.npz",
    log:
        "logs/dataset/{address}.log",
    benchmark:
        "logs/dataset/{address}.tsv"
    retries: 2
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        # A file of one's own may be compressed.
        mem_mb=lambda wildcards, input: max(2000, int(10 * input.size_mb)),
        runtime=10,
    params:
        depends=depends(),
    message:
        "data set {params.depends[variant]}"
    script:
        "../scripts/stage.py"


rule imported:
    "Channels from outside, checked."
    input:
        unpack(inputs()),
    output:
        imported_links="store/imported/{address}/imported_links.parquet",
        imported_users="store/imported/{address}/imported_users.parquet",
    log:
        "logs/imported/{address}.log",
    benchmark:
        "logs/imported/{address}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=10,
    params:
        depends=depends(),
    message:
        "{params.depends[system]}: channels from outside ({wildcards.address})"
    script:
        "../scripts/stage.py"


rule channel:
    "Where users are, what links and data they have."
    input:
        unpack(inputs()),
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
        depends=depends(),
    message:
        "{params.depends[system]}: channel of realizations {wildcards.shard} ({wildcards.address})"
    script:
        "../scripts/stage.py"
