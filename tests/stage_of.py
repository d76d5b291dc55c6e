"""Stages by their names, of tables in memory, as tests call them one by one."""

from unittest import mock

from pwfl import execution
from pwfl.execution.stage import Task
from pwfl.learning import features
from pwfl.scenario.values import build_values, plain, replaced
from pwfl.stages import GRAPH
from pwfl.testing import tiny
from pwfl.workflow import plan


def imported(system, paths):
    """Tables from outside, by the files that hold them."""
    return execution.execute(Task("imported", build_values({"system": system})), paths) if paths else {}


def channel(values, realizations, outside=None):
    """`users` and `links` of some realizations; made of tables `imported`, where there are any."""
    return execution.execute(Task("channel", values, None, realizations), outside or {})


def schedule(values, scheduler, found):
    """`schedule` and `schedule_status`, and in `multicell` `start_values`."""
    return execution.execute(Task("schedule", values, scheduler), found)


def noise(values, scheme, found):
    """`noise` and `noise_status`."""
    return execution.execute(Task("noise", values, scheme), found)


def receive(values, found):
    """`reception`, `reception_noise` and `visibility`."""
    return execution.execute(Task("receive", values), found)


def train(values, data, realizations, found):
    """`history` and `holdings` of some realizations, on samples as training takes them."""
    with mock.patch.object(features, "training_data", return_value=data):
        return execution.execute(Task("train", values, None, realizations), found)


def account(values, found):
    """`leakage` and `outcome`."""
    return execution.execute(Task("account", values), found)


def audit(values, found):
    """`audit` of one scheme."""
    return execution.audit_schemes(replaced(values, "schemes", plain(values.schemes[:1])), found)


def data_of(model):
    """What a scenario trains on."""
    return features.training_data(model.select_stage("train"), tiny.prepare(model))


def addresses(model):
    """The descriptions of all that a scenario computes, by stage, scheduler and noise scheme (None: any)."""
    found = {}
    for scheme, route in zip(model.schemes, plan.routes(model).values(), strict=True):
        for stage, description in route.items():
            parts = (getattr(scheme, part) if part in GRAPH[stage].each else None for part in ("scheduler", "noise"))
            found[stage, *parts] = description
    return found
