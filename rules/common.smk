# What the rules share: the study, and which tables stand where in the store.
import re
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

# A checkout works without installation.
if (package := Path(str(workflow.current_basedir)).parent / "pkg").is_dir():
    sys.path.insert(0, str(package))

from pwfl import entrance, scenario
from pwfl.report import catalog
from pwfl.runtime import estimate, jobs, locks, progress, shards, store
from pwfl.stages import IMPORTED, IMPORTS, MAKER, STAGES
from pwfl.systems import registry

jobs.give_path(package)
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
except Exception as error:
    raise WorkflowError(entrance.message(error)) from None
# Address -> what stands there, and one of the scenarios that it belongs to.
described = {
    description["address"]: (description, study.scenarios[name])
    for name in reversed(planned)
    for description in planned[name].values()
}
RESULTS = f"results/{study.name}"
FORMATS = ("json", "png", "svg", *(("pdf",) if study.print else ()))  # of figures


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
    """A table's file in the store."""
    maker = getattr(rules, MAKER[table])
    return getattr(maker.output, table).apply_wildcards({"address": address, "shard": shard})


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
        files = {table: ancient(stored(table, address, shards.ALL)) for table in IMPORTS}
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
    return {table: ancient(local(path)) for table, path in at(wildcards)[1].imports().items()}


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
    figures = figures_of(model(wildcards).system)
    wanted = sorted({table for needed in figures.values() for table in needed})
    return {
        table: (
            scheme_files(table, wildcards)[:1]
            if MAKER[table] == "channel"
            else scheme_files(table, wildcards, first=table == "holdings")
        )
        for table in wanted
    }


def report_depends(wildcards):
    """The param `depends` of a scenario's report."""
    name = wildcards.scenario
    return store.report(study, name, planned[name])


def addresses_file(name):
    """A scenario's list of the addresses behind its report, an input of it.

    The main process writes it where it differs: should Snakemake's memory of params be lost, a report that is
    older than a change of its addresses is still made anew.
    """
    path = workflow.modifier.path_modifier.replace_prefix(f"{RESULTS}/{name}/addresses.csv")
    if workflow.is_main_process:
        try:
            store.write_addresses(study.scenarios[name], planned[name], path)
        except OSError as error:
            raise WorkflowError(f"{path}: cannot be written: {error.strerror}") from None
    return path


listed = {name: addresses_file(name) for name in study.scenarios}


def tables_of(name):
    """The tables of a scenario's report, with their captions; points of a sweep are audited where it is asked for."""
    own = registry.system(study.scenarios[name].system).catalog.tables
    return own if name in study.points else own | catalog.COMMON_TABLES


def figures_of(system):
    """The figures of a system's scenarios, with the tables that they are drawn from."""
    return catalog.scenario_figures(registry.system(system).catalog)


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


def caption(system, figure):
    """The file of a figure's caption."""
    if system == "systems" or figure in (*catalog.COMMON_FIGURES, *catalog.SWEEP_FIGURES):
        return Path(str(workflow.current_basedir)).parent / "report" / f"{figure}.rst"
    return registry.system(system).folder / "captions" / f"{figure}.rst"


def drawn(path, figures, category):
    """The output files of figures in all FORMATS, given as pairs of system and name.

    `path` is a pattern of their paths without suffix. The report shows the SVG.
    """

    def entry(file, figure):
        return report(
            file, caption=str(caption(*figure)), category=category, labels={"figure": figure[1]}
        )

    files = {
        kind: [f"{path.format(system=s, figure=f)}.{kind}" for s, f in figures] for kind in FORMATS
    }
    files["svg"] = [entry(file, figure) for file, figure in zip(files["svg"], figures)]
    return files


def comparison_figures():
    """The figures that compare scenarios, as pairs of system and name: of one system, and of all."""
    systems = [chosen.system for chosen in study.scenarios.values()]
    swept = {study.scenarios[name].system for name in study.points}
    compared = [
        (system, figure)
        for system in sorted(set(systems))
        if systems.count(system) > 1
        for figure in catalog.compared(registry.system(system).catalog, system in swept)
    ]
    if len(set(systems)) > 1:
        compared += [("systems", figure) for figure in catalog.SYSTEMS_FIGURES]
    if len(swept) > 1:
        compared += [("systems", figure) for figure in catalog.SYSTEMS_SWEEP_FIGURES]
    return compared


def page_parts():
    """What the study's page shows, section by section: figures and tables by their paths without suffix."""
    systems = {name: chosen.system for name, chosen in study.scenarios.items()}
    parts = [
        {
            "scenario": None,
            "figures": [
                (f"{system}_{f}", caption(system, f).read_text(encoding="utf-8"))
                for system, f in comparison_figures()
            ],
            "tables": list(catalog.COMPARISON.items()),
        }
    ]
    for name, system in systems.items():
        point, tables = name in study.points, tables_of(name)
        figures = [] if point else figures_of(system)
        parts.append(
            {
                "scenario": name,
                "system": system,
                "point": point,
                "figures": [
                    (f"{name}/{f}", caption(system, f).read_text(encoding="utf-8")) for f in figures
                ],
                "tables": [
                    (f"{name}/{t}", text)
                    for t, text in tables.items()
                    if t == "summary" or not point
                ],
            }
        )
    return parts


def page_files():
    """The files that the study's page is made of."""
    kinds = {"figures": ("json", "svg"), "tables": ("parquet",)}
    return [
        f"{RESULTS}/{path}.{kind}"
        for part in page_parts()
        for what, suffixes in kinds.items()
        for path, _ in part[what]
        for kind in suffixes
    ]
