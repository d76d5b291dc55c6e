"""What training adds is what the tables say: the standard deviations that reach a system's graph, or its copies."""

import numpy as np
import polars as pl
import pytest
import tensorflow as tf

import stage_of
from pipeline import digits, part, received
from pwfl import scenario
from pwfl.training import trainings


def stages(config: dict, scheduler: str, scheme: str):
    """The tables of two realizations before training, and the part of the scenario that training reads."""
    model = scenario.resolve({"realizations": 2, "training_realizations": 2} | config, {})
    found = stage_of.channel(part(model, "channel"), range(2))
    found |= stage_of.schedule(part(model, "schedule", scheduler), scheduler, found)
    found |= stage_of.noise(part(model, "noise", scheme), scheme, found)
    return found | received(model, found), part(model, "train")


@pytest.fixture
def trained(monkeypatch):
    """A function that trains, and returns `history`, and all that reached graphs, which measured what it is given."""

    def train(found, parameters, measured):
        seen = []

        def train_function(loop, several, stops, tested):
            def history(weights, inputs, data):
                seen.append((inputs.varying, inputs.noise_std.numpy()))
                count = len(stops)
                sums = np.zeros((count, loop.learner.measured), np.float32) if measured is None else measured
                return map(tensor, (count, np.ones((count, 11)), np.zeros(count), sums))

            return history

        monkeypatch.setattr(trainings, "train_function", train_function)
        return stage_of.train(parameters, digits(), range(2), found)["history"], seen

    return train


def tensor(values):
    """As graphs return it."""
    return tf.constant(values)


@pytest.mark.parametrize(
    ("scheduler", "scheme", "heard"),
    [("over_the_air", "anonymous", 1), ("over_the_air", "anonymous_fixed", 1), ("orthogonal", "local", 0)],
)
@pytest.mark.parametrize("participation", [0.1, 1e-9])  # 1e-9: nobody sends anything
def test_the_channels_noise_comes_to_that_of_uploads_over_the_air(trained, scheduler, scheme, heard, participation):
    config = {
        "system": "anonymous_oac", "network": {"devices": 5, "participation": participation}, "radio": {"noise_variance": 0.02},
        "data": {"dataset": "digits", "samples": 40}, "training": {"rounds": 30, "hidden_layers": []},
    }  # fmt: skip
    found, parameters = stages(config, scheduler, scheme)
    history, seen = trained(found, parameters, None)
    std = found["noise"]["update_noise_std"].to_numpy().reshape(2, 30)
    assert (std == 0).any()  # rounds without records, or without participants: the channel alone
    if not heard and participation < 0.1:  # nothing sent, nothing heard: the model stays
        assert not seen
        assert set(history["status"]) == {"no_user_scheduled"}
        assert set(found["reception_noise"]["update_noise_std"]) == {0.0}
        return
    stds, mean_weights = np.array([std for _, std in seen]), np.array([at.total.numpy() for at, _ in seen])
    np.testing.assert_allclose(stds, np.sqrt(std**2 + heard * 0.02), rtol=1e-6)
    batch = found["schedule"].group_by("realization", "round").agg(pl.col("batch").sum())
    size = (
        found["noise"].join(batch, on=["realization", "round"], how="left", maintain_order="left")["batch"].fill_null(0)
    )
    expected = size / (5 * 40 * participation * 0.1) if scheme == "anonymous_fixed" else (size > 0).cast(float)
    np.testing.assert_allclose(mean_weights.ravel(), expected, rtol=1e-6)


def test_the_server_of_many_antennas_hears_its_own_noise_and_users_pay_for_theirs(trained):
    config = {
        "system": "random_orthogonalization", "network": {"users": 3, "antennas": 4}, "radio": {"amplitude": 2.0},
        "data": {"dataset": "digits", "samples_per_user": 30}, "training": {"rounds": 5, "batch_size": 8},
    }  # fmt: skip
    update_energy = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    found, parameters = stages(config, "all", "fixed")
    measured = np.zeros((6, 3), np.float32)  # norms, clipped, squared norms after it
    measured[1:, 2] = update_energy
    history, seen = trained(found, parameters, measured)
    weights, stds = np.array([at.weight.numpy() for at, _ in seen]), np.array([std for _, std in seen])
    np.testing.assert_allclose(stds.ravel(), found["noise"]["effective_noise_std"], rtol=1e-6)
    np.testing.assert_allclose(weights.ravel(), found["schedule"]["coupling_real"] / 3, rtol=1e-6)
    sent = history.filter(pl.col("round") > 0)["transmit_energy"].to_numpy().reshape(2, 5)
    expected = 4 * (update_energy + 650 * 0.1)  # alpha^2 (||update||^2 + d sigma^2)
    np.testing.assert_allclose(sent, np.tile(expected, (2, 1)), rtol=1e-6)


@pytest.mark.parametrize(("scheme", "theta", "vectors"), [("fair", 0.6, 3), ("independent", 0, 3), ("shared", 0, 1)])
def test_copies_of_all_noise_schemes_start_alike(scheme, theta, vectors):
    config = {"system": "utility_fair", "network": {"devices": 3}, "privacy": {"sensitivity": 0.03, "theta": 0.6}}
    found, _ = stages(config, "benchmark", scheme)
    table = found["noise"]
    assert set(table["theta"]) == {theta}
    assert table["noise_vector"].n_unique() == vectors
    multiplier = np.sqrt(2 * np.log(1.25 / 1e-5)) / 0.95
    np.testing.assert_allclose(table["noise_multiplier"], multiplier, rtol=1e-12)
    np.testing.assert_allclose(table["copy_std"], 0.03 * multiplier, rtol=1e-12)
    np.testing.assert_allclose(found["noise_status"]["largest_multiplier"], multiplier / (1 - theta), rtol=1e-12)
