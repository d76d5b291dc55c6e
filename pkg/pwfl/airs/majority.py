"""One-bit digital aggregation of Zhu, Du, Gündüz and Huang (IEEE TWC 2021), over several interfering cells."""

import numpy as np

from pwfl.airs.air import LINEAR, MESSAGES, Received, Sent, alone
from pwfl.airs.superposed import couplings
from pwfl.privacy.labels import Kind

# An observer of signs, or votes, is assumed to receive the noisy messages.
OBSERVED_BY = {name: MESSAGES._replace(weaker=name, kind=Kind.UPPER) for name in LINEAR}


def receive(sent: Sent) -> Received:
    """Compute the reception of majority votes: users send signs, and the server uses the sign of their sum.

    A user sends the sign of each coordinate of its noisy message, one bit per symbol. (The paper's QPSK sends two,
    which interference between cells would mix.) It inverts its channel to its base station, where all signs arrive at
    the same amplitude, the largest at which no user exceeds the maximum power. The server uses the sign of the sum of
    the stations' real parts. `Received.weight` is the weight of a user's sign in that sum, `receiver_std` the standard
    deviation of the receivers' noise in it. Signs and votes are functions of the noisy messages, so observers are
    assumed to receive these messages.
    """
    arrived, listening = couplings(sent), sent.listening
    needed = np.where(sent.sends, 1 / sent.own_gain, 0.0)  # watts for an amplitude of 1
    largest = needed.max(axis=2)
    amplitude = np.sqrt(sent.max_power_w / np.where(largest > 0, largest, 1.0))
    weight = np.where(listening[..., None], arrived.real, 0.0).sum(axis=2)
    receiver_std = np.sqrt(sent.noise_w / 2 * np.sum(listening, axis=2)) / amplitude
    symbols = sent.dimension * np.any(sent.sends, axis=2)
    seconds = symbols / sent.bandwidth_hz
    joules = amplitude**2 * needed.sum(axis=2) * seconds
    seen = dict.fromkeys(OBSERVED_BY, alone(sent))
    return Received(weight, receiver_std, seen, symbols, seconds, joules, observed_by=OBSERVED_BY)
