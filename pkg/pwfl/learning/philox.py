"""Random numbers of many streams at once, equal to those of TensorFlow's stateless functions.

From the same bits, XLA computes other normal numbers than TensorFlow's own kernels, and drawing one stream after the
other leaves a GPU idle. This module implements the counter-based generator Philox4x32-10 (Salmon et al., 2011,
"Parallel Random Numbers: As Easy as 1, 2, 3") for a batch of keys, with TensorFlow's seeding and its Box-Muller
transform.
"""

import math

from pwfl.process.tensorflow import tf

MULTIPLIERS, KEY_STEPS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
SCRAMBLE = 0x02461E293EC8F720  # TensorFlow's key for the draw from which a seed's key and counter are made
MANTISSA, ONE = 0x7FFFFF, 127 << 23  # of a float32
LEAST = 1e-7  # smallest uniform number of a logarithm

Words = list[tf.Tensor]  # uint32, of shapes that broadcast


def normals(keys: tf.Tensor, number: tf.Tensor, count: int) -> tf.Tensor:
    """Draw `count` standard normal numbers of each stream, float32, shape (stream, count).

    They are those of `tf.random.stateless_normal` with the seed (key, number) up to rounding errors of at most 2e-6.

    Parameters
    ----------
    keys
        int64, shape (stream,).
    number
        Second part of all seeds, an integer, shape ().
    count
        Numbers per stream.
    """
    normal = [n for pair in _pairs(keys, number, count) for n in _box_muller(*pair)]
    return _in_a_row(normal, keys, count)


def uniforms(keys: tf.Tensor, number: tf.Tensor, count: int) -> tf.Tensor:
    """Draw uniform numbers in [0, 1), exactly those of `tf.random.stateless_uniform`; arguments as in `normals`."""
    return _in_a_row([u for pair in _pairs(keys, number, count) for u in pair], keys, count)


def _in_a_row(numbers: list[tf.Tensor], keys: tf.Tensor, count: int) -> tf.Tensor:
    return tf.reshape(tf.stack(numbers, axis=-1), [tf.shape(keys)[0], -1])[:, :count]


def _pairs(keys: tf.Tensor, number: tf.Tensor, count: int) -> list[tuple[tf.Tensor, tf.Tensor]]:
    """Draw blocks of four uniform numbers: two pairs, each number of shape (stream, block)."""
    zero = tf.zeros_like(keys, tf.uint32)
    seed = [*_words(tf.bitcast(keys, tf.uint64)), zero + tf.cast(number, tf.uint32), zero]
    mixed = [word[:, None] for word in philox(seed, [zero + word for word in _words(tf.constant(SCRAMBLE, tf.uint64))])]
    block = tf.cast(tf.range(-(-count // 4)), tf.uint32) + 0 * mixed[0]
    drawn = philox([block, 0 * block, mixed[2] + 0 * block, mixed[3] + 0 * block], [w + 0 * block for w in mixed[:2]])
    return [tuple(map(_uniform, pair)) for pair in (drawn[:2], drawn[2:])]


def philox(counter: Words, key: Words) -> Words:
    """Compute the four output words of Philox4x32-10 from four words of a counter and two of a key."""
    for _ in range(ROUNDS):
        (low0, high0), (low1, high1) = (
            _words(tf.cast(word, tf.uint64) * tf.constant(multiplier, tf.uint64))
            for word, multiplier in zip(counter[::2], MULTIPLIERS, strict=True)
        )
        counter = [_xor(high1, counter[1], key[0]), low1, _xor(high0, counter[3], key[1]), low0]
        key = [word + tf.constant(step, tf.uint32) for word, step in zip(key, KEY_STEPS, strict=True)]
    return counter


def _words(value: tf.Tensor) -> Words:
    """Split uint64 into its lower and upper 32 bits, uint32."""
    return [tf.cast(tf.bitwise.right_shift(value, tf.constant(shift, tf.uint64)), tf.uint32) for shift in (0, 32)]


def _xor(*words: tf.Tensor) -> tf.Tensor:
    first, second, third = words
    return tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(first, second), third)


def _uniform(word: tf.Tensor) -> tf.Tensor:
    """Convert the lower 23 bits of a word to a float32 in [0, 1)."""
    mantissa = tf.bitwise.bitwise_and(word, tf.constant(MANTISSA, tf.uint32))
    return tf.bitcast(tf.bitwise.bitwise_or(mantissa, tf.constant(ONE, tf.uint32)), tf.float32) - 1.0


def _box_muller(first: tf.Tensor, second: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    radius, angle = tf.sqrt(-2 * tf.math.log(tf.maximum(first, LEAST))), 2 * math.pi * second
    return tf.sin(angle) * radius, tf.cos(angle) * radius
