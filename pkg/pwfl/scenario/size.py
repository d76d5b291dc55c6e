"""How large a study is before it runs: its jobs, and the memory of the largest one.

Rough, from sizes alone, so that a slip of some zeros is told from a large study: bytes a row were measured as the
growth of a process's peak memory with its tables, and are those of the stage that took most.
"""

from math import ceil, prod

from pwfl import datasets
from pwfl.mlp import parameter_count
from pwfl.scenario.common import Scenario

MAX_JOBS = 100_000  # Snakemake takes a minute or two to plan as many
MAX_BYTES = 64 * 2**30  # of a job
FLOAT, FLOAT32, COMPLEX = 8, 4, 16
COPIES = 4  # of an array, by temporaries and gradients
LINK_BYTES = 180  # a row of `links` and what schedule, noise and account make of it; measured 150 to 165
AGE_BYTES = 540  # the same in `age_aware`


def jobs(scenario: Scenario) -> int:
    """About how many jobs a scenario has: one a shard, and for each scheduler or scheme where a stage has any."""
    blocks = ceil(scenario.realizations / scenario.shards.optimization)
    schedulers, schemes = len({scheme.scheduler for scheme in scenario.schemes}), len(scenario.schemes)
    training = ceil(scenario.training_realizations / scenario.shards.training)
    audits = schemes
    return blocks * (1 + schedulers + 2 * schemes) + training * schemes + audits + 3


def memory(scenario: Scenario) -> dict[str, tuple[float, str]]:
    """About how many bytes a job takes, and the keys that set it: of the stages on tables, and of training."""
    realizations = min(scenario.realizations, scenario.shards.optimization)
    rows, each, keys = TABLES[scenario.system](scenario)
    trained, training_keys = TRAINING[scenario.system](scenario)
    return {
        "tables": (realizations * rows + each, f"shards.optimization, {keys}"),
        "training": (trained, training_keys),
    }


def problems(scenarios: dict[str, Scenario]) -> list[str]:
    """What makes a study too large to be meant, a line each."""
    found, counts = [], {name: jobs(scenario) for name, scenario in scenarios.items()}
    if (total := sum(counts.values())) > MAX_JOBS:
        largest = max(counts, key=counts.get)
        found.append(
            f"scenarios.{largest}: the study has about {total:,} jobs, {counts[largest]:,} of them here, and "
            f"{MAX_JOBS:,} are the most; raise shards.optimization or shards.training, or lower realizations"
        )
    for name, scenario in scenarios.items():
        for what, (size, keys) in memory(scenario).items():
            if size > MAX_BYTES:
                found.append(
                    f"scenarios.{name}: a job takes about {size / 2**30:,.0f} GiB of memory for {what}, and "
                    f"{MAX_BYTES / 2**30:.0f} are the most; lower {keys}"
                )
    return [f"{problem} (or set allow_large: true, beside scenarios)" for problem in found]


def _multicell_tables(s):
    cells = 3 * s.network.rings * (s.network.rings + 1) + 1
    couplings = s.radio.resource_blocks * cells**2 * FLOAT * COPIES
    return cells * s.network.users * LINK_BYTES + couplings, 0, "network.rings, network.users or radio.resource_blocks"


def _anonymous_oac_tables(s):
    drawn = s.training.rounds * s.network.devices  # at once, of one realization
    rows = drawn * s.network.participation * LINK_BYTES
    return rows, drawn * FLOAT * COPIES, "network.devices or training.rounds"


def _random_orthogonalization_tables(s):
    largest = max([s.network.users, *s.privacy.user_numbers])
    channels = largest * max(largest, s.network.antennas) * COMPLEX * COPIES  # of one realization
    sizes = s.network.users + sum(s.privacy.user_numbers)
    rows = s.training.rounds * sizes * LINK_BYTES
    return rows, channels, "network.users, network.antennas, privacy.user_numbers or training.rounds"


def _utility_fair_tables(s):
    return s.training.rounds * s.network.devices * LINK_BYTES, 0, "network.devices or training.rounds"


def _age_aware_tables(s):
    times, number = s.schedule.horizon + 1, s.clients.number
    kernels = len(s.clients.chains) * times * len(s.clients.states_wh) ** 2 * FLOAT * COPIES
    cases = max(len(s.privacy.target_epsilons), min(s.schedule.sweep_clients, number) * times)
    return number * (times * AGE_BYTES + cases * LINK_BYTES), kernels, "clients.number or schedule.horizon"


def _network(s, hidden_layers: list[int], copies: int) -> float:
    """Bytes of the data set and of a network's weights."""
    size = datasets.SIZES[s.data.dataset]
    weights = parameter_count([size.features, *hidden_layers, size.classes]) * FLOAT32 * COPIES
    return (size.train + size.test) * size.features * FLOAT32 * COPIES + weights * copies


def _layers(s, samples: int) -> float:
    """Bytes of all layers' inputs and derivatives of some samples."""
    return samples * sum([datasets.SIZES[s.data.dataset].features, *s.training.hidden_layers]) * FLOAT32 * COPIES


def _multicell_training(s):
    size = _network(s, s.training.hidden_layers, 1) + _layers(s, datasets.SIZES[s.data.dataset].train)
    return size, "training.hidden_layers"


def _anonymous_oac_training(s):
    drawn = s.training.rounds * s.network.devices * s.network.participation * s.data.samples * s.data.sampling
    size = _network(s, s.training.hidden_layers, 1) + _layers(s, s.network.devices * s.data.samples)
    return size + drawn * FLOAT32 * COPIES, "training.hidden_layers or training.rounds"


def _random_orthogonalization_training(s):
    steps = s.network.users * s.training.local_steps * s.training.batch_size * FLOAT32 * COPIES
    return _network(s, [], s.network.users) + steps, "network.users, training.local_steps or training.batch_size"


def _utility_fair_training(s):
    samples = s.network.devices * s.device.batch_size
    size = _network(s, s.training.hidden_layers, s.network.devices) + _layers(s, samples)
    return size + samples * s.device.batch_size * FLOAT32 * COPIES, "network.devices or device.batch_size"


def _age_aware_training(s):
    shape = (s.training.draws, s.clients.number, s.schedule.horizon + 1 + len(s.clients.states_wh))
    return prod(shape) * FLOAT * COPIES, "clients.number, schedule.horizon or training.draws"


TABLES = {  # bytes a realization takes, bytes besides, and the keys that set both
    "multicell": _multicell_tables,
    "anonymous_oac": _anonymous_oac_tables,
    "random_orthogonalization": _random_orthogonalization_tables,
    "utility_fair": _utility_fair_tables,
    "age_aware": _age_aware_tables,
}
TRAINING = {
    "multicell": _multicell_training,
    "anonymous_oac": _anonymous_oac_training,
    "random_orthogonalization": _random_orthogonalization_training,
    "utility_fair": _utility_fair_training,
    "age_aware": _age_aware_training,
}
