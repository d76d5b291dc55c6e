"""What every system owes, checked: `check_system(NAME)`, or `python -m pwfl.testing NAME` on the command line."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args, get_origin
from unittest import mock

import numpy as np
import polars as pl
from annotated_types import Ge, Gt, Le, Lt

from pwfl import streams, tables
from pwfl.api import stage_tables
from pwfl.entrance import command
from pwfl.report import build, theme
from pwfl.report.catalog import COMMON_TABLES, compared, scenario_figures
from pwfl.runtime import fingerprint
from pwfl.scenario import ScenarioError, parameters, resolve
from pwfl.scenario.common import Scenario
from pwfl.scenario.sweep import Point
from pwfl.stages import GRAPH, REPORT, STAGES
from pwfl.stages import REALIZATIONS as COUNTS
from pwfl.systems import registry
from pwfl.watching import UnnamedCodeError, watched
from pwfl.work.stage import Tables, Task
from pwfl.workflow import execution, plan

REALIZATIONS = 3  # of the tiny scenario, of which TRAINED are trained
TRAINED = 2
RELATIVE = 1e-9  # by which sums over rounds may differ from one sum
SHARDED = tuple(stage for stage, declared in STAGES.items() if declared.grid)
BEFORE_TRAINING = tuple(stage for stage in SHARDED if not STAGES[stage].takes_data)
DRAWING = ("channel", "schedule", "noise", "train")  # stages whose draws are a realization's own


class CheckError(AssertionError):
    """A system does not do what every system owes; the message says what, and where."""


def check_system(name: str) -> pl.DataFrame:
    """Run a system's tiny scenario (`tiny` of its catalog) through all stages, and check what every system owes.

    - Every stage's tables satisfy their schemas, whatever the shard size and the order of rows, to the bit.
    - The address of a stage, of the report and of claims names all code of pwfl and of the system that they run.
    - Modules are there, no stage's module imports another stage's, and every number of the parameters has two bounds.
    - What history says that a training has spent after all rounds is what outcome says.
    - A draw by `pwfl.streams` is of one stage, follows seed and realization, and matters; a second run is the same.
    - The guarantee follows delta, where there is one, and is infinite without noise (`zero_noise_values`).
    - Figures (with captions), tables and claims are those of the catalog, and build with one realization, none trained.
    - Each parameter can be changed, and stands in the addresses of the stages that it is declared to be read by.

    Returns
    -------
    For each parameter, a value it was changed to and the stages (and variants) that compute anew, with those after
    them: columns parameter, changed_to, stages.

    Raises
    ------
    CheckError
        At the first thing that is not as it should be.
    """
    counts = {"realizations": REALIZATIONS, "training_realizations": TRAINED}
    model = resolve(registry.system(name).catalog.tiny | {"system": name} | counts, {})
    _check_modules(model)
    given = _given(model)
    _check_shards(model, given)
    _check_draws(model, given)
    _check_accounting(model, given)
    try:
        with watched(model):
            _check_report(model)
            if others := _other_schemes(model):
                stage_tables(_allowed(model, others), BEFORE_TRAINING)
    except UnnamedCodeError as error:
        raise CheckError(str(error)) from None
    return reruns(model)


def reruns(model: Scenario) -> pl.DataFrame:
    """Which stages compute anew when a parameter changes, by changing each; see `check_system`."""
    before, rows = _stages_by_address(model), []
    for path, field in parameters(type(model)):
        if path != ("system",):
            value, other = _changed(model, path, field.annotation)
            after = _stages_by_address(other)
            moved = [stage for stage in after if before.get(stage, set()) != after[stage]]
            rows.append((".".join(path), str(value), " ".join(moved)))
    return pl.DataFrame(rows, schema=["parameter", "changed_to", "stages"], orient="row")


def _other_schemes(model: Scenario) -> list[dict]:
    """Schemes of the schedulers and noise schemes that the model's do not have, as far as its parameters allow them."""
    fields = get_args(type(model).model_fields["schemes"].annotation)[0].model_fields
    known = {part: get_args(fields[part].annotation) for part in ("scheduler", "noise")}
    missing = {(part, value) for part, values in known.items() for value in values}
    missing -= {(part, getattr(scheme, part)) for scheme in model.schemes for part in known}
    found = []
    for scheduler, noise in product(*known.values()):
        new = missing & {("scheduler", scheduler), ("noise", noise)}
        scheme = {"name": f"{scheduler} and {noise}", "scheduler": scheduler, "noise": noise}
        if new and _allowed(model, [scheme]):
            found.append(scheme)
            missing -= new
    return found


def _allowed(model: Scenario, schemes: list[dict]) -> Scenario | None:
    """The scenario with other schemes; None where it cannot have them."""
    try:
        return resolve(model.model_dump() | {"schemes": schemes}, {})
    except ScenarioError:
        return None


def _given(model: Scenario) -> dict:
    """What the model needs before its channel: what it trains on, and tables from outside."""
    found: dict = {}
    for description in plan.given(model):
        found |= execution.in_memory(model, description, found)
    return found


def _each(
    model: Scenario, scheme, given: dict, wanted: range, stages=SHARDED, mix: Callable = lambda made: made
) -> Iterator[tuple[str, Tables]]:
    """Stages of a scheme, one by one, and their tables of some realizations; `mix` changes what each stage is given."""
    route, found = plan.routes(model)[scheme.name], dict(given)
    for stage in stages:
        stop = min(wanted.stop, getattr(model, COUNTS[STAGES[stage].grid]))
        if asked := range(wanted.start, stop):
            inputs = {name: mix(made) for name, made in found.items()}
            made = execution.in_memory(model, route[stage], inputs, asked)
            found |= made
            yield stage, made


def _made(*arguments, **options) -> Tables:
    """The tables of all stages that `_each` runs."""
    return {name: frame for _, made in _each(*arguments, **options) for name, frame in made.items()}


def _check_modules(model: Scenario) -> None:
    """All modules are there, no stage imports another one, and numbers are bounded on both sides."""
    system = registry.system(model.system)
    with execution.quiet_tensorflow():
        for module in ("catalog", "tables", *STAGES, REPORT, "claims"):
            system.part(module)
    others = {f"{system.package}.{stage}" for stage in STAGES}
    for stage in STAGES:
        own = f"{system.package}.{stage}"
        if foreign := fingerprint.imports(own) & (others - {own}):
            raise CheckError(
                f"{own} imports {', '.join(sorted(foreign))}: what two stages share is a module of its own, or an edit "
                "of one re-runs both"
            )
    for path, field in parameters(type(model)):
        if get_origin(field.annotation) is list:
            continue  # its items' bounds are the items' own
        kinds = {kind for kind in (field.annotation, *get_args(field.annotation)) if kind in (int, float)}
        signs = {type(bound) for bound in field.metadata}
        if kinds and not (signs & {Ge, Gt} and signs & {Le, Lt}):
            raise CheckError(f"{'.'.join(path)}: has no bounds on both sides (`ge`, `gt`, `le`, `lt`)")


def _check_shards(model: Scenario, given: dict) -> None:
    """The same bits when run twice, for any shard, and any order of the rows that stages are given."""

    def shuffled(made):
        return made.sample(fraction=1.0, shuffle=True, seed=1) if isinstance(made, pl.DataFrame) else made

    everything = range(REALIZATIONS)
    for scheme in model.schemes:
        whole = _made(model, scheme, given, everything)
        if (trained := set(whole["history"]["realization"])) != set(range(TRAINED)):
            raise CheckError(f"{scheme.name}: history is of realizations {trained}, must be of 0 to {TRAINED - 1}")
        mixed = _made(model, scheme, given, everything, mix=shuffled)
        if _differing(whole, mixed):
            again = _made(model, scheme, given, everything)
            _check_same(whole, again, f"{scheme.name}: run twice, it differs; draw by `pwfl.streams` alone")
        _check_same(whole, mixed, f"{scheme.name}: depends on the order of the rows that a stage is handed")
        _check_spent(scheme, whole)
        for realization in everything:
            alone = _made(model, scheme, given, range(realization, realization + 1))
            own = {name: whole[name].filter(realization=realization) for name in alone}
            _check_same(own, alone, f"{scheme.name}: realization {realization} depends on the others of its shard")


def _check_spent(scheme, made: Tables) -> None:
    """After its last round, a training has spent what the outcome says."""
    history, outcome = made["history"], made["outcome"]
    if "round" not in history.columns:
        return
    costs = ("air_seconds", "transmit_energy_j")
    last = history.join(outcome.select("realization", "rounds", *costs), on="realization")
    last = last.filter(pl.col("round") == pl.col("rounds"))
    for cost in costs:
        after, stated = pl.col(f"{cost}_so_far"), pl.col(cost)
        off = last.filter((after - stated).abs() > RELATIVE * stated)
        for realization, spent, said in off.select("realization", after, stated).iter_rows():
            raise CheckError(
                f"{scheme.name}: realization {realization}: history's {cost}_so_far is {spent:g} after the last round, "
                f"outcome's {cost} is {said:g}"
            )


def _check_same(expected: Tables, made: Tables, what: str) -> None:
    if differing := _differing(expected, made):
        raise CheckError(f"{what}: table {differing[0]}")


def _differing(expected: Tables, made: Tables) -> list[str]:
    return [name for name, frame in expected.items() if not frame.equals(made[name])]


def _check_draws(model: Scenario, given: dict) -> None:
    """Every draw is of one stage, follows seed and realization, and matters; nothing else is random."""
    reseeded = model.model_copy(update={"seed": model.seed + 1})
    for scheme in model.schemes:
        purposes: dict[str, str] = {}
        with loosened(set()) as asked:
            fixed = _drawn(model, scheme, given, asked, purposes)
        for stage, made in fixed.items():
            if differing := _differing(_of(made, 0), _of(made, 1)):
                raise CheckError(
                    f"{scheme.name}: table {differing[0]} of {stage} differs from realization to realization though "
                    "all of `streams` was held fixed: draw by `pwfl.streams` alone"
                )
        inputs = given | {name: frame for made in fixed.values() for name, frame in made.items()}
        for purpose, stage in purposes.items():
            with loosened({purpose}):
                made, other = (_made(each, scheme, inputs, range(TRAINED), [stage]) for each in (model, reseeded))
            first = _of(made, 0)
            for what, changed in (("realization", _of(made, 1)), ("seed", _of(other, 0))):
                if not _differing(first, changed):
                    raise CheckError(
                        f"{scheme.name}: the draw {purpose!r} changes nothing of {stage} from {what} to {what}: it "
                        f"does not follow the {what}, or what is drawn is not used"
                    )


def _drawn(model: Scenario, scheme, given: dict, asked: set[str], purposes: dict[str, str]) -> dict[str, Tables]:
    """The tables of each stage that draws; `purposes` learns which stage draws for which purpose."""
    found = {}
    for stage, made in _each(model, scheme, given, range(TRAINED), DRAWING):
        found[stage] = made
        for purpose in sorted(asked):
            if purposes.setdefault(purpose, stage) != stage:
                raise CheckError(
                    f"{scheme.name}: {purposes[purpose]} and {stage} both draw for {purpose!r}: these are the same "
                    "numbers, so what they are used for is not independent; take another purpose"
                )
        asked.clear()
    return found


def _of(made: Tables, realization: int) -> Tables:
    return {name: frame.filter(realization=realization).drop("realization") for name, frame in made.items()}


@contextmanager
def loosened(loose: set[str]) -> Iterator[set[str]]:
    """All draws held fixed but those of some purposes; yields the set of the purposes that are asked for.

    Purposes that differ by numbers after a slash (of rounds, say) are one.
    """
    asked: set[str] = set()

    def held(draw: Callable) -> Callable:
        def drawn(seed, purpose, which, *shape):
            asked.add(kind := re.sub(r"/\d+", "", purpose))
            if kind in loose:
                return draw(seed, purpose, which, *shape)
            if isinstance(which, range):
                return np.repeat(draw(1, purpose, range(1), *shape), len(which), axis=0)
            return draw(1, purpose, 0)

        return drawn

    draws = ("uniforms", "generator", "key")
    with mock.patch.multiple(streams, **{name: held(getattr(streams, name)) for name in draws}):
        yield asked


def _check_accounting(model: Scenario, given: dict) -> None:
    """The guarantee follows delta, and there is none without noise."""
    without_noise = registry.system(model.system).catalog.zero_noise_values
    if not without_noise:
        raise CheckError(
            "the catalog names no columns of the table noise that are zero where no noise is added: `zero_noise_values`"
        )
    privacy = getattr(model, "privacy", None)
    deltas = (1e-3, 1e-8) if privacy is not None and "delta" in type(privacy).model_fields else ()
    changed = [model.model_copy(update={"privacy": privacy.model_copy(update={"delta": delta})}) for delta in deltas]
    for scheme in model.schemes:
        made, *others = (_made(each, scheme, given, range(REALIZATIONS), BEFORE_TRAINING) for each in (model, *changed))
        for delta, other in zip(deltas, others, strict=True):
            if (stated := set(other["outcome"]["delta"])) != {delta}:
                raise CheckError(f"{scheme.name}: outcome states delta {stated}, must be {delta}")
        if deltas:
            large, small = (_exact_epsilon(other, made) for other in changed)
            both = large.is_finite() & small.is_finite()
            if not (large < small).filter(both).all() or (both.any() and large.equals(small)):
                raise CheckError(f"{scheme.name}: epsilon_exact does not grow as delta falls, of the same noise")
        quiet = made["noise"].with_columns(**{column: pl.lit(value) for column, value in without_noise.items()})
        without = _exact_epsilon(model, made | {"noise": quiet})
        if not without.is_infinite().fill_null(True).all():
            raise CheckError(
                f"{scheme.name}: epsilon_exact is {without.to_list()} where no noise is added; must be infinite "
                f"(with noise: {made['outcome']['epsilon_exact'].to_list()}); does `zero_noise_values` of the catalog "
                "name all noise that the guarantee counts?"
            )


def _exact_epsilon(model: Scenario, made: Tables) -> pl.Series:
    """What the account states of tables that no scenario need lead to."""
    return execution.execute(Task("account", model.of_stage("account")), made)["outcome"]["epsilon_exact"]


def _check_report(model: Scenario) -> None:
    """Tables, figures and claims are those of the catalog, and build with few realizations, and none trained."""
    system = registry.system(model.system)
    catalog, folder = system.catalog, system.folder
    for figure in (*catalog.figures, *catalog.comparison_figures):
        if not (folder / "captions" / f"{figure}.rst").is_file():
            raise CheckError(f"figure {figure}: has no caption {folder.name}/captions/{figure}.rst")
    one = model.model_copy(update={"realizations": 1, "training_realizations": 1})
    few = stage_tables(one)
    untrained = few | {"history": few["history"].clear()}
    for case, stages in ((model, stage_tables(model)), (one, few), (one, untrained)):
        scenario = case.of_stage(REPORT)
        found = build.summarize(scenario, stages)
        wanted = {*catalog.tables, *COMMON_TABLES}
        if set(found) != wanted:
            raise CheckError(
                f"summarize and the catalog differ: summarize lacks {sorted(wanted - set(found)) or 'nothing'}, the "
                f"catalog lacks {sorted(set(found) - wanted) or 'nothing'}"
            )
        charts = [
            build.figure(scenario, figure, {name: stages[name] for name in needed})
            for figure, needed in scenario_figures(catalog).items()
        ]
        study = {
            name: {"scenario": case.part(), "point": Point("swept", {"seed": seed})} | found
            for seed, name in enumerate(("one", "two"))
        }
        claims = build.compare(study)["claims"]
        if strange := set(claims["holds"]) - {"yes", "no", "open"}:
            raise CheckError(f"claims: holds is {strange}, must be yes, no or open")
        figures = compared(catalog, swept=True)
        charts += [build.comparison_figure(model.system, figure, study) for figure in figures]
        for chart in charts if case is model else ():
            with TemporaryDirectory() as folder:
                theme.save(chart, {kind: str(Path(folder, f"figure.{kind}")) for kind in ("json", "png", "svg")})
        for chart in charts if case is not model else ():
            chart.save(StringIO(), format="svg")


def _stages_by_address(model: Scenario) -> dict[str, set[str]]:
    """The addresses of each stage, and of each variant of one, in a scenario; the report's, too."""
    found: dict[str, set[str]] = {}
    for route in plan.routes(model).values():
        for stage, description in route.items():
            name = f"{stage}/{description['variant']}" if GRAPH[stage].variant else stage
            found.setdefault(name, set()).add(description["address"])
    return found | {REPORT: {str(model.of_stage(REPORT))}}


def _changed(model: Scenario, path: tuple[str, ...], annotation) -> tuple[object, Scenario]:
    """Another value of a parameter, and the scenario with it; the first that the model takes."""
    section = changed = model.model_dump()
    for key in path[:-1]:
        section = section[key]
    old = section[path[-1]]
    for value in _others(old, annotation):
        section[path[-1]] = value
        with suppress(ScenarioError):
            if value != old:
                return value, resolve(changed, {})
    raise CheckError(f"{'.'.join(path)}: no other value was found that the tiny scenario may have")


def _others(value, annotation) -> Iterator:
    """Values near a parameter's, for the first that is valid; the value itself may be among them."""
    yield from (choice for choice in get_args(annotation) if isinstance(choice, str))
    match value:
        case bool():
            yield not value
        case int() | float():
            kind = type(value)
            yield from (kind(value * factor) for factor in (1.1, 0.9, 1.5, 0.5, 2.0))
            yield from (value + 1, value - 1, kind(0), kind(1), value + kind(0.001))
        case str():
            yield f"{value}2"
        case []:
            yield from ([1], [1.0], [0.5], [3, 3, 3])
        case [*others, last]:
            yield others
            yield from ([*others, other] for other in _others(last, None))
        case None:
            yield from (0.5, 1, 1000, __file__)  # a file that there is, as addresses may depend on its content


def main(names: list[str]) -> int:
    """Check systems by name, print what each parameter computes anew; the exit status."""
    for name in names:
        try:
            found = check_system(name)
        except (CheckError, ScenarioError, registry.RegistryError, tables.TableError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        print(f"{name}: as every system should be. What a changed parameter computes anew:")
        for parameter, _, stages in found.iter_rows():
            print(f"  {parameter:32} {stages or 'nothing'}")
    return 0


if __name__ == "__main__":
    command(main)
