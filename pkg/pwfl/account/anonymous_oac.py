"""Accounting of the system `anonymous_oac`: Secs. IV and V of Hasircioglu and Gunduz, and what lies beyond."""

from functools import partial

import numpy as np
import polars as pl

from pwfl.datasets import SIZES
from pwfl.mlp import parameter_count
from pwfl.privacy import sampled
from pwfl.units import db_to_ratio, dbm_to_w

ROUNDS_DRAWN, FAILURES_DRAWN = 12, 6  # points of a curve
FLOAT_BITS = 32
SAMPLING = {
    "anonymous": "a record is in a batch with probability p q; nobody can infer which devices take part, nor from the "
    "noise how many records",
    "identified": "a device takes part with probability p, seen by the observer; then a record is in its batch with "
    "probability q",
}
OBSERVERS = {
    "over_the_air": "sees the sum of all participants' updates of every round; the channel's noise is not counted",
    "orthogonal": "sees each participant's noisy update of every round",
}
GUARANTEES = {
    "anonymous": "holds while participation stays hidden; where it can be inferred, epsilon_identified does",
    "identified": "guaranteed",
}


def run(parameters: dict, tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """epsilon over rounds, failed devices and channel estimates, and each realization's guarantee and cost."""
    network, data, privacy = (parameters[section] for section in ("network", "data", "privacy"))
    rounds, delta = parameters["training"]["rounds"], privacy["delta"]
    participation, rate = network["participation"], data["sampling"]
    multiplier, reading = tables["noise"].select("noise_multiplier", "reading").row(0)
    hidden, known = (1.0, participation * rate), (participation, rate)
    scheme_reading = hidden if reading == "anonymous" else known
    theorem = sampled.renyi_epsilon(sampled.renyi_closed_form(hidden[1], multiplier), rounds, delta)
    guarantees = {
        "noise_multiplier": multiplier,
        "reading": reading,
        "epsilon_anonymous": sampled.tight_epsilon(*hidden, multiplier, [rounds], delta)[0],
        "epsilon_identified": sampled.tight_epsilon(*known, multiplier, [rounds], delta)[0],
        "epsilon_renyi_anonymous": renyi_epsilon(*hidden, multiplier, [rounds], delta)[0],
        "epsilon_renyi_identified": renyi_epsilon(*known, multiplier, [rounds], delta)[0],
        "epsilon_opposite_records": sampled.opposite_epsilon(*scheme_reading, multiplier, [rounds], delta)[0],
        "epsilon_theorem_1": float(theorem) if np.isfinite(theorem) else None,
        "delta": delta,
        "unit": "one training record of one device",
        "neighbouring_relation": "replace-one",
        "sampling": SAMPLING[reading],
        "guarantee": GUARANTEES[reading],
    }
    guarantees["epsilon_exact"] = guarantees[f"epsilon_{reading}"]
    outcome = costs(parameters, tables).with_columns(
        pl.lit(value, pl.Float64 if value is None else None).alias(name) for name, value in guarantees.items()
    )
    first = outcome["realization"][0] == 0
    mean_records = tables["users"]["samples"].sum() / outcome.height * hidden[1]
    curves = leakage(parameters, multiplier, mean_records) if first else []
    schema = ["quantity", "x", "participation", "sampling_rate", "method", "noise_multiplier", "epsilon"]
    types = [pl.String, pl.Float64, pl.Float64, pl.Float64, pl.String, pl.Float64, pl.Float64]
    frame = pl.DataFrame(curves, schema=dict(zip(schema, types, strict=True)), orient="row")
    return {"leakage": frame.select(pl.lit(0).alias("realization"), pl.all()), "outcome": outcome}


def renyi_epsilon(participation: float, rate: float, multiplier: float, rounds: list[int], delta: float) -> np.ndarray:
    """The paper's accountant: Renyi DP at integer orders, composed by sum, converted by Lemma 1."""
    divergence = sampled.revealed(participation, sampled.renyi(rate, multiplier))
    return sampled.renyi_epsilon(divergence, rounds, delta)


def leakage(parameters: dict, multiplier: float, mean_records: float) -> list[tuple]:
    """Rows (quantity, x, participation, sampling rate, method, multiplier, epsilon) of the curves drawn."""
    privacy, rounds, delta = parameters["privacy"], parameters["training"]["rounds"], parameters["privacy"]["delta"]
    participation, rate = parameters["network"]["participation"], parameters["data"]["sampling"]
    drawn = np.unique(np.geomspace(1, rounds, ROUNDS_DRAWN).round().astype(int))
    methods = {
        "renyi": renyi_epsilon,
        "tight": partial(sampled.tight_epsilon, interval=sampled.COARSE),
        "opposite_records": partial(sampled.opposite_epsilon, interval=sampled.COARSE),
    }
    rows = []

    def add(quantity, points, known, rate, method, multiplier, epsilon):
        rows.extend(
            (quantity, float(x), known, rate, method, float(m), float(e))
            for x, m, e in zip(points, np.broadcast_to(multiplier, len(points)), epsilon, strict=True)
        )

    given = privacy["noise_multiplier"]
    pairs = [(1.0, r, given) for r in privacy["curve_rates"]]
    own = [(1.0, participation * rate, multiplier), (participation, rate, multiplier)]
    for known, sampling, noise in dict.fromkeys(pairs + own):
        for name, method in methods.items():
            if name == "opposite_records" and sampling == known == 1:
                continue  # the tight one is of these records already
            add("rounds", drawn, known, sampling, name, noise, method(known, sampling, noise, drawn, delta))
    act = sampled.advanced_composition(given, drawn, delta)
    add("rounds", drawn, 1.0, 1.0, "advanced_composition", given, act)

    devices = max(1, round(parameters["network"]["devices"] * participation))
    hidden = participation * rate

    def after_all_rounds(multipliers):
        return [methods["tight"](1.0, hidden, float(m), [rounds], delta)[0] for m in multipliers]

    failed = np.unique(np.linspace(0, devices // 2, FAILURES_DRAWN).round())
    left = multiplier * np.sqrt(1 - failed / devices)  # Lemma 4
    add("failed_devices", failed, 1.0, hidden, "tight", left, after_all_rounds(left))

    # The same total noise, of which as much as there is comes from the channel: the server hears it
    # k times as loud once it has scaled the channel estimates by k.
    scales = np.array(sorted(set(privacy["estimate_scales"])))
    channel = parameters["radio"]["noise_variance"] ** 0.5 * mean_records / (2 * parameters["training"]["clip_norm"])
    counted = min(channel, multiplier)
    fooled = np.sqrt(multiplier**2 - counted**2 + (scales * counted) ** 2)
    add(
        "estimate_scale", scales, 1.0, hidden, "tight", multiplier, np.full(len(scales), after_all_rounds([multiplier]))
    )
    add("estimate_scale_counting_channel_noise", scales, 1.0, hidden, "tight", fooled, after_all_rounds(fooled))
    return rows


def costs(parameters: dict, tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Each realization's participants, records, symbols on air and transmit energy.

    Over the air a round takes as many symbols as the model has parameters, however many send. Device
    i inverts its channel, so sends (1 / |c_i|^2) (signal + noise); the signal's energy is at most that
    of b_i gradients of norm L over b_t. A unit of received energy is worth what makes N0 the thermal
    noise. Orthogonally, each participant in turn sends 32 bits a parameter at the given spectral
    efficiency, with the energy that Shannon's formula asks for.
    """
    radio, training = parameters["radio"], parameters["training"]
    size = SIZES[parameters["data"]["dataset"]]
    dimension = parameter_count([size.features, *training["hidden_layers"], size.classes])
    rounds = training["rounds"]
    thermal = dbm_to_w(radio["noise_density_dbm_hz"]) * db_to_ratio(radio["path_loss_db"])  # J, for unit fading
    keys = ["realization", "round"]
    turns = bool(tables["schedule"]["slot"].is_not_null().any())
    sent = (
        tables["schedule"]
        .with_columns(total=pl.col("batch").sum().over(keys), participants=pl.len().over(keys))
        .filter(pl.col("batch" if turns else "total") > 0)
        .join(tables["noise"], on=keys, how="left")
    )
    symbols = dimension * FLOAT_BITS / radio["digital_efficiency"]
    if turns:
        energy = symbols * thermal * np.expm1(np.log(2) * radio["digital_efficiency"]) / pl.col("gain")
    else:
        signal = (pl.col("batch") / pl.col("total") * training["clip_norm"]) ** 2
        noise = dimension * pl.col("noise_std") ** 2 / pl.col("participants")
        scale = thermal / radio["noise_variance"] if radio["noise_variance"] else None
        energy = (signal + noise) / pl.col("gain") * scale
    each = sent.group_by("realization").agg(
        participants=pl.len() / rounds,
        records=pl.col("batch").sum() / rounds,
        filled=pl.col("round").n_unique(),
        transmissions=pl.len(),
        transmit_energy_j=energy.sum() if turns or radio["noise_variance"] else None,
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
