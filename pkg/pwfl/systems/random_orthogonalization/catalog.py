"""Contents of the reports of the system `random_orthogonalization`, and its schemes' colours."""

from pwfl.report.catalog import BARE, Catalog

CATALOG = Catalog(
    figures={
        "accuracy": ("history",),
        "accuracy_seconds": ("history",),
        "leakage": ("leakage",),
        "tradeoff": ("outcome", "history"),
        "energy": ("history", "outcome"),
        "couplings": ("links", "noise"),  # noise: depends on radio.normalization
    },
    tables=("summary", "realizations", "history", "leakage", "signs", "statuses"),
    columns={
        "summary": {
            "antennas": "number of antennas of the server",
        },
        "leakage": {
            "epsilon_max": "epsilon at delta, after all rounds: largest of the users",
        },
    },
    private_figures=("energy",),
    colours={("all", "fixed"): "#0072B2", ("all", "none"): BARE},
    tiny={
        "network": {"users": 3, "antennas": 4},
        "data": {"dataset": "digits", "samples_per_user": 30},
        "privacy": {"user_numbers": [2, 3]},
        "training": {"rounds": 2, "local_steps": 2, "batch_size": 8},
        "audit": {"canaries": 50},
    },
    uses_dataset=True,
    zero_noise_values={"noise_std": 0.0, "effective_noise_std": 0.0},
    user_noise=("noise_std",),
    studies=("random_orthogonalization", "random_orthogonalization_small"),
)
