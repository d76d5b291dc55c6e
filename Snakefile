# Private wireless federated learning: channel -> schedule -> noise -> train -> account -> report.
# What to simulate is in the config file (config/README.md), each stage in rules/STAGE.smk; what a batch is, and the
# functions before, memory, minutes, gpus and job_message of a rule, in rules/common.smk.
import sys

from snakemake.utils import min_version

min_version("9.20")


# Snakemake's report begins with its graph of rules, except for an image in this text, whose failure opens the page.
report: "report/study.rst"


include: "rules/manifests.smk"
include: "rules/common.smk"
include: "rules/channel.smk"
include: "rules/features.smk"
include: "rules/schedule.smk"
include: "rules/noise.smk"
include: "rules/receive.smk"
include: "rules/train.smk"
include: "rules/account.smk"
include: "rules/audit.smk"
include: "rules/report.smk"


# Not before jobs start: dry runs and reports need no GPU.
onstart:
    try:
        if workflow.local_exec:
            scenario.check_device(study)
            startup.check_address_space({job.rule.name for job in workflow.dag.needrun_jobs()})
        startup.check_writable(BASE, study.name)
        if warning := startup.be_alone(BASE, study.name):
            logger.warning(warning)
    except Exception as error:
        raise WorkflowError(errors.message(error)) from None
    progress.executor = "local" if workflow.local_exec else workflow.executor_plugin.name
    supervisor.answer_in_a_thread()
    if is_main:
        # Snakemake would import it in the thread of its first script, and Ctrl-C then wait until a job ends.
        import polars  # noqa: F401

        interrupts.answer(interrupts.STOPPED)


onsuccess:
    # A run of some rules alone does not get to the rule that fails where an item did.
    if failed := jobs.failures((BASE / ".pwfl" / current.plan).glob("*.done")):
        raise WorkflowError(jobs.failure_message(failed))
    if not wanted and (BASE / RECORD).exists():
        print(progress.result(current.record.parent.parent), file=sys.stderr)


onerror:
    if interrupts.status():
        sys.exit(interrupts.status())
    if not jobs.failures((BASE / ".pwfl" / current.plan).glob("*.done")):
        print(jobs.STOPPED, file=sys.stderr)


# What has nothing to do comes to no onsuccess.
if is_main and is_done and not wanted:
    progress.complete = current.record.parent.parent


localrules:
    all,
    complete,
    publish,


rule all:
    "Run the whole study, up to its report (the default)."
    default_target: True
    input:
        RECORD if is_main else rules.publish.output,
        COMPLETE if wanted == (session.EVERYTHING,) else [],
