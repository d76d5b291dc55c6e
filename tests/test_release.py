"""What the noise of a training depends on: all that its messages depend on, and nothing that only observes them."""

import itertools
from typing import Literal

import numpy as np
import polars as pl
import pytest

from pwfl import registry, streams
from pwfl.execution.contents import contents
from pwfl.learning import data_file
from pwfl.scenario import common, resolve
from pwfl.scenario.fields import Section, keyed_of, observes_of, parameter, parameters
from pwfl.scenario.release import depended_on
from pwfl.scenario.values import Values, name_release, plain, with_contents
from pwfl.stages import STAGES
from pwfl.systems.multicell import imported
from pwfl.testing import declared, tiny
from pwfl.workflow import plan

STAGES_BEFORE = [stage for stage in tiny.BEFORE_TRAINING if stage != "account"]
COSTS = ("symbols", "seconds", "joules")  # columns that no message depends on
FOLLOWING = {"data.content", "data.sha256", "system"}  # parameters that others set
FILE_ONLY = {"data.bounds", "data.file", "data.folder"}  # of which the records count


def scenario(system: str, **changes):
    return resolve({"system": system} | registry.system(system).catalog.tiny, changes)


def release_of(model, scheme: int = 0) -> str:
    return plan.routes(model)[model.schemes[scheme].name]["train"]["parameters"]["release"]


def releases(model) -> list[str]:
    return [route["train"]["parameters"]["release"] for route in plan.routes(model).values()]


def read_until_training(model) -> set[str]:
    """The keys of the parameters that any scheme's training, or a stage before it, reads."""
    found = set()
    for route in plan.routes(model).values():
        for stage, description in route.items():
            if stage in STAGES and stage != "account":
                given = Values(description["parameters"])
                for path, _ in parameters(type(model)):
                    value = given
                    for part in path:
                        value = vars(value).get(part, tiny) if isinstance(value, Values) else tiny
                    found |= set() if value is tiny else {".".join(path)}
    return found


def changed(model, path, field):
    """The scenario with another value of a parameter, and beside what it must have for that."""
    beside = declared.with_needed(model, ".".join(path))
    return beside, declared._changed(beside, path, field.annotation)[1]


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_each_parameter_that_is_read_draws_other_noise_unless_it_only_observes(system):
    model = scenario(system)
    tried = {"moved": 0, "stayed": 0}
    for path, field in parameters(type(model)):
        key = ".".join(path)
        if key in FOLLOWING | FILE_ONLY or path[0] == "schemes":
            continue
        beside, other = changed(model, path, field)
        moved = set(releases(beside)) != set(releases(other))
        observes = observes_of(field) is True or key not in read_until_training(beside) | read_until_training(other)
        if observes:
            assert not moved, key
        elif not moved:  # only what has no effect in this scenario
            idle = [{**common_idle(beside, scheme), **common_idle(other, scheme)} for scheme in beside.schemes]
            assert all(key in each for each in idle), key
        tried["moved" if moved else "stayed"] += 1
    assert min(tried.values()) > 4


def common_idle(model, scheme) -> dict[str, str]:
    from pwfl.scenario import checks

    return checks.idle(model.model_copy(update={"schemes": [scheme]}))


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_what_only_observes_changes_nothing_of_what_is_received(system):
    model = scenario(system)
    given = tiny.prepare(model)
    for path, field in parameters(type(model)):
        observes, key = observes_of(field), ".".join(path)
        if not observes or key in FOLLOWING:
            continue
        beside, other = changed(model, path, field)
        for scheme in beside.schemes[: 1 if observes is True else None]:
            if observes is True or {f"schedule/{scheme.scheduler}", f"noise/{scheme.noise}"} & set(observes):
                before, after = (
                    tiny.make_tables(each, scheme, given, range(2), STAGES_BEFORE) for each in (beside, other)
                )
                for table in {"reception", "reception_noise", "schedule", "noise"} & set(before):
                    assert before[table].drop(COSTS, strict=False).equals(after[table].drop(COSTS, strict=False)), key


@pytest.mark.parametrize(
    ("system", "change", "schemes"),
    [
        ("multicell", {"training": {"evaluate_every": 3}}, None),
        ("multicell", {"data": {"alpha": 3.0}, "radio": {"antennas": 3}, "training": {"step_scale": 0.2}}, None),
        ("multicell", {"realizations": 9, "training_realizations": 5}, None),
        ("random_orthogonalization", {"privacy": {"user_numbers": [7], "delta": 1e-7}}, None),
        ("anonymous_oac", {"privacy": {"curve_rates": [0.3]}, "radio": {"bandwidth_hz": 1e6}}, None),
        ("anonymous_oac", {"privacy": {"delta": 1e-7}}, [("over_the_air", "anonymous"), ("over_the_air", "none")]),
        ("utility_fair", {"device": {"circuit_power_w": 0.09}}, [("benchmark", "independent"), ("benchmark", "none")]),
        ("utility_fair", {"privacy": {"theta": 0.5}}, [("benchmark", "independent")]),
    ],
)
def test_no_other_noise_where_nothing_of_a_message_depends_on_it(system, change, schemes):
    some = {"schemes": [{"name": f"{a} {b}", "scheduler": a, "noise": b} for a, b in schemes or ()]}
    model = scenario(system, **(some if schemes else {}))
    assert releases(resolve(model.model_dump(), change)) == releases(model)


def test_energy_moves_noise_where_devices_decide_by_it():
    model = scenario("utility_fair", schemes=[{"name": "A", "scheduler": "utility", "noise": "fair"}])
    assert releases(resolve(model.model_dump(), {"device": {"circuit_power_w": 0.09}})) != releases(model)


def test_a_baseline_added_or_a_name_changed_draws_no_other_noise():
    snr = {"training": {"step": "snr", "learning_rate": 0.3, "hidden_layers": []}}
    first = {"name": "A", "scheduler": "random", "noise": "target"}
    model = scenario("multicell", **snr, privacy={"target_epsilon": 8.0}, schemes=[first])
    bare = {"name": "bare", "scheduler": "random", "noise": "none"}
    more = resolve(model.model_dump(), {"schemes": [first | {"name": "B"}, bare]})
    assert release_of(more) == release_of(model)


# A system's model as it may become: a key is renamed, two are folded into one, and one is new.
class Schedule(Section):
    """Renamed and new keys."""

    deployment: int = parameter(20, "T", stages="channel train account audit", keyed="schedule.horizon", ge=1, le=1000)
    recipe: Literal["paper", "separate", "many"] = parameter(
        "paper",
        "what stood for two keys",
        stages="schedule/bound_constant",
        keyed={
            "paper": {},
            "separate": {"schedule.bound": "separate"},
            "many": {"schedule.bound": "separate", "schedule.clients": 5},
        },
    )
    new: float = parameter(0.5, "a new key", stages="train", ge=0, le=1)


class Before(Section):
    """The same, before."""

    horizon: int = parameter(20, "T", stages="channel train account audit", ge=1, le=1000)
    bound: Literal["paired", "separate"] = parameter("paired", "one", stages="schedule/bound_constant")
    clients: int = parameter(3, "two", stages="schedule/bound_constant", ge=1, le=10)


class Scheme(common.Scheme):
    """A scheme."""

    scheduler: Literal["bound_constant"] = parameter("bound_constant", "how")
    noise: Literal["constant"] = parameter("constant", "how much")


def test_a_renamed_a_folded_and_a_new_key_draw_the_same_noise():
    of_before, of_now = type("Schedule", (Before,), {"__doc__": "S"}), Schedule
    models = [
        common.scenario("age_aware", sections=[section], schemes=[Scheme(name="A")], draws="train")
        for section in (of_before, of_now)
    ]

    def digests(*schedules):
        for model, schedule in zip(models, schedules, strict=True):
            made = model.model_validate({"system": "age_aware", "seed": 3, "schedule": schedule})
            read = [plain(made.select_stage(stage, "bound_constant")) for stage in ("channel", "schedule", "train")]
            yield depended_on(made, made.schemes[0], read)

    same = [
        ({}, {}),
        ({"horizon": 7}, {"deployment": 7}),
        ({"bound": "separate"}, {"recipe": "separate"}),
        ({"bound": "separate", "clients": 5, "horizon": 9}, {"recipe": "many", "deployment": 9}),
    ]
    found = [tuple(digests(*each)) for each in same]
    for before, now in found:
        assert before == now
    assert len({str(before) for before, _ in found}) == len(same)
    (before, now) = digests({}, {"new": 0.7})
    assert before != now
    assert keyed_of(Schedule.model_fields["deployment"]) == "schedule.horizon"


# Files of the user's.
HEAD = "realization,station,user,gain"
ROWS = [(r, 0, u, 1e-9 * (u + 1) * (r + 1)) for r, u in itertools.product(range(3), range(4))]


def written(folder, name: str, rows=ROWS, end: str = "\n", head: str = HEAD) -> str:
    path = folder / name
    if name.endswith(".parquet"):
        pl.DataFrame(rows, schema=head.split(","), orient="row").write_parquet(path)
    else:
        path.write_bytes(
            "".join(f"{line}{end}" for line in [head, *(",".join(map(repr, row)) for row in rows)]).encode()
        )
    return str(path)


def of_links(path: str, users: str | None = None) -> dict[str, str]:
    paths = {"imported_links": path} | ({"imported_users": users} if users else {})
    return contents(Values({"data": {"dataset": "digits"}}), imported.run(paths), range(2))


def test_noise_depends_on_a_realizations_rows_and_not_on_how_they_are_written(tmp_path):
    before = of_links(written(tmp_path, "a.csv"))
    assert len(set(before.values())) == 2
    shuffled = [ROWS[k] for k in np.random.default_rng(1).permutation(len(ROWS))]
    for other in (
        written(tmp_path, "crlf.csv", end="\r\n"),
        written(tmp_path, "a.parquet"),
        written(tmp_path, "shuffled.csv", shuffled),
        written(tmp_path, "fewer.csv", [row for row in ROWS if row[0] < 2]),
    ):
        assert of_links(other) == before
    moved = [(r, s, u, g * (1 + 1e-12 * (r == 1 and u == 2))) for r, s, u, g in ROWS]
    other = of_links(written(tmp_path, "moved.csv", moved))
    assert other["0"] == before["0"]
    assert other["1"] != before["1"]
    users = [(r, u, 5 + (u == 1)) for r, u in itertools.product(range(3), range(4))]
    assert (
        of_links(written(tmp_path, "a.csv"), written(tmp_path, "u.csv", users, head="realization,user,samples"))
        != before
    )


def of_data(path, **data) -> dict[str, str]:
    values = Values({"data": {"dataset": "file"} | data})
    return contents(values, {"dataset": data_file.load(str(path), (0.0, 1.0))}, range(2))


def test_noise_depends_on_training_records_and_not_on_their_file(tmp_path):
    generator = np.random.default_rng(2)
    x, y = generator.random((60, 4)).astype(np.float32), np.arange(60) % 2
    users = [f"c{k % 5}" for k in range(60)]
    arrays = {
        "x_train": x[:50],
        "y_train": y[:50],
        "x_test": x[50:],
        "y_test": y[50:],
        "user_train": np.array(users[:50]),
    }

    def saved(name, **changes):
        np.savez(tmp_path / name, **arrays | changes)
        return of_data(tmp_path / name)

    before = saved("a.npz")
    assert len(set(before.values())) == 1
    split = ["train"] * 50 + ["test"] * 10
    pl.DataFrame({"x": x.tolist(), "y": y, "split": split, "user": users}).write_parquet(tmp_path / "a.parquet")
    assert of_data(tmp_path / "a.parquet") == before
    assert saved("wide.npz", x_train=x[:50].astype(np.float64)) == before
    assert saved("test.npz", x_test=x[:10]) == before
    one = x[:50].copy()
    one[7, 2] = 1 - one[7, 2]
    label = y[:50].copy()
    label[3] = 1 - label[3]
    for other in (
        saved("x.npz", x_train=one),
        saved("y.npz", y_train=label),
        saved("u.npz", user_train=np.array(users[1:51])),
    ):
        assert other != before
    # What is kept back trains nothing.
    last = x[:50].copy()
    last[-1] = 1 - last[-1]
    np.savez(tmp_path / "last.npz", **arrays | {"x_train": last})
    kept = [of_data(tmp_path / name, reserved=3) for name in ("a.npz", "last.npz")]
    assert kept[0] == kept[1] != before


def test_contents_draw_other_noise_and_a_realization_without_any_is_an_error():
    values = name_release(Values({"seed": 1}), "r")
    of_files = with_contents(values, {"0": "abc"})
    keys = {
        streams.key(*streams.name_noise(each, 0)) for each in (values, of_files, with_contents(values, {"0": "abd"}))
    }
    assert len(keys) == 3
    assert with_contents(values, {}) == values
    with pytest.raises(KeyError):
        streams.name_noise(of_files, 1)


def test_a_study_of_two_channels_from_files_has_two_releases(tmp_path):
    links = {
        name: {"channel": {"links": written(tmp_path, name, rows)}}
        for name, rows in (("a.csv", ROWS), ("b.csv", ROWS[:8]))
    }
    found = []
    for change in links.values():
        model = scenario("multicell", realizations=2, training_realizations=2, **change)
        found.append(plan.releases(plan.routes(model)))
    assert not set(found[0].values()) & set(found[1].values())
