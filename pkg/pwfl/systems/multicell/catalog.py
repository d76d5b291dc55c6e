"""What the reports of `multicell` show, and its schemes' colours."""

from pwfl.report.catalog import Catalog

CATALOG = Catalog(
    figures={
        "topology": ("users", "links"),
        "objective": ("outcome",),
        "accuracy": ("history",),
        "loss": ("history",),
        "leakage": ("leakage",),
        "tradeoff": ("outcome", "history"),
    },
    tables={
        "summary": "For each scheme, means over realizations with 95% intervals, extremes of the leakage, and how many "
        "realizations diverged, could not be noised or scheduled nobody.",
        "realizations": "Objective, guarantee and final accuracy of each realization and scheme.",
        "history": "Test accuracy and loss of each evaluated round, realization and scheme.",
        "statuses": "How the cells' programs and the noise optimizer ended.",
    },
    colours={
        ("random", "random"): "#D55E00",
        ("optimal", "random"): "#0072B2",
        ("optimal", "optimal"): "#009E73",
        ("random", "optimal"): "#CC79A7",
    },
)
