"""What a device sends to the access point, and how far a record can move it.

A device sends two vectors in a round (Sec. II of Alvi et al.), for a batch of d records. With a clipping norm C, one
record moves the gradient, a mean of gradients that are each clipped to C, by at most 2 C / d; and the update lies at
most C / d from what is known of it anyway, so two are at most 2 C / d apart. Both hold whatever the data, the model,
and all that was sent before, so noisy vectors compose as Gaussian mechanisms that are chosen adaptively, and what is
computed of them, of channels, and of noise of its own reveals nothing more. Proof: docs/explanation/utility_fair.md.
"""

SENT = 2  # vectors that a device sends in a round: gradient and update


def radius(clip_norm: float | None, batch_size: int) -> float | None:
    """C / d, half the distance by which a record can move a vector that is sent; None: nothing is clipped."""
    return None if clip_norm is None else clip_norm / batch_size


def sensitivity(clip_norm: float | None, batch_size: int, assumed: float) -> float:
    """By how much a record can move a vector that is sent: twice the radius, or without clipping what is assumed."""
    return assumed if clip_norm is None else 2 * clip_norm / batch_size


def moved_by_a_user(clip_norm: float | None, batch_size: int) -> tuple[float, ...]:
    """By how much all of a device's records move the vectors that it sends in a round, in sensitivities of a record.

    Every record of the batch moves a gradient; an update stays as near to what is known of it. Infinite without
    clipping: `sensitivity` is then assumed of one record alone.
    """
    return (float("inf"),) * SENT if clip_norm is None else (float(batch_size), 1.0)
