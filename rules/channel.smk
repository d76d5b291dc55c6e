rule dataset:
    "The images and labels that users learn, as one file."
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
        batch=r"dataset-\d+",
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


rule imported:
    "Channels from outside, checked: from their files, imported_links and imported_users."
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
        batch=r"imported-\d+",
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


rule channel:
    "Where users are, what links and data they have: users and links."
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
        batch=r"channel-\d+",
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
