"""An epsilon and its label are one value: labels follow the formula, the observer's view, and what is assumed."""

import ast
import math
from functools import partial
from itertools import permutations, product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

import stage_of
from pipeline import part
from pwfl.airs import antennas, broadband, majority, superposed
from pwfl.privacy import accountant, discrete, gaussian, labels, sampled, users, visibility
from pwfl.privacy.accountant import ALL, USERS, Account, Claim, Gaussian
from pwfl.privacy.labels import Kind, gives
from pwfl.scenario import ScenarioError
from pwfl.systems.age_aware import age
from pwfl.systems.multicell.beyond import integers
from pwfl.testing import signals
from test_equal_privacy import aim, tables
from test_sums import scenario, stages

PACKAGE = Path(accountant.__file__).parents[1]
KINDS = ("epsilon_kind", "epsilon_user_kind", "epsilon_server_kind")
BITS = {"hidden_layers": [], "bits": 16}


def kinds(outcome: pl.DataFrame) -> set[str]:
    sent = outcome.filter(pl.col("epsilon").is_not_null())
    return set(sent.select(pl.concat_list(KINDS).explode()).to_series())


def of_multicell(privacy: dict, **changes) -> pl.DataFrame:
    schemes = [{"name": "n", "scheduler": "random", "noise": "target"}]
    return stages(scenario({"target_epsilon": 4.0} | privacy, schemes=schemes, **changes), noise="target")["outcome"]


GAUSSIAN = {  # whose rounds are Gaussian mechanisms
    "multicell": lambda: of_multicell({}),
    "sums": lambda: of_multicell({"observer": "network"}),
    "random_orthogonalization": lambda: tables("random_orthogonalization", "all", "fixed", aim(4.0))["outcome"],
}


@pytest.mark.parametrize("system", ["multicell", "sums", "random_orthogonalization"])
@pytest.mark.parametrize(
    ("formula", "kind"),
    [("tight_epsilon", "upper bound"), ("classic_epsilon", "upper bound"), ("textbook", "not proved")],
)
def test_another_accountant_in_its_place_changes_every_label(monkeypatch, system, formula, kind):
    assert kinds(GAUSSIAN[system]()) == {"exact"}
    textbook = gives(Kind.UNPROVED)(lambda rho, delta: gaussian.textbook_epsilon(np.sqrt(2 * rho), delta))
    other = textbook if formula == "textbook" else getattr(gaussian, formula)
    monkeypatch.setattr(accountant, "exact_epsilon", other)
    outcome = GAUSSIAN[system]()
    assert kinds(outcome) == {kind}
    assert outcome["epsilon"].is_between(3.999, 4.001).all()  # noise and account have one accountant
    assert (outcome["guarantee"] == "none").all() == (kind == "not proved")


def test_utility_fair_s_labels_follow_the_accountant_too(monkeypatch):
    def outcome() -> pl.DataFrame:
        return tables("utility_fair", "utility", "fair", {"training": {"rounds": 12}})["outcome"]

    assert set(outcome()["epsilon_kind"]) == {"exact"}
    monkeypatch.setattr(accountant, "exact_epsilon", gaussian.tight_epsilon)
    assert set(outcome()["epsilon_kind"]) == {"upper bound"}


@pytest.mark.parametrize(
    ("fault", "kind", "user"),
    [
        (lambda m: m.setitem(sampled.PAIRS, "proved", sampled.PAIRS["tight"]), "not proved", "upper bound"),
        (
            lambda m: m.setattr(users, "epsilon", gives(Kind.UNPROVED)(partial(users.epsilon))),
            "upper bound",
            "not proved",
        ),
    ],
    ids=["a record's", "a user's"],
)
def test_sampled_rounds_take_their_labels_from_what_bounds_them(monkeypatch, fault, kind, user):
    def outcome() -> pl.DataFrame:
        return of_multicell({}, data={"sampling": 0.5})

    assert set(outcome().select(KINDS[:2]).rows()) == {("upper bound", "upper bound")}
    fault(monkeypatch)
    assert set(outcome().select(KINDS[:2]).rows()) == {(kind, user)}


def test_integers_take_their_labels_from_what_bounds_them(monkeypatch):
    def outcome() -> pl.DataFrame:
        return stages(scenario({"observer": "network"}, training=BITS))["outcome"]

    assert kinds(outcome()) == {"upper bound"}
    right = discrete.epsilon
    monkeypatch.setattr(discrete, "epsilon", gives(Kind.UNPROVED)(partial(right)))
    assert kinds(outcome()) == {"not proved"}


@pytest.mark.parametrize(("scheme", "expected"), [("identified_fixed", "upper bound"), ("identified", "not proved")])
def test_anonymous_oac_s_labels_follow_the_accountant_too(monkeypatch, scheme, expected):
    few = {"training": {"rounds": 6}, "privacy": {"curve_rates": [0.5], "estimate_scales": [1.0]}}

    def outcome() -> pl.DataFrame:
        return tables("anonymous_oac", "over_the_air", scheme, few)["outcome"]

    assert set(outcome()["epsilon_kind"]) == {expected}
    monkeypatch.setitem(sampled.PAIRS, "proved", sampled.PAIRS["tight"])
    assert set(outcome()["epsilon_kind"]) == {"not proved"}


RECORD_NOW, USER_NOW, RECORD_BEFORE, USER_BEFORE = product(("record at T", "record as collected"), ("record", "user"))
OF_AGE = {  # what is made of each formula of `age_aware`
    "exact_epsilons": {RECORD_NOW, USER_NOW},
    "epsilon_in_turn": {USER_NOW},
    "laplace_scale": {RECORD_BEFORE, USER_BEFORE},
    "epsilon_together": {USER_BEFORE},
}


@pytest.mark.parametrize("formula", OF_AGE)
def test_age_aware_s_labels_follow_its_formulas(monkeypatch, formula):
    from test_age_aware import TINY, stage_tables

    def found() -> dict[tuple, str]:
        rows = stage_tables(TINY, "random", "adaptive")[0]["guarantees"]
        return {
            (observer, unit): kind for observer, unit, kind in rows.select("observer", "unit", "epsilon_kind").rows()
        }

    before = found()
    assert before == {RECORD_NOW: "exact", USER_NOW: "upper bound", RECORD_BEFORE: "exact", USER_BEFORE: "exact"}
    monkeypatch.setattr(age, formula, gives(Kind.UNPROVED)(partial(getattr(age, formula))))
    assert found() == before | dict.fromkeys(OF_AGE[formula], "not proved")


# Each accountant of the core is replaced by another in turn. Where studies state what comes of it, a test above says so.

LAW, ALWAYS = sampled.Rates(np.array([0.3]), np.ones(1)), sampled.Rates(np.ones(1), np.ones(1))
SEEN = accountant.Losses(np.full((1, 1, 1), 0.5), np.array([10]))


def of_batches(law, method="proved") -> tuple:
    """epsilon and kind of one user's rounds on batches."""
    epsilon, kind = sampled.Batches(law, method, interval=sampled.COARSE).worth(SEEN, Claim("a"), 1e-5)
    return epsilon.item(), Kind(kind.item())


def of_messages(sizes, participation=1.0) -> tuple:
    """epsilon and kind of all records of a user, whose messages are of some sizes."""
    law = users.Messages(np.array(sizes), np.full(len(sizes), 1 / len(sizes)), participation, 1.0)
    epsilon, kind = users.worth(law, 8.0, 10, 1e-5)
    return float(epsilon), kind


def of_gaussian() -> tuple:
    epsilon, kind = Gaussian().worth(SEEN, Claim("a"), 1e-5)
    return epsilon.item(), kind


def of_integers() -> tuple:
    rounds = integers.Integers(lambda observer, unit, knows: 0.2 * integers.ORDERS[knows][None, None])
    epsilon, kind = rounds.worth(SEEN._replace(mu=SEEN.mu / 10), Claim("a"), 1e-5)
    return epsilon.item(), kind


CONVERTED = {  # formulas of rho
    "tight": gaussian.tight_epsilon,
    "classic": gaussian.classic_epsilon,
    "textbook": gives(Kind.UNPROVED)(lambda rho, delta: gaussian.textbook_epsilon(np.sqrt(2 * rho), delta)),
}
LOOSE = {"not proved": Kind.UNPROVED, "lower bound": Kind.LOWER}  # of formulas of one law, which have no other


def looser(formula, kind):
    """A formula of another kind that says a little more."""
    return gives(kind)(lambda *given: formula(*given) * 1.01)


# The call of `labeled`, or the pair, by module: of what rounds it is, and by what it is replaced.
ACCOUNTANTS = {
    "accountant: exact_epsilon": (of_gaussian, accountant, "exact_epsilon", CONVERTED),
    "sampled: exact_epsilon": (partial(of_batches, ALWAYS), sampled, "exact_epsilon", CONVERTED),
    "users: exact_epsilon": (partial(of_messages, [4]), users, "exact_epsilon", CONVERTED),
    "users: epsilon": (
        partial(of_messages, [3, 4], 0.5),
        users,
        "epsilon",
        {name: looser(users.epsilon, kind) for name, kind in LOOSE.items()},
    ),
    "integers: discrete.epsilon": (
        of_integers,
        discrete,
        "epsilon",
        {name: looser(discrete.epsilon, kind) for name, kind in LOOSE.items()},
    ),
}
SWAPS = [(name, other) for name, (*_, others) in ACCOUNTANTS.items() for other in others]


@pytest.mark.parametrize(("name", "other"), SWAPS, ids=map(": ".join, SWAPS))
def test_each_accountant_replaced_by_another_states_the_others_value_and_kind(monkeypatch, name, other):
    rounds, module, formula, others = ACCOUNTANTS[name]
    before, kind = rounds()
    assert kind == getattr(module, formula).kind
    monkeypatch.setattr(module, formula, others[other])
    after, kind = rounds()
    # A Gaussian mechanism is the least that integers are worth: their label has its formula's kind, too.
    assert kind == others[other].kind
    assert after > before * 1.005


@pytest.mark.parametrize(("method", "other"), list(permutations(sampled.PAIRS, 2)))
def test_each_pair_replaced_by_another_states_the_others_value_and_kind(monkeypatch, method, other):
    before, expected = of_batches(LAW, method), of_batches(LAW, other)
    assert before[1] == sampled.PAIRS[method].kind
    monkeypatch.setitem(sampled.PAIRS, method, sampled.PAIRS[other])
    assert of_batches(LAW, method) == expected != before
    assert expected[1] == sampled.PAIRS[other].kind


def labeled_calls() -> set[str]:
    """The formulas that are called for their label, by module."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        if "labeled(" in (source := path.read_text(encoding="utf-8")):
            for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
                if ast.unparse(call.func) in ("labeled", "labels.labeled"):
                    found.add(f"{path.stem}: {ast.unparse(call.args[0])}")
    return found


def test_no_accountant_is_used_that_is_not_replaced_above():
    in_studies = {f"account: age.{formula}" for formula in OF_AGE}
    assert labeled_calls() - in_studies == set(ACCOUNTANTS)


# Formulas are called for their label


def formulas() -> set[str]:
    """The names of all formulas that carry a kind."""
    modules = (gaussian, sampled, users, discrete)
    return {
        name for module in modules for name, value in vars(module).items() if hasattr(value, "kind") and callable(value)
    }


def bare_calls(source: str) -> list[str]:
    """The formulas that a mechanism's `worth` calls without taking their kind."""
    found = []
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef) and function.name in ("worth", "epsilon", "users_epsilons"):
            for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
                name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                of = ast.unparse(call.func)
                if name in formulas() and of not in ("self.epsilon",):
                    found.append(of)
    return found


def test_accountants_call_no_formula_without_its_kind():
    assert {"exact_epsilon", "tight_epsilon", "epsilon"} <= formulas()
    mechanisms = [path for path in PACKAGE.rglob("*.py") if "def worth(self" in path.read_text(encoding="utf-8")]
    assert len(mechanisms) >= 5
    for path in mechanisms:
        assert bare_calls(path.read_text(encoding="utf-8")) == [], path
    assert bare_calls("def worth(rho):\n    return exact_epsilon(rho), Kind.EXACT") == ["exact_epsilon"]


def test_no_system_writes_a_label():
    written = (*labels.KINDS, labels.CONDITIONAL)
    for path in PACKAGE.glob("systems/*/account.py"):
        constants = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        assert constants.isdisjoint(written), path


# How labels weaken each other


def test_kinds_weaken_each_other():
    assert Kind.EXACT | Kind.UPPER == Kind.UPPER
    assert Kind.UPPER | Kind.LOWER == Kind.UNPROVED
    assert Kind.ESTIMATED | Kind.UPPER == Kind.ESTIMATED
    assert labels.words(labels.numbers(np.array(list(labels.KINDS)))).tolist() == list(labels.KINDS)


def stated_of(epsilon, kind, unknown=()) -> tuple:
    """What is said of two users of one realization, whose observer assumes and trusts nothing."""
    observers = pl.DataFrame({"realization": [0], "observer": "a", "trusts": "", "weaker": "a", "assumes": ""})
    array = np.array([epsilon], float)
    account = Account(Claim("a"), 1e-5, observers, np.ones((1, 2), bool), array / 2, array, np.array([kind], int))
    rows = accountant.guarantees({Claim("a").key: account}, Gaussian())
    rows = rows.with_columns(guarantee=accountant.guarantee())
    return rows.select("epsilon", "epsilon_kind", "guarantee").row(0)


@pytest.mark.parametrize(
    ("epsilon", "kind", "expected"),
    [
        ((2.0, 1.0), (Kind.EXACT, Kind.UPPER), (2.0, "exact", "proved")),
        ((2.0, 1.0), (Kind.UPPER, Kind.EXACT), (2.0, "upper bound", "proved")),
        ((2.0, 1.0), (Kind.EXACT, Kind.UNPROVED), (2.0, "lower bound", "none")),  # the other one may be worse
        ((2.0, 1.0), (Kind.UPPER, Kind.LOWER), (2.0, "not proved", "none")),
        ((2.0, 1.0), (Kind.ESTIMATED, Kind.EXACT), (2.0, "upper bound", "proved")),
        ((math.inf, 1.0), (Kind.EXACT, Kind.EXACT), (math.inf, "exact", "none")),
    ],
)
def test_the_worst_of_several_users_is_as_good_as_they_are(epsilon, kind, expected):
    if kind[0] == Kind.ESTIMATED:
        expected = (2.0, "estimated", "conditional")
    assert stated_of(epsilon, kind) == expected


# Who sees what


AIRS = {
    "superposed": superposed.receive,
    "antennas": antennas.over(8),
    "broadband": broadband.over(3, 0.2),
    "majority": majority.receive,
}


@pytest.mark.parametrize("air", AIRS)
def test_who_sees_a_function_of_what_another_sees_learns_no_more(air):
    received = AIRS[air](signals.example())
    assert set(received.observed_by) == set(received.seen) == {"user", "cell", "server", "network"}
    for finer, coarser in (("user", "cell"), ("cell", "server"), ("server", "network")):
        for all_noise in (0, 1):
            seen = received.seen[finer][all_noise], received.seen[coarser][all_noise]
            assert (seen[0] >= seen[1] * (1 - 1e-9)).all()
    for name, observer in received.observed_by.items():
        assert observer.weaker in received.seen
        assert bool(observer.trusts) == (observer.weaker != name)


@pytest.mark.parametrize(("air", "least"), [("superposed", 15.0), ("antennas", 19.0), ("broadband", 11.0)])
def test_on_air_the_server_receives_more_than_the_update(air, least):
    """What stations pass on to be added up hides hardly more than each message does."""
    model = scenario(
        {"observer": "network", "target_epsilon": 8.0},
        radio={"air": air},
        schemes=[{"name": "n", "scheduler": "inversion", "noise": "target"}],
    )
    outcome = stages(model, "inversion", "target")["outcome"]
    assert outcome["epsilon"].is_between(7.99, 8.01).all()
    assert (outcome["epsilon_server"] > least).all()
    assert set(outcome["epsilon_trusts"]) == {"stations that add up"}


def test_the_receivers_noise_counts_where_it_is_said_to():
    model = scenario(
        {"observer": "network"},
        radio={"air": "superposed"},
        schemes=[{"name": "n", "scheduler": "inversion", "noise": "none"}],
    )
    found = stages(model, "inversion", "none")
    rows = found["guarantees"].filter(observer="network", unit="record").sort("noise_from")
    by = {name: rows.filter(noise_from=name) for name in (USERS, ALL)}
    assert by[USERS]["epsilon"].is_infinite().all()
    assert by[ALL]["epsilon"].is_finite().all()
    assert by[ALL]["epsilon_assumes"].str.contains("receivers' noise").all()
    assert found["outcome"]["epsilon"].is_infinite().all()


# What an epsilon means


@pytest.mark.parametrize(("epsilon", "expected"), [(19.4, 0.85), (8.0, 0.255), (4.14, 0.085), (1.0, 0.020)])
def test_attack_rates_of_gaussian_mechanisms_are_those_of_the_likelihood_ratio_test(epsilon, expected):
    mu = 1 / float(gaussian.exact_multiplier(epsilon, 1e-5))
    found = float(gaussian.attack_rate(mu**2 / 2, 0.01))
    assert found == pytest.approx(stats.norm.sf(stats.norm.isf(0.01) - mu), rel=1e-12)
    assert found == pytest.approx(expected, abs=0.005 if epsilon > 1 else 0.0005)


@pytest.mark.parametrize(("multiplier", "rounds"), [(3.0, 10), (1.0, 1), (0.5, 1), (0.3, 2)])
def test_attack_rates_by_a_privacy_profile_are_those_in_closed_form(multiplier, rounds):
    always = sampled.Rates(np.ones(1), np.ones(1))
    loss = sampled.PAIRS["proved"].loss(always, multiplier, 1.0, 1e-4)
    _, composed = sampled._together([(loss, rounds)], 1e-5)
    expected = float(gaussian.attack_rate(rounds / (2 * multiplier**2), 0.01))
    assert expected <= sampled.attack_rate(composed, 0.01) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(("rate", "multiplier"), [(0.1, 1.0), (0.5, 2.0), (0.3, 0.6)])
def test_no_attack_on_a_sampled_round_does_better_than_is_stated(rate, multiplier):
    """The best test of whether a record was there: of outputs above a threshold, as the likelihood ratio increases."""
    law = sampled.Rates(np.array([rate]), np.ones(1))
    _, _, stated = sampled.Batches(law, "tight").composed_worth([(multiplier, 1)], 1e-5, false_positives=0.01)
    threshold = stats.norm.isf(0.01)
    best = (1 - rate) * 0.01 + rate * stats.norm.sf(threshold - 1 / multiplier)
    assert best <= stated * (1 + 1e-9)
    assert stated < 1.2 * best


def test_attack_rates_of_integers_are_above_those_of_their_noise():
    orders = discrete.WHOLE_ORDERS
    rho = np.array([0.1, 1.0, 4.0])
    found = discrete.attack_rate(orders, rho[:, None] * orders, 0.01)
    assert (found > gaussian.attack_rate(rho, 0.01)).all()
    grid = np.linspace(0, 40, 4001)
    for each, stated in zip(rho, found, strict=True):  # by delta at each epsilon, of the best order
        log_delta = (orders - 1) * (each * orders + np.log1p(-1 / orders) - grid[:, None]) - np.log(orders)
        rates = np.exp(grid) * 0.01 + np.exp(log_delta.min(axis=1))
        assert stated == pytest.approx(min(1.0, rates.min()), rel=1e-3)


def test_an_attack_rate_is_of_the_user_whose_epsilon_is_stated():
    found = stages(scenario({}))
    for row in found["guarantees"].filter(unit="record").iter_rows(named=True):
        expected = float(gaussian.attack_rate(row["rho"], 0.01))
        assert row["attack_rate"] == pytest.approx(expected, rel=1e-12)


# What was wrong


def test_opposed_records_of_several_multipliers_lose_less_than_is_proved():
    law = sampled.Rates(np.array([0.3]), np.ones(1))
    parts = [(1.0, 10), (2.0, 20)]
    found = {how: sampled.Batches(law, how, 0.5).composed_worth(parts, 1e-5)[0] for how in sampled.PAIRS}
    assert found["opposite"] < found["tight"]
    assert found["opposite"] < found["proved"]
    opposite = sampled.Batches(law, "opposite")
    split, whole = (opposite.composed_worth(each, 1e-5)[0] for each in ([(1.0, 4), (1.0, 6)], [(1.0, 10)]))
    assert split == pytest.approx(whole, rel=1e-6)


@pytest.mark.parametrize("leak", [10.0**-k for k in range(1, 14)])
def test_who_tells_two_users_apart_by_a_small_leak_sees_each_message(leak):
    """Two sums of two messages are two equations, however alike they are: each message shows with its own noise."""
    heard, noise = np.array([[1.0, 1.0], [1.0, 1.0 + leak]]), np.array([0.5, 2.0])
    seen = visibility.linear(heard, noise, np.zeros(2))
    np.testing.assert_allclose(seen, 1 / noise, rtol=max(1e-7, 4e-15 / leak))


@pytest.mark.parametrize("sampling", [0.3, 1.0])
def test_fixed_noise_hides_records_as_long_as_batch_sizes_are_hidden(sampling):
    few = {
        "training": {"rounds": 6},
        "data": {"sampling": sampling},
        "privacy": {"curve_rates": [0.5], "estimate_scales": [1.0]},
    }
    outcome = tables("anonymous_oac", "over_the_air", "identified_fixed", few)["outcome"]
    hidden = sampling < 1
    assert set(outcome["epsilon_assumes"]) == {"batch sizes hidden" if hidden else ""}
    assert set(outcome["guarantee"]) == {"conditional" if hidden else "proved"}


def test_anonymous_oac_s_leakage_is_of_its_devices_and_its_curves_are_a_table_of_their_own():
    few = {"training": {"rounds": 6}, "privacy": {"curve_rates": [0.5], "estimate_scales": [1.0]}}
    found = tables("anonymous_oac", "over_the_air", "identified", few, some=range(2))
    leakage, outcome = found["leakage"], found["outcome"]
    assert leakage.columns == ["realization", "user", "rho", "epsilon", "epsilon_user"]
    most = leakage.group_by("realization", maintain_order=True).agg(pl.col("epsilon").max())
    assert most["epsilon"].to_list() == outcome.sort("realization")["epsilon"].to_list()
    assert {"quantity", "x"} <= set(found["curves"].columns)
    assert set(found["curves"]["realization"]) == {0}


@pytest.mark.parametrize(("air", "tested"), [("superposed", "network"), ("majority", "user")])
def test_an_audit_states_the_epsilon_of_who_sees_what_is_tested(air, tested):
    model = scenario(
        {"observer": "cell", "target_epsilon": 4.0},
        radio={"air": air},
        schemes=[{"name": "n", "scheduler": "inversion", "noise": "target"}],
        audit={"canaries": 50},
    )
    found = stages(model, "inversion", "target")
    frame = stage_of.audit(part(model, "audit"), found)
    stated = found["guarantees"].filter(observer=tested, unit="record", noise_from=USERS)["epsilon"].max()
    assert frame["epsilon"].unique().to_list() == [stated]
    assert "failed" not in frame["status"]
    assert ("not tested: all else that stations receive" in frame["observer"][0]) == (tested == "network")


def on_air(air: str, observer: str = "server", target: float = 4.0) -> dict[str, pl.DataFrame]:
    scheme = {"name": "n", "scheduler": "inversion", "noise": "target"}
    model = scenario(
        {"observer": observer, "target_epsilon": target}, radio={"air": air}, schemes=[scheme], audit={"canaries": 50}
    )
    found = stages(model, "inversion", "target")
    return found | {"audit": stage_of.audit(part(model, "audit"), found)}


@pytest.mark.parametrize("air", ["superposed", "antennas", "broadband", "majority"])
def test_noise_for_what_the_server_receives_needs_no_trusted_stations(air):
    found = on_air(air)
    outcome = found["outcome"]
    assert outcome["epsilon"].is_between(3.999, 4.001).all()
    assert outcome["epsilon_server"].equals(outcome["epsilon"])
    assert set(outcome["epsilon_trusts"]) == {""}
    assert "failed" not in found["audit"]["status"]
    assert found["audit"]["epsilon"].drop_nulls().max() <= outcome["epsilon"].max() * (1 + 1e-9)
    assert on_air(air, "network")["noise"]["noise_std"].sum() <= found["noise"]["noise_std"].sum() * (1 + 1e-9)


def test_digital_uploads_have_no_server_that_receives_anything_else():
    with pytest.raises(ScenarioError, match=r"privacy.observer: server: .* use `user`, `cell` or `network`"):
        scenario({"observer": "server"})


@pytest.mark.parametrize(("rate", "multiplier", "rounds"), [(0.25, 1.0, 30), (0.02, 1.0, 1000)])
def test_attack_rates_are_hardly_larger_on_the_coarser_grid_that_accounts_take(rate, multiplier, rounds):
    law = sampled.Rates(np.array([rate]), np.ones(1))
    fine, coarse = (
        sampled.Batches(law, "proved", 0.5, interval).composed_worth([(multiplier, rounds)], 1e-5, 0.01)[2]
        for interval in (1e-4, sampled.COARSER * sampled.COARSE)
    )
    assert fine <= coarse <= fine * (1 + 1e-3)
