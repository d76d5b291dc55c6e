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
# Tables of a study, and their captions; figures of a study for each system in it.
COMPARISON = {
    "claims": "The paper's claims, what was measured, its 95% bootstrap interval over realizations, and whether "
    "the claim holds.",
    "summary": "The summaries of all scenarios of the study.",
}
COMPARISON_FIGURES = {"multicell": (), "age_aware": ("search",)}
