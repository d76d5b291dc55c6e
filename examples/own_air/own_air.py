"""A custom air: users send uncoded messages one after the other at full power, and the server adds them up."""

import numpy as np

from pwfl.airs.air import Received, Sent, Signals, in_update


def receive(sent: Sent) -> Received:
    """Compute reception; weights and visibilities, shape (realization, interval, user), are 0 for inactive users."""
    # Received amplitude of one unit of each message: a message of the largest norm and its noise use all the power.
    mean_square = sent.norm**2 / sent.dimension + sent.noise_std**2
    amplitude = np.where(sent.sends, np.sqrt(sent.max_power_w * sent.own_gain / np.maximum(mean_square, 1e-300)), 1.0)
    heard_std = np.sqrt(sent.noise_w / 2) / amplitude  # receiver's noise (real part) in a message
    receiver_std = np.sqrt(np.where(sent.sends, (sent.weight * heard_std) ** 2, 0.0).sum(axis=2))
    with np.errstate(divide="ignore"):
        shown = [np.where(sent.sends, 1 / std, 0.0) for std in (np.hypot(sent.noise_std, heard_std), sent.noise_std)]
    senders = sent.sends.sum(axis=2)
    symbols = sent.dimension * senders
    each_s = sent.dimension / sent.bandwidth_hz
    return Received(
        weight=sent.weight,
        receiver_std=receiver_std,
        # The observers "user" and "cell" receive each message in a separate slot, "network" only their sum.
        seen={"user": tuple(shown), "cell": tuple(shown), "network": in_update(sent, sent.weight, receiver_std)},
        symbols=symbols,
        seconds=symbols / sent.bandwidth_hz,
        joules=sent.max_power_w * each_s * senders,
    )


def signals(sent: Sent, messages: np.ndarray, noise: np.ndarray, receivers: np.ndarray) -> Signals:
    """Simulate one interval's signals, with which `pwfl test` compares `receive` (`pwfl.testing.signals`)."""
    sends, own_gain = sent.sends[0, 0, :, None], sent.own_gain[0, 0, :, None]
    mean_square = sent.norm[0, 0, :, None] ** 2 / sent.dimension + sent.noise_std[0, 0, :, None] ** 2
    scale = np.sqrt(sent.max_power_w / np.where(sends, mean_square, 1.0)) * sends
    radiated = scale * (messages + noise)
    slots = np.sqrt(own_gain) * radiated + np.sqrt(sent.noise_w / 2) * receivers[: len(sends)]
    heard = np.divide(slots, np.sqrt(own_gain) * scale, out=np.zeros(slots.shape), where=sends)
    update = (sent.weight[0, 0, :, None] * heard).sum(axis=0)
    each = heard * sends
    return Signals(radiated, update, {"user": each, "cell": each, "network": update[None]})
