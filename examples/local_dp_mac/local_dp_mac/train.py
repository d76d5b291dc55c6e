"""Stage train: the server steps along the mean of the gradients that it receives."""

from pwfl.training.plain import batch_trainer, parts, trainer

__all__ = ["batch_trainer", "parts", "trainer"]
