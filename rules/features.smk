rule projection:
    "Directions that tell synthetic images apart. They have no input: no image of anybody enters."
    input:
        before,
        manifests=".pwfl/{plan}/batches",
    output:
        done=".pwfl/{plan}/{batch}.done",
    log:
        "logs/{plan}/{batch}.log",
    benchmark:
        "logs/{plan}/{batch}.tsv"
    wildcard_constraints:
        batch=r"projection-\d+",
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=memory,
        runtime=minutes,
    params:
        message=job_message,
    message:
        "{params.message}"
    script:
        "../scripts/batch.py"


rule features:
    "A data set's features, of all its images: from dataset and projection."
    input:
        before,
        manifests=".pwfl/{plan}/batches",
    output:
        done=".pwfl/{plan}/{batch}.done",
    log:
        "logs/{plan}/{batch}.log",
    benchmark:
        "logs/{plan}/{batch}.tsv"
    wildcard_constraints:
        batch=r"features-\d+",
    conda:
        "../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=memory,
        runtime=minutes,
    params:
        message=job_message,
    message:
        "{params.message}"
    script:
        "../scripts/batch.py"
