"""Accounting of the system `anonymous_oac`: Secs. IV and V of Hasircioglu and Gunduz, and what lies beyond."""

from functools import partial

import numpy as np
import polars as pl

from pwfl.privacy import accountant, sampled, users
from pwfl.systems.anonymous_oac import batches, scheduled
from pwfl.systems.anonymous_oac.costs import PATH_LOSS_DB, uploaded
from pwfl.systems.anonymous_oac.mechanism import accounting, population, readings
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.systems.anonymous_oac.participation import counts
from pwfl.systems.anonymous_oac.schemes import MECHANISMS, READINGS, SCHEDULED
from pwfl.systems.anonymous_oac.tables import Leakage
from pwfl.tables.arrays import joined
from pwfl.tables.contract import BOUND, EXACT, NO_PRIVACY, PUBLIC, ROUNDING, UNPROVED

ROUNDS_DRAWN, FAILURES_DRAWN = 12, 6  # points of a curve
HIDDEN = "a record is in a batch with probability p q; nobody can infer which devices take part"
SEEN = "a device takes part with probability p, seen by the observer; then a record is in its batch with probability q"
SAMPLING = {
    "anonymous": f"{HIDDEN}, nor from the noise how many records",
    "anonymous_fixed": f"{HIDDEN}, unless none does",
    "identified": f"{SEEN}; the noise tells the size of all batches together",
    "identified_fixed": SEEN,
    "local": f"{SEEN}, whose size its noise tells",
    "local_fixed": SEEN,
    "none": HIDDEN,
}
SCHEDULED_SAMPLING = (
    "a device takes part in the rounds that it did, known to the observer; then a record is in its batch with "
    "probability q"
)
OBSERVERS = {
    "over_the_air": "sees the sum of all participants' updates of every round; the channel's noise is not counted",
    "orthogonal": "sees each participant's noisy update of every round",
}
USUAL = "for every replaced record epsilon_proved is guaranteed, epsilon is that of the pair usual in accounting"
PROVED = "guaranteed: proved for every replaced record, with participation known"
OCCURRED = f"{PROVED}, for the participation that occurred"
GUARANTEES = (
    {
        "anonymous": "holds while participation stays hidden and nobody reads the batch's size off the noise; "
        "epsilon_server is for a server that does, epsilon_identified_read for one that can infer participation, too",
        "anonymous_fixed": "holds, for every replaced record, while participation stays hidden; epsilon_identified, of "
        "the usual pair, is where it can be inferred",
    }
    | dict.fromkeys(("identified", "local"), USUAL)
    | dict.fromkeys(("identified_fixed", "local_fixed"), PROVED)
    | {"none": NO_PRIVACY}
)
GUARANTEED = [scheme for scheme, words in GUARANTEES.items() if words == PROVED]
TERMS = {
    "unit": "one training record of one device",
    "neighbouring_relation": "replace-one",
    "accuracy_of": "the server's global model",
    "link_budget": f"radiated over {PATH_LOSS_DB:g} dB and thermal noise: over the air what the received SNR takes, "
    "orthogonally Shannon's least for 2 bit/s/Hz",
    "local_steps": 1.0,
    "taken_as_public": f"{PUBLIC}; numbers of records are the same for all devices",
}


def run(scenario: AnonymousOac, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """epsilon over rounds, failed devices and channel estimates, and each realization's guarantee and cost."""
    if tables["noise"]["noise"][0] in SCHEDULED:
        return of_participation(scenario, tables)
    rounds, delta = scenario.training.rounds, scenario.privacy.delta
    participation, rate = scenario.network.participation, scenario.data.sampling
    scheme, reading = tables["noise"].select("noise", "reading").row(0)
    laws = readings(scenario, scheme, tables)
    accounted = accounting(scheme)
    absent = accounted["absent"]
    seen = accountant.losses(tables, tables["visibility"]["observer"][0], 2 * scenario.training.clip_norm)
    multiplier = seen.multiplier

    def epsilon(law: sampled.Rates, method: str = "tight", **more) -> float:
        return float(accountant.epsilons(seen, delta, law, method, **more).max())

    tight = {name: epsilon(law) for name, law in laws.items()}
    stated = epsilon(laws[reading], **accounted)
    proved = stated if MECHANISMS[scheme].fixed else epsilon(laws[reading], "proved", absent=absent)
    server = tight["identified_read" if READINGS[reading].participation else "anonymous_read"]
    message = batches.messages(
        *population(tables), participation, rate, READINGS[reading].participation, MECHANISMS[scheme].fixed
    )
    theorem = sampled.renyi_epsilon(sampled.renyi_closed_form(participation * rate, multiplier), rounds, delta)
    guarantees = {
        "noise_multiplier": multiplier,
        "reading": reading,
        "epsilon": stated,
        "epsilon_is": kind(laws[reading], multiplier, stated, proved),
        # What a user loses is bounded, and no less than what one of its records does.
        "epsilon_user": max(stated, users.epsilon(message, multiplier, rounds, delta, absent)),
        "epsilon_user_is": EXACT if multiplier == 0 or rate == participation == 1 else BOUND,
        "epsilon_server": stated if MECHANISMS[scheme].fixed else server,
        "guaranteed": scheme in GUARANTEED and np.isfinite(stated),
        "epsilon_anonymous_read": None,
        **{f"epsilon_{name}": epsilon for name, epsilon in tight.items()},
        "epsilon_renyi_anonymous": renyi_epsilon(1.0, participation * rate, multiplier, [rounds], delta)[0],
        "epsilon_renyi_identified": renyi_epsilon(participation, rate, multiplier, [rounds], delta)[0],
        "epsilon_proved": proved,
        "epsilon_opposite_records": epsilon(laws[reading], "opposite"),
        "epsilon_theorem_1": float(theorem) if np.isfinite(theorem) else None,
        "delta": delta,
        "sampling": SAMPLING[scheme],
        "observer": OBSERVERS["orthogonal" if MECHANISMS[scheme].local else "over_the_air"],
        "guarantee": GUARANTEES[scheme] if multiplier else NO_PRIVACY,
    }
    outcome = cost(scenario, tables).with_columns(
        pl.lit(value, pl.Float64 if value is None else None).alias(name) for name, value in (guarantees | TERMS).items()
    )
    curves = Leakage.create_empty()
    if outcome["realization"][0] == 0:  # curves are the same for all realizations
        frames = over_rounds(scenario, multiplier, laws, absent) + robustness(scenario, tables, multiplier, laws)
        curves = pl.concat(frames).with_columns(realization=pl.lit(0))
    return {"leakage": curves, "outcome": outcome}


def cost(scenario: AnonymousOac, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """What each realization's uploads are, and what they take."""
    sent = counts(tables["users"], uploaded(tables), scenario.training.rounds)
    return joined(sent, accountant.spent(tables), "realization")


def of_participation(scenario: AnonymousOac, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """As `run`, where the participation that occurred is known (`scheduled`); only Fig. 1's curves are drawn."""
    local, delta = MECHANISMS[tables["noise"]["noise"][0]].local, scenario.privacy.delta
    found = scheduled.epsilons(scenario, tables)
    outcome = joined(cost(scenario, tables), found, "realization")
    hidden = ("anonymous", "anonymous_read", "renyi_anonymous", "renyi_identified", "theorem_1")
    outcome = outcome.with_columns(
        reading=pl.lit("scheduled"),
        epsilon_is=pl.when(pl.col("epsilon").is_not_null()).then(pl.lit(BOUND)),
        epsilon_user_is=pl.when(pl.col("epsilon").is_not_null()).then(pl.lit(BOUND)),
        epsilon_server=pl.col("epsilon"),
        epsilon_proved=pl.col("epsilon"),
        epsilon_identified_read=pl.col("epsilon_identified"),
        guaranteed=pl.col("epsilon").is_finite().fill_null(value=False),
        guarantee=pl.when(pl.col("noise_multiplier") > 0).then(pl.lit(OCCURRED)).otherwise(pl.lit(NO_PRIVACY)),
        sampling=pl.lit(SCHEDULED_SAMPLING),
        observer=pl.lit(OBSERVERS["orthogonal" if local else "over_the_air"]),
        delta=pl.lit(delta),
        **{f"epsilon_{name}": pl.lit(None, pl.Float64) for name in hidden},
        **{name: pl.lit(value) for name, value in TERMS.items()},
    )
    curves = Leakage.create_empty()
    if outcome["realization"][0] == 0:
        curves = pl.concat(over_rounds(scenario, 0.0, {}, 1.0)).with_columns(realization=pl.lit(0))
    return {"leakage": curves, "outcome": outcome}


def kind(law: sampled.Rates, multiplier: float, stated: float, proved: float) -> str:
    """What epsilon is, by what is `stated` and `proved`: exact where nothing is sampled, or nothing is hidden."""
    if multiplier == 0 or (law.values == 1).all():
        return EXACT
    return BOUND if stated >= proved * (1 - ROUNDING) else UNPROVED


def renyi_epsilon(participation: float, rate: float, multiplier: float, rounds: list[int], delta: float) -> np.ndarray:
    """The paper's accountant: Renyi DP at integer orders, composed by sum, converted by Lemma 1."""
    divergence = sampled.revealed(participation, sampled.renyi(rate, multiplier))
    return sampled.renyi_epsilon(divergence, rounds, delta)


def over_rounds(
    scenario: AnonymousOac, multiplier: float, laws: dict[str, sampled.Rates], absent: float
) -> list[pl.DataFrame]:
    """epsilon over the rounds: of several sampling rates, and of the scheme under all readings."""
    privacy, delta, given = scenario.privacy, scenario.privacy.delta, scenario.privacy.noise_multiplier
    participation, rate = scenario.network.participation, scenario.data.sampling
    drawn = np.unique(np.geomspace(1, scenario.training.rounds, ROUNDS_DRAWN).round().astype(int))
    bounds = {"opposite_records": sampled.opposite_epsilon, "proved": partial(sampled.proved_epsilon, absent=absent)}
    hidden, known = (1.0, participation * rate), (participation, rate)
    curves = [("anonymous", (1.0, r), given) for r in privacy.curve_rates]
    curves += [(name, known if READINGS[name].participation else hidden, multiplier) for name in laws]
    frames = []
    for reading, pair, noise in dict.fromkeys(curves):
        methods, law = {"tight": sampled.tight_epsilon}, laws.get(reading)
        if not READINGS[reading].noise:
            frames.append(
                _points("rounds", reading, pair, "renyi", drawn, noise, renyi_epsilon(*pair, noise, drawn, delta))
            )
            law = batches.seen(pair[0], batches.poisson(pair[1]))
            # Bounds from below and above of the scheme's own curves; without sampling, the tight one is both.
            if pair in (hidden, known) and noise == multiplier and pair != (1.0, 1.0):
                methods |= bounds
        for name, method in methods.items():
            epsilon = method(law, noise, drawn, delta, interval=sampled.COARSE)
            frames.append(_points("rounds", reading, pair, name, drawn, noise, epsilon))
    composed = sampled.advanced_composition(given, drawn, delta)
    return [*frames, _points("rounds", "anonymous", (1.0, 1.0), "advanced_composition", drawn, given, composed)]


def robustness(
    scenario: AnonymousOac, tables: dict[str, pl.DataFrame], multiplier: float, laws: dict[str, sampled.Rates]
) -> list[pl.DataFrame]:
    """epsilon after all rounds over failed devices and scaled channel estimates, Sec. IV."""
    participation, rate = scenario.network.participation, scenario.data.sampling
    rounds, delta = scenario.training.rounds, scenario.privacy.delta

    def curve(quantity: str, x: np.ndarray, multipliers: np.ndarray) -> pl.DataFrame:
        each = [
            sampled.tight_epsilon(laws["anonymous"], m, [rounds], delta, sampled.COARSE)[0]
            for m in multipliers.tolist()
        ]
        return _points(quantity, "anonymous", (1.0, participation * rate), "tight", x, multipliers, each)

    devices, samples = population(tables)
    participants = max(1, round(devices * participation))
    failed = np.unique(np.linspace(0, participants // 2, FAILURES_DRAWN).round())

    # The participants of the first realization's fullest round, with as many records as are expected.
    schedule = tables["schedule"].filter(pl.col("realization") == pl.col("realization").first())
    fullest = schedule["round"].mode().min()
    channel = (
        np.sqrt(schedule.filter(pl.col("round") == fullest)["fading_gain"].to_numpy()) if len(schedule) else np.ones(1)
    )
    sensitivity = 2 * scenario.training.clip_norm / (devices * samples * participation * rate)
    # The devices leave as much to the channel as it has.
    counted = min(scenario.radio.noise_variance**0.5 / sensitivity, multiplier)
    left = (multiplier**2 - counted**2) ** 0.5
    scales = np.array(sorted(set(scenario.privacy.estimate_scales)))
    estimates = scales[:, None] * channel
    of_one = np.where(np.arange(len(channel)) == 0, estimates, channel)
    return [
        curve("failed_devices", failed, multiplier * np.sqrt(1 - failed / participants)),  # Lemma 4
        # The single point of failure that the paper avoids (Sec. I): with the one, all noise is gone.
        curve("failed_devices_one_adds_all", failed, np.where(failed > 0, 0.0, multiplier)),
        curve("estimate_scale", scales, received(channel, estimates, multiplier, 0.0)),
        curve("estimate_scale_counting_channel_noise", scales, received(channel, estimates, left, counted)),
        curve("estimate_scale_of_one_device", scales, received(channel, of_one, multiplier, 0.0)),
    ]


def _points(quantity, reading, pair, method, x, multiplier, epsilon) -> pl.DataFrame:
    """Rows of the table `leakage`, of arrays of shape (point,); `multiplier` may be one for all."""
    keys = {"quantity": quantity, "reading": reading, "method": method}
    keys |= {"participation": pair[0], "sampling_rate": pair[1], "noise_multiplier": multiplier}
    frame = pl.DataFrame({"x": x, "epsilon": epsilon}).cast(pl.Float64)
    return frame.with_columns(**{name: pl.lit(value) for name, value in keys.items()})


def received(channel: np.ndarray, estimates: np.ndarray, device: float, counted: float) -> np.ndarray:
    """The noise multipliers at the server for the worst device, shape (case,), by (1) and the signal received.

    A device divides signal and noise by its estimate of its channel's coefficient; the server hears the coefficient
    over the estimate. `channel` holds coefficients, shape (device,), `estimates` those of some cases, shape (case,
    device); `device` and `counted` are noise multipliers of the devices' noise together and of the channel noise that
    is counted.
    """
    amplitude = channel / estimates
    variance = device**2 * np.square(amplitude).mean(axis=1) + counted**2
    return np.sqrt(variance) / amplitude.max(axis=1)
