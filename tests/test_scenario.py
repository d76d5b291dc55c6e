"""Scenarios: merging, resolution, clear errors, what each stage reads, generated documents."""

import ast
import copy
import json
import pickle
import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
import yaml
from pydantic import ValidationError

from conftest import ROOT
from pipeline import part
from pwfl import registry, scenario
from pwfl.learning import datasets
from pwfl.scenario import common, docs, resolved
from pwfl.scenario.fields import OWN, Section, parameter, parameters, stages_of, values_of, widened
from pwfl.scenario.values import UndeclaredError, Values, build_values, plain, replaced, with_others
from pwfl.stages import STAGES
from pwfl.store.imports import closure
from pwfl.systems.multicell import bounds
from pwfl.systems.multicell.parameters import Multicell
from pwfl.systems.multicell.recipes import RECIPES
from pwfl.systems.multicell.schemes import LIMITED, NOISES


def error_of(config) -> str:
    with pytest.raises(scenario.ScenarioError) as caught:
        scenario.load(config, "file.yaml")
    return str(caught.value)


def of_base(base) -> dict:
    return {"base": base, "scenarios": {"one": {}}}


def test_defaults_are_table_one():
    model = scenario.resolve({}, {})
    network, radio, privacy, training = model.network, model.radio, model.privacy, model.training
    assert (network.rings, network.users, network.cell_radius_m) == (1, 100, 500)
    assert (radio.frequency_hz, radio.bandwidth_hz, radio.noise_density_dbm_hz) == (2.45e9, 180e3, -174)
    assert (radio.max_power_dbm, radio.min_rate_bps, radio.resource_blocks) == (10, 100e3, 5)
    assert (privacy.max_noise_error, privacy.min_noise) == (12, 100)
    assert (training.rounds, training.learning_rate, training.clip_norm) == (200, 0.05, 10)


def test_what_parameters_repeat_of_modules_that_compute_is_the_same():
    # Parameters import no such module, as these import parameters.
    declared = {".".join(path): field for path, field in scenario.parameters(Multicell)}
    assert declared["training.rounds"].default == bounds.PAPER_ROUNDS
    assert declared["training.clip_norm"].default == bounds.PAPER_CLIP_NORM
    optimized = {f"noise/{scheme}" for scheme in ("optimal", "equal_sum", "equal_max", "fill_up")}
    assert stages_of(declared["privacy.min_noise"]) >= optimized
    assert set(Multicell.conditions["bounded"].noise) == set(LIMITED)
    assert tuple(NOISES) == get_args(
        get_args(Multicell.model_fields["schemes"].annotation)[0].model_fields["noise"].annotation
    )
    assert get_args(declared["training.recipe"].annotation) == tuple(RECIPES)


def test_a_section_can_be_declared_for_more_stages_than_others_of_its_kind():
    more = widened(common.DataSource, alpha="channel audit")
    assert stages_of(more.model_fields["alpha"]) == {"train", "channel", "audit"}
    assert stages_of(common.DataSource.model_fields["alpha"]) == {"train"}
    assert list(more.model_fields) == list(common.DataSource.model_fields)
    assert more(alpha=2.0).alpha == 2.0
    with pytest.raises(ValueError, match="alpha"):
        more(alpha=-1.0)


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_parameters_are_declarations(system):
    package = registry.system(system).package
    declared = f"{package}.parameters"
    folder = package.replace(".", "/")
    found = {name: path for name, path in closure(declared).items() if name.startswith(folder)}
    tables = {f"{folder}/recipes.py", f"{folder}/schemes.py"}  # what values of parameters stand for
    assert found.keys() - tables == {f"{folder}/__init__.py", f"{folder}/parameters.py"}
    for path in found.values():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def test_overrides_merge_mappings_and_replace_the_rest():
    base = {"network": {"users": 20, "rings": 0}, "training": {"hidden_layers": [5, 5]}}
    model = scenario.resolve(base, {"network": {"users": 30}, "training": {"hidden_layers": [7]}})
    assert (model.network.users, model.network.rings, model.training.hidden_layers) == (30, 0, [7])


def test_a_number_means_the_same_however_it_is_written_in_lists_of_lists_too():
    for gamma in (1000000, 1e6, "1e6", "1000000"):
        assert scenario.resolve({"schedule": {"gamma": gamma}}, {}).schedule.gamma == 1e6
    chain = {"name": "c", "matrix": [["0.5", "0.5"], ["1", 0]], "samples": "5"}  # as Snakemake takes --config's values
    clients = {"states_wh": ["1", 2], "chains": [chain], "number": "1"}
    model = scenario.resolve({"system": "age_aware", "clients": clients}, {})
    assert model.clients.chains[0].matrix == [[0.5, 0.5], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ({"radio": {"resource_block": 3}}, "base.radio.resource_block: unknown key; did you mean 'resource_blocks'?"),
        ({"radios": {}}, "base.radios: unknown key; did you mean 'radio'?"),
        ({"network": {"antennas": 64}}, "base.network.antennas: unknown key of multicell; did you mean 'radio.antennas' with `air: antennas`, or `system: random_orthogonalization`, which has it?"),
        ({"rounds": 3}, "base.rounds: unknown key of multicell; did you mean 'training.rounds'?"),
        ({"network": {"devices": 3}}, "did you mean `system: anonymous_oac or utility_fair`, which have it?"),
        ({"data": {"samples": 3}}, "did you mean 'samples_total', or `system: anonymous_oac`, which has it?"),
        ({"sweep": {"network.antennas": [64]}}, "base.sweep: network.antennas: unknown key of multicell; did you mean 'radio.antennas' with"),
        ({"data": {"sha256": "x"}}, "base.data.sha256: 'x' is wrong: must be a SHA-256: 64 digits"),
        ({"own": {"noise": {"1a": 2}}}, "own.noise.1a: '1a' is wrong: must be a name: letters, digits and _"),
        ({"training": {"hidden_layers": 256}}, "base.training.hidden_layers: 256 is wrong: must be a list, as in [256]"),
        ({"training": {"hidden_layers": "many"}}, "base.training.hidden_layers: 'many' is wrong: must be a list"),
        ({"schemes": [{"nam": "a", "scheduler": "random", "noise": "random"}]}, "base.schemes[1st].nam: unknown key; did you mean 'name'?"),
        ({"radio": {"resource_blocks": 2.5}}, "base.radio.resource_blocks: 2.5 is wrong: must be a whole number"),
        ({"schedule": {"gamma": "much"}}, "base.schedule.gamma: 'much' is wrong: must be a number"),
        ({"realizations": True}, "base.realizations: True is wrong"),
        ({"network": 3}, "base.network: 3 is wrong"),
        ({"network": {"users": 0}}, "base.network.users: 0 is below the minimum, 1"),
        ({"privacy": {"delta": 1.0}}, "base.privacy.delta: 1.0 is wrong: must be below 1"),
        ({"schedule": {"gamma": float("nan")}}, "base.schedule.gamma: nan is wrong: must be a finite number"),
        ({"data": {"dataset": "cifar"}}, "base.data.dataset: 'cifar' is wrong: must be 'digits', 'mnist', "),
        ({"system": "multicel"}, "base.system: there is no system 'multicel'; did you mean 'multicell'?"),
        ({"training_realizations": 900}, "base.training_realizations: 900 is more than realizations: 100"),
        ({"data": {"samples_total": 70000}}, "base.data.samples_total: 100 users would hold at least 70000 samples, but mnist has 60000"),
        ({"network": {"users": 5000}}, "samples_offset: 5000 users would hold at least 250000 samples, but mnist has 60000"),
        ({"privacy": {"min_noise": 5000.0}}, "base.privacy.min_noise: 5000 gives start values that cannot satisfy the constraint (21) of the paper"),
        ({"radio": {"min_rate_bps": 1e9}}, "base.radio.min_rate_bps: 1e+09 exceeds 3.6e+06, 20 bit/s per Hz"),
        ({"data": {"samples_total": 99}}, "base.data.samples_total: 99 is less than network.users: 100"),
        ({"schemes": []}, "base.schemes: [] is wrong: must have at least 1 value"),
        ({"schemes": [{"name": n, "scheduler": "random", "noise": "random"} for n in "ab"]}, "random + random appears twice"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_place_and_what_would_be_right(base, expected):
    message = error_of(of_base(base))
    assert message.startswith("file.yaml:")
    assert expected in message


def choices(model) -> dict[str, tuple[tuple[str, ...], bool]]:
    """By key, the choices of every parameter that has some, and whether it may name a function, too."""
    (scheme,) = get_args(model.model_fields["schemes"].annotation)
    fields = {".".join(path): field for path, field in scenario.parameters(model)}
    fields |= {f"schemes.0.{key}": field for key, field in scheme.model_fields.items()}
    kinds = {key: field for key, field in fields.items() if get_origin(field.annotation) is Literal and key != "system"}
    return {key: (get_args(field.annotation), OWN in field.metadata) for key, field in kinds.items()}


def test_functions_may_stand_for_schedulers_noise_and_models_and_nothing_else():
    found = [
        (name, key)
        for name in registry.BUILT_IN
        for key, (_, own) in choices(registry.system(name).model).items()
        if own
    ]
    assert found == [
        ("multicell", "radio.air"), ("multicell", "training.model"),
        ("multicell", "schemes.0.scheduler"), ("multicell", "schemes.0.noise"),
        ("anonymous_oac", "training.model"), ("anonymous_oac", "schemes.0.scheduler"),
        ("anonymous_oac", "schemes.0.noise"),
        ("random_orthogonalization", "training.model"), ("random_orthogonalization", "schemes.0.scheduler"),
        ("random_orthogonalization", "schemes.0.noise"),
        ("utility_fair", "training.model"), ("utility_fair", "schemes.0.scheduler"),
        ("utility_fair", "schemes.0.noise"),
        ("age_aware", "schemes.0.scheduler"), ("age_aware", "schemes.0.noise"),
    ]  # fmt: skip


@pytest.mark.parametrize("system", registry.BUILT_IN)
def test_a_misspelled_choice_is_answered_with_the_nearest_one_and_with_functions_where_there_may_be_any(system):
    model = registry.system(system).model
    for key, (known, own) in choices(model).items():
        for choice in known:
            wrong = f"{choice}_"
            *sections, last = key.split(".")
            base = {"schemes": [model.model_fields["schemes"].default[0].model_dump() | {last: wrong}]}
            base = base if sections[:1] == ["schemes"] else {sections[0]: {last: wrong}}
            message = error_of(of_base({"system": system} | base))
            place = key.replace("schemes.0", f"schemes[{base['schemes'][0]['name']}]") if "schemes" in base else key
            assert message.startswith(f"file.yaml: base.{place}: {wrong!r} is wrong: must be '{known[0]}'")
            assert message.endswith(f"; did you mean {choice!r}?")
            assert (", or a user-defined function, FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION;" in message) == own


def test_a_scheme_is_called_by_its_name_or_counted_from_one_and_blamed_on_who_lists_it():
    def said(*schemes: dict, **more) -> str:
        kinds = {"scheduler": "random", "noise": "random"}
        return error_of(of_base({"schemes": [kinds | scheme for scheme in schemes]}) | more)

    right, wrong = {"name": "v1.2 (a)"}, {"name": "OptSched", "noise": "x"}
    assert said(right, wrong).startswith("file.yaml: base.schemes[OptSched].noise: 'x' is wrong")
    assert said(wrong | {"name": "v1.2 (b)"}, right).startswith("file.yaml: base.schemes[v1.2 (b)].noise: 'x'")
    for name in ("M: 1", "OptSched"):  # not told apart from the rest of a message, or from another scheme
        assert said({"name": "OptSched"}, wrong | {"name": name}).startswith("file.yaml: base.schemes[2nd].noise: 'x'")
    schemes = {"schemes": [{"name": "B", "scheduler": "x", "noise": "none"}]}
    assert said(right, scenarios={"a": schemes}).startswith("file.yaml: scenarios.a.schemes[B].scheduler: 'x' is wrong")
    assert error_of(of_base({"training": {"hidden_layers": [4, 0]}})).startswith(
        "file.yaml: base.training.hidden_layers[2nd]: 0 is below the minimum"
    )


def test_all_mistakes_are_reported_at_once_and_blamed_on_their_scenario():
    message = error_of({"scenarios": {"a": {"seed": -1}, "b": {"radio": {"resource_blocks": 0}}}, "run": ["c"]})
    starts = (
        "scenarios.a.seed: -1 is below the minimum",
        "scenarios.b.radio.resource_blocks: 0",
        "run: there is no scenario 'c'",
    )
    for line, start in zip(message.splitlines()[1:], starts, strict=True):
        assert line.startswith(f"  {start}")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, "scenarios: must name at least one scenario"),
        ({"scenarios": {"a": {}}, "bases": {}}, "bases: unknown key; did you mean 'base'?"),
        ({"scenarios": {"a": {}}, "run": "a"}, "run: must be a list of scenario names, is 'a'"),
        ({"scenarios": {"a/b": {}}}, "scenarios: 'a/b' is not a valid name"),
        ({"scenarios": {"comparison": {}}}, "scenarios: 'comparison' is reserved for the folder of comparisons"),
        ({"scenarios": {"a": 3}}, "scenarios.a: must be a mapping of parameters, is 3"),
        ({"scenarios": {"a": {}}, "base": []}, "base: must be a mapping of parameters, is []"),
    ],
)
def test_mistakes_at_the_top_level(config, expected):
    assert expected in error_of(config)


def test_only_the_scenarios_to_run_are_kept():
    study = scenario.load({"scenarios": {"a": {}, "b": {}}, "run": ["b"]}, "file.yaml")
    assert list(study.scenarios) == ["b"]
    with pytest.raises(scenario.ScenarioError, match="there is no scenario 'c'; known: b"):
        study.scenario("c")


def test_glpk_that_is_not_installed_is_named_with_the_extra_before_any_work(monkeypatch):
    study = scenario.load(of_base({"schedule": {"solver": "GLPK_MI"}}), "file.yaml")
    scenario.check_surroundings(study)
    monkeypatch.setitem(sys.modules, "cvxopt", None)
    with pytest.raises(scenario.ScenarioError, match=r"file.yaml: .*schedule.solver: .*install .* extra `glpk`"):
        scenario.check_surroundings(study)
    for solver in ("assignment", "HIGHS"):
        scenario.check_surroundings(scenario.load(of_base({"schedule": {"solver": solver}}), "file.yaml"))


def test_a_missing_data_folder_is_found_before_any_work(tmp_path):
    study = scenario.load(of_base({"data": {"folder": str(tmp_path / "nowhere")}}), "file.yaml")
    with pytest.raises(scenario.ScenarioError, match=r"file.yaml: .*data.folder: .*nowhere: folder not found"):
        scenario.check_surroundings(study)


def test_stages_get_only_what_they_are_declared_to_read():
    model = scenario.resolve({}, {})
    optimal, random = part(model, "schedule", "optimal"), part(model, "schedule", "random")
    assert (optimal.schedule.gamma, optimal.schedule.solver) == (1e6, "assignment")
    for read in (lambda: random.schedule, lambda: optimal.realizations, lambda: optimal.privacy.delta):
        with pytest.raises(UndeclaredError, match=r"this stage is not declared to read this parameter"):
            read()
    with pytest.raises(UndeclaredError, match=r"^schedule\.gama: "):
        _ = optimal.schedule.gama
    with pytest.raises(UndeclaredError, match=r"^schedule\.gama: "):
        _ = pickle.loads(pickle.dumps(optimal)).schedule.gama
    with pytest.raises(ValidationError, match="frozen"):
        optimal.schedule.gamma = 3.0


@pytest.mark.parametrize("system", registry.systems())
def test_a_stage_gets_objects_of_its_annotations_and_plain_values_that_are_no_lists(system):
    held = [scenario.resolve({"system": system}, {}).part(None)]
    for value in held:  # and what is in it
        if isinstance(value, Section):
            assert type(value).__module__ in (f"{registry.system(system).package}.parameters", common.__name__)
            assert vars(value).keys() <= type(value).model_fields.keys()
        held += vars(value).values() if isinstance(value, Section) else value if isinstance(value, tuple) else ()
    kinds = {type(value) for value in held if not isinstance(value, Section)}
    assert kinds <= {tuple, str, int, float, bool, type(None), Values}
    assert type(held[0]) is registry.system(system).model
    assert [value for value in held if isinstance(value, Values)] in ([], [Values({})] * 2)  # own.schedule, own.noise


def test_parts_of_equal_parameters_are_equal_and_keys_of_a_cache():
    model, other = (scenario.resolve({"network": {"users": users}}, {}) for users in (17, 18))
    one, again, unlike = (each.select_stage("channel") for each in (model, model, other))
    assert one == again != unlike
    assert hash(one) == hash(again)
    assert {one: 1, unlike: 2}[again] == 1
    assert one != model.select_stage("train")
    assert repr(one) == repr(again) != repr(unlike)
    assert repr(with_others(one, point=1)) != repr(with_others(one, point=2)) != repr(one)
    assert copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one


STAGE = """
from pwfl.systems.multicell.parameters import Multicell

def run(scenario: Multicell) -> float:
"""


@pytest.mark.skipif(not (TY := Path(sys.executable).with_name("ty")).exists(), reason="ty is not installed")
@pytest.mark.parametrize(
    ("mistake", "expected"),
    [
        ("return scenario.radio.resource_block", "`Radio` has no attribute `resource_block`"),
        ("return scenario.radios.bandwidth_hz", "`Multicell` has no attribute `radios`"),
        ("return scenario.radio.air", "expected `float`, found `str`"),
        ("return scenario.privacy.target_epsilon + 1", "Has type `float | None`"),
        ("return scenario.training.hidden_layers.append(3)", "`Sequence[int]` has no attribute `append`"),
        ("return scenario.radio.bandwidth_hz", ""),
    ],
)
def test_a_type_checker_finds_a_stages_mistakes_about_its_parameters(tmp_path, mistake, expected):
    (tmp_path / "schedule.py").write_text(f"{STAGE}    {mistake}\n", encoding="utf-8")
    found = subprocess.run(
        [TY, "check", "--project", ROOT, tmp_path / "schedule.py"], capture_output=True, text=True, check=False
    )
    assert expected in found.stdout
    assert (found.returncode == 0) == (not expected), found.stdout


def test_replaced_values_are_others():
    values = Values({"seed": 1, "network": {"users": 3}, "widths": [4, 5]})
    assert values == Values(plain(values))
    assert values.widths == (4, 5)
    other = replaced(values, "network.users", 2)
    assert (other.network.users, values.network.users, other.seed) == (2, 3, 1)
    assert other != values
    with pytest.raises(UndeclaredError, match=r"^network\.user: "):
        replaced(values, "network.user", 2)
    part_of = scenario.resolve({}, {}).select_stage("channel")
    fewer, own = replaced(part_of, "network.users", 2), replaced(part_of.network, "users", 2)
    assert type(fewer) is Multicell
    assert (fewer.network, fewer.radio) == (own, part_of.radio)
    with pytest.raises(UndeclaredError, match=r"^network\.user: "):
        replaced(own, "user", 2)


def test_a_stage_reads_no_parameter_that_another_one_makes_idle_for_it():
    def rounds(stage, variant=None, **changes):
        return hasattr(getattr(part(scenario.resolve(changes, {}), stage, variant), "training", None), "rounds")

    multiplier = {"privacy": {"bounds": "multiplier", "target_epsilon": 4.0}}
    assert not rounds("channel")
    assert rounds("channel", radio={"coherence_rounds": 2})
    assert not rounds("noise", "optimal")
    assert rounds("noise", "optimal", **multiplier)
    assert rounds("noise", "target", privacy={"target_epsilon": 4.0})


def test_a_stage_reads_no_parameter_that_no_scheme_uses_and_knows_that():
    def start(*pairs):
        schemes = [{"name": f"{k}", "scheduler": s, "noise": n} for k, (s, n) in enumerate(pairs)]
        values = scenario.resolve({"schemes": schemes, "privacy": {"target_epsilon": 4.0}}, {}).select_stage(
            "schedule", "random"
        )
        privacy = getattr(values, "privacy", None)
        return values.bounded, values.start_noise, hasattr(privacy, "max_noise_error"), hasattr(privacy, "min_noise")

    free, own = ("random", "target"), ("mine.py:schedule", "none")
    assert start(free) == start(free, ("joint_snr", "none")) == (False, False, False, False)
    assert start(own) == start(free, own) == (False, True, False, True)
    assert start(own, ("optimal", "target")) == start(free, ("random", "random")) == (True, True, True, True)


class Radio(Section):
    power: float = parameter(1.0, "power", stages="schedule", unless={"schedule": ("other.mode", "off")}, ge=0)
    mode: str = parameter("on", "mode", stages="channel")


class Network(Section):
    power: float = parameter(1.0, "power", stages="channel", unless={"schedule": ("bounded", False)}, ge=0)


class Training(Section):
    features: str = parameter("pixels", "what users train on", stages="account")


@pytest.mark.parametrize(
    ("key", "kind", "default", "expected"),
    [
        ("other", Radio, Radio(), r"other\.power .* other\.mode .* must be declared to read both"),
        ("other", Network, Network(), r"other\.power .* by schedule unless bounded .* must be declared to read both"),
        ("training", Training, Training(), r"training\.features must be declared to be read by train"),
        ("realizations", int, parameter(1, "n"), "realizations must be declared to be read by audit, report"),
        ("width", int, parameter(1, "n", stages="chanel"), "width is declared to be read by chanel; known:"),
        ("width", int, parameter(1, "n", stages="schedule/optmal"), "read by schedule/optmal; known:"),
        ("width", int, parameter(1, "n", stages="train/optimal"), "read by train/optimal; known:"),
    ],
)
def test_a_declaration_that_no_stage_can_follow_is_refused(key, kind, default, expected):
    with pytest.raises(TypeError, match=expected):
        type("Other", (Multicell,), {"__annotations__": {key: kind}, key: default, "__module__": __name__})


@pytest.mark.parametrize("system", registry.systems())
def test_a_part_of_a_scenario_is_the_same_after_a_way_through_text(system):
    model = scenario.resolve({"system": system}, {})
    for stage, variant in product((*STAGES, "report"), ("optimal", "random", None)):
        own = part(model, stage, variant)
        again = build_values(yaml.safe_load(yaml.safe_dump(plain(own), sort_keys=False)))
        assert (again, plain(again), own.system) == (own, plain(own), system)


def test_a_saved_scenario_resolves_to_itself(tmp_path):
    model = scenario.resolve({"network": {"users": 17}, "schedule": {"gamma": 3e5}}, {})
    resolved.save(model.model_dump(), str(tmp_path / "scenario.yaml"))
    assert scenario.resolve(yaml.safe_load((tmp_path / "scenario.yaml").read_text()), {}) == model


def test_the_parameter_table_holds_every_parameter():
    table = resolved.parameter_table(scenario.resolve({"data": {"folder": "./=1+1"}}, {}).model_dump())
    assert len(table) == len(list(scenario.parameters(Multicell)))
    values = {name: others for name, *others in table.rows()}
    assert values["radio.bandwidth_hz"] == ["180000.0", "Hz", "bandwidth B of a resource block"]
    assert values["data.folder"][0] == "./=1+1"
    assert [value for value, *_ in values.values() if value.startswith("-")] == [
        "-174.0",
        "-115.0",
    ]  # numbers, no formula


def test_the_reference_folds_away_what_no_study_sets(tmp_path):
    (tmp_path / "a.yaml").write_text(
        "base: {network: {rings: 2}}\nscenarios: {one: {sweep: {radio.max_power_dbm: [1]}}}\n"
    )
    studied = docs.studied_keys(tmp_path)
    assert studied == {"network.rings", "radio.max_power_dbm"}
    shown = re.sub(r"<details>.*?</details>", "", docs.pages(studied)["multicell.md"], flags=re.DOTALL)
    for key, folded in (("rings", False), ("max_power_dbm", False), ("frequency_hz", True), ("cell_radius_m", True)):
        assert (f"| `{key}` |" in shown) is not folded
        assert f"| `{key}` |" in docs.pages(studied)["multicell.md"]


def test_generated_documents_are_up_to_date():
    for name, text in docs.pages(docs.studied_keys(ROOT / "config")).items():
        assert (ROOT / "config" / name).read_text(encoding="utf-8") == text, "run `make docs`"
    assert json.loads((ROOT / "config" / "schema.json").read_text(encoding="utf-8")) == docs.schema(), "run `make docs`"


# Delta, of which 1 / n allows to publish a record of n.

FEW_USERS = {  # a scenario of each system with delta, on 1437 records
    "multicell": {"network": {"users": 5}, "data": {"dataset": "digits"}},
    "anonymous_oac": {"network": {"devices": 4}, "data": {"dataset": "digits", "samples": 20}},
    "random_orthogonalization": {"network": {"users": 4}, "data": {"dataset": "digits", "samples_per_user": 100}},
    "utility_fair": {"network": {"devices": 4}, "data": {"dataset": "digits", "samples_per_device": 200}},
}


@pytest.mark.parametrize("system", FEW_USERS)
@pytest.mark.parametrize(
    ("delta", "held", "warned"),
    [(0.5, None, True), (1 / 1437, None, True), (0.999 / 1437, None, False), (0.999 / 1437, 400, False), (1 / 1037, 400, True)],
)  # fmt: skip
def test_a_delta_that_protects_no_record_is_warned_of(system, delta, held, warned):
    data = FEW_USERS[system]["data"] | {"reserved": held}
    base = FEW_USERS[system] | {"system": system, "data": data, "privacy": {"delta": delta}}
    found = [
        line for line in scenario.load({"base": base, "scenarios": {"one": {}}}, "a test").warnings if "delta" in line
    ]
    count = 1437 - (held or 0)
    expected = f"scenarios.one: privacy.delta: {delta:g} is no protection: digits has {count:,} training records"
    assert bool(found) == warned
    assert all(line.startswith(expected) for line in found)


def test_each_point_of_a_sweep_has_its_delta_and_the_default_is_small_enough_for_every_data_set():
    base = {"sweep": {"privacy.delta": [1e-6, 1e-5, 1e-4]}}
    (line,) = scenario.load({"base": base, "scenarios": {"one": {}}}, "a test").warnings
    assert line.startswith("scenarios.one,delta=0.0001: privacy.delta: 0.0001 is no protection: mnist has 60,000")
    assert line.endswith("such as 2e-06")
    assert max(size.train for size in datasets.SIZES.values()) < 1e5


def test_canaries_that_take_long_are_warned_of_with_their_seconds():
    def warnings(system: str, **audit) -> tuple[str, ...]:
        return scenario.load({"base": {"system": system, **audit}, "scenarios": {"a": {}}}, "file.yaml").warnings

    for system in registry.BUILT_IN:
        assert warnings(system) == ()
        assert warnings(system, audit={"canaries": 20_000}) == ()
    for system, least, most in (("age_aware", 30, 300), ("anonymous_oac", 100, 3000)):
        (line,) = warnings(system, audit={"canaries": 1_000_000})
        found = re.fullmatch(r"scenarios.a: audit.canaries: 1000000 take about ([\d,]+) seconds per scheme, .*", line)
        assert least < float(found[1].replace(",", "")) < most


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_every_choice_says_what_each_value_means_and_the_reference_has_a_row_for_it(name):
    model = registry.system(name).model
    (scheme,) = get_args(model.model_fields["schemes"].annotation)
    text = "".join(docs.pages(set()).values())
    fields_ = [(".".join(path), field) for path, field in parameters(model) if path != ("system",)]
    for key, field in [*fields_, *scheme.model_fields.items()]:
        choices = set(get_args(field.annotation)) if get_origin(field.annotation) is Literal else set()
        said = values_of(field)
        assert said.keys() - {"FILE.py:FUNCTION"} == choices, key
        assert ("FILE.py:FUNCTION" in said) == (OWN in field.metadata), key
        for value, meaning in said.items():
            assert f"| `{value}`: {meaning} |" in text, key
