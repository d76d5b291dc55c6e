# The stages, in order: what each reads and writes. Which parts of a stage come after which of others is planned by what
# their items are made of (pwfl.workflow.parts).
use rule part as dataset with:
    "Load the images and labels that users train on."
    wildcard_constraints:
        stage="dataset",


use rule part as projection with:
    "Compute directions that separate classes of synthetic images. Reads no data set, so no user's image."
    wildcard_constraints:
        stage="projection",


use rule part as features with:
    "Compute the features of all images. Reads dataset and projection."
    wildcard_constraints:
        stage="features",


use rule part as imported with:
    "Check imported channels. Writes imported_links and imported_users."
    wildcard_constraints:
        stage="imported",


use rule part as channel with:
    "Draw users' positions, links and numbers of records. Writes users and links."
    wildcard_constraints:
        stage="channel",


use rule part as schedule with:
    "Schedule users, resource blocks and powers. Reads users and links; writes schedule and schedule_status."
    wildcard_constraints:
        stage="schedule",


use rule part as noise with:
    "Set each user's differential-privacy noise. Reads users and schedule; writes noise and noise_status."
    wildcard_constraints:
        stage="noise",


use rule part as receive with:
    "Simulate reception. Reads users, links, schedule and noise; writes reception, reception_noise and visibility."
    wildcard_constraints:
        stage="receive",


use rule part as train with:
    "Train in federated rounds. Reads users, reception, reception_noise and data; writes history and holdings."
    wildcard_constraints:
        stage="train",
    resources:
        mem_mb=lambda wildcards, attempt: part_of(wildcards)["mem_mb"] * attempt,
        runtime=lambda wildcards, attempt: part_of(wildcards)["minutes"] * attempt,
        gpu=lambda wildcards: part_of(wildcards)["gpu"],


use rule part as account with:
    "Account for each user's privacy loss. Reads users, schedule, noise and visibility; writes leakage and outcome."
    wildcard_constraints:
        stage="account",


use rule part as audit with:
    "Audit the training code against the privacy that account states. Writes a scenario's audit.csv."
    wildcard_constraints:
        stage="audit",


# In the store as all else; results/STUDY shows it.
use rule part as report with:
    "Write the report: tables, figures, claims, the page of the study and that of its paper. Reads all tables."
    wildcard_constraints:
        stage="report",


rule publish:
    "Copy the study's files from the store to results/STUDY."
    input:
        shown_parts,
    output:
        # Files of sweeps' points, of which there may be many thousands, come with the others.
        [
            published(path)
            for path in (current.work.view if current else ())
            if path.rpartition("/")[0] not in study.points or wanted
        ],
        mark=current.shown_mark if current else ".pwfl/-",
    log:
        f"logs/{study.name}/publish.log" if current else "logs/-",
    localrule: True
    conda:
        "../envs/environment.yaml"
    message:
        "Publishing results/"
    script:
        "../scripts/publish.py"


# `snakemake train_all`: all parts of a stage, and what they need.
for stage in parts.ORDER:

    rule:
        name:
            f"{stage}_all"
        input:
            [
                current.mark(path)
                for path in (current.parts if current else ())
                if path.startswith(f"{stage}/")
            ],
        localrule: True
