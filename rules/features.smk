rule projection:
    "What tells synthetic images from each other. It has no input: no image of anybody enters."
    input:
        unpack(inputs()),
    output:
        projection="store/projection/{address}/projection.npz",
    log:
        "logs/projection/{address}.log",
    benchmark:
        "logs/projection/{address}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=3000,
        runtime=30,
    params:
        depends=depends(),
    message:
        "projection learned from synthetic {params.depends[variant]} ({wildcards.address})"
    script:
        "../scripts/stage.py"


rule features:
    "A data set's features, of all its images."
    input:
        unpack(inputs()),
    output:
        features="store/features/{address}/features.npz",
    log:
        "logs/features/{address}.log",
    benchmark:
        "logs/features/{address}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        depends=depends(),
    message:
        "features {params.depends[variant]} of {params.depends[parameters][dataset]} ({wildcards.address})"
    script:
        "../scripts/stage.py"
