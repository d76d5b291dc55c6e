"""Contents of the reports of the system `anonymous_oac`, and its schemes' colours."""

from pwfl.report.catalog import ACCURACY_FIGURES, BARE, Catalog

CATALOG = Catalog(
    figures={
        "composition": ("curves",),
        "readings": ("curves",),
        **ACCURACY_FIGURES,
        "loss": ("history",),
        "cost": ("outcome", "history"),
        "failures": ("curves",),
        "channel_estimate": ("curves",),
    },
    tables=("summary", "realizations", "history", "curves", "statuses"),
    columns={
        "summary": {
            "epsilon": "largest record-level epsilon of a realization, under the scheme's interpretation",
            "empty_rounds": "number of rounds without any record in a batch, sum over realizations",
        },
    },
    colours={
        ("over_the_air", "anonymous"): "#009E73",
        ("over_the_air", "identified"): "#0072B2",
        ("orthogonal", "local"): "#D55E00",
        ("over_the_air", "anonymous_fixed"): "#CC79A7",
        ("over_the_air", "identified_fixed"): "#56B4E9",
        ("orthogonal", "local_fixed"): "#E69F00",
        ("over_the_air", "none"): BARE,
        ("orthogonal", "none"): BARE,
    },
    tiny={
        "network": {"devices": 6, "participation": 0.6},
        "data": {"dataset": "digits", "samples": 60, "sampling": 0.3},
        "privacy": {"noise_multiplier": 20.0, "curve_rates": [0.5], "estimate_scales": [1.0]},
        "training": {"hidden_layers": [4], "rounds": 2, "evaluate_every": 1},
        "audit": {"canaries": 50},
    },
    uses_dataset=True,
    zero_noise_values={"update_noise_std": 0.0, "noise_multiplier": 0.0},
    user_noise=("update_noise_std", "noise_multiplier"),
    studies=("anonymous_oac", "anonymous_oac_small"),
)
