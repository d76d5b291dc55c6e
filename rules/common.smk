# What the rules share: the study, in parts, and what this call is to do with each of them.
import gc
import json
import sys
import tempfile
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

gc.disable()  # until the study is planned: what is imported and planned is no garbage
PROJECT = Path(str(workflow.current_basedir)).parent
sys.path.insert(0, str(PROJECT / "pkg"))  # a checkout works without installation

try:
    from pwfl.process import interrupts

    if workflow.is_main_process and workflow.modifier.is_main_snakefile():
        interrupts.answer(interrupts.STOPPED)
        # Scripts start in a shell. A terminal's Ctrl-C reaches them, too; pwfl ends them itself, without their tracebacks.
        shell.prefix("set -euo pipefail; trap '' INT; ")
    from pwfl import errors, scenario
    from pwfl.process import supervisor, threads as processor_threads
    from pwfl.report import captions
    from pwfl.workflow import jobs, parts, progress, reports, session, startup
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] in ("", "pwfl"):
        raise
    raise WorkflowError(
        f"The package {error.name} is missing in Snakemake's Python environment. Install all packages that this workflow "
        f"needs by `{sys.executable} -m pip install {PROJECT}`; or run `make setup` in {PROJECT} and use the Snakemake "
        "of its .venv"
    ) from None

processor_threads.before_polars()
jobs.give_path(PROJECT / "pkg")
supervisor.hand_over()


# The folder of results, store and logs: this one, or the prefix of this workflow as a module of another one.
BASE = Path(workflow.modifier.path_modifier.modify(".pwfl")).parent
is_main = workflow.modifier.is_main_snakefile()  # not a module of another workflow
# Jobs on other machines plan nothing: they read their manifests.
current, study, wanted = None, None, ()
if workflow.is_main_process:
    try:
        # Also under `--config` alone.
        configs = [str(path) for path in workflow.configfiles or ["config/config.yaml"]]
        values = session.study_values(workflow.config_settings.config_args or [])
        # Read by pwfl and not by `configfile:`, which takes `010` for 8 and `on` for true, and does not say which line is wrong.
        if is_main:
            study = scenario.load_files(configs, values)
            if not workflow.configfiles:
                workflow.configfile(*configs)
        else:
            study = scenario.load(config, "the module's config")
        # --config wanted=FILES: only these files are computed and published; part_seconds=N: how long a part is to take.
        wanted, seconds = session.options(config)
        scenario.check_surroundings(study)
        startup.check_counts(workflow.resource_settings.cores, workflow.resource_settings.nodes)
        startup.check_folders(BASE, study.name)
        current = session.start(
            study,
            BASE,
            wanted=wanted,
            seconds=seconds,
            cores=workflow.resource_settings.cores,  # None on a cluster
            command=(session.command_of(configs, is_main), values),
        )
        startup.forget_incomplete(BASE, study.name)
        if not startup.is_running(BASE, study.name):  # else that run needs the marks as they are
            # Marks say what the store has now, and all have one time: what lacks its mark runs, whatever files' times are.
            current.write_marks()
    except Exception as error:
        raise WorkflowError(errors.message(error)) from None
    for warning in current.warnings:
        logger.warning(warning)
gc.enable()


@cache
def outlook():
    """What the parts are to do; what Snakemake was told to run again is known once it builds its graph."""
    try:  # not documented; tests try it with the oldest and the newest version
        settings = workflow.dag_settings
        forced = {*settings.forcerun, *(settings.targets if settings.forcetargets else ())}
        forced |= {*parts.ORDER} if settings.forceall else set()
    except AttributeError as error:
        forced = ()
        logger.warning(f"-R and --force... compute nothing again: {error}")
    ahead = current.outlook({STAGES.get(name, name) for name in forced})
    if not is_main and not workflow.dryrun:  # Snakemake runs no `onstart` of a module
        current.write_manifests(ahead)
    return ahead


@cache
def asked(name, path):
    """What is asked of a part of a study; on another machine, by its manifest."""
    if current is None:
        return json.loads((BASE / f".pwfl/{name}/{path}.json").read_bytes())
    return outlook().asked(current.parts[path])


def part_of(wildcards):
    """What Snakemake asks of a part, such as `mem_mb`, in a dictionary."""
    return asked(wildcards.study, f"{wildcards.stage}/{wildcards.part}")


def shown_parts(wildcards):
    """The marks of what is published; if results/STUDY is up to date and nothing is forced, their times do not count."""
    marks, again = current.shown_parts, outlook().again
    return ancient(marks) if current.is_shown and not again else marks


def published(path):
    """A file of results/STUDY; the page and figures are shown in Snakemake's report."""
    target = f"results/{study.name}/{path}"
    if path != "index.html" and not path.endswith(".svg"):
        return target
    text, category, figure = reports.shown(study, path.rpartition(".")[0])
    caption = Path(CAPTIONS.name, path).with_suffix(".rst")
    caption.parent.mkdir(exist_ok=True)
    caption.write_text(captions.for_snakemake(text), encoding="utf-8")
    labels = {"figure": captions.label(figure)}
    return report(target, caption=str(caption), category=captions.category(category), labels=labels)


# Snakemake's report reads each caption from a file: here they are for as long as this process, ready to be shown.
CAPTIONS = tempfile.TemporaryDirectory(prefix="pwfl-captions-") if current else None
