# Private wireless federated learning: channel -> schedule -> noise -> receive -> train -> account -> report.
# What to simulate is in the config file (config/README.md). A study is computed in parts, a job each (rules/part.smk),
# stage after stage (rules/stages.smk).
import sys

from snakemake.utils import min_version

min_version("9.20")


# What `--report` shows first, in place of Snakemake's graph of rules (report/study.rst says how).
report: "report/study.rst"


include: "rules/common.smk"
include: "rules/part.smk"
include: "rules/stages.smk"


# Rule -> stage: a workflow that uses this one as a module may rename its rules (`use rule * from pwfl as wireless_*`).
STAGES = {getattr(rules, stage).rule.name: stage for stage in parts.ORDER}


# Not before jobs start: dry runs and reports need no GPU.
onstart:
    try:
        if workflow.local_exec:
            scenario.check_device(study)
            startup.check_address_space({job.rule.name for job in workflow.dag.needrun_jobs()})
        startup.check_writable([BASE, startup.SNAKEMAKE, *startup.folders(BASE, study.name)])
        if warning := startup.be_alone(BASE, study.name):
            logger.warning(warning)
        current.write_manifests(outlook())
    except Exception as error:
        raise WorkflowError(errors.message(error)) from None
    progress.executor = "local" if workflow.local_exec else workflow.executor_plugin.name
    supervisor.answer_in_a_thread()
    # Imported here, in the main thread: else Snakemake does it in the first job's thread, and Ctrl-C waits for that job.
    import polars  # noqa: F401

    interrupts.answer(interrupts.STOPPED)  # again: Polars has changed how signals are answered


onsuccess:
    # A failed part gets its mark all the same if parts after it need it, and these fail. With `--until` they do not run.
    if failed := jobs.failures(BASE / current.mark(path) for path in current.parts):
        raise WorkflowError(jobs.failure_message(failed))
    if not wanted and (BASE / current.shown_mark).exists():
        print(progress.result(current.record.parent.parent), file=sys.stderr)


onerror:
    if interrupts.status():
        sys.exit(interrupts.status())
    failed = jobs.failures(BASE / current.mark(path) for path in current.parts)
    print(jobs.failure_message(failed) if failed else jobs.STOPPED, file=sys.stderr)


# Snakemake skips `onsuccess` where there is nothing to do: the logger says the result then.
if is_main and current and current.is_shown and not wanted:
    progress.complete = current.record.parent.parent


rule all:
    "Run the whole study, up to its report (the default)."
    default_target: True
    input:
        rules.publish.output,
        [*map(current.mark, current.parts)] if wanted == (session.EVERYTHING,) else [],
    localrule: True
