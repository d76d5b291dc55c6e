"""Choose step sizes on reserved data for the schemes that config/systems.yaml compares at one epsilon.

    python docs/steps.py          # each candidate's mean accuracy, and the one that the rule picks; ten core-minutes

The rule: each candidate is twice the one before. A scenario uses the one with the largest mean accuracy over its
schemes and observers, over epsilon 1, 4 and 16, and over ten realizations with another seed. Users hold 1137 of the
training records and models are evaluated on 300 others, so the choice uses no test record and no realization of the
study. It sets `training.step_scale` if `step: snr` sets step sizes by the noise, otherwise `learning_rate`.
"""

import sys
from copy import deepcopy
from pathlib import Path

import numpy as np
import yaml

import pwfl
from pwfl.scenario import load

CONFIG = Path(__file__).parent.parent / "config/systems.yaml"
SEED, REALIZATIONS, EPSILONS = 101, 10, (1.0, 4.0, 16.0)
RESERVED, HELD = 300, 1137  # records
SCALE, RATE = "training.step_scale", "training.learning_rate"
CANDIDATES = {
    SCALE: (0.075, 0.15, 0.3, 0.6, 1.2),
    "majority_equal": (0.005, 0.01, 0.02, 0.04, 0.08, 0.16),
    "noisy_uploads_equal": (0.0025, 0.005, 0.01, 0.02, 0.04, 0.08),
}


def compared(config: dict) -> list[str]:
    """List the scenarios that are compared at one epsilon."""
    return [name for name in config["scenarios"] if name.endswith("_equal")]


def step_key(scenario: dict) -> str:
    """Return the parameter that sets a scenario's step size."""
    return SCALE if scenario["training"].get("step") == "snr" else RATE


def chosen_step(scenario: dict) -> float:
    """Return the value of the parameter that sets a scenario's step size."""
    return scenario["training"][step_key(scenario).partition(".")[2]]


def reserved_study(config: dict, name: str, candidates, epsilons=EPSILONS, realizations=REALIZATIONS) -> dict:
    """Return a study that sweeps one scenario's step size over candidates, on reserved realizations and records."""
    scenario = deepcopy(config["scenarios"][name])
    users = scenario["network"].get("users") or scenario["network"]["devices"]
    reserved = {"samples_total": HELD} if "samples_total" in scenario["data"] else {"samples_per_device": HELD // users}
    scenario["data"] |= reserved | {"reserved": RESERVED, "evaluate_on": "reserved"}
    scenario["sweep"] |= {"privacy.target_epsilon": list(epsilons), step_key(scenario): list(candidates)}
    base = {"realizations": realizations, "training_realizations": realizations, "seed": SEED}
    return {"study": "steps", "base": base, "scenarios": {name: scenario}}


def accuracies(study: dict) -> dict[float, float]:
    """Compute each candidate's mean final accuracy, over schemes, observers, epsilons and realizations."""
    section, _, name = step_key(next(iter(study["scenarios"].values()))).partition(".")
    scenarios, by_step = load(study, "steps").scenarios, {}
    for point, tables in pwfl.simulate(study, until="train").scenarios.items():
        history = tables.stages["history"]
        last = history.filter(round=history["round"].max())["accuracy"].mean()
        by_step.setdefault(getattr(getattr(scenarios[point], section), name), []).append(last)
    return {step: float(np.mean(means)) for step, means in sorted(by_step.items())}


def pick(means: dict[float, float]) -> float:
    """Return the candidate with the largest mean accuracy."""
    return max(means, key=means.__getitem__)


def main(names: list[str]) -> None:
    """Print the step sizes that the rule picks for the scenarios of these names, or for all."""
    config = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    for name in names or compared(config):
        scenario = config["scenarios"][name]
        means = accuracies(reserved_study(config, name, CANDIDATES.get(name, CANDIDATES[SCALE])))
        print(name, *(f"{step:g}: {accuracy:.4f}" for step, accuracy in means.items()), sep="\n  ")
        print(f"  picked {pick(means):g}; the study has {chosen_step(scenario):g}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
