"""Parameters of the system `multicell`: several base stations, inter-cell interference.

Defaults are Table I of Tavangaran et al., "On Differential Privacy for Federated Learning in
Wireless Systems with Multiple Base Stations", with R = 5 and gamma = 1e6.
"""

from importlib.util import find_spec
from math import exp
from typing import Literal

from pydantic import model_validator

from pwfl.learning import datasets
from pwfl.scenario import common
from pwfl.scenario.fields import Section, parameter
from pwfl.scenario.size import COPIES, FLOAT, LINK_BYTES, layer_bytes, network_bytes, training_operations

MAX_PRIVACY_WEIGHT = 1e12  # of a user's leakage in the objective, in samples
MAX_EFFICIENCY = 20  # bit/s per Hz that a minimum rate may ask for


class Network(Section):
    """Where stations and users are (Sec. VI-A)."""

    rings: int = parameter(
        1,
        "rings of hexagonal cells around the central one: 0, 1, 2 give 1, 7, 19 cells",
        stages="channel report",
        ge=0,
        le=20,
    )
    users: int = parameter(
        100, "users, uniform in the square that bounds the hexagons", stages="channel", ge=1, le=10**6
    )
    cell_radius_m: float = parameter(
        500.0, "radius of a cell, centre to corner", unit="m", stages="channel report", ge=1, le=1e6
    )


class Radio(Section):
    """The uplink (eq. 17, 18)."""

    resource_blocks: int = parameter(5, "resource blocks R of each cell", stages="channel schedule", ge=1, le=10**4)
    bandwidth_hz: float = parameter(
        180e3, "bandwidth B of a resource block", unit="Hz", stages="schedule train account", ge=1, le=1e12
    )
    noise_density_dbm_hz: float = parameter(
        -174.0, "thermal noise power density N0", unit="dBm/Hz", stages="schedule", ge=-250, le=0
    )
    max_power_dbm: float = parameter(
        10.0, "maximum transmit power Pmax of a user", unit="dBm", stages="channel schedule", ge=-100, le=100
    )
    min_rate_bps: float = parameter(
        100e3, "minimum uplink rate Rmin of a scheduled user", unit="bit/s", stages="schedule", ge=1e-9, le=1e13
    )
    frequency_hz: float = parameter(2.45e9, "uplink centre frequency f", unit="Hz", stages="channel", ge=1e3, le=1e13)
    path_loss_exponent: float = parameter(
        3.0, "exponent of the distance in the path loss", stages="channel", ge=0, le=6
    )
    fading_scale: float = parameter(1.0, "scale of the Rayleigh fading amplitude l", stages="channel", ge=1e-3, le=1e3)
    min_distance_m: float = parameter(
        1.0, "distances to a station are cut below at this", unit="m", stages="channel", ge=1e-3, le=1e6
    )


class Data(common.DataSource):
    """What the users hold and learn. The law of sample counts is this project's, Table I has none (docs/multicell.md).

    The defaults, 50 + LN(4, 1) or about 14,000 samples of 100 users, were calibrated; `config/samples.yaml` shows how
    the claims depend on them.
    """

    samples_offset: int = parameter(
        50,
        "samples every user has at least: K = round(offset + lognormal)",
        unit="samples",
        stages="channel",
        ge=0,
        le=10**6,
    )
    samples_log_mean: float = parameter(
        4.0, "mean of the logarithm of the lognormal part", stages="channel", ge=-20, le=20
    )
    samples_log_sd: float = parameter(
        1.0, "standard deviation of the logarithm of the lognormal part", stages="channel", ge=0, le=5
    )
    samples_total: int | None = parameter(
        None, "scale the users' samples to this total; null: as drawn", unit="samples", stages="channel", ge=1, le=10**6
    )


class Privacy(Section):
    """Bounds on the differential-privacy noise, and the delta of the guarantee."""

    max_noise_error: float = parameter(
        12.0,
        "bound Vmax on the weighted mean noise variance, (21)",
        stages="channel schedule/optimal noise/optimal report",
        ge=1e-9,
        le=1e9,
    )
    min_noise: float = parameter(
        100.0,
        "lower bound Nmin of samples times noise standard deviation, (22)",
        stages="channel noise/optimal report",
        ge=1e-6,
        le=1e6,
    )
    delta: float = parameter(
        1e-5, "delta of the (epsilon, delta) guarantee", stages="noise/target account report", ge=1e-100, lt=1
    )
    target_epsilon: float | None = common.target_epsilon(
        stages="noise/target",
        otherwise="only for schemes with `noise: target`, of every scheduled user's records alike",
    )


class Schedule(Section):
    """The optimal scheduler (30)-(34)."""

    gamma: float = parameter(
        1e6,
        "weight gamma of the privacy term in the objective (20)",
        stages="schedule/optimal account report",
        ge=0,
        le=1e15,
    )
    solver: Literal["assignment", "GLPK_MI", "HIGHS"] = parameter(
        "assignment",
        "how a cell's program is solved: by its assignment structure, or by CVXPY with GLPK or HiGHS "
        "(reference paths, same optimum, far slower; GLPK is the extra `glpk`)",
        stages="schedule/optimal",
    )

    def problems(self) -> list[str]:
        """GLPK, where it is not installed."""
        if self.solver != "GLPK_MI" or find_spec("cvxopt"):
            return []
        return ["solver: GLPK_MI is not installed; install pwfl with its extra `glpk`, or use `assignment` or `HIGHS`"]


class Training(Section):
    """Federated learning (Algorithm 1)."""

    hidden_layers: list[common.Width] = common.hidden_layers([256, 256], stages="train account")
    rounds: int = parameter(200, "rounds T", stages="noise/target train account audit report", ge=1, le=10**6)
    learning_rate: float = parameter(0.05, "step size lambda", stages="train account", ge=1e-9, le=1e38)
    clip_norm: float = parameter(
        10.0, "clipping norm L of a gradient", stages="noise/target train account audit report", ge=1e-6, le=1e6
    )
    clipping: Literal["per_sample", "per_user"] = parameter(
        "per_sample",
        "what is clipped to the norm: every sample's gradient, or a user's mean gradient "
        "(then the leakage (11) is not guaranteed)",
        stages="train account audit",
    )
    evaluate_every: int = common.evaluate_every(5)


class Convergence(Section):
    """Constants of Theorem 1's bound, taken as given: no premise is checked but that on the step size."""

    smoothness: float = parameter(
        20.0,
        "Lipschitz constant of the global loss's gradient (Assumption 3); the proof takes 1 / learning_rate",
        stages="account",
        ge=1e-9,
        le=1e9,
    )
    strong_convexity: float = parameter(
        1.0, "strong convexity mu of the global loss (Assumption 4)", stages="account", ge=1e-9, le=1e9
    )
    xi1: float | None = parameter(
        None, "xi1 of Assumption 6; null: the square of clip_norm, which makes it true", stages="account", ge=0, le=1e9
    )
    xi2: float = parameter(1.0, "xi2 of Assumption 6", stages="account", ge=1, le=1e9)


class Scheme(common.Scheme):
    """A pair of scheduler and noise scheme, and the name it has in figures and tables."""

    scheduler: Literal["random", "optimal"] = parameter(..., "Algorithm 2's or Algorithm 3's schedule")
    noise: Literal["random", "optimal", "target"] = parameter(
        ...,
        "start values; the optimum of (36); or what gives every scheduled user's records privacy.target_epsilon, "
        "whether or not (21) and (22) hold",
    )


PAPER_SCHEMES = [
    Scheme(name="RndSched", scheduler="random", noise="random"),
    Scheme(name="OptSched", scheduler="optimal", noise="random"),
    Scheme(name="OptSched+DP", scheduler="optimal", noise="optimal"),
]


class Multicell(common.Scenario):
    """A scenario of the system `multicell`."""

    system: Literal["multicell"] = parameter("multicell", "the system simulated")
    network: Network = Network()
    radio: Radio = Radio()
    data: Data = Data()
    privacy: Privacy = Privacy()
    schedule: Schedule = Schedule()
    training: Training = Training()
    convergence: Convergence = Convergence()
    schemes: list[Scheme] = parameter(
        PAPER_SCHEMES, "the schemes compared; a list replaces the default one", stages="report", min_length=1
    )

    @model_validator(mode="after")
    def _consistent(self):
        """Reject what no realization can satisfy."""
        self._check_samples()
        most = MAX_PRIVACY_WEIGHT * self.privacy.min_noise**2
        if self.schedule.gamma > most:
            raise ValueError(
                f"schedule.gamma: {self.schedule.gamma:g} weighs one user's leakage, up to gamma / Nmin^2, so much "
                f"that samples no longer count beside it in (20); at most {most:g} at privacy.min_noise: "
                f"{self.privacy.min_noise:g}"
            )
        if self.radio.min_rate_bps > (limit := MAX_EFFICIENCY * self.radio.bandwidth_hz):
            raise ValueError(
                f"radio.min_rate_bps: {self.radio.min_rate_bps:g} is more than {limit:g}, {MAX_EFFICIENCY} bit/s for "
                "every Hz of radio.bandwidth_hz; no link is that good"
            )
        self._check_target()
        if self.convergence.strong_convexity > self.convergence.smoothness:
            raise ValueError(
                f"convergence.strong_convexity: {self.convergence.strong_convexity} exceeds convergence.smoothness: "
                f"{self.convergence.smoothness}; Assumption 5 needs mu <= L"
            )
        return self

    def _check_target(self):
        target, wanted = self.privacy.target_epsilon, [s.name for s in self.schemes if s.noise == "target"]
        if wanted and target is None:
            raise ValueError(
                f"privacy.target_epsilon: is empty, and the scheme {wanted[0]!r} has `noise: target`; "
                "give the epsilon that its noise is set for"
            )
        if wanted and self.training.clipping == "per_user":
            raise ValueError(
                f"training.clipping: per_user guarantees no leakage (11), so no noise has the epsilon that the scheme "
                f"{wanted[0]!r} asks for; it needs `per_sample`"
            )

    def _check_samples(self):
        data, users, privacy = self.data, self.network.users, self.privacy
        available = datasets.SIZES[data.dataset].train
        if data.samples_total is not None and data.samples_total < users:
            raise ValueError(
                f"data.samples_total: {data.samples_total} is less than network.users: {users}; every user has a sample"
            )
        least = data.samples_total or users * max(data.samples_offset, 1)
        if least > available:
            key = "data.samples_total" if data.samples_total else "data.samples_offset"
            raise ValueError(
                f"{key}: {users} users would hold at least {least} samples, {data.dataset} has {available}; "
                f"lower {key}" + ("" if data.samples_total else " or network.users")
            )
        mean = (
            data.samples_total / users
            if data.samples_total
            else data.samples_offset + exp(data.samples_log_mean + data.samples_log_sd**2 / 2)
        )
        if users * mean > available:
            raise ValueError(
                f"data.samples_log_mean: {users} users would hold {users * mean:.4g} samples on average, "
                f"{data.dataset} has {available}; lower data.samples_log_mean, data.samples_log_sd, "
                "data.samples_offset or network.users, or set data.samples_total"
            )
        if (least_variance := (privacy.min_noise / mean) ** 2) > privacy.max_noise_error:
            raise ValueError(
                f"privacy.min_noise: {privacy.min_noise:g} makes start values that cannot meet (21): even the least "
                f"noise has variance {least_variance:.3g} at the mean of {mean:.3g} samples a user, above "
                f"privacy.max_noise_error: {privacy.max_noise_error:g}; lower min_noise, raise max_noise_error "
                "or give users more samples"
            )

    def table_bytes(self) -> tuple[float, float, str]:
        """See `pwfl.scenario.common.Scenario`."""
        cells = 3 * self.network.rings * (self.network.rings + 1) + 1
        couplings = self.radio.resource_blocks * cells**2 * FLOAT * COPIES
        return (
            cells * self.network.users * LINK_BYTES + couplings,
            0,
            "network.rings, network.users or radio.resource_blocks",
        )

    def training_bytes(self) -> tuple[float, str]:
        """See `pwfl.scenario.common.Scenario`."""
        needed = network_bytes(self, self.training.hidden_layers, 1) + layer_bytes(
            self, datasets.SIZES[self.data.dataset].train
        )
        return needed, "training.hidden_layers"

    def training_operations(self) -> float:
        """See `pwfl.scenario.common.Scenario`."""
        cells = 3 * self.network.rings * (self.network.rings + 1) + 1
        held = self.data.samples_total or self.network.users * (
            self.data.samples_offset + exp(self.data.samples_log_mean + self.data.samples_log_sd**2 / 2)
        )
        share = min(1.0, cells * self.radio.resource_blocks / self.network.users)
        return training_operations(self, self.training.hidden_layers, self.training.rounds * share * held)


MODEL = Multicell
