"""Contents of the reports of the system `privacy_for_free`, its schemes' colours, and values for `pwfl test`."""

from pwfl.report.catalog import Catalog, Outcome

CATALOG = Catalog(
    figures={"gap": ("history",), "power": ("schedule",), "leakage": ("leakage",)},
    tables=("summary", "realizations", "history", "leakage", "statuses"),
    private_figures=("gap",),
    comparison_figures=("gap_over_epsilon",),
    outcomes={"optimality_gap": Outcome("Normalized optimality gap", "less")},
    colours={
        ("superposed_adaptive", "receiver"): "#0072B2",
        ("superposed_static", "receiver"): "#56B4E9",
        ("superposed_full", "receiver"): "#000000",
        ("orthogonal_adaptive", "receiver"): "#D55E00",
        ("orthogonal_static", "receiver"): "#E69F00",
        ("orthogonal_full", "receiver"): "#999999",
    },
    tiny={
        "network": {"devices": 3},
        "radio": {"blocks": 12, "coherence_blocks": 8},
        "task": {"samples": 40, "dimension": 40},
        "training": {"clip_norm": 20.0, "evaluate_every": 2},
    },
    zero_noise_values={"receiver_noise_std": 0.0},
    receiver_noise=("receiver_noise_std",),
)
