"""Algorithm 1 of Tavangaran et al. as the paper writes it: loops over stations, users and samples, in float64.

Weights are lists [kernel, bias, kernel, bias, ...] of a ReLU network with softmax cross-entropy.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf


class User(NamedTuple):
    x: np.ndarray  # (samples, features)
    y: np.ndarray  # (samples,)
    noise_std: float
    count: float | None = None  # as how many samples averages count it; None: as those it has


def loss(weights, x, y):
    """Mean cross-entropy."""
    a = x
    for kernel, bias in zip(weights[0:-2:2], weights[1:-2:2], strict=True):
        a = tf.nn.relu(a @ kernel + bias)
    log_probability = tf.math.log_softmax(a @ weights[-2] + weights[-1])
    return -tf.reduce_mean(tf.gather(log_probability, y, batch_dims=1))


def gradient(weights, x, y):
    """Gradient of the mean loss by each weight."""
    weights = [tf.constant(w, tf.float64) for w in weights]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        value = loss(weights, tf.constant(x, tf.float64), y)
    return [g.numpy() for g in tape.gradient(value, weights)]


def norm(vectors):
    return np.sqrt(sum((v**2).sum() for v in vectors))


def clipped(vectors, clip_norm):
    """The vectors, scaled so that their joint norm is at most `clip_norm`."""
    length = norm(vectors)
    return [v * clip_norm / length for v in vectors] if length > clip_norm else vectors


def mean_clipped_gradient(weights, x, y, clip_norm):
    """Mean of the samples' gradients, each clipped."""
    each = [clipped(gradient(weights, x[k : k + 1], y[k : k + 1]), clip_norm) for k in range(len(x))]
    return [sum(parts) / len(x) for parts in zip(*each, strict=True)]


def clipped_mean_gradient(weights, x, y, clip_norm):
    return clipped(gradient(weights, x, y), clip_norm)


def local_model(weights, user, step_size, clip_norm, generator, user_gradient):
    """A user's model after one noisy step, (7)."""
    gradients = user_gradient(weights, user.x, user.y, clip_norm)
    noisy = [g + user.noise_std * generator.standard_normal(g.shape) for g in gradients]
    return [w - step_size * g for w, g in zip(weights, noisy, strict=True)]


def average(models, counts):
    return [sum(k * w for k, w in zip(counts, parts, strict=True)) / sum(counts) for parts in zip(*models, strict=True)]


def train(weights, cells, rounds, step_size, clip_norm, generator, user_gradient=mean_clipped_gradient):
    """The global model after some rounds; `cells` holds each station's scheduled users."""
    weights = [np.asarray(w, float) for w in weights]
    for _ in range(rounds):
        stations, counts = [], []
        for users in cells:
            if users:
                models = [local_model(weights, u, step_size, clip_norm, generator, user_gradient) for u in users]
                samples = [len(u.x) if u.count is None else u.count for u in users]
                stations.append(average(models, samples))  # (8)
                counts.append(sum(samples))
        weights = average(stations, counts)  # (9)
    return weights
