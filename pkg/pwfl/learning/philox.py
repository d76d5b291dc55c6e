"""Random numbers of many streams in one go, those that TensorFlow's stateless functions draw of each.

XLA draws other normal numbers of a seed than TensorFlow's own kernels do, though of the same bits, and a draw of one
stream after the other leaves a GPU idle. So here is the counter-based generator Philox4x32-10 (Salmon et al., 2011,
"Parallel Random Numbers: As Easy as 1, 2, 3") over a whole batch of keys, seeded as TensorFlow seeds it, and the
transform of Box and Muller as TensorFlow has it.
"""

import math

import tensorflow as tf

MULTIPLIERS, KEY_STEPS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
SCRAMBLE = 0x02461E293EC8F720  # TensorFlow's key for the draw that a seed's key and counter are made of
MANTISSA, ONE = 0x7FFFFF, 127 << 23  # of a float32
LEAST = 1e-7  # uniform number: zero has no logarithm

Words = list[tf.Tensor]  # uint32, of shapes that broadcast


def normals(keys: tf.Tensor, number: tf.Tensor, count: int) -> tf.Tensor:
    """Standard normal numbers, float32, shape (stream, count): of the seeds (key, number) of each of some int64 keys.

    They differ from TensorFlow's by how its kernels and XLA round logarithm, sine and cosine: by 2e-6 at most.
    """
    normal = [n for pair in _pairs(keys, number, count) for n in _box_muller(*pair)]
    return _in_a_row(normal, keys, count)


def uniforms(keys: tf.Tensor, number: tf.Tensor, count: int) -> tf.Tensor:
    """As `normals`, uniform numbers in [0, 1), those of `tf.random.stateless_uniform` to the bit."""
    return _in_a_row([u for pair in _pairs(keys, number, count) for u in pair], keys, count)


def _in_a_row(numbers: list[tf.Tensor], keys: tf.Tensor, count: int) -> tf.Tensor:
    return tf.reshape(tf.stack(numbers, axis=-1), [tf.shape(keys)[0], -1])[:, :count]


def _pairs(keys: tf.Tensor, number: tf.Tensor, count: int) -> list[tuple[tf.Tensor, tf.Tensor]]:
    """Of blocks of four uniform numbers each, of shape (stream, block), the first two and the last two."""
    zero = tf.zeros_like(keys, tf.uint32)
    seed = [*_words(tf.bitcast(keys, tf.uint64)), zero + tf.cast(number, tf.uint32), zero]
    mixed = [word[:, None] for word in philox(seed, [zero + word for word in _words(tf.constant(SCRAMBLE, tf.uint64))])]
    block = tf.cast(tf.range(-(-count // 4)), tf.uint32) + 0 * mixed[0]
    drawn = philox([block, 0 * block, mixed[2] + 0 * block, mixed[3] + 0 * block], [w + 0 * block for w in mixed[:2]])
    return [tuple(map(_uniform, pair)) for pair in (drawn[:2], drawn[2:])]


def philox(counter: Words, key: Words) -> Words:
    """The four words that Philox4x32-10 makes of four words of a counter and two of a key."""
    for _ in range(ROUNDS):
        (low0, high0), (low1, high1) = (
            _words(tf.cast(word, tf.uint64) * tf.constant(multiplier, tf.uint64))
            for word, multiplier in zip(counter[::2], MULTIPLIERS, strict=True)
        )
        counter = [_xor(high1, counter[1], key[0]), low1, _xor(high0, counter[3], key[1]), low0]
        key = [word + tf.constant(step, tf.uint32) for word, step in zip(key, KEY_STEPS, strict=True)]
    return counter


def _words(value: tf.Tensor) -> Words:
    """The lower and the upper half of 64 bits."""
    return [tf.cast(tf.bitwise.right_shift(value, tf.constant(shift, tf.uint64)), tf.uint32) for shift in (0, 32)]


def _xor(*words: tf.Tensor) -> tf.Tensor:
    first, second, third = words
    return tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(first, second), third)


def _uniform(word: tf.Tensor) -> tf.Tensor:
    """A number in [0, 1) of a word's lower bits."""
    mantissa = tf.bitwise.bitwise_and(word, tf.constant(MANTISSA, tf.uint32))
    return tf.bitcast(tf.bitwise.bitwise_or(mantissa, tf.constant(ONE, tf.uint32)), tf.float32) - 1.0


def _box_muller(first: tf.Tensor, second: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    radius, angle = tf.sqrt(-2 * tf.math.log(tf.maximum(first, LEAST))), 2 * math.pi * second
    return tf.sin(angle) * radius, tf.cos(angle) * radius
