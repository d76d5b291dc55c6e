"""What the stages of the system `template` read and what its reports show."""

from pwfl.report.catalog import Catalog

CATALOG = Catalog(
    figures={"accuracy": ("history",), "loss": ("history",), "leakage": ("leakage",)},
    tables={
        "summary": "Means over realizations with 95% intervals (Student's t): final accuracy and loss, zCDP rho and "
        "exact epsilon of the worst record, and symbols on air.",
        "realizations": "Guarantee, cost, final accuracy and loss of each realization.",
        "history": "Test accuracy and loss of each trained realization over the rounds.",
        "leakage": "zCDP rho and exact epsilon of a record of each device that sends.",
        "statuses": "How often each status of the schedule and of the noise occurs.",
    },
    reads={"schedule": ("links",), "noise": ("users",)},
    colours={("all", "gaussian"): "#0072B2", ("strongest", "gaussian"): "#D55E00", ("all", "none"): "#009E73"},
    tiny={
        "data": {"dataset": "digits", "samples": 20},
        "network": {"devices": 4},
        "radio": {"senders": 2},
        "training": {"rounds": 3, "evaluate_every": 2},
    },
    uses_dataset=True,
    zero_noise_values={"noise_std": 0.0},
    user_noise=("noise_std",),
)
