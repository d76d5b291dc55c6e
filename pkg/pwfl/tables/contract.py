"""Contracts of tables: their schemas and the order of their rows, with columns that several systems share.

A system's schemas are in its module `tables`, a class for each table, with the table's name (`schedule_status`:
`ScheduleStatus`).
"""

from functools import cache, partial

import dataframely as dy
import polars as pl

from pwfl import registry
from pwfl.privacy import labels
from pwfl.tables import meanings
from pwfl.tables.meanings import meaning

ROUNDING = 1e-9  # relative, of an epsilon
A_USERS = "a user's guarantee: a user's message is clipped as a whole, so one record moves it as far as all of them"
ALWAYS_PUBLIC = (
    "numbers of records and of classes, the bounds of a data.file, and all constants of the config, such as clipping "
    "norm, steps and features"
)
OWN_RULE = type(dy.rule()(lambda kind: pl.lit(True)))  # the type of a schema's rules
# What a column reveals of users' records: its `metadata`, or the attribute REVEALS of its class.
PUBLIC = {"reveals": "public"}  # does not change if a record is replaced, as numbers of records do not
NOISY = {"reveals": "noisy"}  # computed from releases with the outcome's guarantee, such as the model
PRIVATE = {"reveals": "private"}  # a function of records without noise
AUDIT_STATUS = ("passed", "failed", "not_tested")
# Reasons why an audit tests nothing. The last two: of gradients, and of a blank record's at all parameters tried.
NOT_TESTED_REASONS = ("no noise", "nobody sends", "not finite", "gradient never zero")


class TableError(ValueError):
    """An invalid table; the message names it, or its file, and the problem."""


def schema(system: str, table: str) -> type[dy.Schema]:
    """Return the schema of a system's table: its own, or else that of all systems. Raises TableError if it has none."""
    found = registry.system(system).load_schemas().get(table) or COMMON.get(table)
    if found is None:
        raise TableError(f"{system}: SCHEMAS of its tables.py lacks {table!r}; add a schema for this table")
    return found


def limits(system: str, column: str) -> tuple[float | None, float | None]:
    """Return the declared minimum and maximum of a column that reports average; None: no bound.

    The column is declared in the system's schema `outcome` or `history` or, if its report derives it, in its schema
    `realizations`, if it has one. Columns that are declared nowhere have no bounds.
    """
    derived = registry.system(system).load_schemas().get("realizations")
    kinds = [schema(system, "outcome"), schema(system, "history"), *([derived] if derived else [])]
    declared = next((kind.columns()[column] for kind in kinds if column in kind.columns()), None)
    return _end(declared, "min"), _end(declared, "max")


def _end(column: dy.Column | None, end: str) -> float | None:
    """Return a column's `min` or `max`, or else its exclusive bound, which its means can approach; None: no bound."""
    value = getattr(column, end, None)
    return getattr(column, f"{end}_exclusive", None) if value is None else value


def typed(frame: pl.DataFrame, kind: type[dy.Schema], place: str) -> pl.DataFrame:
    """Select a schema's columns of a table. Raises TableError, which names `place`, if one is missing or mistyped."""
    held = frame.schema
    for name, column in kind.columns().items():
        if name not in held:
            raise TableError(f"{place}: column {name!r} is missing")
        if held[name] != column.dtype:
            raise TableError(f"{place}: column {name!r} holds {held[name]}, must hold {column.dtype}")
    return frame.select(kind.column_names())


def checked(frame: pl.DataFrame, kind: type[dy.Schema], place: str) -> pl.DataFrame:
    """Select a schema's columns of a table, and check their types, bounds, keys and order of rows.

    Raises TableError, which names the table's `place`, if a check fails.
    """
    frame = typed(frame, kind, place)
    if _has_own_rules(kind) or not all(frame.select(_rules(kind)).row(0)):
        try:
            frame = kind.validate(frame)
        except dy.exc.ValidationError as error:  # ty: ignore[possibly-missing-submodule]
            raise TableError(f"{place}: {error}") from None
    if not _in_order(frame, order := _order(kind)):
        raise TableError(f"{place}: rows are not in the order of {', '.join(order)}")
    return frame


@cache
def _rules(kind: type[dy.Schema]) -> list[pl.Expr]:
    """Return for each rule of a schema's columns whether all rows keep it; `validate` takes five times as long."""
    named = ((name, column.validation_rules(pl.col(name))) for name, column in kind.columns().items())
    return [rule.all().alias(f"{name} {what}") for name, rules in named for what, rule in rules.items()]


def _has_own_rules(kind: type[dy.Schema]) -> bool:
    """Return whether a schema has rules other than those of its columns and the uniqueness of keys."""
    return any(isinstance(value, OWN_RULE) for base in kind.__mro__ for value in vars(base).values())


def ordered(frame: pl.DataFrame, kind: type[dy.Schema], place: str) -> pl.DataFrame:
    """Sort a table's rows by the schema's keys. Raises TableError if two rows have the same keys."""
    keys, order = kind.primary_key(), _order(kind)
    if not _in_order(frame, order):
        frame = frame.sort(order, maintain_order=True)
    if frame.select(keys).is_duplicated().any():
        raise TableError(f"{place}: rows with the same {', '.join(keys)}")
    # Polars sums groups in another order if a key is flagged as sorted, or is in several chunks. Last digits of sums
    # would then differ between tables in memory and tables from files. Adding 0 removes the flag.
    return frame.with_columns(pl.col(order) + 0).rechunk()


def reveals(kind: type[dy.Schema], name: str) -> dict | None:
    """Return what a column of a schema, or else its class, declares to reveal; None: neither declares anything."""
    (owner, *_) = (base for base in kind.__mro__ if name in vars(base))
    return kind.columns()[name].metadata or vars(owner).get("REVEALS")


def private(system: str, table: str) -> list[str]:
    """List the columns of a system's table that are PRIVATE, or declare nothing."""
    kind = schema(system, table)
    return [name for name in kind.columns() if reveals(kind, name) not in (PUBLIC, NOISY)]


def without_private(frame: pl.DataFrame, system: str, table: str) -> pl.DataFrame:
    """Set a table's private columns to null; if one is a key, remove all rows. Columns outside its schema are kept."""
    names = private(system, table)
    if not {*names}.isdisjoint(schema(system, table).primary_key()):
        return frame.clear()
    return frame.with_columns(pl.lit(None, frame.schema[name]).alias(name) for name in names)


def finished(frame: pl.DataFrame, table: str, system: str, place: str = "") -> pl.DataFrame:
    """Convert a stage's table to its written form: only the schema's columns, cast to its types, sorted by its keys.

    Raises TableError, which names the `place` or else the table, if the table violates its schema.
    """
    kind, place = schema(system, table), place or table
    if missing := [name for name in kind.columns() if name not in frame.columns]:
        raise TableError(f"{place}: lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}")
    columns = []
    for name, column in kind.columns().items():
        try:
            columns.append(frame[name].cast(column.dtype))
        except pl.exceptions.PolarsError as error:
            raise TableError(f"{place}: column {name!r} cannot be what its schema says: {error}") from None
    return checked(ordered(pl.DataFrame(columns), kind, place), kind, place)


def _order(kind: type[dy.Schema]) -> list[str]:
    """List the keys that rows are sorted by: numbers of realizations, users, rounds; not texts."""
    return [name for name in kind.primary_key() if kind.columns()[name].dtype == pl.Int64]


def _in_order(frame: pl.DataFrame, order: list[str]) -> bool:
    keys = frame.select(order)
    return keys.equals(keys.sort(order))


def key(metadata: dict = PUBLIC, **options) -> dy.Int64:
    """Declare a key column of numbers from 0."""
    return dy.Int64(primary_key=True, min=0, metadata=metadata, **options)


def epsilon_column(nullable: bool = False, **options) -> dy.Float64:
    """Declare a column of epsilon or rho; infinite: no guarantee."""
    return dy.Float64(nullable=nullable, min=0, allow_inf=True, **options)


def amount(**options) -> dy.Float64:
    """Declare a column of amounts, at least 0; null is allowed."""
    return dy.Float64(nullable=True, min=0, **options)


class PerRealization(dy.Schema):
    """Key of quantities of a realization."""

    realization = key(description=meaning("realization"))


class PerUser(PerRealization):
    """Keys of quantities of a user."""

    user = key(description=meaning("user"))


class PerRound(PerRealization):
    """Keys of quantities of a round."""

    round = key(description=meaning("round", "from 1"))


class PerUserRound(PerRound):
    """Keys of quantities of a user in a round."""

    user = key(description=meaning("user"))


_kind = partial(dy.Enum, tuple(labels.KINDS), nullable=True)
_assumes = partial(dy.String, nullable=True)
attack_rate = partial(dy.Float64, nullable=True, min=0, max=1)  # success of an attacker that an epsilon permits


class Guarantees(PerRealization):
    """Guarantee of the most exposed user against each observer, by unit of privacy and source of noise (`account`)."""

    REVEALS = PUBLIC
    observer = dy.String(primary_key=True, description=meaning("observer", "its name in the system"))
    unit = dy.String(primary_key=True, description=meaning("unit", "a record, or all records of a user"))
    noise_from = dy.String(primary_key=True, description="parties whose noise counts")
    epsilon = epsilon_column(description=meaning("epsilon", "of the most exposed user"))
    epsilon_kind = _kind(description=meanings.KIND.format("epsilon"))
    epsilon_assumes = _assumes(description=meanings.ASSUMES.format("epsilon"))
    epsilon_trusts = dy.String(nullable=False, description=meanings.TRUSTED.format("epsilon"))
    attack_rate = attack_rate(description=meanings.ATTACK.format("user"))
    rho = dy.Float64(nullable=True, min=0, allow_inf=True, description=meaning("rho", "largest of all users"))
    delta = dy.Float64(min=0, max_exclusive=1, description=meaning("delta"))
    neighbouring_relation = dy.String(description=meaning("neighbouring_relation"))
    sampling = dy.String(description=meaning("sampling"))


def _said_what_each_is(epsilon: pl.Expr) -> pl.Expr:
    names = ("epsilon_user", "epsilon_server", "guarantee", "epsilon_kind", "epsilon_user_kind", "epsilon_server_kind")
    return pl.all_horizontal(epsilon.is_null() == pl.col(name).is_null() for name in names)


class Outcome(PerRealization):
    """Columns of all systems' outcome of a realization: its guarantee, with the terms, and its cost."""

    REVEALS = PUBLIC
    samples = dy.Int64(min=1, description=meaning("samples", "of all users"))
    rounds = dy.Int64(min=1, description=meaning("rounds", "of the training"))
    epsilon = epsilon_column(
        description=meaning("epsilon", "of the most exposed record, against the row's observer; null: no user sends"),
        nullable=True,
        check={"said_what_each_epsilon_is": _said_what_each_is},
    )
    epsilon_kind = _kind(description=meanings.KIND.format("epsilon"))
    epsilon_assumes = _assumes(description=meanings.ASSUMES.format("epsilon"))
    epsilon_trusts = dy.String(nullable=True, description=meanings.TRUSTED.format("epsilon"))
    guarantee = dy.Enum(
        labels.GUARANTEES,
        nullable=True,
        description="strength of epsilon if the trusted parties behave: proved: exact or an upper bound for all data; "
        "conditional: the same under the stated assumptions; none: not proved, or infinite; null: no user sends",
    )
    attack_rate = attack_rate(description=meanings.ATTACK.format("record"))
    epsilon_user = epsilon_column(
        description=meaning("epsilon_user", "most exposed user; null: no user sends"),
        nullable=True,
        check={"users_lose_no_less_than_records": lambda column: column >= pl.col("epsilon") * (1 - ROUNDING)},
    )
    epsilon_user_kind = _kind(description=meanings.KIND.format("epsilon_user"))
    epsilon_user_assumes = _assumes(description=meanings.ASSUMES.format("epsilon_user"))
    epsilon_server = epsilon_column(
        description=meaning("epsilon_server", "only secure aggregation is trusted; null: no user sends"),
        nullable=True,
    )
    epsilon_server_kind = _kind(description=meanings.KIND.format("epsilon_server"))
    epsilon_server_assumes = _assumes(description=meanings.ASSUMES.format("epsilon_server"))
    delta = dy.Float64(min=0, max_exclusive=1, description=meaning("delta"))
    channel_uses = amount(description="symbols transmitted in all rounds; null: decided during training")
    air_seconds = amount(
        description="airtime of all rounds, each as long as its slowest upload, s; null: no radio model, or decided "
        "during training"
    )
    transmit_energy_j = amount(
        description="energy radiated by all users in all rounds; null: no unit, or decided during training",
        allow_inf=True,
    )
    energy_scope = dy.String(description="what transmit_energy_j includes; energies compare only within the same scope")
    local_steps = amount(
        description="mean gradient steps per user and round of participation; null: decided during training, or no "
        "participant"
    )
    evaluated_model = dy.String(description="model whose accuracy is reported")
    unit = dy.String(description=meaning("unit"))
    neighbouring_relation = dy.String(description=meaning("neighbouring_relation"))
    sampling = dy.String(nullable=True, description=meaning("sampling", "null: no user sends"))
    observer = dy.String(nullable=True, description=meaning("observer", "what the observer receives, in words"))
    taken_as_public = dy.String(description="facts computed from users' data without noise; no epsilon covers them")


_user_accuracy = partial(amount, max=1, metadata=PRIVATE)


class LinearOutcome(Outcome):
    """Outcome of a realization by `pwfl.airs.linear.account`."""

    REVEALS = PUBLIC
    rho = epsilon_column(nullable=True, description=meaning("rho", "the most exposed record's; null: no user sends"))
    rho_server = epsilon_column(  # releases are composed by it
        nullable=True,
        check={"every_release_has_a_rho": lambda column: column.is_null() == pl.col("epsilon_server").is_null()},
        description=meaning("rho_server", "the most exposed record's; null: no user sends"),
    )


class History(PerRealization):
    """Columns of all systems' history: airtime and energy up to the end of a row's round, and the processor."""

    processor = dy.String(description="processor that trained the model: cpu, or the name of a GPU", metadata=PUBLIC)
    air_seconds_cumulative = amount(description="airtime up to this round, s; null: no radio model", metadata=PUBLIC)
    transmit_energy_j_cumulative = amount(
        description="energy radiated by all users up to this round; null: no unit", allow_inf=True, metadata=PUBLIC
    )


class UserHistory(History):
    """Accuracy of evaluated models for users with different label distributions; see `learning.partition`."""

    user_accuracy = _user_accuracy(description=meanings.USER_ACCURACY.format("mean test accuracy over users"))
    user_accuracy_std = _user_accuracy(
        description=meanings.USER_ACCURACY.format("standard deviation of test accuracy over users")
    )
    user_accuracy_bottom_decile = _user_accuracy(
        description=meanings.USER_ACCURACY.format("mean test accuracy of the worst tenth of users, rounded up")
    )


def clipped_share() -> dy.Float64:
    """Declare a history's column with the share of clipped gradients or updates."""
    return amount(description=meanings.CLIPPED_SHARE, max=1, metadata=PRIVATE)


class Learning(UserHistory):
    """Test accuracy and loss over the rounds of training by `pwfl.training`; systems add a `training_status`."""

    round = key(description=meaning("round", "0: before training"))
    accuracy = dy.Float64(nullable=False, min=0, max=1, description=meaning("accuracy"), metadata=NOISY)
    loss = dy.Float64(min=0, allow_inf=True, allow_nan=True, description=meaning("loss"), metadata=NOISY)
    clipped_share = clipped_share()


def training_status(*statuses: str) -> dy.Enum:
    """Declare a history's column with the status at the end of the training run."""
    return dy.Enum(statuses, nullable=False, description=meanings.TRAINING_STATUS, metadata=NOISY)


class Leakage(PerUser):
    """Privacy loss of each user's records after all rounds (`account`)."""

    REVEALS = PUBLIC
    rho = epsilon_column(description=meaning("rho", "of a record in all messages of the user"))
    epsilon = epsilon_column(description=meaning("epsilon", "of a record of the user"))
    epsilon_user = epsilon_column(description=meaning("epsilon_user"))


class Audit(dy.Schema):
    """Measurements by tests of the training code, with the values that `account` states (`audit`).

    The tests use records made for them, and read no user's records.
    """

    REVEALS = PUBLIC
    realization = key(description=meaning("realization", "the one with the most exposed record"))
    observer = dy.String(
        primary_key=True, description=meaning("observer", "the messages that the observer sees, in words")
    )
    test = dy.String(primary_key=True, description="property that is tested")
    status = dy.Enum(AUDIT_STATUS, description=meaning("status", "of the test"))
    reason = dy.Enum(NOT_TESTED_REASONS, nullable=True, description="why nothing is tested; null: it is")
    draws = dy.Int64(min=0, description="how many numbers the test uses")
    delta = dy.Float64(min=0, max_exclusive=1, description=meaning("delta"))
    epsilon = epsilon_column(
        description=meaning("epsilon", "as stated for the observer; null: no user sends"), nullable=True
    )
    stated = dy.Float64(nullable=True, description="expected value if the code is as stated; null: nothing to test")
    measured = dy.Float64(nullable=True, allow_inf=True, description="measured value; infinite: not a number")
    expected_min = dy.Float64(nullable=True, description="smallest measured value that passes")
    expected_max = dy.Float64(nullable=True, description="largest measured value that passes")
    detectable = dy.Float64(
        nullable=True,
        min=0,
        description="smallest error detected with probability `power`: relative error of a sensitivity, signal or "
        "noise; a correlation; a mean in standard deviations; or a distance of distribution functions",
    )
    detects = dy.String(nullable=True, description="smallest detectable error, in words")
    false_alarm = dy.Float64(
        min=0, max=1, description="probability that any test of a scheme fails although the code is right"
    )
    power = dy.Float64(min=0, max=1, description="probability with which an error of the size `detectable` is detected")


class Holdings(PerUser):
    """Number of records per user and label (`train`), the same for all schemes; empty if a system uses no data set."""

    label = key(description="class label", metadata=PRIVATE)
    samples = dy.Int64(min=1, description=meaning("samples", "of this label, held by the user"), metadata=PRIVATE)


class PerInterval(PerRealization):
    """Keys of quantities that are the same in all rounds of a coherence interval."""

    interval = key(description="number of the coherence interval, from 0; all have equally many rounds")


class Reception(PerInterval):
    """Contribution of each received user to the server's update (`receive`)."""

    REVEALS = PUBLIC
    user = key(description=meaning("user"))
    weight = dy.Float64(nullable=False, description="weight of the user's message in the server's update")
    user_noise_std = dy.Float64(
        nullable=False,
        min=0,
        description="standard deviation of the user's noise in the server's update, per coordinate",
    )
    records = dy.Int64(
        nullable=True, min=0, description="number of records sampled for the message in each round; null: all"
    )
    group = dy.Int64(
        nullable=True,
        min=0,
        description="group whose messages are summed as integers; null: summed as floating-point numbers",
    )
    grid_step = dy.Float64(nullable=True, min=0, description="step size of the integer grid, in units of the message")
    bands = dy.List(
        dy.Float64(),
        nullable=True,
        description="factors on weight and noise in each band of coordinates; null: no bands",
    )


class ReceptionNoise(PerInterval):
    """Noise in the server's update, and airtime and energy of a round (`receive`)."""

    REVEALS = PUBLIC
    rounds = dy.Int64(nullable=False, min=1, description=meaning("rounds", "in the coherence interval"))
    update_noise_std = dy.Float64(
        nullable=True, min=0, description=meaning("update_noise_std", "of all noise; null: no noise is feasible")
    )
    planned_noise_std = dy.Float64(
        nullable=True,
        min=0,
        description="update_noise_std if no user drops out; the server plans its step size with it",
    )
    planned_senders = dy.Int64(nullable=False, min=0, description="number of users scheduled in a round")
    symbols = amount(description="symbols transmitted in one round")
    seconds = amount(description="airtime of one round, s; null: no radio model")
    joules = amount(description="energy radiated by all users in one round, J; null: no unit", allow_inf=True)


class Visibility(PerInterval):
    """Visibility of a unit of each active user's message to an observer (`receive`): sqrt(a' C^-1 a).

    It is that of the plan, without dropouts: its intervals need not be those of `reception`.
    """

    REVEALS = PUBLIC
    rounds = dy.Int64(nullable=False, min=1, description=meaning("rounds", "in the coherence interval"))
    observer = dy.String(primary_key=True, description=meaning("observer", "its name in the system"))
    user = key(description=meaning("user"))
    visibility = dy.Float64(
        nullable=True,
        min=0,
        allow_inf=True,
        description="amplitude of a unit of the message over the standard deviation of all noise; infinite: no noise; "
        "null: unknown",
    )
    visibility_users_only = dy.Float64(
        nullable=True,
        min=0,
        allow_inf=True,
        description="the same over the noise of users alone, without that of colluders",
    )


class Observers(PerRealization):
    """Observers, what each receives, and the parties trusted to pass on nothing else (`receive`)."""

    REVEALS = PUBLIC
    observer = dy.String(primary_key=True, description=meaning("observer", "its name in the system"))
    receives = dy.String(nullable=False, description="what the observer receives, in words")
    trusts = dy.String(nullable=False, description="parties trusted to pass nothing else to the observer; empty: none")
    weaker = dy.String(nullable=False, description="observer that the server becomes if this trust fails")
    kind = dy.String(nullable=False, description="whether visibility is exact or an upper bound")
    assumes = dy.String(nullable=False, description="what visibility assumes that was unknown when the noise was set")


COMMON = {
    "leakage": Leakage,
    "guarantees": Guarantees,
    "observers": Observers,
    "audit": Audit,
    "holdings": Holdings,
    "reception": Reception,
    "reception_noise": ReceptionNoise,
    "visibility": Visibility,
}  # tables of all systems
