"""Parameters of the system `multicell`: several base stations, inter-cell interference.

Defaults are Table I of Tavangaran et al., "On Differential Privacy for Federated Learning in
Wireless Systems with Multiple Base Stations", with R = 5 and gamma = 1e6.
"""

from functools import lru_cache
from importlib.util import find_spec
from math import exp
from typing import Literal, NamedTuple

from pydantic import model_validator

from pwfl.learning import cnn, datasets
from pwfl.runtime import files, shards
from pwfl.scenario import common
from pwfl.scenario.fields import Section, parameter
from pwfl.scenario.size import COPIES, FLOAT, LINK_BYTES, layer_bytes, network_bytes, training_operations
from pwfl.stages import IMPORTED, IMPORTS
from pwfl.systems.multicell import hexagons, urban
from pwfl.systems.multicell.allocation import ALLOCATIONS
from pwfl.systems.multicell.bounds import PAPER_CLIP_NORM, PAPER_ROUNDS
from pwfl.systems.multicell.intervals import intervals

POWER_LAW = ("path_loss_exponent", "fading_scale", "min_distance_m")  # parameters that only this path loss reads
MAX_PRIVACY_WEIGHT = 1e12  # of a user's leakage in the objective, in samples
MAX_EFFICIENCY = 20  # bit/s per Hz that a minimum rate may ask for
FOR_NOISE = {"joint_noise": "optimal", "joint_snr": "equal_max"}  # schedulers, and what they are made for
BOUNDED = ("privacy.bounds", "noise")  # with it, noise depends on neither rounds nor clip_norm
OPTIMIZED = " ".join(f"noise/{scheme}" for scheme in ("optimal", *ALLOCATIONS))  # noise that follows from (36)


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

    resource_blocks: int = parameter(
        5, "resource blocks R of each cell", stages="channel schedule account", ge=1, le=10**4
    )
    bandwidth_hz: float = parameter(
        180e3, "bandwidth B of a resource block", unit="Hz", stages="schedule train account", ge=1, le=1e12
    )
    noise_density_dbm_hz: float = parameter(
        -174.0, "thermal noise power density N0", unit="dBm/Hz", stages="schedule account", ge=-250, le=0
    )
    max_power_dbm: float = parameter(
        10.0, "maximum transmit power Pmax of a user", unit="dBm", stages="channel schedule account", ge=-100, le=100
    )
    min_rate_bps: float = parameter(
        100e3, "minimum uplink rate Rmin of a scheduled user", unit="bit/s", stages="schedule account", ge=1e-9, le=1e13
    )
    coherence_rounds: int | None = parameter(
        None,
        "rounds for which the channel stays before it is drawn anew, a divisor of training.rounds: positions stay, "
        "Rayleigh fading, schedule, powers and noise are new; null: it stays for all rounds",
        unit="rounds",
        stages="channel",
        ge=1,
        le=10**6,
    )
    frequency_hz: float = parameter(2.45e9, "uplink centre frequency f", unit="Hz", stages="channel", ge=1e3, le=1e13)
    path_loss: Literal["power_law", "uma", "umi"] = parameter(
        "power_law",
        "path loss: the paper's (17), a power of the distance; or that of 3GPP TR 38.901 for outdoor users, urban "
        "macro (stations 25 m high) or urban micro, street canyon (10 m): line of sight by its probability, shadow "
        "fading, Rayleigh fading of mean power 1, distances cut below at 10 m",
        stages="channel",
    )
    path_loss_exponent: float = parameter(
        3.0, "exponent of the distance in the path loss `power_law`", stages="channel", ge=0, le=6
    )
    fading_scale: float = parameter(
        1.0,
        "scale of the Rayleigh fading amplitude l, whose mean power is twice its square, with `power_law`",
        stages="channel",
        ge=1e-3,
        le=1e3,
    )
    min_distance_m: float = parameter(
        1.0,
        "distances to a station are cut below at this, with `power_law`",
        unit="m",
        stages="channel",
        ge=1e-3,
        le=1e6,
    )
    user_height_m: float = parameter(
        1.5,
        "height of the users above ground, with `uma` and `umi`",
        unit="m",
        stages="channel",
        ge=urban.USER_HEIGHT_M[0],
        le=urban.USER_HEIGHT_M[1],
    )


class Channel(Section):
    """Channels from outside: of a ray tracer, a system simulator, or measurements (docs/multicell.md)."""

    links: str | None = parameter(
        None,
        "table of gains, a .parquet or .csv file that every job can read, with the columns realization, station, user "
        "(each numbered from 0) and gain (of power, a ratio, not in dB); null: drawn by `network` and `radio`",
        stages=IMPORTED,
    )
    users: str | None = parameter(
        None,
        "table of their users, likewise, with the columns realization, user and any of: x_m and y_m; cell (the serving "
        "station); samples; null: positions unknown, served by the strongest station, samples drawn by `data`",
        stages=IMPORTED,
    )


class Data(common.DataSource):
    """What the users hold and learn. The law of sample counts is this project's, Table I has none (docs/multicell.md).

    The defaults, 50 + LN(4, 1) or about 14,000 samples of 100 users, were calibrated; `config/samples.yaml` shows how
    the claims depend on them.
    """

    partition: Literal["quantity", "iid", "dirichlet", "shards"] = parameter(
        "quantity",
        f"{common.PARTITION}. `quantity` is `iid` where users hold different numbers of samples",
        stages="train",
    )
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
        stages=f"channel schedule {OPTIMIZED} account report",
        ge=1e-9,
        le=1e9,
    )
    min_noise: float = parameter(
        100.0,
        "lower bound Nmin of samples times noise standard deviation, (22)",
        stages=f"channel schedule/joint_noise schedule/joint_snr {OPTIMIZED} account report",
        ge=1e-6,
        le=1e6,
    )
    bounds: Literal["noise", "multiplier"] = parameter(
        "noise",
        "what max_noise_error and min_noise bound, and gamma weighs: noise; or multipliers K sigma / (L sqrt(T)), "
        "given as the noise that they are at Table I's L = 10 and T = 200: then all leakages stay what they are when "
        "clip_norm or rounds change",
        stages="noise account report",
    )
    delta: float = parameter(
        1e-5, "delta of the (epsilon, delta) guarantee", stages="noise/target account report", ge=1e-100, lt=1
    )
    target_epsilon: float | None = common.target_epsilon(
        stages="noise/target",
        otherwise="only for schemes with `noise: target`, of every scheduled user's records alike; with "
        "coherence_rounds, of those who send in as many rounds as were planned",
    )
    planned_share: float = parameter(
        1.0,
        "with coherence_rounds: share of the rounds that a user's budget is planned for, which is what its noise would "
        "leave it if it sent in all of them; it adds less noise, and stops when it has sent in as many",
        stages="schedule noise account",
        ge=1e-6,
        le=1,
    )


class Schedule(Section):
    """The schedulers: the paper's optimal one (30)-(34), and those of all cells together."""

    gamma: float = parameter(
        1e6,
        "weight gamma of the privacy term in the objective (20)",
        stages="schedule/optimal schedule/joint schedule/joint_noise account report",
        ge=0,
        le=1e15,
    )
    solver: Literal["assignment", "GLPK_MI", "HIGHS"] = parameter(
        "assignment",
        "how a cell's program is solved: by its assignment structure, or by CVXPY with GLPK or HiGHS "
        "(reference paths, same optimum, far slower; GLPK is the extra `glpk`)",
        stages="schedule/optimal",
    )
    searches: int = parameter(
        32,
        "searches of the schedulers of all cells in a realization that is not proven optimal",
        stages="schedule/joint schedule/joint_noise schedule/joint_snr",
        ge=0,
        le=10**4,
    )

    def problems(self) -> list[str]:
        """GLPK, where it is not installed."""
        if self.solver != "GLPK_MI" or find_spec("cvxopt"):
            return []
        return ["solver: GLPK_MI is not installed; install pwfl with its extra `glpk`, or use `assignment` or `HIGHS`"]


class Training(Section):
    """Federated learning (Algorithm 1)."""

    model: Literal["dense", "cnn"] = parameter(
        "dense",
        "what is trained: a fully connected network of hidden_layers; or a small one of two convolutions and two dense "
        "layers, 26,010 parameters for MNIST",
        stages="train account audit",
    )
    features: common.Features = common.features(stages="train account")
    directions: int | None = common.directions(stages="train account")
    test_variants: bool = parameter(
        False,
        "predict by the mean of the probabilities of a test image and of 6 variants of it: turned, scaled and sheared "
        "by a little in both ways",
        stages="train",
    )
    hidden_layers: list[common.Width] = common.hidden_layers([256, 256], stages="train account")
    initial_weights: Literal["glorot", "zero"] = parameter(
        "glorot",
        "weights before the first round: Glorot uniform kernels and zero biases; or all zero, for softmax regression, "
        "which has random ones to unlearn",
        stages="train",
    )
    rounds: int = parameter(
        PAPER_ROUNDS,
        "rounds T; the channel depends on it only with coherence_rounds, noise only with `bounds: multiplier`",
        stages="channel noise noise/target train account audit report",
        unless={"channel": ("radio.coherence_rounds", None), "noise": BOUNDED},
        ge=1,
        le=10**6,
    )
    step: Literal["constant", "snr"] = parameter(
        "constant",
        "step size: learning_rate; or, from the round's signal-to-noise ratio, that with which the noise of all rounds "
        "adds up to sqrt(2) step_scale in each weight",
        stages="train account",
    )
    learning_rate: float = parameter(
        0.05, "step size lambda, of the first round where steps fall", stages="train account", ge=1e-9, le=1e38
    )
    step_scale: float = parameter(
        0.07,
        "c of `step: snr`: with constant steps and weights by precision eta T L = c SNR, where SNR^2 is the sum of K^2 "
        "rho over the senders",
        stages="train",
        ge=1e-6,
        le=1e3,
    )
    step_decay: Literal["none", "linear"] = parameter(
        "none", "steps stay as large as the first, or fall linearly, to 1 / T of it", stages="train account"
    )
    tail_average: float = parameter(
        0.0,
        "share of the rounds, the last ones, whose weights are averaged to the model that is evaluated; before them, "
        "and with 0, the weights themselves are",
        stages="train",
        ge=0,
        le=1,
    )
    weights: Literal["samples", "precision"] = parameter(
        "samples",
        "what the server weighs users by: their samples, (8) and (9); or the inverse variance of their noise, short of "
        "counting a record for more than one without noise: 1 / (.001 / K + 1 / (K^2 rho))",
        stages="train account audit",
    )
    clip_norm: float = parameter(
        PAPER_CLIP_NORM,
        "clipping norm L of a gradient",
        stages="noise noise/target train account audit report",
        unless={"noise": BOUNDED},
        ge=1e-6,
        le=1e6,
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

    scheduler: Literal["random", "optimal", "joint", "joint_noise", "joint_snr"] = parameter(
        ...,
        "Algorithm 2's or Algorithm 3's schedule; all cells together, at the start values' noise; all cells and the "
        "noise together, for the noise that (36) adds; or all cells, for the greatest sum of K_i^2, the squared "
        "signal-to-noise ratio of an aggregate with its best weights where everyone has the same rho",
    )
    noise: Literal["random", "optimal", "equal_sum", "equal_max", "fill_up", "target"] = parameter(
        ...,
        "start values; the optimum of (36); the sum of leakages that this leaves, or its maximum, for everyone alike; "
        "as many users of most samples at the maximum as the sum pays for; or what gives every scheduled user's "
        "records privacy.target_epsilon, whether or not (21) and (22) hold",
    )


PAPER_SCHEMES = [
    Scheme(name="RndSched", scheduler="random", noise="random"),
    Scheme(name="OptSched", scheduler="optimal", noise="random"),
    Scheme(name="OptSched+DP", scheduler="optimal", noise="optimal"),
]


class Multicell(common.Scenario):
    """A scenario of the system `multicell`."""

    system: Literal["multicell"] = parameter("multicell", "the system simulated")
    seed: int = parameter(1, "seed of every random draw", stages="channel schedule train audit", ge=0, lt=2**63)
    network: Network = Network()
    radio: Radio = Radio()
    channel: Channel = Channel()
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
        if self.channel.users is None:  # else it is checked with what they hold
            self._check_samples()
        if self.channel.links is None:
            self._check_path_loss()
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
        if self.training.test_variants and self.data.validation:
            raise ValueError(
                f"training.test_variants: only test images have variants, and data.validation: {self.data.validation} "
                "takes their place; leave one of them out"
            )
        if self.data.partition == "iid" and self.data.samples_log_sd > 0:
            raise ValueError(
                f"data.partition: iid is of users alike, and data.samples_log_sd: {self.data.samples_log_sd:g} gives "
                "them different numbers of samples; set that to 0, or take `quantity`"
            )
        self._check_target()
        self._check_training()
        self._check_coherence()
        for scheme in self.schemes:
            if scheme.scheduler in FOR_NOISE and scheme.noise == "random":
                raise ValueError(
                    f"schemes: {scheme.name!r} has `scheduler: {scheme.scheduler}`, whose schedule keeps (21) with the "
                    f"noise of (36), not with start values; give it `noise: {FOR_NOISE[scheme.scheduler]}`, or take "
                    "`scheduler: joint`"
                )
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

    def _check_training(self):
        training = self.training
        if training.model != "dense" and training.clipping == "per_user":
            raise ValueError(
                f"training.clipping: per_user is for `model: dense`; the engine of `model: {training.model}` clips "
                "samples' gradients"
            )
        if training.model != "dense" and (training.features != "pixels" or training.test_variants):
            key = "test_variants" if training.features == "pixels" else "features"
            raise ValueError(
                f"training.{key}: {getattr(training, key)} is for `model: dense`; `model: {training.model}` takes "
                "images as they are"
            )
        if training.initial_weights == "zero" and (training.model != "dense" or training.hidden_layers):
            raise ValueError(
                "training.initial_weights: zero is for softmax regression, `hidden_layers: []`; layers that start "
                "alike learn alike"
            )
        if training.tail_average > 0 and training.step_decay == "linear":
            raise ValueError(
                f"training.tail_average: {training.tail_average:g} averages the noise of steps that do not fall, and "
                "`step_decay: linear` takes it back already; use one of the two"
            )

    def _check_coherence(self):
        coherence, rounds = self.radio.coherence_rounds, self.training.rounds
        if coherence is None:
            return
        if rounds % coherence:
            raise ValueError(
                f"radio.coherence_rounds: {coherence} is no divisor of training.rounds: {rounds}; budgets are planned "
                "for whole intervals of as many rounds each"
            )
        if self.channel.links is not None:
            raise ValueError(
                f"radio.coherence_rounds: {coherence} draws channels anew, those of channel.links are of all rounds; "
                "leave one of them empty"
            )

    def _check_path_loss(self):
        if self.radio.path_loss == "power_law":
            return
        standard, network = f"radio.path_loss: {self.radio.path_loss}, of 3GPP TR 38.901,", self.network
        low, high = urban.FREQUENCY_HZ
        if not low <= self.radio.frequency_hz <= high:
            raise ValueError(
                f"radio.frequency_hz: {self.radio.frequency_hz:g} is not between {low:g} and {high:g}, where "
                f"{standard} holds"
            )
        farthest = hexagons.farthest(network.rings, network.cell_radius_m)
        if farthest > urban.DISTANCE_M[1]:
            raise ValueError(
                f"network.cell_radius_m: {network.cell_radius_m:g} with network.rings: {network.rings} lets a user be "
                f"{farthest:.0f} m from a station, and {standard} holds up to {urban.DISTANCE_M[1]:g} m; lower one"
            )

    def _check_samples(self):
        data, users, privacy = self.data, self.network.users, self.privacy
        available = data.available
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

    def imports(self) -> dict[str, str]:
        """See `pwfl.scenario.common.Scenario`."""
        if self.channel.links is None:
            return {}
        paths = dict(zip(IMPORTS, (self.channel.links, self.channel.users), strict=True))
        return {table: path for table, path in paths.items() if path is not None}

    def problems(self) -> list[str]:
        """See `pwfl.scenario.common.Scenario`."""
        return super().problems() + self._channel_problems()

    def _channel_problems(self) -> list[str]:
        """What is wrong with channels from outside, or does not fit the scenario."""
        from pwfl.tables import TableError

        links, users = self.channel.links, self.channel.users
        if links is None:
            return [] if users is None else [f"channel.users: {users}: needs gains, a table channel.links of its users"]
        try:
            held = _held(tuple((table, path, files.content(path)) for table, path in self.imports().items()))
        except (OSError, TableError) as error:
            return [f"channel.{'users' if str(error).startswith(f'{users}:') else 'links'}: {error}"]
        if self.network.users != held.users:
            return [f"network.users: {self.network.users} must be the {held.users} of {links}"]
        if self.realizations > held.realizations:
            return [f"realizations: {self.realizations} are more than the {held.realizations} of {links}"]
        trained = shards.bounds(shards.of(self, "train")[-1])[1]
        needed = shards.covering(0, max(trained, self.realizations), self.shards.optimization)
        if (count := shards.bounds(needed[-1])[1]) > held.realizations:
            return [
                f"shards.optimization: {self.shards.optimization} (and shards.training: {self.shards.training}) take "
                f"{count} realizations, as shards are whole, and {links} has {held.realizations}; lower them"
            ]
        if held.samples is None:
            try:
                self._check_samples()
            except ValueError as error:
                return [str(error)]
        elif held.samples > (available := self.data.available):
            return [
                f"channel.users: {users}: realization {held.fullest} has {held.samples} samples, {self.data.dataset} "
                f"has {available}"
            ]
        return []

    def idle(self) -> dict[str, str]:
        """See `pwfl.scenario.common.Scenario`."""
        standard = self.radio.path_loss != "power_law"
        reason = f"radio.path_loss: {self.radio.path_loss}"
        found = {f"radio.{key}": reason for key in (POWER_LAW if standard else ("user_height_m",))}
        if self.channel.links is not None:
            drawn = ("network.rings", "network.cell_radius_m", "radio.path_loss", "radio.frequency_hz")
            found = dict.fromkeys((*drawn, *(f"radio.{key}" for key in (*POWER_LAW, "user_height_m"))), "channel.links")
        if self.radio.coherence_rounds is None:
            found["privacy.planned_share"] = "radio.coherence_rounds: null"
        training = self.training
        unread = "learning_rate" if training.step == "snr" else "step_scale"
        found[f"training.{unread}"] = f"training.step: {training.step}"
        if training.model != "dense":
            found["training.hidden_layers"] = f"training.model: {training.model}"
        return super().idle() | found

    def table_bytes(self) -> tuple[float, float, str]:
        """See `pwfl.scenario.common.Scenario`."""
        cells = 3 * self.network.rings * (self.network.rings + 1) + 1
        couplings = self.radio.resource_blocks * cells**2 * FLOAT * COPIES
        keys = "network.rings, network.users or radio.resource_blocks"
        if intervals(self) > 1:
            keys = f"{keys}, or raise radio.coherence_rounds"
        return intervals(self) * (cells * self.network.users * LINK_BYTES + couplings), 0, keys

    def training_bytes(self) -> tuple[float, str]:
        """See `pwfl.scenario.common.Scenario`."""
        if self.training.model == "cnn":  # small, and its samples come in blocks
            return network_bytes(self, [], 1), "data.dataset"
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
        share = min(self.privacy.planned_share, cells * self.radio.resource_blocks / self.network.users)
        samples, size = self.training.rounds * share * held, datasets.SIZES[self.data.dataset]
        if self.training.model == "cnn":
            return 6.0 * samples * cnn.multiplications(size.features, size.classes)
        return training_operations(self, self.training.hidden_layers, samples)


class Held(NamedTuple):
    """What files of channels from outside hold: realizations, users, and samples of the realization with most."""

    realizations: int
    users: int
    samples: int | None
    fullest: int


@lru_cache
def _held(contents: tuple[tuple[str, str, str], ...]) -> Held:
    """What files hold, given as table, path and digest: scenarios of a study mostly share them."""
    from pwfl.systems.multicell import imported

    users = imported.run({table: path for table, path, _ in contents})[imported.USERS]
    totals = users.group_by("realization", maintain_order=True).sum()["samples"]
    most = None if users["samples"].null_count() else totals.max()
    return Held(len(totals), users["user"].n_unique(), most, totals.arg_max())


MODEL = Multicell
