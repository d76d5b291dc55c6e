"""Random streams: every draw comes from one derived from (seed, purpose, realization).

Numbers of `uniforms` for a purpose are on one counter-based Philox sequence, each realization on a separate segment. So
a chunk of realizations is drawn at once, and a realization's numbers are the same in any chunk.
"""

import hashlib
from math import prod

import numpy as np

WORDS = 4  # 64-bit numbers that one step of Philox's counter yields


def uniforms(seed: int, purpose: str, realizations: range, shape: tuple[int, ...]) -> np.ndarray:
    """Draw uniform numbers in (0, 1), float64, shape (len(realizations), *shape), for consecutive realizations.

    Those of a realization depend only on seed, purpose, realization and shape.
    """
    size = prod(shape)
    steps = -(-size // WORDS)
    philox = np.random.Philox(key=_sequence(seed, purpose).generate_state(2, np.uint64))
    philox.advance(realizations.start * steps)
    numbers = np.random.Generator(philox).random((len(realizations), steps * WORDS))
    # NumPy draws multiples of 2^-53 from [0, 1); zero has no logarithm and no normal quantile.
    return np.maximum(numbers[:, :size], 2.0**-54).reshape(len(realizations), *shape)


def generator(seed: int, purpose: str, realization: int) -> np.random.Generator:
    """Create a NumPy generator for one realization."""
    return np.random.Generator(np.random.Philox(_sequence(seed, purpose, realization)))


def key(seed: int, purpose: str, realization: int) -> int:
    """Return a 63-bit key of one realization, for TensorFlow's stateless generators."""
    return int(_sequence(seed, purpose, realization).generate_state(1, np.uint64)[0] >> np.uint64(1))


def name_noise(scenario, realization: int, purpose: str = "noise", release: str | None = None) -> tuple[int, str, int]:
    """Name the noise that users add to one release, and to no other: return seed, purpose and realization.

    `scenario` contains the parameters of a stage that draws noise, the name of its release (`pwfl.workflow.plan`), and
    digests of the user's data by realization, if any (`pwfl.execution.contents`).
    """
    named = f"{purpose} of {release or scenario.release}"
    if contents := getattr(scenario, "contents", None):
        named += f" on {vars(contents)[str(realization)]}"
    return scenario.seed, named, realization


def name_tested_noise(scenario, purpose: str = "noise") -> list[tuple[int, str, int]]:
    """Name the noise streams that an audit compares: a release's first two realizations, and another's first."""
    own = [name_noise(scenario, realization, purpose) for realization in range(2)]
    return [*own, name_noise(scenario, 0, purpose, "another release")]


def _sequence(seed: int, purpose: str, *realization: int) -> np.random.SeedSequence:
    digest = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "little")
    return np.random.SeedSequence([seed, digest, *realization])
