# Private wireless federated learning: channel -> schedule -> noise -> train -> account -> report.
# What to simulate is in the config file (config/README.md). A study is computed in parts, a job each (rules/part.smk),
# stage after stage (rules/stages.smk).
import sys

from snakemake.utils import min_version

min_version("9.20")


# Snakemake's report begins with its graph of rules, except for an image in this text, whose failure opens the page.
report: "report/study.rst"


include: "rules/common.smk"
include: "rules/part.smk"
include: "rules/stages.smk"


# The stages' names, where this workflow is a module of another one, which may name the rules anew.
STAGES = {getattr(rules, stage).rule.name: stage for stage in parts.ORDER}


# Not before jobs start: dry runs and reports need no GPU.
onstart:
    try:
        if workflow.local_exec:
            scenario.check_device(study)
            startup.check_address_space({job.rule.name for job in workflow.dag.needrun_jobs()})
        startup.check_writable(BASE, study.name)
        if warning := startup.be_alone(BASE, study.name):
            logger.warning(warning)
        current.write_manifests(outlook())
    except Exception as error:
        raise WorkflowError(errors.message(error)) from None
    progress.executor = "local" if workflow.local_exec else workflow.executor_plugin.name
    supervisor.answer_in_a_thread()
    if is_main:
        # Snakemake would import it in the thread of its first script, and Ctrl-C then wait until a job ends.
        import polars  # noqa: F401

        interrupts.answer(interrupts.STOPPED)


onsuccess:
    # Parts that others need leave it to these to fail, which a run of some rules alone does not get to.
    if failed := jobs.failures(BASE / current.mark(path) for path in current.parts):
        raise WorkflowError(jobs.failure_message(failed))
    if not wanted and current.record.exists():
        print(progress.result(current.record.parent.parent), file=sys.stderr)


onerror:
    if interrupts.status():
        sys.exit(interrupts.status())
    failed = jobs.failures(BASE / current.mark(path) for path in current.parts)
    print(jobs.failure_message(failed) if failed else jobs.STOPPED, file=sys.stderr)


# What has nothing to do comes to no onsuccess.
if is_main and current and current.is_shown and not wanted:
    progress.complete = current.record.parent.parent


rule all:
    "Run the whole study, up to its report (the default)."
    default_target: True
    input:
        rules.publish.output,
        current.outputs if current and wanted == (session.EVERYTHING,) else [],
    localrule: True
