"""Stage train: gradient descent of the server, along the mean of the received gradients."""

from pwfl.training.plain import batch_trainer, parts, trainer

__all__ = ["batch_trainer", "parts", "trainer"]
