# What the rules share: the study, its shards, and what a job depends on.
import re

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

from pwfl import runs, scenario
from pwfl.fingerprint import fingerprint
from pwfl.report import catalog

DEFAULT_CONFIG = "config/config.yaml"  # also under `--config` alone

try:
    written = None
    if workflow.is_main_process:  # jobs get what it read
        arguments = workflow.config_settings.config_args or []
        written = scenario.read(workflow.configfiles or [DEFAULT_CONFIG], arguments)
except scenario.ScenarioError as error:
    raise WorkflowError(str(error)) from None

if not workflow.configfiles:

    configfile: DEFAULT_CONFIG


try:
    study = scenario.load(config, ", ".join(map(str, workflow.configfiles)), written)
    if workflow.is_main_process:
        scenario.check_surroundings(study)
        for warning in study.warnings:
            logger.warning(warning)
except scenario.ScenarioError as error:
    raise WorkflowError(str(error)) from None


wildcard_constraints:
    scenario=r"[A-Za-z0-9][^/]*",
    scheduler=r"[a-z_]+",
    noise=r"[a-z_]+",
    shard=r"\d+-\d+",


def model(wildcards):
    """The scenario that a job belongs to; an unknown name is an error that lists the known ones."""
    try:
        return study.scenario(wildcards.scenario)
    except scenario.ScenarioError as error:
        raise WorkflowError(str(error)) from None


def hold_scenarios():
    """Keep other runs from the study's scenarios until this process ends."""
    names = [*study.scenarios, f"comparison.{study.name}"]
    try:
        runs.hold(names, ".snakemake/pwfl")
    except runs.BusyError as error:
        raise WorkflowError(str(error)) from None


def depends(stage, variant=None):
    """The param `depends` of a stage's rule: all that its result depends on besides its inputs.

    One plain dict, since Snakemake compares several scalar params as an unordered set: the
    parameters that the stage reads, and a fingerprint of the code it runs, since Snakemake does
    not watch imported modules. `variant` names the wildcard that tells the stage's variants apart.
    """

    def param(wildcards):
        chosen = model(wildcards)
        kind = wildcards[variant] if variant else None
        modules = [
            f"pwfl.{stage}",
            f"pwfl.{stage}.{chosen.system}",
            f"pwfl.tables.{chosen.system}",
        ]
        return {
            "parameters": scenario.stage_parameters(chosen, stage, kind),
            "code": fingerprint(*modules),
        }

    return param


def shards(count, size):
    """Names FIRST-STOP of the blocks of `size` realizations that cover `count`."""
    return [f"{first:06d}-{min(first + size, count):06d}" for first in range(0, count, size)]


def bounds(shard):
    """First realization of a shard, and the one after its last."""
    return [int(bound) for bound in shard.split("-")]


def optimization_shards(chosen):
    return shards(chosen.realizations, chosen.shards.optimization)


def training_shards(chosen):
    return shards(chosen.training_realizations, chosen.shards.training)


def covering(pattern):
    """Input function of a training shard: the optimization shards' files that hold its realizations."""

    def paths(wildcards):
        first, stop = bounds(wildcards.shard)
        held = [
            shard
            for shard in optimization_shards(model(wildcards))
            if bounds(shard)[0] < stop and first < bounds(shard)[1]
        ]
        return [pattern.apply_wildcards(dict(wildcards) | {"shard": shard}) for shard in held]

    return paths


def first_shard(pattern):
    """Input function of a scheme's job: the file of the first optimization shard."""

    def path(wildcards):
        shard = optimization_shards(model(wildcards))[0]
        return pattern.apply_wildcards(dict(wildcards) | {"shard": shard})

    return path


def dataset_file(wildcards):
    """The data set that a scenario trains on; none where its users' data are simulated."""
    chosen = model(wildcards)
    if "data" not in type(chosen).model_fields:
        return []
    return ancient(f"resources/{chosen.data.dataset}.npz")


def scheme_files(table, wildcards):
    """A table's files of all schemes, scheme after scheme, as many for each."""
    chosen = model(wildcards)
    pattern = {
        "schedule_status": rules.schedule.output.schedule_status,
        "noise_status": rules.noise.output.noise_status,
        "history": rules.train.output.history,
        "leakage": rules.account.output.leakage,
        "outcome": rules.account.output.outcome,
        "audit": rules.audit.output.audit,
    }[table]
    held = training_shards(chosen) if table == "history" else optimization_shards(chosen)
    held = held[:1] if table == "audit" else held
    return [
        pattern.apply_wildcards(
            {
                "scenario": wildcards.scenario,
                "scheduler": scheme.scheduler,
                "noise": scheme.noise,
                "shard": shard,
            }
        )
        for scheme in chosen.schemes
        for shard in held
    ]


def figure_files(wildcards):
    """The tables that a scenario's figures are drawn from, by name."""
    chosen = model(wildcards)
    first = optimization_shards(chosen)[0]
    channel = {"users": rules.channel.output.users, "links": rules.channel.output.links}
    wanted = {table for figure in catalog.FIGURES[chosen.system].values() for table in figure}
    return {
        table: (
            channel[table].apply_wildcards({"scenario": wildcards.scenario, "shard": first})
            if table in channel
            else scheme_files(table, wildcards)
        )
        for table in sorted(wanted)
    }


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
    if system == next(iter(catalog.FIGURES)):
        return rf"(?!(?:{others})/)[A-Za-z0-9][^/]*" if others else r"[A-Za-z0-9][^/]*"
    return own or "(?!)"


def drawn(path, figures, category):
    """The output files html, png and svg of figures, given as pairs of system and name.

    `path` is a pattern of their paths without suffix.
    """
    formats = {"html": "interactive", "png": "PNG", "svg": "SVG"}

    def drawn_as(kind, system, figure):
        labels = {"item": figure, "format": formats[kind]}
        folder = "../report" if figure in catalog.COMMON_FIGURES else f"../report/{system}"
        caption = f"{folder}/{figure}.rst"
        file = f"{path.format(system=system, figure=figure)}.{kind}"
        return report(
            file, caption=caption, category=category, subcategory="figures", labels=labels
        )

    return {kind: [drawn_as(kind, *figure) for figure in figures] for kind in formats}


def comparison_figures():
    """The figures that compare scenarios, as pairs of system and name: of one system, and of all."""
    systems = [chosen.system for chosen in study.scenarios.values()]
    compared = [system for system in sorted(set(systems)) if systems.count(system) > 1]
    if len(set(systems)) > 1:
        compared.append("systems")
    return [
        (system, figure) for system in compared for figure in catalog.COMPARISON_FIGURES[system]
    ]


def scenario_reports():
    """Everything the report holds for each scenario of the study."""
    files = []
    for name, chosen in study.scenarios.items():
        files += [f"results/{name}/scenario.yaml", f"results/{name}/report/parameters.csv"]
        files += expand(
            f"results/{name}/report/{{figure}}.html",
            figure=catalog.FIGURES[chosen.system],
        )
        files += expand(f"results/{name}/report/{{table}}.csv", table=catalog.TABLES[chosen.system])
    return files


def comparison_reports():
    return expand(f"results/comparison/{study.name}/{{table}}.csv", table=catalog.COMPARISON)
