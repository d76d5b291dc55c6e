# The first job of a run: what all others compute was decided when this workflow was read.
wildcard_constraints:
    plan=r"[0-9]{8}-[0-9]{6}-[0-9a-f]+",


localrules:
    manifests,


rule manifests:
    "What each job is to compute of what the store lacks: a file for each, which all other rules read."
    output:
        directory(".pwfl/{plan}/batches"),
    log:
        "logs/{plan}/manifests.log",
    conda:
        "../envs/environment.yaml"
    params:
        plan=lambda wildcards: current.manifests,
    message:
        "{params.plan}"
    script:
        "../scripts/manifests.py"
