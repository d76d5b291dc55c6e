"""Accounting of the system `anonymous_oac`: Secs. IV and V of Hasircioglu and Gunduz, and what lies beyond."""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from pwfl.learning.datasets import SIZES
from pwfl.learning.mlp import parameter_count
from pwfl.radio.units import db_to_ratio, dbm_to_w
from pwfl.systems.anonymous_oac import batches, sampled
from pwfl.systems.anonymous_oac.mechanism import FIXED, population, readings

if TYPE_CHECKING:
    from pwfl.systems.anonymous_oac.scenario import AnonymousOac

ROUNDS_DRAWN, FAILURES_DRAWN = 12, 6  # points of a curve
FLOAT_BITS = 32
HIDDEN = "a record is in a batch with probability p q; nobody can infer which devices take part"
SEEN = "a device takes part with probability p, seen by the observer; then a record is in its batch with probability q"
SAMPLING = {
    "anonymous": f"{HIDDEN}, nor from the noise how many records",
    "anonymous_fixed": f"{HIDDEN}, unless none does",
    "identified": f"{SEEN}; the noise tells the size of all batches together",
    "identified_fixed": SEEN,
    "local": f"{SEEN}, whose size its noise tells",
    "local_fixed": SEEN,
}
OBSERVERS = {
    "over_the_air": "sees the sum of all participants' updates of every round; the channel's noise is not counted",
    "orthogonal": "sees each participant's noisy update of every round",
}
PROVED = "for every replaced record epsilon_proved is guaranteed, epsilon_exact is that of the pair usual in accounting"
GUARANTEES = {
    "anonymous": "holds while participation stays hidden and nobody reads the batch's size off the noise; "
    "epsilon_server is for a server that does, epsilon_identified_read for one that can infer participation, too",
    "anonymous_fixed": "holds while participation stays hidden; where it can be inferred, epsilon_identified does",
} | dict.fromkeys(("identified", "identified_fixed", "local", "local_fixed"), PROVED)


def run(scenario: "AnonymousOac", tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """epsilon over rounds, failed devices and channel estimates, and each realization's guarantee and cost."""
    rounds, delta = scenario.training.rounds, scenario.privacy.delta
    participation, rate = scenario.network.participation, scenario.data.sampling
    multiplier, scheme, reading = tables["noise"].select("noise_multiplier", "noise", "reading").row(0)
    laws = readings(scenario, scheme, tables)
    absent = 0.5 if scheme in FIXED else 1.0  # see sampled.replace_one
    tight = {name: sampled.tight_epsilon(law, multiplier, [rounds], delta)[0] for name, law in laws.items()}
    theorem = sampled.renyi_epsilon(sampled.renyi_closed_form(participation * rate, multiplier), rounds, delta)
    guarantees = {
        "noise_multiplier": multiplier,
        "reading": reading,
        "epsilon_exact": tight[reading],
        "epsilon_server": tight["anonymous_read" if reading.startswith("anonymous") else "identified_read"],
        "epsilon_anonymous_read": None,
        **{f"epsilon_{name}": epsilon for name, epsilon in tight.items()},
        "epsilon_renyi_anonymous": renyi_epsilon(1.0, participation * rate, multiplier, [rounds], delta)[0],
        "epsilon_renyi_identified": renyi_epsilon(participation, rate, multiplier, [rounds], delta)[0],
        "epsilon_proved": sampled.proved_epsilon(laws[reading], multiplier, [rounds], delta, absent)[0],
        "epsilon_opposite_records": sampled.opposite_epsilon(laws[reading], multiplier, [rounds], delta)[0],
        "epsilon_theorem_1": float(theorem) if np.isfinite(theorem) else None,
        "delta": delta,
        "unit": "one training record of one device",
        "neighbouring_relation": "replace-one",
        "accuracy_of": "the server's global model",
        "link_budget": "radiated over radio.path_loss_db and thermal noise: over the air what the received SNR takes, "
        "orthogonally Shannon's least for radio.digital_efficiency",
        "local_steps": 1.0,
        "guaranteed": False,  # not proved for every pair of records, and some schemes rest on hidden participation
        "sampling": SAMPLING[scheme],
        "guarantee": GUARANTEES[scheme],
    }
    outcome = costs(scenario, tables).with_columns(
        pl.lit(value, pl.Float64 if value is None else None).alias(name) for name, value in guarantees.items()
    )
    first = outcome["realization"][0] == 0
    curves = leakage(scenario, tables, multiplier, laws, absent) if first else []
    schema = ["quantity", "x", "reading", "participation", "sampling_rate", "method", "noise_multiplier", "epsilon"]
    types = [pl.String, pl.Float64, pl.String, pl.Float64, pl.Float64, pl.String, pl.Float64, pl.Float64]
    frame = pl.DataFrame(curves, schema=dict(zip(schema, types, strict=True)), orient="row")
    return {"leakage": frame.select(pl.lit(0).alias("realization"), pl.all()), "outcome": outcome}


def renyi_epsilon(participation: float, rate: float, multiplier: float, rounds: list[int], delta: float) -> np.ndarray:
    """The paper's accountant: Renyi DP at integer orders, composed by sum, converted by Lemma 1."""
    divergence = sampled.revealed(participation, sampled.renyi(rate, multiplier))
    return sampled.renyi_epsilon(divergence, rounds, delta)


def leakage(
    scenario: "AnonymousOac",
    tables: dict[str, pl.DataFrame],
    multiplier: float,
    laws: dict[str, sampled.Rates],
    absent: float,
) -> list[tuple]:
    """Rows (quantity, x, reading, participation, sampling rate, method, multiplier, epsilon) of the curves drawn."""
    privacy, rounds, delta = scenario.privacy, scenario.training.rounds, scenario.privacy.delta
    participation, rate = scenario.network.participation, scenario.data.sampling
    drawn = np.unique(np.geomspace(1, rounds, ROUNDS_DRAWN).round().astype(int))
    methods = {
        "tight": partial(sampled.tight_epsilon, interval=sampled.COARSE),
        "opposite_records": partial(sampled.opposite_epsilon, interval=sampled.COARSE),
        "proved": partial(sampled.proved_epsilon, absent=absent, interval=sampled.COARSE),
    }
    rows = []

    def add(quantity, points, reading, pair, method, multiplier, epsilon):
        rows.extend(
            (quantity, float(x), reading, *pair, method, float(m), float(e))
            for x, m, e in zip(points, np.broadcast_to(multiplier, len(points)), epsilon, strict=True)
        )

    given, hidden, known = privacy.noise_multiplier, (1.0, participation * rate), (participation, rate)
    curves = [("anonymous", (1.0, r), given) for r in privacy.curve_rates]
    curves += [(name, hidden if name.startswith("anonymous") else known, multiplier) for name in laws]
    for reading, pair, noise in dict.fromkeys(curves):
        if reading.endswith("_read"):
            add("rounds", drawn, reading, pair, "tight", noise, methods["tight"](laws[reading], noise, drawn, delta))
            continue
        add("rounds", drawn, reading, pair, "renyi", noise, renyi_epsilon(*pair, noise, drawn, delta))
        # Bounds from below and above of the scheme's own curves; without sampling, the tight one is both.
        own = pair in (hidden, known) and noise == multiplier and pair != (1.0, 1.0)
        law = batches.seen(pair[0], batches.poisson(pair[1]))
        for name in methods if own else ("tight",):
            add("rounds", drawn, reading, pair, name, noise, methods[name](law, noise, drawn, delta))
    act = sampled.advanced_composition(given, drawn, delta)
    add("rounds", drawn, "anonymous", (1.0, 1.0), "advanced_composition", given, act)

    def add_of(quantity, points, multipliers):
        epsilon = [methods["tight"](laws["anonymous"], float(m), [rounds], delta)[0] for m in multipliers]
        add(quantity, points, "anonymous", hidden, "tight", multipliers, epsilon)

    devices, samples = population(tables)
    participants = max(1, round(devices * participation))
    failed = np.unique(np.linspace(0, participants // 2, FAILURES_DRAWN).round())
    add_of("failed_devices", failed, multiplier * np.sqrt(1 - failed / participants))  # Lemma 4

    # The participants of the first realization's fullest round, with as many records as are expected.
    schedule = tables["schedule"].filter(pl.col("realization") == pl.col("realization").first())
    fullest = schedule["round"].mode().min()
    channel = np.sqrt(schedule.filter(pl.col("round") == fullest)["gain"].to_numpy()) if len(schedule) else np.ones(1)
    sensitivity = 2 * scenario.training.clip_norm / (devices * samples * participation * rate)
    counted = scenario.radio.noise_variance**0.5 / sensitivity
    counted = min(counted, multiplier)  # the devices leave as much to the channel as it has
    scales = np.array(sorted(set(privacy.estimate_scales)))
    estimates = scales[:, None] * channel
    add_of("estimate_scale", scales, received(channel, estimates, multiplier, 0.0))
    left = (multiplier**2 - counted**2) ** 0.5
    add_of("estimate_scale_counting_channel_noise", scales, received(channel, estimates, left, counted))
    one = np.where(np.arange(len(channel)) == 0, estimates, channel)
    add_of("estimate_scale_of_one_device", scales, received(channel, one, multiplier, 0.0))
    return rows


def received(channel: np.ndarray, estimates: np.ndarray, device: float, counted: float) -> np.ndarray:
    """The noise multiplier at the server for the worst device, shape (k,), by (1) and the signal received.

    Device i divides signal and noise by its estimate of the channel's coefficient, shape (k, devices),
    `channel` its coefficient, shape (devices,); the server hears the quotient. `device` is the multiplier
    of the devices' noise together, `counted` that of the channel noise counted.
    """
    amplitude = channel / estimates
    variance = device**2 * np.square(amplitude).mean(axis=1) + counted**2
    return np.sqrt(variance) / amplitude.max(axis=1)


def costs(scenario: "AnonymousOac", tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Each realization's participants, records, symbols on air and transmit energy.

    Over the air a round takes as many symbols as the model has scenario, however many send. Device
    i inverts its channel, so sends (1 / |c_i|^2) (signal + noise); the signal's energy is at most that
    of b_i gradients of norm L over b_t, or over what stands in its place. A unit of received energy is
    worth what makes N0 the thermal noise. Orthogonally, each participant in turn sends 32 bits a parameter
    at the given spectral efficiency, with the energy that Shannon's formula asks for.
    """
    radio, training = scenario.radio, scenario.training
    size = SIZES[scenario.data.dataset]
    dimension = parameter_count([size.features, *training.hidden_layers, size.classes])
    rounds = training.rounds
    thermal = dbm_to_w(radio.noise_density_dbm_hz) * db_to_ratio(radio.path_loss_db)  # J, for unit fading
    keys = ["realization", "round"]
    turns = bool(tables["schedule"]["slot"].is_not_null().any())
    sent = (
        tables["schedule"]
        .with_columns(total=pl.col("batch").sum().over(keys), participants=pl.len().over(keys))
        .join(tables["noise"], on=keys, how="left")
        .filter(pl.col("noise").cast(pl.String).is_in(FIXED) | (pl.col("batch" if turns else "total") > 0))
    )
    symbols = dimension * FLOAT_BITS / radio.digital_efficiency
    if turns:
        energy = symbols * thermal * np.expm1(np.log(2) * radio.digital_efficiency) / pl.col("gain")
    else:
        signal = (pl.col("batch") / pl.col("divisor") * training.clip_norm) ** 2
        noise = dimension * pl.col("noise_std") ** 2 / pl.col("participants")
        scale = thermal / radio.noise_variance if radio.noise_variance else None
        energy = (signal + noise) / pl.col("gain") * scale
    each = sent.group_by("realization", maintain_order=True).agg(
        participants=pl.len() / rounds,
        records=pl.col("batch").sum() / rounds,
        filled=pl.col("round").filter(pl.col("batch") > 0).n_unique(),
        transmissions=pl.len(),
        transmit_energy_j=energy.sum() if turns or radio.noise_variance else None,
    )
    uses = pl.col("transmissions") * symbols if turns else pl.lit(float(rounds * dimension))
    return (
        tables["users"]
        .group_by("realization", maintain_order=True)
        .agg(pl.col("samples").sum())
        .join(each, on="realization", how="left", maintain_order="left")
        .with_columns(pl.col("participants", "records", "filled", "transmissions").fill_null(0))
        .with_columns(
            rounds=pl.lit(rounds),
            empty_rounds=rounds - pl.col("filled").cast(pl.Int64),
            channel_uses=uses.cast(pl.Float64),
            observer=pl.lit(OBSERVERS["orthogonal" if turns else "over_the_air"]),
        )
    )
