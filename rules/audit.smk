rule audit:
    "What tests of the code that trains find, beside the privacy that account states."
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
        batch=r"audit-\d+",
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
