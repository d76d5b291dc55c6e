"""Tables of a system's tiny scenario, made in memory stage by stage, and comparisons of tables."""

from collections.abc import Callable, Collection, Iterator

import polars as pl

from pwfl import execution, registry
from pwfl.execution.stage import Tables, Task
from pwfl.scenario.common import Scenario
from pwfl.stages import REALIZATIONS as COUNTS
from pwfl.stages import STAGES
from pwfl.tables import contract
from pwfl.workflow import plan
from pwfl.workflow.in_memory import in_memory

REALIZATIONS = 3  # of the tiny scenario, of which TRAINED are trained
TRAINED = 2
BEFORE_TRAINING = tuple(stage for stage in STAGES if not STAGES[stage].takes_data)
RECEIVE = "receive"
RELATIVE = 1e-9  # relative difference that sums over rounds may have from one sum


class CheckError(AssertionError):
    """A system fails a conformance test; the message names the fault and its place."""


class Given(dict):
    """Inputs of a scenario before its channel, by name; `untrained` keeps tables of schemes that several steps use."""

    untrained: dict[str, Tables]


def prepare(model: Scenario) -> Given:
    """Make the inputs that the model needs before its channel: training data, and tables from outside."""
    inputs = Given()
    inputs.untrained = {}
    for description in plan.preparations(model):
        inputs.update(in_memory(model, description, inputs))
    return inputs


def make_untrained(model: Scenario, scheme, inputs: dict) -> Tables:
    """Make the tables of all stages except `train`, once per scheme."""
    kept = getattr(inputs, "untrained", {})
    if scheme.name not in kept:
        kept[scheme.name] = make_tables(model, scheme, inputs, range(REALIZATIONS), BEFORE_TRAINING)
    return kept[scheme.name]


def run_stages(
    model: Scenario, scheme, start: dict, wanted: range, stages=tuple(STAGES), mix: Callable = lambda made: made
) -> Iterator[tuple[str, Tables]]:
    """Run the stages of a scheme, and yield each with its tables of some realizations; `mix` changes its inputs."""
    route, tables = plan.routes(model)[scheme.name], dict(start)
    for stage in [stage for stage in stages if stage in route]:
        stop = min(wanted.stop, getattr(model, COUNTS[STAGES[stage].grid]))
        if asked := range(wanted.start, stop):
            inputs = {name: mix(made) for name, made in tables.items()}
            made = in_memory(model, route[stage], inputs, asked)
            tables |= made
            yield stage, made


def make_tables(*arguments, **options) -> Tables:
    """Make the tables of all stages that `run_stages` runs."""
    return {name: frame for _, made in run_stages(*arguments, **options) for name, frame in made.items()}


def select_realization(made: Tables, realization: int) -> Tables:
    """Select the rows of one realization, without its number."""
    return {name: frame.filter(realization=realization).drop("realization") for name, frame in made.items()}


def find_differing(expected: Tables, made: Tables) -> list[str]:
    """List the names of tables that are not the same."""
    return [name for name, frame in expected.items() if not frame.equals(made[name])]


def account_outcome(model: Scenario, made: Tables) -> pl.DataFrame:
    """Run `receive`, if there is any, and `account` on tables that no scenario need produce; return `outcome`."""
    if RECEIVE in registry.stages(model.system):
        made = made | execution.execute(Task(RECEIVE, model.select_stage(RECEIVE)), made)
    stated = execution.execute(Task("account", model.select_stage("account")), made)["outcome"]
    return contract.ordered(stated, contract.schema(model.system, "outcome"), "outcome")


def silence_noise(model: Scenario, made: Tables, columns: Collection[str]) -> Tables:
    """Return the tables with columns of `noise` at their values without noise."""
    values = registry.system(model.system).catalog.zero_noise_values
    return made | {"noise": made["noise"].with_columns(**{column: pl.lit(values[column]) for column in columns})}
