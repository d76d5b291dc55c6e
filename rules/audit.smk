rule audit:
    "What an attack on the code that trains finds, beside the privacy that account states."
    input:
        unpack(inputs()),
    output:
        audit="store/audit/{address}/audit.parquet",
    log:
        "logs/audit/{address}.log",
    benchmark:
        "logs/audit/{address}.tsv"
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=3000,
        runtime=30,
    params:
        depends=depends(),
    message:
        "{params.depends[system]}: audit of the privacy ({wildcards.address})"
    script:
        "../scripts/stage.py"
