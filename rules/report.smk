# Tables, figures and claims, in the store as all else; results/STUDY shows them.
rule tables:
    "Scenarios' results, realization by realization and round by round, and their parameters: from all tables."
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
    "Scenarios' figures."
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
    "Tables and figures over all scenarios of the study: claims, outcomes, summary."
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
    "One file to open: what the study is, its claims, figures and tables, with links to the files beside it."
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
    "Whether all items could be computed: it names those that failed."
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
        "all items"
    script:
        "../scripts/complete.py"


rule publish:
    "What people look at: results/STUDY shows files of the store."
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
        "{params.publication}"
    script:
        "../scripts/publish.py"
