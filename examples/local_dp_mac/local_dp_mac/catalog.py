"""Contents of the reports of the system `local_dp_mac`, its schemes' colours, and values for `pwfl test`."""

from pwfl.report.catalog import Catalog

CATALOG = Catalog(
    figures={"accuracy": ("history",), "loss": ("history",), "leakage": ("leakage",)},
    tables=("summary", "realizations", "history", "leakage", "statuses"),
    uses_dataset=True,
    colours={
        ("over_the_air", "gaussian"): "#0072B2",
        ("orthogonal", "gaussian"): "#D55E00",
        ("over_the_air", "none"): "#009E73",
    },
    tiny={
        "data": {"dataset": "digits", "samples": 20},
        "network": {"devices": 4},
        "training": {"rounds": 3, "evaluate_every": 2},
    },
    zero_noise_values={"noise_std": 0.0, "receiver_std": 0.0},
    user_noise=("noise_std",),
    receiver_noise=("receiver_std",),
)
