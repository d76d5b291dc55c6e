"""What the report of each system's scenarios holds, without importing what draws it.

Captions stand in the workflow's folder report/SYSTEM/FIGURE.rst.
"""

# Figure -> the tables it is drawn from: `users` and `links` of the first shard, others of all schemes.
FIGURES = {
    "multicell": {
        "topology": ("users", "links"),
        "objective": ("outcome",),
        "accuracy": ("history",),
        "loss": ("history",),
        "leakage": ("leakage",),
        "tradeoff": ("outcome", "history"),
    },
    "anonymous_oac": {
        "composition": ("leakage",),
        "readings": ("leakage",),
        "accuracy": ("history",),
        "loss": ("history",),
        "cost": ("outcome", "history"),
        "failures": ("leakage",),
        "channel_estimate": ("leakage",),
    },
    "random_orthogonalization": {
        "accuracy": ("history",),
        "leakage": ("leakage",),
        "tradeoff": ("outcome", "history"),
        "energy": ("history", "outcome"),
        "couplings": ("links",),
    },
    "utility_fair": {
        "loss": ("history",),
        "spread": ("history",),
        "energy": ("history", "schedule_status"),
        "power": ("history", "schedule_status"),
        "accuracy": ("history",),
        "deviation": ("history",),
    },
    "age_aware": {
        "aging": ("users", "links"),
        "sweep": ("schedule_status", "history", "outcome"),
        "loss": ("schedule_status", "history", "outcome"),
        "noise": ("schedule_status", "history", "outcome"),
        "times": ("schedule_status", "leakage"),
    },
}

# Tables of each system's scenarios, and their captions.
TABLES = {
    "multicell": {
        "summary": "For each scheme, means over realizations with 95% intervals, extremes of the leakage, and how many "
        "realizations diverged, could not be noised or scheduled nobody.",
        "realizations": "Objective, guarantee and final accuracy of each realization and scheme.",
        "history": "Test accuracy and loss of each evaluated round, realization and scheme.",
        "statuses": "How the cells' programs and the noise optimizer ended.",
    },
    "anonymous_oac": {
        "summary": "For each scheme, final accuracy with its 95% interval, the guarantee under all readings of the "
        "sampling and by several accountants, against the server, proved and at least, and what it costs on air.",
        "realizations": "Guarantee, cost and final accuracy of each realization and scheme.",
        "history": "Test accuracy and loss of each evaluated round, realization and scheme.",
        "leakage": "epsilon over rounds, failed devices and scaled channel estimates.",
        "statuses": "How devices transmit, and how the noise multipliers were found.",
    },
    "random_orthogonalization": {
        "summary": "For each scheme, means over realizations with 95% intervals of accuracy, of the worst user's "
        "epsilons and of the transmit energy, the largest epsilon, and how many realizations diverged.",
        "realizations": "Guarantee, transmit energy and final accuracy of each realization and scheme.",
        "history": "Test accuracy, loss and the users' updates in each round, realization and scheme.",
        "leakage": "Epsilon in all readings, means over users, for each number of users, realization and scheme.",
        "statuses": "How users were scheduled and their noise was set.",
    },
    "utility_fair": {
        "summary": "For each scheme, means over realizations with 95% intervals: training loss of rounds 2 to the last "
        "and its spread over devices, energy of a device's round and its spread, final accuracy; what the copies of "
        "the model reveal of a record; how many realizations diverged.",
        "realizations": "Loss, energy, final accuracy, guarantee and cost of each realization and scheme.",
        "devices": "Each device's means over its rounds: energy, power, iterations, loss, deviation, noise multiplier.",
        "leakage": "What the copies of each scheme's devices reveal, as printed and exact, at deviation 0 and 1, and "
        "what their uploads do; the same for all devices, as deviations are not known to the accounting.",
        "history": "Each device's loss, deviation, iterations, power and energy in each round, and the model's test "
        "accuracy and loss in the evaluated ones.",
        "statuses": "Who decides over the devices' rounds, which noise copies get, how rounds ended.",
    },
    "age_aware": {
        "summary": "For each scheme and privacy target, means over realizations with 95% intervals, the guarantees, "
        "and what the search for the schedule cost.",
        "realizations": "Guarantee, noise, simulated and expected loss difference and its bounds of each scheme, "
        "realization and privacy target.",
        "history": "Simulated loss difference of each scheme, realization and case.",
        "statuses": "How the schedules were found and which noise rule was applied.",
        "sweep": "Mean loss difference and its bounds for each collection time of one client, the others fresh.",
    },
}
COMMON_FIGURES = {"audit": ("audit",)}  # of all systems; captions stand in report/FIGURE.rst
COMMON_TABLES = {
    "audit": "What attacks on the training path of each scheme find, in the realization whose worst record is worst "
    "off: lower bounds on epsilon, beside the epsilon that is stated for what the observer sees.",
}
FIGURES = {system: figures | COMMON_FIGURES for system, figures in FIGURES.items()}
TABLES = {system: captions | COMMON_TABLES for system, captions in TABLES.items()}
# Tables of a study, and their captions; figures of a study for each system in it.
COMPARISON = {
    "systems": "Every scheme of every scenario under common terms: final accuracy, and of which model; record-level "
    "epsilon under exact accounting, against all that the system's own server receives (whether that is guaranteed) "
    "and against the observer whom the scheme reckons with; local steps; symbols on air; transmit energy, which "
    "compares only where the link budget is the same.",
    "claims": "The paper's claims: where it makes them, what it prints, what was measured with its 95% interval over "
    "realizations, the band in which it must lie, and whether it does: yes, no, or open where the interval decides "
    "neither. What words were read as, and what is this project's choice, is on the system's page in docs/.",
    "summary": "The summaries of all scenarios of the study.",
}
COMPARISON_FIGURES = {
    "systems": ("tradeoff",),  # of a study of several systems
    "multicell": (),
    "anonymous_oac": (),
    "random_orthogonalization": ("accuracy", "leakage", "readings", "tradeoff"),
    "utility_fair": ("robustness",),
    "age_aware": ("search",),
}
