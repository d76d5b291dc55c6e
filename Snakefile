# Private wireless federated learning: channel -> schedule -> noise -> train -> account -> report.
# What to simulate stands in the config file (config/README.md), each stage in rules/STAGE.smk.
from snakemake.utils import min_version

min_version("9.20")


# Snakemake's report begins with its graph of rules, but for an image in this text, whose failure opens the page.
report: "report/study.rst"


include: "rules/common.smk"
include: "rules/channel.smk"
include: "rules/features.smk"
include: "rules/schedule.smk"
include: "rules/noise.smk"
include: "rules/train.smk"
include: "rules/account.smk"
include: "rules/audit.smk"
include: "rules/figures.smk"
include: "rules/report.smk"


from snakemake.logging import logger

from pwfl.runtime import locks, watch
from pwfl.workflow import estimate, progress

watch.hand_over()
if decides:
    for warning in (*study.warnings, *(estimate.remaining(planned) if is_main else ())):
        logger.warning(warning)


wildcard_constraints:
    scenario=reports.ANY_SCENARIO,
    address=r"[0-9a-f]+",
    shard=r"\d+-\d+",


# Not before jobs start: dry runs, reports and --unlock go beside a run.
onstart:
    try:
        if workflow.local_exec:
            scenario.check_device(study)
        locks.hold([study.name], ".snakemake/pwfl")  # until this process ends
    except (locks.BusyError, scenario.ScenarioError) as error:
        raise WorkflowError(str(error)) from None
    watch.answer_in_a_thread()
    progress.Progress("logs", len(workflow.dag)).follow(logger)
    # Its limit of jobs a second makes Snakemake 9 look for jobs once a second more with each job that ends.
    if workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None


onsuccess:
    asked = {str(file) for job in workflow.dag.targetjobs for file in job.output or job.input}
    made_of = {
        job.output.made: job.params.depends
        for job in workflow.dag.jobs
        if "made" in job.output.keys() and not asked.isdisjoint(job.output)
    }
    if by_records and (missing := reports.unfinished(asked, made_of)):
        raise WorkflowError(
            f"The run ended without these files, or with files of another plan: {', '.join(missing)}. Run again, "
            "without --force or --forcerun, which make Snakemake skip other jobs."
        )
    print(progress.result(RESULTS), file=sys.stderr)


localrules:
    all,


rule all:
    "The whole study, up to its page (what plain `snakemake` makes)."
    default_target: True
    input:
        f"{RESULTS}/index.html",
        expand(f"{RESULTS}/{{scenario}}/scenario.yaml", scenario=study.scenarios),
