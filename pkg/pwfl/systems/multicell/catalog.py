"""Contents of the reports of `multicell`, and its schemes' colours."""

from pwfl.report.catalog import ACCURACY_FIGURES, BARE, Catalog

TO_TARGET = {"privacy": {"target_epsilon": 4.0}, "schemes": [{"name": "a", "scheduler": "random", "noise": "target"}]}
ON_AIR = TO_TARGET | {
    "radio": {"air": "antennas", "antennas": 8},
    "schemes": [{"name": "a", "scheduler": "inversion", "noise": "target"}],
}
IN_BANDS = ON_AIR | {"radio": {"air": "broadband", "subchannels": 2}}
BY_STEPS = TO_TARGET | {"training": {"learner": "local_steps"}}
CATALOG = Catalog(
    figures={
        "topology": ("users", "links", "schedule"),
        "objective": ("outcome",),
        "gap": ("outcome",),
        **ACCURACY_FIGURES,
        "loss": ("history",),
        "leakage": ("leakage",),
        "tradeoff": ("outcome", "history"),
    },
    tables=("summary", "realizations", "history", "statuses"),
    columns={
        "summary": {
            "proven_optimal": "number of realizations whose schedule is proven optimal",
            "rho_worst_overall": "largest rho of a user in any realization",
            "rho_median": "median rho of the scheduled users of all realizations",
            **dict.fromkeys(("rho_worst_case", "rho_own_noise"), "largest of all realizations; see `outcome`"),
            "epsilon_worst_case": "largest of all realizations; see `outcome`",
            "epsilon_dithers_known": "largest epsilon of a realization if the users' random rounding is known",
            "noise_error_exceeded": "number of realizations whose noise error exceeds the limit of (21)",
            "objective_per_sample_mean": "objective (20) per training record: mean over realizations",
            "objective_per_sample_ci_low": "lower end of its 95% interval",
            "objective_per_sample_ci_high": "upper end of its 95% interval",
        },
        "realizations": {
            "objective_per_sample": "objective (20) divided by the number of training records of all users",
            "samples_per_scheduled": "mean number of training records of a scheduled user; null: none is scheduled",
            "rho_not_lowered": "share of the scheduled users whose rho is no smaller than with the noise that the same "
            "scheduler starts from; null: no scheme of the scenario has that",
        },
    },
    colours={
        ("random", "random"): "#D55E00",
        ("optimal", "random"): "#0072B2",
        ("optimal", "optimal"): "#009E73",
        ("random", "optimal"): "#CC79A7",
        ("random", "target"): "#E69F00",
        ("optimal", "target"): "#56B4E9",
        ("joint", "random"): "#CC79A7",
        ("joint_noise", "optimal"): "#B8A800",
        ("optimal", "equal_sum"): "#E69F00",
        ("optimal", "fill_up"): "#56B4E9",
        ("joint_noise", "equal_sum"): "#CC79A7",
        ("joint_snr", "equal_max"): "#000000",
        ("inversion", "target"): "#D55E00",
        ("joint_snr", "target"): "#B8A800",
        ("random", "none"): BARE,
        ("optimal", "none"): BARE,
        ("joint", "none"): BARE,
        ("inversion", "none"): BARE,
    },
    slots={"radio.air": "digital", "training.learner": "gradients", "data.sampling": None},
    tiny={
        "network": {"users": 12},
        "radio": {"resource_blocks": 2},
        "data": {"dataset": "digits", "samples_offset": 10, "samples_log_mean": 2.5},
        "privacy": {"min_noise": 1.0, "max_noise_error": 0.4},
        "schedule": {"gamma": 300.0},
        "training": {"hidden_layers": [], "rounds": 2, "clip_norm": 1.0, "evaluate_every": 1},
        "audit": {"canaries": 50},
    },
    tiny_for=dict.fromkeys(("training.learner", "data.sampling"), TO_TARGET)
    | dict.fromkeys(("training.local_steps", "training.batch_size"), BY_STEPS)
    | dict.fromkeys(("radio.subchannels", "radio.truncation"), IN_BANDS)
    | dict.fromkeys(("radio.air", "radio.antennas", "schedule.least_gain_db"), ON_AIR),
    uses_dataset=True,
    zero_noise_values={"noise_std": 0.0},
    user_noise=("noise_std",),
    studies=("paper", "resource_blocks", "samples"),
    paper_reads=("leakage",),
)
