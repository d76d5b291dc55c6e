# The first job of a run: what all others compute was decided when this workflow was read.
wildcard_constraints:
    plan=r"[0-9]{8}-[0-9]{6}-[0-9a-f]+",


localrules:
    manifests,


rule manifests:
    "List the missing results that each job computes, in one file per job, which the other rules read."
    output:
        directory(".pwfl/{plan}/batches"),
    log:
        "logs/{plan}/manifests.log",
    conda:
        "../envs/environment.yaml"
    params:
        plan=lambda wildcards: current.manifests,
    message:
        "Planning {params.plan}"
    script:
        "../scripts/manifests.py"
