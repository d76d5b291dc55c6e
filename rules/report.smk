# Tables, figures and claims, in the store as all else; results/STUDY shows them.
rule tables:
    "Write scenarios' parameters and results, by realization and by round. Reads all tables."
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
        batch=r"tables-\d+",
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


rule figures:
    "Draw scenarios' figures."
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
        batch=r"figures-\d+",
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


rule comparison:
    "Compare the study's scenarios in tables and figures: claims, outcomes, summary."
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
        batch=r"comparison-\d+",
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


rule page:
    "Write the study report: one HTML file with claims, figures and tables, and links to the files behind them."
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
        batch=r"page-\d+",
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


rule complete:
    "Check that all results were computed; otherwise name those that failed."
    input:
        everything,
    output:
        touch(".pwfl/{plan}/complete"),
    log:
        "logs/{plan}/complete.log",
    wildcard_constraints:
        plan=OPEN,
    conda:
        "../envs/environment.yaml"
    message:
        "Checking that all results exist"
    script:
        "../scripts/complete.py"


rule publish:
    "Copy the study's files from the store to results/STUDY."
    input:
        ancient(COMPLETE) if OPEN == "-" else COMPLETE,
    output:
        [published(path) for path in DECLARED],
        # A new one for each plan, so that edited files are published again; in another workflow, `digest` decides.
        [RECORD] if is_main else [],
    log:
        f"logs/{current.plan if current else '-'}/publish.log",
    conda:
        "../envs/environment.yaml"
    params:
        publication=current and current.publication,
        digest=current.digest if current else "",
    message:
        "Publishing {params.publication} in results/"
    script:
        "../scripts/publish.py"
