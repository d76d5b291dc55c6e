"""TensorFlow as `tf`, imported without Keras: a third of its import, for which most trainings have no use.

`tf.keras` and `import keras` import it where they stand.
"""

import sys

EAGER = "keras.src.optimizers"  # what TensorFlow imports at once, and goes on without
KEPT = sys.modules.get(EAGER)

sys.modules[EAGER] = KEPT  # ty: ignore  # None: cannot be imported
try:
    import tensorflow as tf
finally:
    if KEPT is None:
        del sys.modules[EAGER]

__all__ = ["tf"]
