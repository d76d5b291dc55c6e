"""The networks in torch, for several frameworks: their layers, and conversion of their weights to NumPy arrays."""

import numpy as np
import torch
from torch import nn

SIDE = 28  # pixels of an image


class Flatten(nn.Module):
    """A layer that flattens an image to one row, with channels last, the order in TensorFlow."""

    def forward(self, x):
        return x.permute(0, 2, 3, 1).flatten(1)


def layers(weights: list[np.ndarray]) -> list[nn.Module]:
    """Make layers from start weights [kernel, bias, ...], with ReLU between them; kernels with four axes convolve."""
    found = [nn.Unflatten(1, (1, SIDE, SIDE))] if weights[0].ndim == 4 else []
    for k, (kernel, bias) in enumerate(zip(weights[::2], weights[1::2], strict=True)):
        after = [nn.ReLU()] if 2 * k + 2 < len(weights) else []
        if kernel.ndim == 4:
            height, _, inputs, outputs = kernel.shape
            layer = nn.Conv2d(inputs, outputs, height, stride=2, padding=0 if k else height // 2 - 1)
            after.append(nn.MaxPool2d(2, 1))
        else:
            if k and weights[2 * k - 2].ndim == 4:
                found.append(Flatten())
            layer = nn.Linear(*kernel.shape)
        layer.load_state_dict({"weight": torch.from_numpy(turned(kernel)), "bias": torch.from_numpy(bias)})
        found += [layer, *after]
    return found


def weights_of(network: nn.Module) -> list[np.ndarray]:
    """Return a network's weights, with the order and axes of the start weights given to `layers`."""
    found = []
    for weight in (p.detach().numpy() for p in network.parameters()):
        found.append(weight.transpose(2, 3, 1, 0) if weight.ndim == 4 else weight.T)
    return found


def turned(kernel: np.ndarray) -> np.ndarray:
    """Transpose a kernel to the axis order of torch: outputs first."""
    return np.ascontiguousarray(kernel.transpose(3, 2, 0, 1) if kernel.ndim == 4 else kernel.T)
