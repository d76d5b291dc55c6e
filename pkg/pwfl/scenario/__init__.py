"""Scenarios: config files read, validated and resolved, and the parameters that each stage reads."""

from pwfl.scenario.fields import parameters
from pwfl.scenario.messages import ScenarioError
from pwfl.scenario.resolution import merge, resolve
from pwfl.scenario.study import Study, check_device, check_surroundings, command_line, load, load_files, read

__all__ = [
    "ScenarioError",
    "Study",
    "check_device",
    "check_surroundings",
    "command_line",
    "load",
    "load_files",
    "merge",
    "parameters",
    "read",
    "resolve",
]
