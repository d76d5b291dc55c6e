"""One-bit digital aggregation of Zhu, Du, Gündüz and Huang (IEEE TWC 2021), over several cells that leak."""

import numpy as np

from pwfl.airs.air import LINEAR, MESSAGES, Received, Sent, alone
from pwfl.airs.superposed import couplings
from pwfl.privacy.labels import Kind

# Whoever sees signs, or votes, is taken to see messages.
OBSERVED_BY = {name: MESSAGES._replace(weaker=name, kind=Kind.UPPER) for name in LINEAR}


def receive(sent: Sent) -> Received:
    """The votes of users' signs, which the server adds up, and takes the sign of.

    A user sends the sign of each coordinate of its message with noise in it, one bit a symbol (the paper's QPSK has
    two, of which cells that leak would mix one with the other). It inverts its channel to its own station, where all
    signs arrive at one amplitude: the largest that leaves nobody above its power, whatever messages are. The
    server takes the sign of the sum of stations' real parts. `weight` is a vote's in that sum, `receiver_std` of the
    receivers' noise in it. Whoever sees what is on air, or the vote, sees less than messages with their own noise,
    and is taken to see these.
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
