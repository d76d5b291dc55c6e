"""Crossings of multicell: one paper's messages over another paper's air, calibrated, accounted for, audited, refused."""

import sys
from functools import cache

import numpy as np
import polars as pl
import pytest
import tensorflow as tf
import yaml
from dp_accounting import dp_event, privacy_accountant
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from scipy import optimize, stats

import stage_of
from conftest import ROOT, in_turn
from pipeline import finished, part
from pwfl.airs import broadband
from pwfl.api import stage_tables
from pwfl.learning import features
from pwfl.privacy import accountant, sampled
from pwfl.privacy.gaussian import exact_epsilon
from pwfl.report import catalog
from pwfl.scenario import ScenarioError, load, resolve
from pwfl.systems.multicell import catalog as multicell
from pwfl.systems.multicell import train
from pwfl.systems.multicell.beyond import batches, learners, on_air
from pwfl.tables.reception import Reception
from pwfl.training import bands, rounds, sent, trainings
from pwfl.training.audits.audited import random_data

sys.path.insert(0, str(ROOT / "docs"))
import crossings

FALSE_ALARM = 1e-6
TARGET = 8.0
STUDY = yaml.safe_load((ROOT / "config/crossings.yaml").read_text(encoding="utf-8"))
BASE = {key: value for key, value in STUDY["base"].items() if key != "sweep"}
BASE |= {"realizations": 2, "training_realizations": 1}
BASE["training"] = BASE["training"] | {"rounds": 6}
CROSSINGS = [name for name in STUDY["scenarios"] if name != "uploads"]
OBSERVERS = ("user", "cell", "network")


def model_of(crossing: str, **changes):
    """A crossing of the study, small, with other sections changed."""
    scenario = STUDY["scenarios"][crossing]
    keys = {*scenario, *changes}
    of = {}
    for key in keys:
        own, changed = scenario.get(key, {}), changes.get(key, {})
        of[key] = changed or own if key == "schemes" or not isinstance(own, dict) else own | changed
    if "training" in scenario:  # the whole section stands in the study
        of["training"] = scenario["training"] | {"rounds": 6} | changes.get("training", {})
    return resolve(BASE, {key: value for key, value in of.items() if key not in ("title", "sweep")})


@cache
def tables_of(crossing: str, observer: str) -> dict[str, pl.DataFrame]:
    """All tables of stages but the training's."""
    return before_training(model_of(crossing, privacy={"observer": observer}))


def before_training(model, realizations=range(2)) -> dict[str, pl.DataFrame]:
    (scheme,) = model.schemes
    found = finished(stage_of.channel(part(model, "channel"), realizations), model)
    found |= finished(stage_of.schedule(part(model, "schedule", scheme.scheduler), scheme.scheduler, found), model)
    found |= finished(stage_of.noise(part(model, "noise", scheme.noise), scheme.noise, found), model)
    found |= stage_of.receive(part(model, "receive"), found)
    return found | stage_of.account(part(model, "account"), found)


DIGITAL = {"local_steps", "poisson"}
# Who sees messages, or is taken to.
MESSAGES = {(air, "user") for air in CROSSINGS} | {("antennas", "cell")} | {("majority", each) for each in OBSERVERS}


@pytest.mark.parametrize("observer", OBSERVERS)
@pytest.mark.parametrize("crossing", CROSSINGS)
def test_noise_reaches_the_target_against_each_observer(crossing, observer):
    found = tables_of(crossing, observer)
    outcome, stated = found["outcome"], found["guarantees"].filter(unit="record", noise_from="users")
    of = {name: stated.filter(observer=name).sort("realization")["epsilon"].to_numpy() for name in OBSERVERS}
    assert outcome["epsilon"].to_list() == pytest.approx([TARGET] * 2, rel=1e-6)
    assert of[observer].tolist() == outcome["epsilon"].to_list()
    # Whoever sees single messages loses nothing by what the others see: the update least of all.
    assert (of["network"] <= of["cell"] * (1 + 1e-9)).all()
    assert (of["cell"] <= of["user"] * (1 + 1e-9)).all()
    assumed = crossing not in DIGITAL and (crossing, observer) not in MESSAGES
    assert set(outcome["guarantee"]) == {"conditional" if assumed else "proved"}
    assert set(outcome["epsilon_assumes"]) == {"realized channel known" if assumed else ""}


@pytest.mark.parametrize("crossing", CROSSINGS)
@pytest.mark.parametrize("observer", OBSERVERS)
def test_audits_see_nothing_wrong(crossing, observer):
    model = model_of(crossing, privacy={"observer": observer}, training={"rounds": 3})
    found = before_training(model, range(1))
    audit = stage_of.audit(part(model, "audit"), found)
    assert set(audit["status"]) == {"passed"}, audit.filter(pl.col("status") != "passed")


TOGETHER = {
    "local steps": {"training": {"learner": "local_steps", "learning_rate": 0.5}},
    "Poisson batches": {"data": {"sampling": 0.25}},
    "channels that change": {"radio": {"coherence_rounds": 2}},
    "a hidden layer": {"training": {"hidden_layers": [5], "recipe": "paper"}},
    "clipping per user, none guaranteed": {
        "training": {"clipping": "per_user"},
        "schemes": [{"name": "a", "scheduler": "inversion", "noise": "none"}],
    },
}


@pytest.mark.parametrize("option", in_turn(TOGETHER, "local steps", "clipping per user, none guaranteed"))
def test_bands_go_with_what_else_is_trained(option):
    """Audited, and compiled as for a GPU as alone."""
    changes = TOGETHER[option]
    training = {"rounds": 4} | changes.get("training", {})
    model = model_of("broadband", **changes | {"training": training, "privacy": {"observer": "network"}})
    found = before_training(model, range(1))
    status = set(stage_of.audit(part(model, "audit"), found)["status"])
    assert status == ({"not_tested"} if "none" in option else {"passed"})
    data = random_data(features.size(model), 2000, np.random.default_rng(1))
    courses, model = [], part(model, "train")
    for compiled in (False, True):
        used = trainings.training(train.parts(model, data, found, compiled), model, data, found, compiled)
        (course,) = used.train([used.begin(0)])
        courses.append(course)
    np.testing.assert_allclose(courses[0].losses, courses[1].losses, rtol=1e-5)
    assert courses[0].losses[-1] != courses[0].losses[0]


@pytest.mark.parametrize("option", ["Poisson batches", "channels that change", "a hidden layer"])
def test_votes_go_with_what_else_is_trained(option):
    changes = TOGETHER[option]
    training = {"rounds": 4} | changes.get("training", {})
    model = model_of("majority", **changes | {"training": training, "privacy": {"observer": "cell"}})
    found = before_training(model, range(1))
    assert set(stage_of.audit(part(model, "audit"), found)["status"]) == {"passed"}
    with pytest.raises(NotImplementedError, match="user by user"):
        train.parts(model, None, found, True)


def records_alike(monkeypatch):
    """Weights on air differ by user, and all records are taken to count as the first one's."""
    right = train.Gradients
    monkeypatch.setattr(train, "Gradients", lambda model, clip, alike, compiled: right(model, clip, True, compiled))


def louder_on_air(monkeypatch):
    """Messages arrive louder by half than observers see them."""
    right = on_air.received

    def received(*given):
        found = right(*given)
        return found._replace(weight=1.5 * found.weight)

    monkeypatch.setattr(on_air, "received", received)


def records_twice_as_often(monkeypatch):
    right = train.Gradients.inputs

    def inputs(self, reception, owned, *rest):
        samples = np.array([len(mine) for mine in owned])
        return right(self, reception._replace(records=np.minimum(2 * reception.records, samples)), owned, *rest)

    monkeypatch.setattr(train.Gradients, "inputs", inputs)


def clipped_to_twice(monkeypatch):
    right = learners.ModelLocalSgd
    doubled = lambda features, classes, steps, **more: right(  # noqa: E731
        features, classes, steps._replace(clip_norm=2 * steps.clip_norm), **more
    )
    monkeypatch.setattr(learners, "ModelLocalSgd", doubled)


def alike_in_bands(monkeypatch):
    """Noise is as loud in all bands."""
    right = Reception.band_noise_std.fget
    mean = lambda self: np.sqrt(np.square(right(self)).mean(axis=1, keepdims=True)) + 0 * right(self)  # noqa: E731
    monkeypatch.setattr(trainings, "training", patched(trainings.training, mean))


def patched(right, noise):
    """`trainings.training` with other noise in bands, which reception tells the audit as it is."""

    def training(*given):
        used = right(*given)

        def begin(*what):
            start = used.begin(*what)
            return start._replace(noise_std=noise(start.reception).astype(np.float32))

        return used._replace(begin=begin)

    return training


def in_the_next_band(monkeypatch):
    """Each band's messages are heard by the next one's weights."""
    right = bands.ByBand.inputs

    def inputs(self, reception, *rest):
        return right(self, reception._replace(bands=np.roll(reception.bands, 1, axis=2)), *rest)

    monkeypatch.setattr(bands.ByBand, "inputs", inputs)


def of_all_bands(monkeypatch):
    """How a message shows is said of its mean over bands, and not of the band in which it shows most."""

    def mean(of_bands):
        return tuple(np.mean(each, axis=0) for each in zip(*of_bands, strict=True))

    monkeypatch.setattr(broadband, "most", mean)


def votes_before_noise(monkeypatch):
    """Votes are of messages as they are, though sums have noise in them."""
    right = rounds.receive_messages

    def of_senders(loop, weights, vectors, *rest):
        if loop.decided is None:
            return right(loop, weights, vectors, *rest)
        clean = loop._replace(decided=lambda heard, *more: loop.decided(vectors, *more))
        return right(clean, weights, vectors, *rest)

    monkeypatch.setattr(rounds, "receive_messages", of_senders)


def one_noise_for_all(monkeypatch):
    right = sent.noisy

    def noisy(vectors, at, *rest):
        heard, receiver = right(vectors, at, *rest)
        normals = (heard - vectors)[:1] / tf.cast(at.noise_std, tf.float32)[:1, None]
        return vectors + tf.cast(at.noise_std, tf.float32)[:, None] * normals, receiver

    monkeypatch.setattr(rounds, "noisy", noisy)


def quieter_messages(monkeypatch):
    right = sent.SentGradients.inputs

    def inputs(self, *given):
        own, at = right(self, *given)
        return own, at._replace(noise_std=0.97 * at.noise_std)

    monkeypatch.setattr(sent.SentGradients, "inputs", inputs)


OBSERVER = {"visibility of all bands": "network"}  # of others a single message shows alike in all bands
FAULTS = {
    "records alike": ("superposed", records_alike),
    "records alike over antennas": ("antennas", records_alike),
    "records twice as often": ("poisson", records_twice_as_often),
    "clipped to twice": ("local_steps", clipped_to_twice),
    "records alike in bands": ("broadband", records_alike),
    "noise alike in bands": ("broadband", alike_in_bands),
    "the next band's weights": ("broadband", in_the_next_band),
    "visibility of all bands": ("broadband", of_all_bands),
    "votes before noise": ("majority", votes_before_noise),
    "one noise for all votes": ("majority", one_noise_for_all),
    "quieter messages": ("majority", quieter_messages),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_audits_see_what_is_wrong(fault, monkeypatch):
    crossing, change = FAULTS[fault]
    model = model_of(crossing, training={"rounds": 6}, privacy={"observer": OBSERVER.get(fault, "user")})
    before = change is of_all_bands
    if before:
        change(monkeypatch)
    found = before_training(model, range(1))
    if not before:
        change(monkeypatch)
    assert "failed" in set(stage_of.audit(part(model, "audit"), found)["status"])


def test_louder_messages_are_seen_where_all_are_to_be(monkeypatch):
    """Where messages arrive louder than observers are said to see them, noise of the users is louder than all noise."""
    model = model_of("superposed", privacy={"observer": "network"})
    found = before_training(model, range(1))
    louder_on_air(monkeypatch)
    louder = stage_of.receive(part(model, "receive"), found)["reception"]
    assert not louder.equals(found["reception"])
    audit = stage_of.audit(part(model, "audit"), found | {"reception": louder})
    assert audit.filter(status="failed")["test"].to_list() == ["noise of all users"]


# Poisson sampling


def test_sampled_epsilons_are_those_of_another_accountant():
    """What opposed records lose, by `dp_accounting`'s own sampled Gaussian under replacement: no more than is proved."""
    model = model_of("poisson")
    found = tables_of("poisson", "user")
    losses = accountant.losses(found, "user", 2 * model.training.clip_norm, users_only=True)
    mu, rate = losses.mu[0, 0].max(), model.data.sampling
    event = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(2 / mu))
    other = PLDAccountant(privacy_accountant.NeighboringRelation.REPLACE_ONE)
    other.compose(event, model.training.rounds)
    least = other.get_epsilon(model.privacy.delta)
    stated = found["outcome"]["epsilon"][0]
    unsampled = float(exact_epsilon(model.training.rounds * mu**2 / 2, model.privacy.delta))
    assert stated < unsampled
    opposite = batches.PoissonBatches(rate).record_batches._replace(method="opposite", interval=sampled.INTERVAL)
    opposed = float(opposite.epsilons(losses, model.privacy.delta)[0].max())
    assert opposed == pytest.approx(least, rel=1e-2)
    assert least < stated


def test_numbers_of_records_are_binomial():
    model = model_of("poisson", training={"rounds": 60}, data={"sampling": 0.3})
    found = before_training(model)
    heard = found["reception"].join(found["users"], on=("realization", "user"))
    assert heard.group_by("realization", "user").len()["len"].unique().to_list() == [60]
    total, trials = heard["records"].sum(), heard["samples"].sum()
    assert FALSE_ALARM / 2 < stats.binom.cdf(total, trials, 0.3) < 1 - FALSE_ALARM / 2
    scores = (heard["records"] - 0.3 * heard["samples"]) / (0.21 * heard["samples"]).sqrt()
    assert (
        stats.chi2.isf(1 - FALSE_ALARM / 2, len(heard))
        < (scores**2).sum()
        < stats.chi2.isf(FALSE_ALARM / 2, len(heard))
    )
    # The server divides by the number that is expected, whatever is drawn.
    weight = heard.select(pl.col("weight") * pl.col("samples") * 0.3).to_series()
    share = heard["samples"] / heard.select(pl.col("samples").sum().over("realization", "interval")).to_series()
    np.testing.assert_allclose(weight, share)


def test_a_users_epsilon_is_above_a_records_and_below_that_of_all_records_each_round():
    model, found = model_of("poisson"), tables_of("poisson", "user")
    outcome = found["outcome"]
    losses = accountant.losses(found, "user", 2 * model.training.clip_norm, users_only=True)
    samples = found["users"].sort("realization", "user")["samples"].to_numpy().reshape(2, -1)
    claim = accountant.Claim("user", accountant.USER, records=samples)
    most = accountant.Gaussian().worth(losses, claim, model.privacy.delta)[0].max(axis=1)
    assert (outcome["epsilon"] < outcome["epsilon_user"]).all()
    assert (outcome["epsilon_user"].to_numpy() <= most * (1 + 1e-9)).all()


# Local steps, and airs


def test_a_local_updates_record_is_worth_its_user():
    model, found = model_of("local_steps"), tables_of("local_steps", "user")
    outcome, noise = found["outcome"], found["noise"].filter(pl.col("noise_std") > 0)["noise_std"]
    mu = 2 * model.training.clip_norm * np.sqrt(model.training.rounds) / noise.min()
    assert outcome["epsilon"][0] == pytest.approx(float(exact_epsilon(mu**2 / 2, model.privacy.delta)), rel=1e-9)
    assert outcome["epsilon_user"].to_list() == outcome["epsilon"].to_list()
    assert outcome["local_steps"].to_list() == [model.training.local_steps] * 2


@pytest.mark.parametrize("crossing", ["superposed", "antennas"])
def test_inversion_schedules_whoever_has_the_gain(crossing):
    model = model_of(crossing, schedule={"least_gain_db": -110.0})
    found = before_training(model)
    own = found["links"].join(found["users"], on=("realization", "user")).filter(pl.col("station") == pl.col("cell"))
    able = own.filter(10 * pl.col("gain").log10() >= -110).select("realization", "user").sort("realization", "user")
    sends = found["reception"].select("realization", "user").unique().sort("realization", "user")
    assert sends.equals(able)
    assert 0 < len(able) < len(own)


@pytest.mark.parametrize("crossing", ["superposed", "antennas", "poisson"])
def test_shards_are_the_same_realizations(crossing):
    whole, second = (
        tables_of(crossing, "network"),
        before_training(model_of(crossing, privacy={"observer": "network"}), range(1, 2)),
    )
    for table in ("reception", "reception_noise", "visibility", "outcome"):
        wanted = whole[table].filter(realization=1)
        numbers = wanted.select(pl.selectors.float()).columns
        assert second[table].drop(numbers).equals(wanted.drop(numbers)), table
        for name in numbers:  # sums over more realizations may be rounded otherwise
            np.testing.assert_allclose(
                second[table][name].to_numpy(), wanted[name].to_numpy(), rtol=1e-9, equal_nan=True, err_msg=name
            )


@pytest.mark.parametrize("crossing", ["superposed", "antennas", "local_steps"])
def test_channels_may_change_between_rounds(crossing):
    model = model_of(crossing, radio={"coherence_rounds": 2}, privacy={"observer": "network"})
    found = before_training(model)
    assert found["outcome"]["epsilon"].to_list() == pytest.approx([TARGET] * 2, rel=1e-6)
    assert found["reception_noise"]["rounds"].unique().to_list() == [2]
    weights = found["reception"].filter(realization=0).pivot("interval", index="user", values="weight").drop("user")
    assert np.ptp(weights.drop_nulls().to_numpy(), axis=1).max() > 0


@pytest.mark.parametrize("crossing", CROSSINGS)
def test_a_crossing_learns_without_noise(crossing):
    schemes = [{**STUDY["scenarios"][crossing]["schemes"][0], "noise": "none"}]
    model = model_of(crossing, schemes=schemes, training={"step": "constant", "learning_rate": 0.5, "rounds": 20})
    found = stage_tables(model)
    history = found["history"].filter(realization=0).sort("round")["accuracy"]
    assert history[-1] > 0.5 > history[0]
    assert found["outcome"]["epsilon"].is_infinite().all()


# What is refused, and what is said


REFUSED = {
    "noise of the paper on air": (
        {"radio": {"air": "superposed"}, "schemes": [{"name": "a", "scheduler": "inversion", "noise": "optimal"}]},
        r"radio.air: superposed: the scheme 'a' has `noise: optimal`, .*; use `noise: target`",
    ),
    "noise of the paper and local steps": (
        {"training": {"learner": "local_steps"}, "schemes": [{"name": "a", "scheduler": "random", "noise": "random"}]},
        r"training.learner: local_steps: the scheme 'a' has `noise: random`",
    ),
    "blocks on air": (
        {"radio": {"air": "antennas"}, "schemes": [{"name": "a", "scheduler": "optimal", "noise": "target"}]},
        r"radio.air: antennas: the scheme 'a' has `scheduler: optimal`, .*; use `scheduler: inversion`",
    ),
    "inversion of uploads": (
        {"schemes": [{"name": "a", "scheduler": "inversion", "noise": "target"}]},
        r"schemes: 'a' has `scheduler: inversion`, .*; set another radio.air",
    ),
    "sampling and local steps": (
        {"training": {"learner": "local_steps"}, "data": {"sampling": 0.5}},
        r"data.sampling: 0.5 samples the records of a round, but training.learner: local_steps .* leave one of them out",
    ),
    "sampling and fading": (
        {"radio": {"coherence_rounds": 2}, "data": {"sampling": 0.5}},
        r"data.sampling: 0.5 is accounted for only if all rounds are alike, not with radio.coherence_rounds: 2",
    ),
    "sampling and precision": (
        {"training": {"recipe": "inverse_variance"}, "data": {"sampling": 0.5}},
        r"data.sampling: 0.5 requires a training.recipe that weighs all records alike, .* not training.recipe: inverse_variance",
    ),
    "integers and local steps": (
        {"training": {"learner": "local_steps", "bits": 12}, "privacy": {"observer": "network"}},
        r"training.learner: local_steps: training.bits: 12 requires uploads of all records' gradients",
    ),
    "dropouts and sampling": (
        {"data": {"sampling": 0.5}, "privacy": {"observer": "network", "dropouts": 0.1}},
        r"data.sampling: 0.5: privacy.dropouts: 0.1 requires uploads",
    ),
    "means and sampling": (
        {
            "data": {"sampling": 0.5},
            "training": {"clipping": "per_user"},
            "schemes": [{"name": "a", "scheduler": "random", "noise": "none"}],
        },
        r"data.sampling: 0.5: training.clipping: per_user requires uploads",
    ),
    "colluders on air": (
        {
            "radio": {"air": "superposed"},
            "privacy": {"observer": "network", "colluders": 0.1},
            "schemes": [{"name": "a", "scheduler": "inversion", "noise": "target"}],
        },
        r"radio.air: superposed: privacy.colluders: 0.1 requires uploads, which the server weights",
    ),
    "precision on air": (
        {
            "radio": {"air": "superposed"},
            "training": {"recipe": "inverse_variance"},
            "schemes": [{"name": "a", "scheduler": "inversion", "noise": "target"}],
        },
        r"radio.air: superposed: training.recipe: inverse_variance requires uploads",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_meaning_is_refused(case):
    changes, said = REFUSED[case]
    scenario = {"schemes": [{"name": "a", "scheduler": "random", "noise": "target"}]} | changes
    with pytest.raises(ScenarioError, match=said):
        load({"study": "a", "base": BASE, "scenarios": {"one": scenario}}, "a.yaml")


def test_a_crossing_is_called_nobodys_paper():
    assert catalog.crossed(multicell.CATALOG, model_of("superposed")) == ["radio.air: superposed"]
    assert catalog.crossed(multicell.CATALOG, model_of("poisson")) == ["data.sampling: 0.25"]
    assert catalog.crossed(multicell.CATALOG, model_of("uploads")) == []


def test_an_audit_says_where_no_record_was_drawn_into_a_message(monkeypatch):
    monkeypatch.setattr(sampled, "POINTS", 2000)  # coarse: how large an epsilon is does not matter
    model = model_of("broadband", data={"sampling": 1e-4}, training={"rounds": 1})
    found = before_training(model, range(1))
    assert found["reception"]["records"].to_list() == [0] * len(found["reception"]) != []
    audit = stage_of.audit(part(model, "audit"), found)
    assert audit.select("observer", "reason").rows() == [("nobody's record is received", "nobody sends")]


def test_users_whom_nobody_hears_lose_nothing():
    """They are silent in all subchannels: a share of (1 - exp(-truncation))^subchannels of all."""
    model = model_of("broadband", radio={"truncation": 1.5, "subchannels": 2})
    found = before_training(model)
    heard = found["reception"].filter(pl.col("bands").list.max() > 0).select("realization", "user").rows()
    rows = {row[:2]: row[2:] for row in found["leakage"].select("realization", "user", "rho", "epsilon").rows()}
    assert {key for key, (rho, _) in rows.items() if rho > 0} == set(heard)
    assert {epsilon for rho, epsilon in rows.values() if rho == 0} == {0.0}
    assert found["outcome"]["epsilon"].to_list() == pytest.approx([TARGET] * 2, rel=1e-6)


def test_where_nobody_is_heard_nothing_is_lost_and_the_audit_says_so():
    model = model_of("broadband", radio={"truncation": 10.0, "subchannels": 2})
    found = before_training(model, range(1))
    assert set(found["leakage"]["rho"]) == {0.0}
    assert found["outcome"].select("epsilon", "epsilon_user").rows() == [(0.0, 0.0)]
    audit = stage_of.audit(part(model, "audit"), found)
    assert audit.select("observer", "reason").rows() == [("nobody's record is received", "nobody sends")]


# The page


def test_the_table_of_the_page_is_of_the_study():
    """A row of each of its points, in their order."""
    (table,) = crossings.BLOCK.findall(crossings.PAGE.read_text(encoding="utf-8"))
    every = STUDY["base"]["sweep"]["privacy.observer"]
    names = [
        [crossings.MESSAGES.get(name, "gradients"), crossings.AIRS.get(name, "uploads"), crossings.OBSERVERS[observer]]
        for name, scenario in STUDY["scenarios"].items()
        for observer in scenario.get("sweep", {"privacy.observer": every})["privacy.observer"]
    ]
    assert [line.split(" | ")[:3] for line in table.replace("\n| ", "\n").splitlines()[2:]] == names


def test_what_opposed_records_lose_is_what_the_page_says():
    law, rounds = sampled.Rates(np.array([STUDY["scenarios"]["poisson"]["data"]["sampling"]]), np.ones(1)), 30

    def epsilon(multiplier: float, method: str) -> float:
        return sampled.Batches(law, method, 0.5).composed_worth([(multiplier, rounds)], 1e-5)[0]

    least = optimize.brentq(lambda multiplier: epsilon(multiplier, "proved") - TARGET, 0.5, 2, rtol=1e-4)
    opposed = epsilon(least, "opposite")
    expected = f"for two opposite records, ε is at least {opposed:.2f}, or {opposed / 8:.0%} of it".replace("%", " %")
    assert expected in " ".join(crossings.PAGE.read_text().split())
