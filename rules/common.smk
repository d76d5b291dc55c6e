# What the rules share: the study, and the batches of what the store lacks of it.
import sys
import tempfile
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

PROJECT = Path(str(workflow.current_basedir)).parent
sys.path.insert(0, str(PROJECT / "pkg"))  # a checkout works without installation

try:
    from pwfl.process import interrupts

    if workflow.is_main_process and workflow.modifier.is_main_snakefile():
        interrupts.answer(interrupts.STOPPED)
        # A terminal's Ctrl-C is for jobs, too: they would answer with tracebacks of imports, and are told to end instead.
        shell.prefix("set -euo pipefail; trap '' INT; ")
    from pwfl import scenario
    from pwfl import errors
    from pwfl.process import supervisor, threads
    from pwfl.report import captions
    from pwfl.workflow import jobs, progress, reports, session, startup
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] in ("", "pwfl"):
        raise
    raise WorkflowError(
        f"The package {error.name} is missing in Snakemake's Python environment. Install all packages that this workflow "
        f"needs by `{sys.executable} -m pip install {PROJECT}`; or run `make setup` in {PROJECT} and use the Snakemake "
        "of its .venv"
    ) from None

threads.before_polars()
jobs.give_path(PROJECT / "pkg")
supervisor.hand_over()


# The folder of results, store and logs: this one, or the prefix of this workflow as a module of another one.
BASE = Path(rules.manifests.output[0]).parents[2]
is_main = workflow.modifier.is_main_snakefile()  # not a module of another workflow
# Jobs on other machines plan nothing: they read their manifests.
current, study, wanted = None, None, ()
if workflow.is_main_process:
    try:
        configs = [
            *map(str, workflow.configfiles or ["config/config.yaml"])
        ]  # also under `--config` alone
        values = session.study_values(workflow.config_settings.config_args or [])
        # Not as Snakemake reads them, to which `010` is 8 and `on` is true.
        given = scenario.command_line(values) if is_main else {}
        files = scenario.read(configs, given) if is_main else None
        if is_main and not workflow.configfiles:
            workflow.configfile(*configs)
        wanted, seconds = session.options(config)
        source = ", ".join(configs) if is_main else "the module's config"
        merged = scenario.merge(files, given) if is_main else config
        study = session.study_of(merged, source, files)
        startup.check_counts(workflow.resource_settings.cores, workflow.resource_settings.nodes)
        startup.check_folders(BASE, study.name)
        current = session.start(
            study,
            BASE,
            captions=PROJECT / "report",
            wanted=wanted,
            seconds=seconds,
            cores=workflow.resource_settings.cores if workflow.local_exec else None,
            again=(session.command_of(configs, is_main), values),
        )
        startup.check_outputs([str(BASE / path) for path in current.outputs])
    except Exception as error:
        raise WorkflowError(errors.message(error)) from None
    for warning in current.warnings:
        logger.warning(warning)


# A stage has a job for each of its batches. A batch's manifest lists its items: what each reads from the store,
# and the code that computes it. The job (scripts/batch.py) computes one item after the other into the store, and then
# writes the mark BATCH.done. These functions say of a batch which others come before it, and what its job needs.
def batch(wildcards):
    """What Snakemake is to know of a batch."""
    if current is not None:
        return current.batches[wildcards.batch]
    return session.planned_batch(BASE / f".pwfl/{wildcards.plan}/batches", wildcards.batch)


def before(wildcards):
    """The batches that make what a batch needs."""
    return [f".pwfl/{wildcards.plan}/{name}.done" for name in batch(wildcards).after]


def memory(wildcards, attempt):
    return batch(wildcards).mem_mb * attempt


def minutes(wildcards, attempt):
    return batch(wildcards).minutes * attempt


def gpus(wildcards):
    return batch(wildcards).gpu


def job_message(wildcards):
    return batch(wildcards).message


def everything(wildcards):
    """What says that all batches are done."""
    return [f".pwfl/{wildcards.plan}/{name}.done" for name in current.batches]


def published(path):
    """A file of results/STUDY; the page and figures are shown in Snakemake's report."""
    target = f"results/{study.name}/{path}"
    if path == "index.html":
        labels = {"figure": "all figures and tables, interactive"}
        return report(target, caption="../report/page.rst", category="Study", labels=labels)
    if not path.endswith(".svg"):
        return target
    text, category, figure = reports.shown(study, path, PROJECT / "report")
    caption = Path(CAPTIONS.name, path).with_suffix(".rst")
    caption.parent.mkdir(exist_ok=True)
    caption.write_text(captions.for_snakemake(text), encoding="utf-8")
    return report(target, caption=str(caption), category=category, labels={"figure": figure})


# Snakemake's report reads each caption from a file: here they are for as long as this process, ready to be shown.
CAPTIONS = tempfile.TemporaryDirectory(prefix="pwfl-captions-") if current else None
# Files that the rule `publish` declares; those of sweeps' points, of which there may be many thousands, come with them.
DECLARED = (
    [path for path in current.view if path.rpartition("/")[0] not in study.points or wanted]
    if current
    else []
)
# What says that all of this call's items are there, and that the study's folder shows them.
COMPLETE = f".pwfl/{current.plan}/complete" if current else ".pwfl/-"
# Where the folder shows all, nothing is completed and published again, whatever the times of files, and whatever
# Snakemake remembers of them: no rule then makes the file COMPLETE.
is_done = current and current.is_shown and not current.batches and (BASE / COMPLETE).exists()
OPEN = "-" if is_done else ".*"  # the plans that the rule `complete` is for
RECORD = str(current.record.relative_to(BASE)) if current else ".pwfl/published"
