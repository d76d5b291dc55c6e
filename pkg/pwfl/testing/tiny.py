"""The tables of a system's tiny scenario, stage by stage, in memory, and what is compared of them."""

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
RELATIVE = 1e-9  # by which sums over rounds may differ from one sum


class CheckError(AssertionError):
    """A system does not do what every system owes; the message says what, and where."""


class Given(dict):
    """What a scenario needs before its channel, by name; beside it, tables of schemes that several steps look at."""

    untrained: dict[str, Tables]


def prepare(model: Scenario) -> Given:
    """Make what the model needs before its channel: what it trains on, and tables from outside."""
    inputs = Given()
    inputs.untrained = {}
    for description in plan.preparations(model):
        inputs.update(in_memory(model, description, inputs))
    return inputs


def make_untrained(model: Scenario, scheme, inputs: dict) -> Tables:
    """Make the tables of all stages but `train`, once."""
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
    """The tables of all stages that `run_stages` runs."""
    return {name: frame for _, made in run_stages(*arguments, **options) for name, frame in made.items()}


def select_realization(made: Tables, realization: int) -> Tables:
    """The rows of one realization, without its number."""
    return {name: frame.filter(realization=realization).drop("realization") for name, frame in made.items()}


def find_differing(expected: Tables, made: Tables) -> list[str]:
    """The names of tables that are not the same."""
    return [name for name, frame in expected.items() if not frame.equals(made[name])]


def account_outcome(model: Scenario, made: Tables) -> pl.DataFrame:
    """What the account states of tables that no scenario need lead to, of what is received by these."""
    if RECEIVE in registry.stages(model.system):
        made = made | execution.execute(Task(RECEIVE, model.select_stage(RECEIVE)), made)
    stated = execution.execute(Task("account", model.select_stage("account")), made)["outcome"]
    return contract.ordered(stated, contract.schema(model.system, "outcome"), "outcome")


def silence_noise(model: Scenario, made: Tables, columns: Collection[str]) -> Tables:
    """The tables with columns of `noise` as they are where no noise is added."""
    values = registry.system(model.system).catalog.zero_noise_values
    return made | {"noise": made["noise"].with_columns(**{column: pl.lit(values[column]) for column in columns})}
