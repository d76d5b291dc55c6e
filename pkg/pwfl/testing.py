"""What every system owes, checked: `check_system(NAME)`, or `python -m pwfl.testing NAME` on the command line."""

import argparse
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, get_args, get_origin
from unittest import mock

import numpy as np
import polars as pl
from annotated_types import Ge, Gt, Le, Lt

from pwfl import streams
from pwfl.api import stage_tables
from pwfl.entrance import PACKAGE, command, described
from pwfl.learning import partition
from pwfl.privacy import audit
from pwfl.report import build, theme
from pwfl.report.catalog import compared, scenario_figures
from pwfl.runtime import fingerprint
from pwfl.scenario import ScenarioError, parameters, resolve
from pwfl.scenario.common import Scenario
from pwfl.scenario.sweep import Point
from pwfl.stages import AUDIT, GRAPH, MAKER, REPORT, STAGES
from pwfl.stages import REALIZATIONS as COUNTS
from pwfl.systems import registry
from pwfl.tables import contract
from pwfl.watching import watched
from pwfl.work.stage import Tables, Task
from pwfl.workflow import execution, plan

REALIZATIONS = 3  # of the tiny scenario, of which TRAINED are trained
TRAINED = 2
RELATIVE = 1e-9  # by which sums over rounds may differ from one sum
BEFORE_TRAINING = tuple(stage for stage in STAGES if not STAGES[stage].takes_data)
PARTS = (*STAGES, AUDIT)  # modules that no other one of them imports
DRAWING = ("channel", "schedule", "noise", "train")  # stages whose draws are a realization's own
OF_USERS = ("noise", "account")  # stages whose tables follow users that get other numbers
SAME = 1e-6  # by which what they make may then differ, in proportion
LOW = 0.1  # an audit has to see an epsilon that is so much too low
NOISE_SEEN, LAW_SEEN = 0.02, 0.15  # faults of the noise, and of the law of privacy losses, that it has to see
MOST_CANARIES = 50_000
SIGNAL, DEVIATION, LARGEST = "signal of canaries", "deviation of the noise", "largest privacy loss"  # tests of an audit


class CheckError(AssertionError):
    """A system does not do what every system owes; the message says what, and where."""


def check_system(name: str, only: Collection[str] = (), say: Callable[[str], None] = lambda line: None) -> pl.DataFrame:
    """Run a system's tiny scenario (`tiny` of its catalog) through all stages, and check what every system owes.

    What is checked, step by step, cheap steps first, says `STEPS`. `only` names the steps to take, none: all; `say` is
    told of each before it is taken.

    Returns
    -------
    For each parameter, a value it was changed to and the stages (and variants) that compute anew, with those after
    them: columns parameter, changed_to, stages; no rows unless the step `parameters` is taken.

    Raises
    ------
    CheckError
        After all steps, where something is not as it should be; a paragraph for the first such thing of each step.
    """
    counts = {"realizations": REALIZATIONS, "training_realizations": TRAINED}
    model = resolve(registry.system(name).catalog.tiny | {"system": name} | counts, {})
    taken = [step for step in STEPS if step in only or not only]
    found, faults, given = reruns(model, []), [], {}
    for number, step in enumerate(taken, 1):
        check, what = STEPS[step]
        say(f"{number} of {len(taken)}, {step}: {what}")
        try:
            if check is reruns:
                found = reruns(model)
            else:
                given = given or (_given(model) if step not in CHEAP else {})
                check(model, given)
        except Exception as error:  # of the system's own code, too: the steps after it are still worth a look
            speaks = isinstance(error, CheckError) or type(error).__module__.partition(".")[0] == PACKAGE
            faults.append(f"{step}: {error if speaks else described(error)}")
    if faults:
        raise CheckError("\n".join(faults))
    return found


def reruns(model: Scenario, fields: list | None = None) -> pl.DataFrame:
    """Which stages compute anew when a parameter changes, by changing each (None: all); see `check_system`."""
    before, rows = _stages_by_address(model), []
    for path, field in parameters(type(model)) if fields is None else fields:
        if path != ("system",):
            value, other = _changed(model, path, field.annotation)
            after = _stages_by_address(other)
            moved = [stage for stage in after if before.get(stage, set()) != after[stage]]
            rows.append((".".join(path), str(value), " ".join(moved)))
    return pl.DataFrame(rows, schema=dict.fromkeys(["parameter", "changed_to", "stages"], pl.String), orient="row")


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


class Given(dict):
    """What a scenario needs before its channel, by name; beside it, tables of schemes that several steps look at."""

    untrained: dict[str, Tables]


def _given(model: Scenario) -> Given:
    """What the model needs before its channel: what it trains on, and tables from outside."""
    found = Given()
    found.untrained = {}
    for description in plan.given(model):
        found.update(execution.in_memory(model, description, found))
    return found


def _untrained(model: Scenario, scheme, given: dict) -> Tables:
    """The tables of all stages but `train`, made once."""
    kept = getattr(given, "untrained", {})
    if scheme.name not in kept:
        kept[scheme.name] = _made(model, scheme, given, range(REALIZATIONS), BEFORE_TRAINING)
    return kept[scheme.name]


def _each(
    model: Scenario, scheme, given: dict, wanted: range, stages=tuple(STAGES), mix: Callable = lambda made: made
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


def _check_modules(model: Scenario, given: dict) -> None:
    """All modules are there, no stage imports another one, and numbers are bounded on both sides."""
    system = registry.system(model.system)
    with execution.quiet_tensorflow():
        for module in ("catalog", "tables", *PARTS, REPORT, "claims"):
            system.part(module)
    others = {f"{system.package}.{stage}" for stage in PARTS}
    for stage in PARTS:
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


def _check_catalog(model: Scenario, given: dict) -> None:
    """Each figure of the catalog has a caption and is drawn, and no claim is made of a study without scenarios."""
    system = registry.system(model.system)
    catalog, folder, report = system.catalog, system.folder, system.part("report")
    for figure in (*catalog.figures, *catalog.comparison_figures):
        if not (folder / "captions" / f"{figure}.rst").is_file():
            raise CheckError(f"figure {figure}: has no caption {folder.name}/captions/{figure}.rst")
    for name, figures in (("FIGURES", catalog.figures), ("COMPARISON_FIGURES", catalog.comparison_figures)):
        if differing := set(getattr(report, name, {})) ^ set(figures):
            raise CheckError(f"{name} of report and the catalog's figures differ: {', '.join(sorted(differing))}")
    if rows := system.part("claims").claims({}).height:
        raise CheckError(f"claims: {rows} of a study without scenarios; measure what is there alone")


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


class Draw(NamedTuple):
    """What `pwfl.streams` was asked for, and by which module."""

    purpose: str
    realizations: range
    caller: str

    @property
    def kind(self) -> str:
        """The purpose, without numbers after a slash (of rounds, say)."""
        return re.sub(r"/\d+", "", self.purpose)


def _drawn(model: Scenario, scheme, given: dict, asked: list[Draw], purposes: dict[str, str]) -> dict[str, Tables]:
    """The tables of each stage that draws; `purposes` learns which stage draws for which purpose."""
    found = {}
    for stage, made in _each(model, scheme, given, range(TRAINED), DRAWING):
        found[stage] = made
        _check_apart(f"{scheme.name}: {stage}", asked)
        for purpose in sorted({draw.kind for draw in asked}):
            if purposes.setdefault(purpose, stage) != stage:
                raise CheckError(
                    f"{scheme.name}: {purposes[purpose]} and {stage} both draw for {purpose!r}: these are the same "
                    "numbers, so what they are used for is not independent; take another purpose"
                )
        asked.clear()
    return found


def _check_apart(stage: str, asked: list[Draw]) -> None:
    """No stream is asked for twice, other than for dealing records out, which `holdings` does once more."""
    streams_of = [
        (draw.purpose, realization)
        for draw in asked
        if draw.caller != partition.__name__
        for realization in draw.realizations
    ]
    if twice := {purpose for purpose, realization in streams_of if streams_of.count((purpose, realization)) > 1}:
        raise CheckError(
            f"{stage} asks for the stream {min(twice)!r} of a realization more than once: what is drawn of it (start "
            "weights and noise, say) is made of the same numbers; take a purpose for each use"
        )


def _of(made: Tables, realization: int) -> Tables:
    return {name: frame.filter(realization=realization).drop("realization") for name, frame in made.items()}


@contextmanager
def loosened(loose: set[str] | None) -> Iterator[list[Draw]]:
    """All draws held fixed but those of some purposes (`Draw.kind`), None: of all; yields what is asked for."""
    asked: list[Draw] = []

    def held(draw: Callable) -> Callable:
        def drawn(seed, purpose, which, *shape):
            block = which if isinstance(which, range) else range(which, which + 1)
            asked.append(Draw(purpose, block, sys._getframe(1).f_globals["__name__"]))
            if loose is None or asked[-1].kind in loose:
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
        made = _untrained(model, scheme, given)
        others = [_made(each, scheme, given, range(REALIZATIONS), BEFORE_TRAINING) for each in changed]
        for delta, other in zip(deltas, others, strict=True):
            if (stated := set(other["outcome"]["delta"])) != {delta}:
                raise CheckError(f"{scheme.name}: outcome states delta {stated}, must be {delta}")
        if deltas:
            large, small = (_outcome(other, made)["epsilon_exact"] for other in changed)
            both = large.is_finite() & small.is_finite()
            if not (large < small).filter(both).all() or (both.any() and large.equals(small)):
                raise CheckError(f"{scheme.name}: epsilon_exact does not grow as delta falls, of the same noise")
        without = _outcome(model, _quiet(model, made, without_noise))["epsilon_exact"]
        if not without.is_infinite().fill_null(True).all():
            raise CheckError(
                f"{scheme.name}: epsilon_exact is {without.to_list()} where no noise is added; must be infinite "
                f"(with noise: {made['outcome']['epsilon_exact'].to_list()}); does `zero_noise_values` of the catalog "
                "name all noise that the guarantee counts?"
            )


def _outcome(model: Scenario, made: Tables) -> pl.DataFrame:
    """What the account states of tables that no scenario need lead to."""
    return execution.execute(Task("account", model.of_stage("account")), made)["outcome"]


def _quiet(model: Scenario, made: Tables, columns: Collection[str]) -> Tables:
    """The tables with columns of `noise` as they are where no noise is added."""
    values = registry.system(model.system).catalog.zero_noise_values
    return made | {"noise": made["noise"].with_columns(**{column: pl.lit(values[column]) for column in columns})}


def _check_guarantee(model: Scenario, given: dict) -> None:
    """The server learns no less than the scheme's observer, and users' noise alone makes what is guaranteed."""
    catalog = registry.system(model.system).catalog
    if unknown := {*catalog.user_noise, *catalog.receiver_noise} - set(catalog.zero_noise_values):
        raise CheckError(f"the catalog's `zero_noise_values` lacks {', '.join(sorted(unknown))}")
    stated, server = pl.col("epsilon_exact"), pl.col("epsilon_server")
    for scheme in model.schemes:
        made = _untrained(model, scheme, given)
        less = (server < stated * (1 - RELATIVE)) | (server.is_null() != stated.is_null())
        for realization, exact, low in made["outcome"].filter(less).select("realization", stated, server).iter_rows():
            raise CheckError(
                f"{scheme.name}: realization {realization}: epsilon_server is {low} where epsilon_exact is {exact}: "
                "state of the server what it can learn of all that it receives; where it sees less than the observer "
                "that the scheme reckons with, state epsilon_exact of it, too"
            )
        if not made["outcome"]["guaranteed"].any():
            continue
        if not catalog.user_noise:
            raise CheckError(
                f"{scheme.name}: is guaranteed, and the catalog names no column of the table noise that users add: "
                "name them in `user_noise`; if there is none, nothing is guaranteed"
            )
        alone = _outcome(model, _quiet(model, made, catalog.user_noise))
        if alone.filter(pl.col("guaranteed") & server.is_finite()).height:
            raise CheckError(
                f"{scheme.name}: is guaranteed with epsilon_server {alone['epsilon_server'].to_list()} where users "
                "add no noise: what others add, a receiver, say, guarantees nothing; `guaranteed` has to follow the "
                "users' noise"
            )
        perfect = _outcome(model, _quiet(model, made, catalog.receiver_noise))
        more = perfect["epsilon_server"] > made["outcome"]["epsilon_server"] * (1 + RELATIVE)
        if (more & made["outcome"]["guaranteed"]).any():
            raise CheckError(
                f"{scheme.name}: epsilon_server is guaranteed and counts {', '.join(catalog.receiver_noise)}, which no "
                f"user adds; without, it is {perfect['epsilon_server'].to_list()}: state that, or guarantee nothing"
            )


def _check_users(model: Scenario, given: dict) -> None:
    """What noise and account say of a user follows the user: with other numbers for users, it is the same of each.

    A shift of all users and a swap of two make all permutations, and what follows both mixes no two users up. A stage
    that draws is left out: what it draws goes by numbers.
    """
    (user,) = set(contract.schema(model.system, "users").primary_key()) - {"realization"}
    for scheme in model.schemes:
        whole = _untrained(model, scheme, given)
        if user not in whole["leakage"].columns:
            continue
        drawing = [stage for stage in OF_USERS if _asks(model, scheme, given | whole, stage)]
        if "account" in drawing:  # a draw is of a number, not of a user
            continue
        stages = [stage for stage in OF_USERS if stage not in drawing]
        count = whole["users"][user].max() + 1
        for number in (pl.col(user) + 1) % count, pl.col(user).replace({0: 1, 1: 0}):

            def renumbered(frame: pl.DataFrame, number: pl.Expr = number) -> pl.DataFrame:
                return frame.with_columns(number) if user in frame.columns else frame

            moved = given | {name: renumbered(frame) for name, frame in whole.items()}
            made = _made(model, scheme, moved, range(REALIZATIONS), stages)
            for name in STAGES["account"].makes:
                kind = contract.schema(model.system, name)
                keys = [key for key in kind.primary_key() if key != user]
                expected, found = contract.ordered(renumbered(whole[name]), kind, name), made[name]
                if user in expected.columns and len(keys) > 1:  # of parts of the users, which others are in now
                    expected, found = (frame.filter(pl.len().over(keys) == count) for frame in (expected, found))
                if column := _far(expected, found):
                    raise CheckError(
                        f"{scheme.name}: {column} of the table {name} does not follow its {user}: once each {user} has "
                        "another number in all tables, it stands beside another one; join on keys (`beside`, "
                        "`to_array` of `pwfl.tables.arrays`), never by the order of rows"
                    )


def _asks(model: Scenario, scheme, given: dict, stage: str) -> bool:
    """Whether a stage draws."""
    with loosened(None) as asked:
        _made(model, scheme, given, range(REALIZATIONS), [stage])
    return bool(asked)


def _far(expected: pl.DataFrame, made: pl.DataFrame) -> str | None:
    """The first column in which two tables differ by more than the order of a sum's terms may matter."""
    for name in expected.columns:
        same = expected[name].eq_missing(made[name])
        if expected.schema[name].is_float():
            same |= ((expected[name] - made[name]).abs() <= SAME * expected[name].abs()).fill_null(False)
        if not same.all():
            return name
    return None


def _check_audit(model: Scenario, given: dict) -> None:
    """The audit tests all that a stated epsilon rests on, finds it as stated, and would see an epsilon 10 % low."""
    audited = []
    for scheme in model.schemes:
        made = _untrained(model, scheme, given)
        with loosened(None) as asked:
            _made(model, scheme, given | made, range(1), ["train"])
        purposes, worst = {draw.purpose for draw in asked}, audit.worst(made["outcome"])
        frame = _audit(model, scheme, made, purposes)
        if worst["epsilon_exact"] is not None and np.isfinite(worst["epsilon_exact"]):
            audited.append((worst["epsilon_exact"], scheme, made, purposes, frame))
    if not audited:
        raise CheckError(
            "`tiny` of the catalog states no finite epsilon: let it add some noise, that an audit can test"
        )
    _, scheme, made, purposes, frame = max(audited, key=lambda each: each[0])
    for again in (True, False):
        lacking = {test: draws for test, draws in _lacking(frame).items() if draws}
        if not lacking:
            return
        (test, draws), *_ = lacking.items()
        if not again or draws > MOST_CANARIES:
            raise CheckError(
                f"{scheme.name}: audit: its {test!r} does not see an epsilon that is stated {LOW:.0%} low, it takes "
                f"some {draws:,} canaries to: let `tiny` of the catalog add less noise, or let verdicts follow "
                "`audit.canaries`"
            )
        more = model.model_copy(update={"audit": model.audit.model_copy(update={"canaries": max(lacking.values())})})
        frame = _audit(more, scheme, made, purposes)


def _audit(model: Scenario, scheme, made: Tables, of_training: set[str]) -> pl.DataFrame:
    """The verdicts on the observer of whom the worst epsilon of the tables is stated; all have to be as they should."""
    with loosened(None) as asked:
        frame = execution.audit(model.model_copy(update={"schemes": [scheme]}).of_stage(AUDIT), made)
    worst = audit.worst(made["outcome"])
    epsilon, delta = worst["epsilon_exact"], worst["delta"]
    for row in frame.filter(status="violated").iter_rows(named=True):
        raise CheckError(
            f"{scheme.name}: audit: {row['test']} of {row['observer']} is {row['measured']:g}, has to be "
            f"{row['low']:g} to {row['high']:g}: what trains is not what account states; correct the one that is wrong"
        )
    if epsilon is None or not np.isfinite(epsilon):
        return frame
    same = (pl.col("epsilon") - epsilon).abs() <= RELATIVE * epsilon
    frame = frame.filter(same, pl.col("delta") == delta, status="consistent")
    tests = frame["test"].to_list()
    wanted = {"noise": [DEVIATION], "signal": [SIGNAL, audit.LOSS]}
    if worst["guaranteed"]:
        wanted |= {"sensitivity": ["sensitivity"], "epsilon itself": [SIGNAL, LARGEST]}
    for what, names in wanted.items():
        if not any(test.startswith(name) for test in tests for name in names):
            raise CheckError(
                f"{scheme.name}: audit: nothing tests the {what} of an observer of whom epsilon {epsilon:g} is stated: "
                f"yield the verdict {' or '.join(map(repr, names))} (`pwfl.privacy.audit`) of that epsilon and delta"
            )
    if not {draw.purpose for draw in asked} & of_training:
        raise CheckError(
            f"{scheme.name}: audit: draws none of the streams that train draws ({', '.join(sorted(of_training))}): "
            "run the code that trains, with its noise"
        )
    return frame


def _lacking(frame: pl.DataFrame) -> dict[str, int]:
    """The tests that do not see an epsilon that is LOW too low, and how many canaries they take to; 0: they do."""
    found = {}
    for row in frame.iter_rows(named=True):
        test, seen, wanted = row["test"], row["detectable"], np.inf
        if test == SIGNAL:
            low, stated = (audit.Subject(0, "", row["delta"], row["epsilon"] / share).mu for share in (1.0, 1.0 - LOW))
            wanted = stated / low - 1
        elif test in (DEVIATION, audit.LOSS):
            wanted = {DEVIATION: NOISE_SEEN, audit.LOSS: LAW_SEEN}[test]
        found[test] = 0 if seen <= wanted else int(1.1 * row["draws"] * (seen / wanted) ** 2)
    return found


def _check_report(model: Scenario, given: dict) -> None:
    """Tables, figures and claims are those of the catalog, and build with few realizations, and none trained.

    Meanwhile no stage runs code that its address does not name, of schemes that the tiny scenario lacks, either.
    """
    with watched(model):
        _build(model)
        if others := _other_schemes(model):
            stage_tables(_allowed(model, others), BEFORE_TRAINING)


def _build(model: Scenario) -> None:
    catalog = registry.system(model.system).catalog
    one = model.model_copy(update={"realizations": 1, "training_realizations": 1})
    few = stage_tables(one)
    untrained = few | {"history": few["history"].clear()}
    for case, stages in ((model, stage_tables(model)), (one, few), (one, untrained)):
        scenario = case.of_stage(REPORT)
        stages[AUDIT] = execution.audit(case.of_stage(AUDIT), stages)
        found = build.summarize(scenario, stages)
        wanted = {*catalog.tables}
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
    read = {MAKER[table] for table in registry.reads(model.system, AUDIT)}
    audited = [sorted(addresses) for name, addresses in found.items() if name.partition("/")[0] in read]
    return found | {AUDIT: {f"{model.of_stage(AUDIT)} {audited}"}, REPORT: {str(model.of_stage(REPORT))}}


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


CHEAP = ("modules", "catalog", "parameters")  # steps for which nothing is run
STEPS: dict[str, tuple[Callable, str]] = {  # each a function of scenario and data that raises CheckError
    "modules": (_check_modules, "modules are there, no stage imports another's, and numbers have two bounds"),
    "catalog": (_check_catalog, "figures have captions, and a study without scenarios no claims"),
    "parameters": (reruns, "each can be changed, and stands in the addresses of the stages that read it"),
    "accounting": (_check_accounting, "the guarantee follows delta, and is infinite without noise"),
    "guarantee": (_check_guarantee, "of all that the server sees, by what users add alone"),
    "users": (_check_users, "what is said of a user follows the user"),
    "audit": (_check_audit, "all that epsilon rests on is tested, and 10 % too little would be seen"),
    "draws": (_check_draws, "draws follow seed and realization, are of one use, and matter"),
    "shards": (_check_shards, "the same tables, by their schemas, for any shard and order of rows"),
    "report": (_check_report, "tables, figures and claims build, and addresses name all code that is run"),
}


def main(arguments: list[str]) -> int:
    """Check systems by name, print what each parameter computes anew; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m pwfl.testing", description="Check what every system owes.")
    parser.add_argument("names", nargs="+", metavar="NAME", help="of a system")
    parser.add_argument("--only", action="append", choices=STEPS, default=[], help="a step to take; may be repeated")
    options, failed = parser.parse_args(arguments), False
    for name in options.names:
        begun = time.process_time()

        def say(line: str, name: str = name, begun: float = begun) -> None:
            print(f"{name}: {time.process_time() - begun:.0f} s: {line}", flush=True)

        try:
            found = check_system(name, options.only, say)
        except (CheckError, ScenarioError, registry.RegistryError) as error:
            for line in str(error).splitlines():
                print(f"{name}: {line}", file=sys.stderr)
            failed = True
            continue
        print(f"{name}: as every system should be{', in this' if options.only else ''}.")
        if found.height:
            print("What a changed parameter computes anew:")
        for parameter, _, stages in found.iter_rows():
            print(f"  {parameter:32} {stages or 'nothing'}")
    return int(failed)


if __name__ == "__main__":
    command(main)
