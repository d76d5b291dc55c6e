"""What a device sends to the access point, and how far a record can move it.

A device sends two vectors in a round, gradient and update (Sec. II of Alvi et al.). Either depends on the whole batch
in a way that local steps make hard to bound, so each is clipped as a whole: two vectors of norm at most C are at most
2 C apart, whatever data, model, steps and earlier messages they come from. So, given all that was sent before,
one record, or all of a device's, moves each vector by at most 2 C, and noisy vectors compose as Gaussian mechanisms
that are chosen adaptively. All else (average gradient, model, copies, deviations, iterations, powers) is computed of
noisy vectors, of channels, and of noise of its own: it reveals nothing more.
"""

SENT = 2  # vectors that a device sends in a round: gradient and update


def sensitivity(clip_norm: float | None, assumed: float) -> float:
    """By how much a record can move a vector that is sent: 2 C where it is clipped to C, else what is assumed."""
    return assumed if clip_norm is None else 2 * clip_norm
