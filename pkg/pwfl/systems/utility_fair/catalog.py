"""Contents of the reports of `utility_fair`, and its schemes' colours."""

from pwfl.report.catalog import ACCURACY_FIGURES, BARE, Catalog

CATALOG = Catalog(
    figures={
        "loss": ("history",),
        "spread": ("history",),
        "energy": ("history", "schedule_status"),
        "utility": ("history", "schedule_status"),
        "power": ("history", "schedule_status"),
        **ACCURACY_FIGURES,
        "deviation": ("history",),
    },
    tables=("summary", "realizations", "devices", "leakage", "history", "statuses"),
    columns={
        "summary": {
            "rounds_out": "number of rounds without participation, sum over devices and realizations",
            **{
                name: f"{title}: largest of all realizations"
                for name, title in {
                    "epsilon": "record-level epsilon against the scheme's observer",
                    "epsilon_user": "user-level epsilon against the scheme's observer",
                    "epsilon_server": "record-level epsilon against the access point",
                    "epsilon_printed": "epsilon_g of one copy, as the paper prints it",
                    "epsilon_copy": "exact epsilon of one copy",
                    "epsilon_round": "exact epsilon of the copies for all devices in one round",
                    "epsilon_device": "exact epsilon of all copies for a device",
                    "epsilon_upload": "exact epsilon of a device's messages in a round",
                    "epsilon_worst_case": "exact epsilon if sensitivities have only the bounds that are enforced",
                }.items()
            },
        },
        "realizations": {
            "rounds_out": "number of rounds without participation, sum over devices",
            "batch_loss": "training loss of a device's copy, nats: mean over devices and rounds from the second on",
            "deviation": "deviation E (15) of an update: mean over devices and rounds",
            "energy_j": "energy of a device in a round (13): mean over devices and rounds",
            "learning_gain": "learning gain of a device in a round: mean over devices and rounds",
            "utility": "utility (18) of a device in a round: mean over devices and rounds",
        },
    },
    private_figures=(
        "loss",
        "spread",
        "energy",
        "utility",
        "power",
        "accuracy_seconds",
        "accuracy_joules",
        "deviation",
    ),
    colours={
        ("utility", "fair"): "#0072B2",
        ("benchmark", "independent"): "#D55E00",
        ("benchmark", "shared"): "#CC79A7",
        ("benchmark", "fair"): "#E69F00",
        ("utility", "independent"): "#009E73",
        ("utility", "shared"): "#56B4E9",
        ("utility", "none"): BARE,
        ("benchmark", "none"): BARE,
    },
    tiny={
        "network": {"devices": 3},
        "data": {"dataset": "digits", "samples_per_device": 60},
        "device": {"batch_size": 16, "sample_bits": 50176.0},
        "privacy": {"uploads": "noisy", "target_epsilon": 10.0},
        "training": {"hidden_layers": [4], "rounds": 2, "evaluate_every": 1},
        "audit": {"canaries": 50},
    },
    uses_dataset=True,
    zero_noise_values={"copy_std": 0.0, "noise_multiplier": 0.0, "upload_std": 0.0, "upload_multiplier": 0.0},
    user_noise=("copy_std", "noise_multiplier", "upload_std", "upload_multiplier"),
    studies=("utility_fair", "utility_fair_small"),
)
