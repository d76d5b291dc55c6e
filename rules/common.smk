# What the rules share: the study, and which tables stand where in the store.
import re
import sys
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger
from snakemake.settings.types import RerunTrigger

# A checkout works without installation.
if (package := Path(str(workflow.current_basedir)).parent / "pkg").is_dir():
    sys.path.insert(0, str(package))

from pwfl import entrance, scenario
from pwfl.report import catalog
from pwfl.runtime import estimate, jobs, locks, made, progress, shards, store, watch
from pwfl.stages import IMPORTED, IMPORTS, MAKER, STAGES
from pwfl.systems import registry
from pwfl.workflow import reports

jobs.give_path(package)
watch.hand_over()
DEFAULT_CONFIG = "config/config.yaml"  # also under `--config` alone
is_main = workflow.modifier.is_main_snakefile()  # not a module of another workflow

try:
    written = None
    if workflow.is_main_process and is_main:  # jobs and modules get what was read
        arguments = workflow.config_settings.config_args or []
        written = scenario.read(workflow.configfiles or [DEFAULT_CONFIG], arguments)
except Exception as error:
    raise WorkflowError(entrance.message(error)) from None

if is_main and not workflow.configfiles:

    configfile: DEFAULT_CONFIG


try:
    source = ", ".join(map(str, workflow.configfiles)) if is_main else "the module's config"
    study = scenario.load(config, source, written)
    if workflow.is_main_process:
        scenario.check_surroundings(study)
        for warning in study.warnings:
            logger.warning(warning)
    planned = {name: store.addresses(chosen) for name, chosen in study.scenarios.items()}
    CAPTIONS = Path(str(workflow.current_basedir)).parent / "report"
    # Record, in RESULTS -> all that its job depends on.
    due_reports = reports.plan(study, planned, CAPTIONS)
except Exception as error:
    raise WorkflowError(entrance.message(error)) from None
# Address -> what stands there, and one of the scenarios that it belongs to.
described = {
    description["address"]: (description, study.scenarios[name])
    for name in reversed(planned)
    for description in planned[name].values()
}
RESULTS = f"results/{study.name}"


def lies(path):
    """Where a file of RESULTS lies, also as a module of another workflow."""
    return workflow.modifier.path_modifier.replace_prefix(f"{RESULTS}/{path}")


stored_elsewhere = (
    workflow.storage_settings is not None
    and workflow.storage_settings.default_storage_provider is not None
)
# The main process decides, jobs do not. Where files lie in a storage, records cannot be read now: then params decide, by
# Snakemake's memory.
stale = {
    path: lies(path)
    for path, depends in due_reports.items()
    if workflow.is_main_process and (stored_elsewhere or not made.is_of(lies(path), depends))
}


@cache
def let_content_decide():
    """Run what is missing and what is of another plan, whatever the times of files say, and the command line.

    Addresses name what stages' tables are of, and records what a report was made of, so inputs are `ancient`, and
    what is stale is forced. Files appear whole or not at all, so Snakemake's marks of jobs that were killed tell nothing;
    by --rerun-incomplete it would force such jobs, and leave out all below them. Called by input functions, between
    Snakemake's reading of its settings and its decision.
    """
    if workflow.is_main_process:
        workflow.dag_settings.rerun_triggers = {RerunTrigger.PARAMS}
        if not stored_elsewhere:
            workflow.dag.forcefiles.update(stale.values())
            workflow.dag.ignore_incomplete = True


if workflow.is_main_process and is_main:
    # What `all` needs: audits of a sweep's points are made where they are asked for.
    due = {
        description["address"]: described[description["address"]]
        for name, found in planned.items()
        for description in found.values()
        if description["stage"] != "audit" or name not in study.points
    }
    if size := estimate.remaining(due):
        logger.warning(size)


wildcard_constraints:
    scenario=r"[A-Za-z0-9][^/]*",
    address=r"[0-9a-f]+",
    shard=r"\d+-\d+",


def model(wildcards):
    """The scenario that a report belongs to; an unknown name is an error that lists the known ones."""
    try:
        return study.scenario(wildcards.scenario)
    except scenario.ScenarioError as error:
        raise WorkflowError(str(error)) from None


def hold_study():
    """Keep other runs from the study until this process ends."""
    try:
        locks.hold([study.name], ".snakemake/pwfl")
    except locks.BusyError as error:
        raise WorkflowError(str(error)) from None


def depends(wildcards):
    """The param `depends` of a stage's rule: all that its result depends on besides its inputs' contents.

    One plain dict, since Snakemake compares several scalar params as an unordered set.
    """
    return at(wildcards)[0]


def at(wildcards):
    """What stands at a job's address, and a scenario that it belongs to."""
    try:
        return described[wildcards.address]
    except KeyError:
        raise WorkflowError(
            f"{study.source}: nothing of the study {study.name} has the address {wildcards.address}; "
            f"{RESULTS}/SCENARIO/addresses.csv lists those that have"
        ) from None


def stored(table, address, shard):
    """A table's file in the store. What it is of stands in the address: whenever it was written, it is up to date."""
    let_content_decide()
    maker = getattr(rules, MAKER[table])
    return ancient(
        getattr(maker.output, table).apply_wildcards({"address": address, "shard": shard})
    )


def upstream(wildcards):
    """Inputs of a stage's job: the tables that it reads, of all realizations that it needs."""
    description, chosen = at(wildcards)
    size, stage = chosen.shards.optimization, description["stage"]
    if stage == "train":
        held = shards.covering(*shards.bounds(wildcards.shard), size)
    elif stage == "audit":
        held = shards.of(chosen, "account")
    else:
        held = [wildcards.shard]
    files = {
        table: [stored(table, description["upstream"][MAKER[table]], shard) for shard in held]
        for table in registry.reads(chosen.system, stage, description["variant"])
    }
    if IMPORTED in description["upstream"]:
        address = description["upstream"][IMPORTED]
        files = {table: stored(table, address, shards.ALL) for table in IMPORTS}
    for given in (store.DATASET, store.FEATURES):
        if given in description["upstream"]:
            files["data"] = made_before(given, wildcards)
    return files


def made_before(given, wildcards):
    """The file of a data set, of a projection or of features that a job takes.

    What it holds is in its address, and checked when it is read.
    """
    address = at(wildcards)[0]["upstream"][given]
    return ancient(getattr(rules, given).output[0].apply_wildcards({"address": address}))


def images(wildcards):
    """Inputs of a job that makes features: a data set, and a projection where there is one."""
    return {given: made_before(given, wildcards) for given in at(wildcards)[0]["upstream"]}


def outside(wildcards):
    """Files from outside, by the tables that they hold. What they hold is in the address."""
    return {table: ancient(local(path)) for table, path in scenario.checks.imports(at(wildcards)[1]).items()}


def scheme_files(table, wildcards, first=False):
    """A table's files of all schemes, scheme after scheme, as many for each; or `first` the first shard's alone."""
    chosen = model(wildcards)
    stage, found = MAKER[table], planned[wildcards.scenario]
    return [
        stored(table, store.of_scheme(found, stage, scheme)["address"], shard)
        for scheme in chosen.schemes
        for shard in shards.of(chosen, stage)[: 1 if first else None]
    ]


def figure_files(wildcards):
    """The tables that a scenario's figures are drawn from, by name.

    Those of the channel and that of who holds what, which is drawn of one realization, are the first shard's.
    """
    figures = reports.figures(model(wildcards).system)
    wanted = sorted({table for needed in figures.values() for table in needed})
    return {
        table: (
            scheme_files(table, wildcards)[:1]
            if MAKER[table] == "channel"
            else scheme_files(table, wildcards, first=table == "holdings")
        )
        for table in wanted
    }


def of_report(job):
    """The param `depends` of a job of a scenario's report: all that its result depends on, as `depends` of a stage's."""

    def found(wildcards):
        model(wildcards)  # an unknown scenario is an error
        return due_reports[reports.record(job, wildcards.scenario)]

    return found


def from_reports(path, files):
    """Inputs of a report's job, given by its record, from other jobs: files in RESULTS.

    Where it is not stale, they are no reason to run it, whenever they were written.
    """

    def found(_):
        let_content_decide()
        paths = [f"{RESULTS}/{file}" for file in files]
        return paths if path in stale else ancient(paths)

    return found


def nothing(_):
    """The inputs of a job that has none."""
    let_content_decide()
    return []


def unfinished():
    """The files asked for that are not there, or not of this plan: none, at the end of a run that did all its work."""
    if stored_elsewhere:
        return []
    asked = {path for job in workflow.dag.targetjobs for path in job.output or job.input}
    missing = {str(path) for path in asked if not Path(path).exists()}
    for job in workflow.dag.jobs:
        record = getattr(job.output, "made", None)
        if (
            record
            and not asked.isdisjoint(job.output)
            and not made.is_of(record, job.params.depends)
        ):
            missing.add(str(record))
    return sorted(missing)


def scenarios_of(system):
    """A pattern of the names of the study's scenarios of a system.

    The first system takes unknown names, too, for `model` to answer.
    """
    own, others = (
        "|".join(
            re.escape(n)
            for n, chosen in study.scenarios.items()
            if (chosen.system == system) is same
        )
        for same in (True, False)
    )
    if system == next(iter(study.scenarios.values())).system:
        return rf"(?!(?:{others})/)[A-Za-z0-9][^/]*" if others else r"[A-Za-z0-9][^/]*"
    return own


def drawn(path, figures, category):
    """The output files of figures in all formats, given as pairs of system and name.

    `path` is a pattern of their paths without suffix. The report shows the SVG.
    """

    def entry(file, figure):
        return report(
            file,
            caption=str(reports.caption(*figure, CAPTIONS)),
            category=category,
            labels={"figure": figure[1]},
        )

    files = {
        kind: [f"{path.format(system=s, figure=f)}.{kind}" for s, f in figures]
        for kind in reports.formats(study)
    }
    files["svg"] = [entry(file, figure) for file, figure in zip(files["svg"], figures)]
    return files
