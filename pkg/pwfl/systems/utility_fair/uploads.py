"""A device's messages to the access point, and their sensitivity to a record.

A device sends two vectors in a round (Sec. II of Alvi et al.), for a batch of d records. With a clipping norm C, one
record moves the gradient, a mean of gradients that are each clipped to C, by at most 2 C / d. The update is at most C /
d from a part that is known from earlier messages, so two updates are at most 2 C / d apart. Both hold for any data,
model and earlier messages. So noisy vectors compose as adaptively chosen Gaussian mechanisms. Results computed from
them, from channels and from independent noise reveal nothing more. Proof: docs/explanation/utility_fair.md.
"""

SENT = 2  # vectors that a device sends in a round: gradient and update


def radius(clip_norm: float | None, batch_size: int) -> float | None:
    """Return C / d, half the distance by which a record can move a vector that is sent; None: nothing is clipped."""
    return None if clip_norm is None else clip_norm / batch_size


def sensitivity(clip_norm: float | None, batch_size: int, assumed: float) -> float:
    """Return how far a record can move a vector that is sent: twice the radius or, without clipping, `assumed`."""
    return assumed if clip_norm is None else 2 * clip_norm / batch_size


def moved_by_a_user(clip_norm: float | None, batch_size: int) -> tuple[float, ...]:
    """Return how far all of a device's records move its vectors of a round, in units of a record's sensitivity.

    Each record of the batch moves the gradient; the update stays as near to its known part. Infinite without clipping:
    `sensitivity` is then assumed of a single record.
    """
    return (float("inf"),) * SENT if clip_norm is None else (float(batch_size), 1.0)
