rule train:
    "Train in federated rounds. Reads users, schedule, noise and data; writes history (accuracy, loss) and holdings."
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
        batch=r"train-\d+",
    conda:
        "../envs/environment.yaml"
    # One thread a job: several jobs fill the cores better than several threads fill one, and the
    # order of additions, so the last digits, do not depend on the number of cores.
    threads: 1
    resources:
        mem_mb=memory,
        runtime=minutes,
        gpu=gpus,
    params:
        message=job_message,
    message:
        "{params.message}"
    script:
        "../scripts/batch.py"
