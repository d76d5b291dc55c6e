"""Contents of the reports of `age_aware`, and its schemes' colours."""

from pwfl.report.catalog import BARE, Catalog, Outcome

CATALOG = Catalog(
    figures={
        "aging": ("users", "links"),
        "sweep": ("schedule_status", "history", "outcome"),
        "loss": ("schedule_status", "history", "outcome"),
        "noise": ("schedule_status", "history", "outcome"),
        "times": ("schedule_status", "leakage"),
    },
    tables=("summary", "realizations", "history", "statuses", "sweep"),
    columns={
        "summary": {
            "epsilon_understated": "largest ratio epsilon_amplified / epsilon_unsafe of a client in any realization",
            "target_missed": "number of realizations that miss the target epsilon",
            "channel_uses": "symbols transmitted in all rounds: mean over realizations",
            "evaluations": "number of terms that the search evaluated: mean over realizations",
            "log10_schedules": "log10 of the number of possible schedules: mean over realizations",
            "clients": "number of clients N",
            "horizon": "time T at which the model is trained, in steps",
        },
    },
    comparison_figures=("search",),
    outcomes={"loss_difference_wh2": Outcome("Simulated loss difference (Wh²)", "less")},
    colours={
        ("random", "constant"): "#D55E00",
        ("random", "adaptive"): "#E69F00",
        ("bound_constant", "constant"): "#0072B2",
        ("bound_adaptive", "adaptive"): "#009E73",
        ("noise_first", "constant"): "#B8A800",
        ("fresh", "constant"): "#000000",
        ("simulated_constant", "constant"): "#56B4E9",
        ("simulated_adaptive", "adaptive"): "#CC79A7",
        ("fixed", "constant"): "#56B4E9",
        ("fixed", "adaptive"): "#000000",
        ("sweep", "constant"): "#B8A800",
        ("sweep", "adaptive"): "#CC79A7",
        ("random", "none"): BARE,
        ("fresh", "none"): BARE,
    },
    tiny={"schedule": {"horizon": 5}, "training": {"draws": 3}, "audit": {"canaries": 50}},
    zero_noise_values={"noise_scale_wh": 0.0, "classical_epsilon": float("inf")},
    user_noise=("noise_scale_wh", "classical_epsilon"),
    studies=("age_aware", "age_aware_small"),
)
