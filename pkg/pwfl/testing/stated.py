"""Conformance tests of stated guarantees: noise that they count, assumed observer, and users."""

import polars as pl

from pwfl import registry
from pwfl.execution.stage import Tables
from pwfl.privacy import labels
from pwfl.privacy.accountant import guarantee
from pwfl.scenario.common import Scenario
from pwfl.scenario.values import value_of
from pwfl.tables import contract
from pwfl.tables.arrays import size_of
from pwfl.testing import tiny
from pwfl.testing.draws import loosened
from pwfl.testing.tiny import CheckError

OF_USERS = ("noise", "receive", "account")  # stages with tables that follow renumbered users
PROVED = (guarantee("epsilon_server") == labels.PROVED).fill_null(value=False)
SAME = 1e-6  # relative difference that their tables may then have


def check_accounting(model: Scenario, inputs: dict) -> None:
    """Check that epsilon grows as delta falls, and is infinite without noise."""
    without_noise = registry.system(model.system).catalog.zero_noise_values
    if not without_noise:
        raise CheckError(
            "the catalog's `zero_noise_values` is empty; it must name the columns of the table noise that are zero "
            "without noise"
        )
    privacy = value_of(model, "privacy")
    deltas = (1e-3, 1e-8) if privacy is not None and "delta" in type(privacy).model_fields else ()
    changed = [model.model_copy(update={"privacy": privacy.model_copy(update={"delta": delta})}) for delta in deltas]
    for scheme in model.schemes:
        made = tiny.make_untrained(model, scheme, inputs)
        others = [
            tiny.make_tables(scenario, scheme, inputs, range(tiny.REALIZATIONS), tiny.BEFORE_TRAINING)
            for scenario in changed
        ]
        for delta, other in zip(deltas, others, strict=True):
            if (stated := set(other["outcome"]["delta"])) != {delta}:
                raise CheckError(f"{scheme.name}: outcome states delta {stated}, expected {delta}")
        if deltas:
            large, small = (tiny.account_outcome(other, made)["epsilon"] for other in changed)
            both = large.is_finite() & small.is_finite()
            if not (large < small).filter(both).all() or (both.any() and large.equals(small)):
                raise CheckError(f"{scheme.name}: epsilon must grow as delta falls, with the same noise")
        without = tiny.account_outcome(model, tiny.silence_noise(model, made, without_noise))["epsilon"]
        if not without.is_infinite().fill_null(True).all():
            raise CheckError(
                f"{scheme.name}: epsilon is {without.to_list()} without noise; must be infinite (with noise: "
                f"{made['outcome']['epsilon'].to_list()}); does the catalog's `zero_noise_values` name all noise "
                "that the guarantee counts?"
            )


def check_guarantee(model: Scenario, inputs: dict) -> None:
    """Check that the server learns no less than the scheme's observer, and that guarantees need only users' noise."""
    catalog = registry.system(model.system).catalog
    if unknown := {*catalog.user_noise, *catalog.receiver_noise} - set(catalog.zero_noise_values):
        raise CheckError(f"the catalog's `zero_noise_values` lacks {', '.join(sorted(unknown))}")
    stated, server = pl.col("epsilon"), pl.col("epsilon_server")
    for scheme in model.schemes:
        made = tiny.make_untrained(model, scheme, inputs)
        less = (server < stated * (1 - tiny.RELATIVE)) | (server.is_null() != stated.is_null())
        for realization, exact, low in made["outcome"].filter(less).select("realization", stated, server).iter_rows():
            raise CheckError(
                f"{scheme.name}: realization {realization}: epsilon_server is {low} where epsilon is {exact}: "
                "epsilon_server must cover everything that the server receives; if the server sees less than the "
                "scheme's assumed observer, it is epsilon, too"
            )
        if not made["outcome"].select(PROVED.any()).item():
            continue
        if not catalog.user_noise:
            raise CheckError(
                f"{scheme.name}: is guaranteed, but the catalog names no noise that users add; name its columns of "
                "the table noise in `user_noise`; if there is none, nothing is guaranteed"
            )
        silent = tiny.account_outcome(model, tiny.silence_noise(model, made, catalog.user_noise))
        if silent.filter(PROVED & server.is_finite()).height:
            raise CheckError(
                f"{scheme.name}: is guaranteed with epsilon_server {silent['epsilon_server'].to_list()} where users "
                "add no noise; other noise, such as a receiver's, proves nothing: claim what the users' noise gives"
            )
        perfect = tiny.account_outcome(model, tiny.silence_noise(model, made, catalog.receiver_noise))
        more = perfect["epsilon_server"] > made["outcome"]["epsilon_server"] * (1 + tiny.RELATIVE)
        if (more & made["outcome"].select(PROVED).to_series()).any():
            raise CheckError(
                f"{scheme.name}: epsilon_server is proved but counts {', '.join(catalog.receiver_noise)}, which no "
                f"user adds; without it, epsilon_server is {perfect['epsilon_server'].to_list()}: state that, or claim "
                "by the noise of users alone, too (`pwfl.privacy.accountant`)"
            )


def check_users(model: Scenario, inputs: dict) -> None:
    """Check that each user keeps its values in the tables of `account` if users are renumbered.

    A shift of all users and a swap of two generate all permutations, so tables that follow both confuse no two users. A
    stage that draws is left out, as its draws belong to users' numbers.
    """
    (user,) = set(contract.schema(model.system, "users").primary_key()) - {"realization"}
    for scheme in model.schemes:
        whole = tiny.make_untrained(model, scheme, inputs)
        if user not in whole["leakage"].columns:
            continue
        drawing = {stage for stage in OF_USERS if _asks(model, scheme, inputs | whole, stage)}
        if drawing & {"receive", "account"}:  # draws belong to numbers, not to users
            continue
        stages = [stage for stage in OF_USERS if stage not in drawing]
        count = size_of(whole["users"], user)
        for number in (pl.col(user) + 1) % count, pl.col(user).replace({0: 1, 1: 0}):
            moved = _renumbered(whole, user, number)
            made = tiny.make_tables(model, scheme, inputs | moved, range(tiny.REALIZATIONS), stages)
            for name in registry.makes(model.system, "account"):
                kind = contract.schema(model.system, name)
                expected = contract.ordered(moved[name], kind, name)
                if column := _strayed(kind, user, count, expected, made[name]):
                    raise CheckError(
                        f"{scheme.name}: {column} of the table {name} does not follow its {user}: after each {user} "
                        f"is renumbered in all tables, it belongs to another {user}; join on keys (`joined`, "
                        "`to_array` of `pwfl.tables.arrays`), never by the order of rows"
                    )


def _renumbered(tables: Tables, user: str, number: pl.Expr) -> Tables:
    """Return the tables with renumbered users."""
    return {name: frame.with_columns(number) if user in frame.columns else frame for name, frame in tables.items()}


def _strayed(kind, user: str, count: int, expected: pl.DataFrame, made: pl.DataFrame) -> str | None:
    """Find the first column of a table in which the made values are not what each user had; None: there is none."""
    keys = [key for key in kind.primary_key() if key != user]
    if user in expected.columns and len(keys) > 1:  # groups of only some users have others now
        expected, made = (frame.filter(pl.len().over(keys) == count) for frame in (expected, made))
    return _far(expected, made)


def _asks(model: Scenario, scheme, inputs: dict, stage: str) -> bool:
    """Return whether a stage draws random numbers."""
    with loosened(None) as asked:
        tiny.make_tables(model, scheme, inputs, range(tiny.REALIZATIONS), [stage])
    return bool(asked)


def _far(expected: pl.DataFrame, made: pl.DataFrame) -> str | None:
    """Find the first column in which two tables differ by more than the order of a sum's terms may change."""
    for name in expected.columns:
        same = expected[name].eq_missing(made[name])
        if expected.schema[name].is_float():
            same |= ((expected[name] - made[name]).abs() <= SAME * expected[name].abs()).fill_null(False)
        if not same.all():
            return name
    return None
