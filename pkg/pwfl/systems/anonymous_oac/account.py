"""Accounting of the system `anonymous_oac`: Secs. IV and V of Hasircioglu and Gunduz, and extensions."""

from functools import cache

import numpy as np
import polars as pl

from pwfl.airs import linear
from pwfl.privacy import accountant, sampled
from pwfl.privacy.accountant import RECORD, USER, Claim, Losses
from pwfl.systems.anonymous_oac import batches, scheduled
from pwfl.systems.anonymous_oac.costs import PATH_LOSS_DB, in_turn, uploaded
from pwfl.systems.anonymous_oac.mechanism import Readings, accounting, population, readings
from pwfl.systems.anonymous_oac.parameters import AnonymousOac
from pwfl.systems.anonymous_oac.participation import counts
from pwfl.systems.anonymous_oac.schemes import MECHANISMS, READINGS, SUM, UPLOAD
from pwfl.systems.anonymous_oac.tables import Curves
from pwfl.tables.arrays import joined
from pwfl.tables.contract import ALWAYS_PUBLIC

ROUNDS_DRAWN, FAILURES_DRAWN = 12, 6  # numbers of points of a curve
TERMS = {
    "unit": "one training record of one device",
    "evaluated_model": "the server's global model",
    "energy_scope": f"radiated over {PATH_LOSS_DB:g} dB and thermal noise: over the air what the received SNR takes, "
    "orthogonally Shannon's least for 2 bit/s/Hz",
    "taken_as_public": f"{ALWAYS_PUBLIC}; numbers of records are the same for all devices",
}


def run(scenario: AnonymousOac, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Make the tables `leakage`, `outcome`, `guarantees` and `curves` (in realization 0, as they are equal in all)."""
    scheme, observers, delta = tables["noise"]["noise"][0], tables["observers"], scenario.privacy.delta
    occurred = MECHANISMS[scheme].occurred
    laws = {} if occurred else readings(scenario, scheme, tables)
    rounds = scheduled.Occurred.build(scenario, tables) if occurred else Readings.build(scenario, scheme, laws, tables)
    declared = UPLOAD if in_turn(tables) else SUM
    record = Claim(declared, RECORD, 2 * scenario.training.clip_norm, rows=declared)
    others = sorted({*observers["observer"]} - {declared})
    asked = [record, record._replace(unit=USER), *(record._replace(observer=name) for name in others)]
    made = linear.account(tables, asked, rounds, delta, declared, TERMS)
    seen = accountant.losses(tables, declared, record.sensitivity)
    more = scheduled.epsilons(scenario, tables, seen) if occurred else further(scenario, tables, laws, seen)
    sent = counts(tables["users"], uploaded(tables), scenario.training.rounds)
    sent = sent.drop("samples", "rounds")  # all outcomes have these columns
    outcome = made["outcome"].pipe(joined, sent, "realization").pipe(joined, more, "realization")
    curves = Curves.create_empty()
    if outcome["realization"][0] == 0:
        points = over_rounds(scenario, seen.multiplier, laws, accounting(scheme)["absent"])
        points += [] if occurred else robustness(scenario, tables, seen.multiplier, laws)
        curves = pl.concat(points).with_columns(realization=0)
    outcome = outcome.with_columns(pl.coalesce("epsilon_proved", "epsilon"))
    return made | {"outcome": outcome, "curves": curves}


def further(
    scenario: AnonymousOac, tables: dict[str, pl.DataFrame], laws: dict[str, sampled.Rates], seen: Losses
) -> pl.DataFrame:
    """Compute epsilon under all interpretations and by other accountants: columns of `outcome`, equal in all rows."""
    rounds, delta, multiplier = scenario.training.rounds, scenario.privacy.delta, seen.multiplier
    participation, rate = scenario.network.participation, scenario.data.sampling
    scheme, reading = tables["noise"].select("noise", "reading").row(0)

    def epsilon(law: sampled.Rates, method: str = "tight", **more) -> float:
        return float(sampled.Batches(law, method, **more).epsilons(seen, delta).max())

    theorem = sampled.renyi_epsilon(sampled.renyi_closed_form(participation * rate, multiplier), rounds, delta)
    columns = {
        "noise_multiplier": multiplier,
        "reading": reading,
        "epsilon_anonymous_read": None,
        **{f"epsilon_{name}": epsilon(law) for name, law in laws.items()},
        "epsilon_renyi_anonymous": renyi_epsilon(1.0, participation * rate, multiplier, rounds, delta),
        "epsilon_renyi_identified": renyi_epsilon(participation, rate, multiplier, rounds, delta),
        # With fixed noise, the stated epsilon is already the proved one.
        "epsilon_proved": None if MECHANISMS[scheme].fixed else epsilon(laws[reading], "proved"),
        "epsilon_opposite_records": epsilon(laws[reading], "opposite"),
        "epsilon_theorem_1": float(theorem) if np.isfinite(theorem) else None,
    }
    realizations = tables["users"].select("realization").unique(maintain_order=True)
    return realizations.with_columns(
        pl.lit(value, pl.Float64 if value is None else None).alias(name) for name, value in columns.items()
    )


def renyi_epsilon(
    participation: float, rate: float, multiplier: float, rounds: np.ndarray | int, delta: float
) -> np.ndarray:
    """Compute epsilon by the paper's accountant: Renyi DP at integer orders, composed by sum, converted by Lemma 1."""
    divergence = sampled.revealed(participation, sampled.renyi(rate, multiplier))
    return sampled.renyi_epsilon(divergence, rounds, delta)


def over_rounds(
    scenario: AnonymousOac, multiplier: float, laws: dict[str, sampled.Rates], absent: float
) -> list[pl.DataFrame]:
    """Compute epsilon over the rounds: for several sampling rates, and for the scheme under all interpretations."""
    privacy, delta, configured = scenario.privacy, scenario.privacy.delta, scenario.privacy.noise_multiplier
    participation, rate = scenario.network.participation, scenario.data.sampling
    drawn = np.unique(np.geomspace(1, scenario.training.rounds, ROUNDS_DRAWN).round().astype(int))
    hidden, known = (1.0, participation * rate), (participation, rate)
    curves = [("anonymous", (1.0, r), configured) for r in privacy.curve_rates]
    curves += [(name, known if READINGS[name].participation else hidden, multiplier) for name in laws]
    frames = []
    for reading, pair, noise in dict.fromkeys(curves):
        methods = ["tight"]
        if READINGS[reading].noise:
            law = laws[reading]
        else:
            epsilon = renyi_epsilon(*pair, noise, drawn, delta)
            frames.append(_points("rounds", reading, pair, "renyi", drawn, noise, epsilon))
            law = batches.seen(pair[0], batches.poisson(pair[1]))
            # Lower and upper bounds of the scheme's curves. Without sampling, the tight curve is both.
            if laws and pair in (hidden, known) and noise == multiplier and pair != (1.0, 1.0):
                methods += ["opposite", "proved"]
        for method in methods:
            epsilon = sampled.PAIRS[method].epsilons(law, noise, drawn, delta, absent, sampled.COARSE)
            name = "opposite_records" if method == "opposite" else method
            frames.append(_points("rounds", reading, pair, name, drawn, noise, epsilon))
    composed = sampled.advanced_composition(configured, drawn, delta)
    return [*frames, _points("rounds", "anonymous", (1.0, 1.0), "advanced_composition", drawn, configured, composed)]


def robustness(
    scenario: AnonymousOac, tables: dict[str, pl.DataFrame], multiplier: float, laws: dict[str, sampled.Rates]
) -> list[pl.DataFrame]:
    """Compute epsilon after all rounds over failed devices and over scaled channel estimates (Sec. IV)."""
    participation, rate = scenario.network.participation, scenario.data.sampling
    rounds, delta = scenario.training.rounds, scenario.privacy.delta

    @cache  # curves share the point at which nothing is disturbed
    def tight(multiplier: float) -> float:
        hidden = sampled.Batches(laws["anonymous"], "tight", interval=sampled.COARSE)
        return hidden.composed_worth([(multiplier, rounds)], delta)[0]

    def curve(quantity: str, x: np.ndarray, multipliers: np.ndarray) -> pl.DataFrame:
        epsilons = [tight(multiplier) for multiplier in multipliers.tolist()]
        return _points(quantity, "anonymous", (1.0, participation * rate), "tight", x, multipliers, epsilons)

    devices, samples = population(tables)
    participants = max(1, round(devices * participation))
    failed = np.unique(np.linspace(0, participants // 2, FAILURES_DRAWN).round())

    # Participants of the first realization's round with the most participants, and the expected number of records.
    schedule = tables["schedule"].filter(pl.col("realization") == pl.col("realization").first())
    fullest = schedule["round"].mode().min()
    channel = (
        np.sqrt(schedule.filter(pl.col("round") == fullest)["fading_gain"].to_numpy()) if len(schedule) else np.ones(1)
    )
    sensitivity = 2 * scenario.training.clip_norm / (devices * samples * participation * rate)
    # If the channel's noise counts, the devices add only the rest.
    counted = min(scenario.radio.noise_variance**0.5 / sensitivity, multiplier)
    left = (multiplier**2 - counted**2) ** 0.5
    scales = np.array(sorted(set(scenario.privacy.estimate_scales)))
    estimates = scales[:, None] * channel
    gains = np.where(np.arange(len(channel)) == 0, estimates, channel)
    return [
        curve("failed_devices", failed, multiplier * np.sqrt(1 - failed / participants)),  # Lemma 4
        # The single point of failure that the paper avoids (Sec. I): if that device fails, no noise is left.
        curve("failed_devices_one_adds_all", failed, np.where(failed > 0, 0.0, multiplier)),
        curve("estimate_scale", scales, received(channel, estimates, multiplier, 0.0)),
        curve("estimate_scale_counting_channel_noise", scales, received(channel, estimates, left, counted)),
        curve("estimate_scale_of_one_device", scales, received(channel, gains, multiplier, 0.0)),
    ]


def _points(quantity, reading, pair, method, x, multiplier, epsilon) -> pl.DataFrame:
    """Make rows of the table `curves` from arrays of shape (point,); `multiplier` may be one number for all points."""
    keys = {"quantity": quantity, "reading": reading, "method": method}
    keys |= {"participation": pair[0], "sampling_rate": pair[1], "noise_multiplier": multiplier}
    frame = pl.DataFrame({"x": x, "epsilon": epsilon}).cast(pl.Float64)
    return frame.with_columns(**{name: pl.lit(value) for name, value in keys.items()})


def received(channel: np.ndarray, estimates: np.ndarray, device: float, counted: float) -> np.ndarray:
    """Compute noise multipliers at the server for the most exposed device, shape (case,), by (1) and the signal.

    A device divides signal and noise by its estimate of its channel's coefficient, so the server receives them times
    the coefficient over the estimate. `channel` has coefficients, shape (device,), `estimates` their estimates, shape
    (case, device). `device` is the noise multiplier of the devices' total noise, `counted` that of the channel noise
    that counts.
    """
    amplitude = channel / estimates
    variance = device**2 * np.square(amplitude).mean(axis=1) + counted**2
    return np.sqrt(variance) / amplitude.max(axis=1)
