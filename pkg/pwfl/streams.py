"""Random streams: every draw comes from one derived from (seed, purpose, realization).

A purpose's numbers lie on one counter-based Philox sequence, each realization on a stretch of its own, so a block of
realizations is drawn at once, and a realization's numbers are the same in any block.
"""

import hashlib
from math import prod

import numpy as np

WORDS = 4  # 64-bit numbers that one step of Philox's counter yields


def uniforms(seed: int, purpose: str, realizations: range, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform numbers in (0, 1), float64, shape (len(realizations), *shape), for consecutive realizations.

    Those of a realization depend on seed, purpose, realization and shape alone.
    """
    size = prod(shape)
    steps = -(-size // WORDS)
    philox = np.random.Philox(key=_sequence(seed, purpose).generate_state(2, np.uint64))
    philox.advance(realizations.start * steps)
    numbers = np.random.Generator(philox).random((len(realizations), steps * WORDS))
    # NumPy draws multiples of 2^-53 from [0, 1); zero has no logarithm and no normal quantile.
    return np.maximum(numbers[:, :size], 2.0**-54).reshape(len(realizations), *shape)


def generator(seed: int, purpose: str, realization: int) -> np.random.Generator:
    """A NumPy generator of one realization's own."""
    return np.random.Generator(np.random.Philox(_sequence(seed, purpose, realization)))


def key(seed: int, purpose: str, realization: int) -> int:
    """A 63-bit key of one realization, for TensorFlow's stateless generators."""
    return int(_sequence(seed, purpose, realization).generate_state(1, np.uint64)[0] >> np.uint64(1))


def name_noise(scenario, realization: int, purpose: str = "noise", release: str | None = None) -> tuple[int, str, int]:
    """Name the noise that users add to one release, which no other draws: seed, purpose and realization.

    `scenario` are the parameters of a stage that draws noise, and say of which release (`pwfl.workflow.plan`), and what
    a realization has of the user's files, if anything (`pwfl.execution.contents`).
    """
    named = f"{purpose} of {release or scenario.release}"
    if contents := getattr(scenario, "contents", None):
        named += f" on {vars(contents)[str(realization)]}"
    return scenario.seed, named, realization


def name_tested_noise(scenario, purpose: str = "noise") -> list[tuple[int, str, int]]:
    """Name the streams whose noise an audit compares: a release's first two realizations, another one's first."""
    own = [name_noise(scenario, realization, purpose) for realization in range(2)]
    return [*own, name_noise(scenario, 0, purpose, "another release")]


def _sequence(seed: int, purpose: str, *realization: int) -> np.random.SeedSequence:
    digest = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "little")
    return np.random.SeedSequence([seed, digest, *realization])
