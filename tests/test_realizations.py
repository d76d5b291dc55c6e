"""What each system draws, and in which stage. That every draw follows seed and realization is in test_check_system."""

import pytest

from pwfl import registry
from pwfl.scenario import resolve
from pwfl.testing import draws, tiny

# Purposes of the streams by stage, without numbers of rounds, users and attempts.
DRAWS = {
    "multicell": {
        "channel": {"position", "fading", "samples"},
        "schedule": {"start", "start/blocks"},
        "train": {"data", "weights", "noise"},
    },
    "anonymous_oac": {"channel": {"fading"}, "schedule": {"batch"}, "train": {"data", "records", "weights", "noise"}},
    "random_orthogonalization": {"channel": {"channel"}, "train": {"data", "batches", "noise"}},
    "utility_fair": {
        "channel": {"distance", "fading"},
        "train": {"data", "weights", "batches", "noise", "gradient_noise", "update_noise"},
    },
    "age_aware": {"schedule": {"schedule"}, "train": {"data", "noise"}},
}


@pytest.mark.parametrize("system", DRAWS)
def test_no_draw_is_left_out_and_there_are_no_others(system):
    config = registry.system(system).catalog.tiny | {"system": system, "realizations": 2, "training_realizations": 2}
    model, stages = resolve(config, {}), {}
    given = tiny.prepare(model)
    with draws.loosened(set()) as asked:
        for scheme in model.schemes:
            draws.drawn(model, scheme, given, asked, stages)
    found = {purpose.partition(" of ")[0]: stage for purpose, stage in stages.items()}  # each scheme has its own noise
    assert found == {purpose: stage for stage, purposes in DRAWS[system].items() for purpose in purposes}
