"""Parameters of the system `multicell`: several base stations, inter-cell interference.

Defaults are Table I of Tavangaran et al., "On Differential Privacy for Federated Learning in
Wireless Systems with Multiple Base Stations", with R = 5 and gamma = 1e6. In each section, parameters
beyond the paper are last; all of the section `Channel` is beyond it.
"""

from typing import TYPE_CHECKING, ClassVar, Literal

from pwfl.scenario import common
from pwfl.scenario.fields import ListOf, OrFunction, Section, Uses, describe, parameter
from pwfl.stages import IMPORTED
from pwfl.systems.multicell.recipes import RECIPES
from pwfl.systems.multicell.schemes import BY_LEAST_NOISE, BY_START_NOISE, LIMITED, NOISES, SCHEDULERS

if TYPE_CHECKING:
    Scheduler = Noise = str
else:
    Scheduler, Noise = Literal[tuple(SCHEDULERS)], Literal[tuple(NOISES)]

BOUNDED = ("privacy.bounds", "noise")  # with it, noise depends on neither rounds nor clip_norm
ALONE = ("privacy.observer", "user")  # with it, no user's noise depends on the others
OPTIMIZED = "noise/optimal noise/equal_sum noise/equal_max noise/fill_up"  # noise that follows from (36)
FREE_START = ("bounded", False)  # with it, start values need not satisfy (21)
DIGITAL = ("radio.air", "digital")  # with it, messages are uploads at the schedule's powers and rates
ON_AIR = dict.fromkeys(("noise/target", "receive"), DIGITAL)
WHOLE_GRADIENTS = ("training.learner", "gradients")  # with it, users compute no local steps
LEARNS = "noise/target receive train account audit"
OF_DATA = "channel receive train account audit report noise/target"


class Network(Section):
    """Where stations and users are (Sec. VI-A)."""

    rings: int = parameter(
        1,
        "rings of hexagonal cells around the central one: 0, 1, 2 give 1, 7, 19 cells",
        stages="channel report",
        ge=0,
        le=20,
    )
    users: common.Count = parameter(100, "users, uniform in the square that bounds the hexagons", stages="channel")
    cell_radius_m: float = parameter(
        500.0, "radius of a cell, centre to corner", unit="m", stages="channel report", usual=(10.0, 1e5), ge=1, le=1e6
    )


class Radio(Section):
    """The uplink (eq. 17, 18)."""

    resource_blocks: int = parameter(
        5,
        "resource blocks R of each cell; on air all of them together are the band",
        stages="schedule noise/target receive account",
        unless=ON_AIR,
        ge=1,
        le=10**4,
    )
    bandwidth_hz: common.Bandwidth = parameter(
        180e3,
        "bandwidth B of a resource block",
        unit="Hz",
        stages="schedule noise/target receive account",
        unless={"noise/target": DIGITAL},
        usual=common.USUAL_BANDWIDTH,
    )
    noise_density_dbm_hz: common.NoiseDensity = parameter(
        -174.0,
        "thermal noise power density N0",
        unit="dBm/Hz",
        stages="schedule noise/target receive account",
        unless=ON_AIR,
        usual=common.USUAL_NOISE_DENSITY,
    )
    max_power_dbm: common.PowerDbm = parameter(
        10.0,
        "maximum transmit power Pmax of a user",
        unit="dBm",
        stages="schedule noise/target receive account",
        unless=ON_AIR,
        usual=common.USUAL_POWER,
    )
    min_rate_bps: float = parameter(
        100e3,
        "minimum uplink rate Rmin of a scheduled user",
        unit="bit/s",
        stages="schedule account",
        usual=(1e3, 1e10),
        ge=1e-9,
        le=1e13,
    )
    frequency_hz: common.Frequency = parameter(
        2.45e9, "uplink centre frequency f", unit="Hz", stages="channel", usual=common.USUAL_FREQUENCY
    )
    path_loss_exponent: common.Exponent = parameter(
        3.0, "exponent of the distance in the path loss `power_law`", stages="channel"
    )
    fading_scale: common.FadingScale = parameter(
        1.0,
        "scale of the Rayleigh fading amplitude l, whose mean power is twice its square, with `power_law`",
        stages="channel",
    )

    # Beyond the paper.
    coherence_rounds: int | None = parameter(
        None,
        "rounds for which the channel stays before it is drawn anew, a divisor of training.rounds: positions stay, "
        "Rayleigh fading, schedule, powers and noise are new; null: it stays for all rounds",
        unit="rounds",
        stages="channel",
        ge=1,
        le=10**6,
    )
    path_loss: Literal["power_law", "uma", "umi"] = parameter(
        "power_law",
        "path-loss model",
        values={
            "power_law": "the paper's (17), a power of the distance",
            "uma": "3GPP TR 38.901, urban macro, stations 25 m high: random line of sight, shadow fading, Rayleigh "
            "fading of mean power 1; distances of at least 10 m",
            "umi": "the same, urban micro street canyon, stations 10 m high",
        },
        stages="channel",
    )
    air: OrFunction[Literal["digital", "superposed", "antennas", "broadband", "majority"]] = parameter(
        "digital",
        "air interface between users and server; all but `digital` require `scheduler: inversion` "
        "(docs/explanation/crossings.md)",
        values={
            "digital": "uploads without error, at the schedule's powers and rates",
            "superposed": "all users at once, each inverting its channel; cells interfere",
            "antennas": "all users at once to stations with many antennas, without channel knowledge at users "
            "(random orthogonalization)",
            "broadband": "all users at once over subchannels; a user is silent on subchannels in a fade (broadband "
            "analog aggregation)",
            "majority": "signs of noisy messages, all at once; the server takes the majority (one-bit digital "
            "aggregation)",
            "FILE.py:FUNCTION": "a custom air (docs/how-to/own_air.md)",
        },
        stages="noise/target receive train account audit",
    )
    antennas: int = parameter(
        64,
        "antennas of each station, with `air: antennas`",
        stages="noise/target receive",
        unless=ON_AIR,
        ge=1,
        le=10**4,
    )
    subchannels: int = parameter(
        8,
        "subchannels of the band, over which a message's coordinates are dealt, with `air: broadband`",
        stages="noise/target receive",
        unless=ON_AIR,
        ge=1,
        le=64,
    )
    truncation: float = parameter(
        0.2,
        "power gain of a subchannel over its mean below which a user is silent in it, with `air: broadband`",
        stages="noise/target receive",
        unless=ON_AIR,
        ge=0.001,
        le=10,
    )


class Data(common.DataSource):
    """What the users hold and learn. Table I has no distribution of sample counts (docs/explanation/multicell.md).

    The defaults, 50 + LN(4, 1) or about 14,000 samples of 100 users, were calibrated; `config/samples.yaml` shows how
    the claims depend on them.
    """

    dataset: common.Dataset = common.dataset(stages=OF_DATA)
    content: common.Content | None = common.content(stages=OF_DATA)
    # There is one more choice than elsewhere, so the type is not that of the inherited parameter.
    partition: Literal["quantity", "iid", "dirichlet", "shards", "given"] = parameter(  # ty: ignore[incompatible-attribute-override]
        "quantity",
        common.PARTITION,
        values={"quantity": "as `iid`, with a different number of records per user"} | common.PARTITIONS,
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

    # Beyond the paper.
    sampling: float | None = parameter(
        None,
        "probability with which each record of a sender is in a round's message (Poisson sampling), which amplifies "
        "privacy; null: all are in each (docs/explanation/crossings.md)",
        stages=LEARNS,
        ge=1e-6,
        lt=1,
    )


class Privacy(Section):
    """Bounds on the differential-privacy noise, and the delta of the guarantee."""

    max_noise_error: common.Positive = parameter(
        12.0,
        "bound Vmax on the weighted mean noise variance, (21); `noise: target`, `none` and user-defined noise do not "
        "use it",
        stages=f"schedule schedule/joint_noise schedule/joint_snr {OPTIMIZED} account report",
        unless={"schedule": FREE_START},
    )
    min_noise: common.Scale = parameter(
        100.0,
        "lower bound Nmin of samples times noise standard deviation, (22); `noise: target`, `none` and user-defined "
        "noise do not use it",
        stages=f"schedule schedule/joint_noise schedule/joint_snr {OPTIMIZED} account report",
        unless={"schedule": ("start_noise", False)},
    )
    delta: float = common.delta(stages="noise/target account report")

    # Beyond the paper.
    bounds: Literal["noise", "multiplier"] = parameter(
        "noise",
        "what `max_noise_error`, `min_noise` and `gamma` refer to",
        values={
            "noise": "standard deviations of the noise",
            "multiplier": "multipliers K sigma / (L sqrt(T)), written as the noise at Table I's L = 10 and T = 200; "
            "the leakage then stays when `clip_norm` or `rounds` change",
        },
        stages="noise account report",
    )
    target_epsilon: float | None = common.target_epsilon(
        stages="noise/target",
        otherwise="only for schemes with `noise: target`: every scheduled user's records have it; with "
        "coherence_rounds, only if the user sends in as many rounds as were planned",
    )
    planned_share: float = parameter(
        1.0,
        "with coherence_rounds: share of the rounds that a user's budget is planned for, which is what its noise would "
        "leave it if it sent in all of them; it adds less noise, and stops when it has sent in as many",
        stages="schedule noise account",
        ge=1e-6,
        le=1,
    )

    observer: Literal["user", "cell", "server", "network"] = parameter(
        "user",
        "observer, by what it sees in each round; sums assume secure aggregation (docs/explanation/sums.md). Users "
        "share the noise of a sum, with the same leakage of the most exposed record for all",
        values={
            "user": "each user's noisy gradient",
            "cell": "the sum of each cell",
            "server": "over the air: what the stations pass on to the server",
            "network": "the sum of all cells",
        },
        stages="schedule/joint_snr noise receive account audit",
    )
    colluders: float = parameter(
        0.0,
        "largest share of the senders of a sum, rounded up, who take their noise off it for the observer",
        stages="noise receive account audit",
        unless={"noise": ALONE, "audit": ALONE},
        ge=0,
        lt=1,
    )
    dropouts: float = parameter(
        0.0,
        "probability that a sender drops out of a round, which leaves its upload and noise out of the sum",
        stages="noise receive account audit",
        unless={"noise": ALONE},
        ge=0,
        lt=1,
    )
    dropout_tolerance: float = parameter(
        0.1,
        "largest probability that a sum lacks more than the noise was planned for: it is not opened then, and the "
        "round goes without it",
        stages="noise receive account audit",
        unless={"noise": ALONE} | dict.fromkeys(("receive", "account", "audit"), ("privacy.dropouts", 0.0)),
        ge=1e-9,
        lt=1,
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
        "solver of a cell's program; all find the same optimum",
        values={
            "assignment": "its assignment structure, fast",
            "GLPK_MI": "CVXPY with GLPK (extra `glpk`), a slow reference",
            "HIGHS": "CVXPY with HiGHS, a slow reference",
        },
        stages="schedule/optimal",
    )

    # Beyond the paper.
    least_gain_db: float = parameter(
        -115.0,
        "gain to its own station from which on a user sends, with `scheduler: inversion`",
        unit="dB",
        stages="schedule/inversion",
        usual=(-160.0, -40.0),
        ge=-300,
        le=100,
    )


class Training(Section):
    """Federated learning (Algorithm 1)."""

    device: common.Device = common.device(stages="audit")
    hidden_layers: ListOf[common.Width] = common.hidden_layers(
        [256, 256], stages="noise/target receive train account audit"
    )
    rounds: common.Count = parameter(
        200,
        "rounds T; the channel depends on it only with coherence_rounds, noise only with `bounds: multiplier`",
        stages="channel noise noise/target receive train account audit report",
        unless={"channel": ("radio.coherence_rounds", None), "noise": BOUNDED},
    )
    learning_rate: common.StepSize = parameter(
        0.05,
        "step size lambda, of the first round where steps fall; of local steps, whose updates the server takes whole",
        stages="train account audit",
    )
    clip_norm: common.Scale = parameter(
        10.0,
        "clipping norm L of a gradient",
        stages="noise noise/target receive train account audit report",
        unless={"noise": BOUNDED},
    )
    evaluate_every: int = common.evaluate_every(5)

    # Beyond the paper.
    learner: Literal["gradients", "local_steps"] = parameter(
        "gradients",
        "message of a user",
        values={
            "gradients": "sum of its records' clipped gradients",
            "local_steps": "change of the model parameters by local steps, clipped as a whole; one record can "
            "reverse it (docs/explanation/crossings.md)",
        },
        stages=LEARNS,
    )
    local_steps: common.Count = parameter(
        10,
        "mini-batch steps of a user in a round, with `learner: local_steps`",
        stages="train account audit",
        unless=dict.fromkeys(("train", "account", "audit"), WHOLE_GRADIENTS),
    )
    batch_size: common.Count = parameter(
        10,
        "samples in a mini-batch of a local step",
        unit="samples",
        stages="train audit",
        unless=dict.fromkeys(("train", "audit"), WHOLE_GRADIENTS),
    )
    model: common.Model = common.model(stages="noise/target receive train account audit")
    model_reads: ListOf[str] = common.model_reads(stages="noise/target receive train account audit")
    features: common.Features = common.features(stages="noise/target receive train account audit")
    recipe: Literal["paper", "zero_start", "falling_steps", "inverse_variance", "inverse_variance_falling"] = parameter(
        "paper",
        "initial model, step sizes and aggregation weights",
        values={
            "paper": "Glorot uniform kernels, zero biases, equal steps, weights by training records, (8) and (9)",
            "zero_start": "as `paper`, from zero model parameters, for softmax regression",
            "falling_steps": "as `paper`, with steps that fall linearly to 1 / T of the first",
            "inverse_variance": "weights by the inverse variance of the noise, 1 / (.001 / K + 1 / (K^2 rho)), so "
            "that no record counts for more than one without noise; softmax regression starts from zero",
            "inverse_variance_falling": "as `inverse_variance`, with falling steps",
        },
        stages="noise/target receive train account audit",
        keyed={name: recipe.former for name, recipe in RECIPES.items()},
    )
    step: Literal["constant", "snr"] = parameter(
        "constant",
        "step size of the server",
        values={
            "constant": "`learning_rate`",
            "snr": "from the round's signal-to-noise ratio: the noise of all rounds adds up to sqrt(2) step_scale in "
            "each model parameter; without noise `learning_rate`",
        },
        stages="train account audit",
    )
    step_scale: float = parameter(
        0.07,
        "c of `step: snr`: with equal steps and weights of least variance eta T L = c SNR, where SNR^2 is the sum of "
        "K^2 rho over the senders",
        stages="train audit",
        ge=1e-6,
        le=1e3,
    )
    bits: int | None = parameter(
        None,
        "bits of the integers that uploads are sent as, and summed modulo 2^bits, with discrete Gaussian noise of the "
        "same deviation: epsilons are then an upper bound, which a target_epsilon is of (docs/explanation/sums.md); "
        "null: 32-bit floating point, with real-valued noise",
        unit="bits",
        stages="noise/target receive train account audit",
        ge=4,
        le=16,
    )
    clipping: Literal["per_sample", "per_user"] = parameter(
        "per_sample",
        "what is clipped to `clip_norm`",
        values={
            "per_sample": "every record's gradient",
            "per_user": "a user's mean gradient; the leakage (11) is then not guaranteed",
        },
        stages="noise/target receive train account audit",
    )


class Channel(Section):
    """Channels from outside: of a ray tracer, a system simulator, or measurements (docs/how-to/channels.md)."""

    links: str | None = parameter(
        None,
        "table of gains, a .parquet or .csv file that every job can read, with the columns realization, station, user "
        "(each numbered from 0), gain (of power, a ratio, not in dB) and maybe interval (of radio.coherence_rounds "
        "rounds each, from 0; without: one of all rounds), station_x_m and station_y_m (the station's position); null: "
        "drawn by `network` and `radio`",
        stages=IMPORTED,
    )
    users: str | None = parameter(
        None,
        "table of their users, likewise, with the columns realization, user and any of: x_m and y_m; cell (the serving "
        "station); samples; null: positions unknown, served by the strongest station, samples drawn by `data`",
        stages=IMPORTED,
    )


class Own(common.Own):
    """Parameters of user-defined functions."""

    reads: ListOf[str] = common.own_reads("schedule/own noise/own noise/target receive", unless=ON_AIR)


class Scheme(common.Scheme):
    """A pair of scheduler and noise scheme, and the name it has in figures and tables."""

    conditions: ClassVar = {
        # Start values must satisfy (21) and (22), for noise that these limit or for schedulers that use start noise.
        "bounded": Uses(BY_START_NOISE, LIMITED),
        # Start values have noise, for the same schemes or as an argument of a user-defined function.
        "start_noise": Uses(BY_START_NOISE, LIMITED, by_function=True),
        # A scheduler uses the least noise that (22) allows.
        "least_noise": Uses(BY_LEAST_NOISE),
    }

    scheduler: OrFunction[Scheduler] = parameter(
        ..., "scheduler", values=describe(SCHEDULERS, "a user-defined function (docs/how-to/own_functions.md)")
    )
    noise: OrFunction[Noise] = parameter(
        ..., "noise mechanism", values=describe(NOISES, "a user-defined function (docs/how-to/own_functions.md)")
    )


class Multicell(common.Scenario):
    """A scenario of the system `multicell`."""

    system: Literal["multicell"] = common.system("multicell")
    seed: int = common.seed(stages="channel schedule noise/target noise/own receive train audit")
    network: Network = Network()
    radio: Radio = Radio()
    channel: Channel = Channel()
    data: Data = Data()
    privacy: Privacy = Privacy()
    schedule: Schedule = Schedule()
    training: Training = Training()
    own: Own = Own()
    schemes: ListOf[Scheme] = common.schemes(
        Scheme(name="RndSched", scheduler="random", noise="random"),
        Scheme(name="OptSched", scheduler="optimal", noise="random"),
        Scheme(name="OptSched+DP", scheduler="optimal", noise="optimal"),
    )
    if TYPE_CHECKING:  # the conditions of Scheme, in the parameters of a stage
        bounded: bool
        start_noise: bool
