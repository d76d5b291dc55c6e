"""Estimates of a study's size before it runs: its number of results, and the memory of its largest job.

The estimates are rough, from sizes only, to distinguish a typing error of some zeros from a large study. Bytes per row
were measured as the growth of a process's peak memory with its tables, for the stage that needs most.
"""

from collections.abc import Sequence

from pwfl.learning import features
from pwfl.learning.mlp import parameter_count
from pwfl.scenario import checks
from pwfl.scenario.chunks import extent_of
from pwfl.scenario.common import Scenario

MAX_ITEMS = 1_000_000  # planning as many takes a minute or two
MAX_BYTES = 64 * 2**30  # of a job
FLOAT, FLOAT32, COMPLEX = 8, 4, 16
COPIES = 4  # of an array, by temporaries and gradients
LINK_BYTES = 180  # per row of `links` with the resulting rows of schedule, noise and account; measured 150 to 165


def items(scenario: Scenario) -> int:
    """Estimate a scenario's number of items: one per chunk, for each scheduler or scheme if the stage depends on it."""
    chunks, training = (extent_of(scenario, stage).chunks for stage in ("account", "train"))
    schedulers, schemes = len({scheme.scheduler for scheme in scenario.schemes}), len(scenario.schemes)
    return chunks * (1 + schedulers + 2 * schemes) + training * schemes + 4


def memory(scenario: Scenario) -> dict[str, tuple[float, str]]:
    """Estimate a job's memory in bytes, and the keys that determine it: of the stages on tables, and of training."""
    rows, row_bytes, keys = checks.table_bytes(scenario)
    chunk = extent_of(scenario, "account").largest
    return {"tables": (chunk * rows + row_bytes, keys), "training": checks.training_bytes(scenario)}


def problems(scenarios: dict[str, Scenario]) -> list[tuple[str, str]]:
    """List the reasons why a study is too large to be intended, each with the name of a scenario that causes it."""
    large, counts = [], {name: items(scenario) for name, scenario in scenarios.items()}
    if (total := sum(counts.values())) > MAX_ITEMS:
        largest = max(counts, key=counts.__getitem__)
        where = f", {counts[largest]:,} of them here" if len(counts) > 1 else ""
        problem = (
            f"the study has about {total:,} results to compute{where}; at most {MAX_ITEMS:,} are allowed; lower "
            "realizations"
        )
        large.append((largest, problem))
    for name, scenario in scenarios.items():
        for what, (size, keys) in memory(scenario).items():
            if size > MAX_BYTES:
                problem = (
                    f"a job needs about {size / 2**30:,.0f} GiB of memory for {what}; at most "
                    f"{MAX_BYTES / 2**30:.0f} are allowed; lower {keys}"
                )
                large.append((name, problem))
    return [(name, f"{problem} (or set allow_large: true beside scenarios)") for name, problem in large]


def network_bytes(s, hidden_layers: Sequence[int], copies: int) -> float:
    """Estimate the bytes of the data set and of `copies` copies of a network's parameters."""
    size = features.size(s)
    weights = parameter_count([size.features, *hidden_layers, size.classes]) * FLOAT32 * COPIES
    return (size.train + size.test) * size.features * FLOAT32 * COPIES + weights * copies


def layer_bytes(s, samples: int) -> float:
    """Estimate the bytes of all layers' inputs and derivatives for some records."""
    return samples * sum([features.size(s).features, *s.training.hidden_layers]) * FLOAT32 * COPIES
