rule noise:
    "Set each user's differential-privacy noise. Reads users and schedule; writes noise and noise_status."
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
        batch=r"noise-\d+",
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
