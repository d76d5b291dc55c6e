# What all stages' rules are made of. A study's results are divided into parts, by stage and estimated time; a part's job
# looks into the store and computes, one item after the other, what that lacks (scripts/part.py). The mark of a part, its
# output, says that the store has it: so which marks there are is decided when the workflow is read (rules/common.smk).
wildcard_constraints:
    study=r"[^/]+",
    part=r"\d+-[0-9a-f]{6}",


rule part:
    input:
        before,
    output:
        ".pwfl/{study}/{stage}/{part}.done",
    log:
        "logs/{study}/{stage}/{part}.log",
    benchmark:
        "logs/{study}/{stage}/{part}.tsv"
    wildcard_constraints:
        stage="-",  # the rules that are made of this one name theirs
    conda:
        "../envs/environment.yaml"
    # One thread a job: several jobs fill the cores better than several threads fill one, and the
    # order of additions, so the last digits, do not depend on the number of cores.
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: asked("mem_mb", wildcards) * attempt,
        runtime=lambda wildcards, attempt: asked("minutes", wildcards) * attempt,
    params:
        # A parameter that depends on the output triggers no rerun when it changes.
        message=lambda wildcards, output: asked("message", wildcards),
    message:
        "{params.message}"
    script:
        "../scripts/part.py"
