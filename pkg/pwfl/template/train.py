"""Stage train: the server steps along the mean of what the round's senders send, their noisy mean gradients."""

from pwfl.training.plain import batch_trainer, parts, trainer

__all__ = ["batch_trainer", "parts", "trainer"]
