# The rule that all stages' rules are made of. A study's results are divided into parts, by stage and estimated time; a
# part's job computes, one item after the other, what the store lacks of it (scripts/part.py). Its output, the mark, says
# that the store has it. rules/common.smk makes and deletes marks whenever the workflow is read: so the store decides what
# runs, and no file's time does (docs/explanation/caching.md).
wildcard_constraints:
    study=r"[^/]+",
    part=r"\d+-[0-9a-f]{6}",  # its number in the stage, and a hash of what it computes


rule part:
    input:
        lambda wildcards: part_of(wildcards)["marks_before"],
    output:
        ".pwfl/{study}/{stage}/{part}.done",
    log:
        "logs/{study}/{stage}/{part}.log",
    benchmark:
        "logs/{study}/{stage}/{part}.tsv"
    wildcard_constraints:
        stage="-",  # matches no stage: only the rules that are made of this one run, each for its own stage
    conda:
        "../envs/environment.yaml"
    # One thread a job: several jobs fill the cores better than several threads fill one, and the
    # order of additions, so the last digits, do not depend on the number of cores.
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: part_of(wildcards)["mem_mb"] * attempt,
        runtime=lambda wildcards, attempt: part_of(wildcards)["minutes"] * attempt,
    params:
        # Here, as a message takes no function. A parameter that depends on the output triggers no rerun when it changes.
        message=lambda wildcards, output: part_of(wildcards)["message"],
    message:
        "{params.message}"
    script:
        "../scripts/part.py"
