"""How large a study is before it runs: its jobs, and the memory of the largest one.

Rough, from sizes alone, so that a slip of some zeros is told from a large study: bytes a row were measured as the
growth of a process's peak memory with its tables, and are those of the stage that took most.
"""

from collections.abc import Sequence

from pwfl.learning import features
from pwfl.learning.mlp import parameter_count
from pwfl.scenario import checks
from pwfl.scenario.chunks import extent_of
from pwfl.scenario.common import Scenario

MAX_ITEMS = 1_000_000  # it takes a minute or two to plan as many
MAX_BYTES = 64 * 2**30  # of a job
FLOAT, FLOAT32, COMPLEX = 8, 4, 16
COPIES = 4  # of an array, by temporaries and gradients
LINK_BYTES = 180  # a row of `links` and what schedule, noise and account make of it; measured 150 to 165


def items(scenario: Scenario) -> int:
    """About how many items a scenario has: one per chunk, for each scheduler or scheme where a stage has any."""
    chunks, training = (extent_of(scenario, stage).chunks for stage in ("account", "train"))
    schedulers, schemes = len({scheme.scheduler for scheme in scenario.schemes}), len(scenario.schemes)
    return chunks * (1 + schedulers + 2 * schemes) + training * schemes + 4


def memory(scenario: Scenario) -> dict[str, tuple[float, str]]:
    """About how many bytes a job takes, and the keys that set it: of the stages on tables, and of training."""
    rows, row_bytes, keys = checks.table_bytes(scenario)
    chunk = extent_of(scenario, "account").largest
    return {"tables": (chunk * rows + row_bytes, keys), "training": checks.training_bytes(scenario)}


def problems(scenarios: dict[str, Scenario]) -> list[tuple[str, str]]:
    """What makes a study too large to be meant, each with the name of a scenario that does."""
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
    """Bytes of the data set and of a network's weights."""
    size = features.size(s)
    weights = parameter_count([size.features, *hidden_layers, size.classes]) * FLOAT32 * COPIES
    return (size.train + size.test) * size.features * FLOAT32 * COPIES + weights * copies


def layer_bytes(s, samples: int) -> float:
    """Bytes of all layers' inputs and derivatives of some samples."""
    return samples * sum([features.size(s).features, *s.training.hidden_layers]) * FLOAT32 * COPIES
