"""Every draw follows seed and realization, in every system: one kind of draw after the other is let loose."""

import pytest

import stage_of
from pipeline import digits, part
from pwfl import scenario
from pwfl.testing import loosened

BASE = {"realizations": 2, "training_realizations": 2}
TRAINING = {"hidden_layers": [4], "rounds": 2, "evaluate_every": 1}
CONFIGS = {
    "multicell": {
        "network": {"users": 12}, "data": {"dataset": "digits", "samples_offset": 10, "samples_log_mean": 2.5},
        "privacy": {"min_noise": 3.5, "max_noise_error": 0.4}, "training": TRAINING | {"clip_norm": 1.0},
    },
    "anonymous_oac": {
        "network": {"devices": 6, "participation": 0.6}, "data": {"dataset": "digits", "samples": 60, "sampling": 0.3},
        "training": TRAINING,
    },
    "random_orthogonalization": {
        "network": {"users": 3, "antennas": 4}, "data": {"dataset": "digits", "samples_per_user": 30},
        "training": {"rounds": 2, "local_steps": 2, "batch_size": 8},
    },
    "utility_fair": {
        "network": {"devices": 3}, "data": {"dataset": "digits", "samples_per_device": 60},
        "device": {"batch_size": 16, "sample_bits": 50176.0}, "training": TRAINING, "privacy": {"uploads": "noisy"},
    },
    "age_aware": {"schedule": {"horizon": 5}, "training": {"draws": 3}},
}  # fmt: skip
SCHEMES = {
    "multicell": ("random", "random"),
    "anonymous_oac": ("over_the_air", "anonymous"),
    "random_orthogonalization": ("all", "fixed"),
    "utility_fair": ("utility", "fair"),
    "age_aware": ("random", "adaptive"),
}
# Purposes of the streams, without numbers of rounds, users and attempts: before training, and in it.
DRAWS = {
    "multicell": ({"position", "fading", "samples", "start", "start/blocks"}, {"data", "weights", "noise"}),
    "anonymous_oac": ({"fading", "batch"}, {"data", "records", "weights", "noise"}),
    "random_orthogonalization": ({"channel"}, {"data", "batches", "noise"}),
    "utility_fair": ({"distance", "fading"}, {"data", "weights", "batches", "noise", "gradient_noise", "update_noise"}),
    "age_aware": ({"schedule"}, {"data", "noise"}),
}
EACH = [(system, draw) for system, parts in DRAWS.items() for part in parts for draw in sorted(part)]


def before_training(system: str, seed: int):
    """The tables of the stages before training, and the part of the scenario that training reads."""
    scheduler, scheme = SCHEMES[system]
    model = scenario.resolve({"system": system, "seed": seed} | BASE | CONFIGS[system], {})
    found = stage_of.channel(part(model, "channel"), range(2))
    found |= stage_of.schedule(part(model, "schedule", scheduler), scheduler, found)
    found |= stage_of.noise(part(model, "noise", scheme), scheme, found)
    return found, part(model, "train")


def trained(found: dict, parameters) -> dict:
    return stage_of.train(parameters, None if parameters.system == "age_aware" else digits(), range(2), found)


def alike(one: dict, other: dict, realizations: tuple[int, int]) -> bool:
    """Whether a realization of some tables is another one of others, in all columns."""
    return all(
        frame.filter(realization=realizations[0])
        .drop("realization")
        .equals(other[name].filter(realization=realizations[1]).drop("realization"))
        for name, frame in one.items()
    )


@pytest.mark.parametrize("system", DRAWS)
def test_nothing_else_is_random_and_no_draw_is_left_out(system):
    before, in_training = DRAWS[system]
    with loosened(set()) as asked:
        found, parameters = before_training(system, seed=1)
        other, other_parameters = before_training(system, seed=2)
        assert asked == before
        assert alike(found, other, (0, 0))
        assert alike(found, found, (0, 1))
        asked.clear()
        history = trained(found, parameters)
        assert asked == in_training
        assert alike(history, history, (0, 1))
        assert alike(history, trained(other, other_parameters), (0, 0))


@pytest.mark.parametrize(("system", "draw"), EACH)
def test_every_draw_follows_realization_and_seed(system, draw):
    before, _ = DRAWS[system]
    with loosened({draw}):
        found, parameters = before_training(system, seed=1)
        other, other_parameters = before_training(system, seed=2)
        if draw not in before:
            assert alike(found, other, (0, 0))
            found, other = trained(found, parameters), trained(other, other_parameters)
    assert not alike(found, found, (0, 1))
    assert not alike(found, other, (0, 0))
