"""Import TensorFlow as `tf` without Keras, a third of its import time, which most training runs do not need.

`tf.keras` and `import keras` still import Keras when they are executed.
"""

import sys

EAGER = "keras.src.optimizers"  # TensorFlow imports it at once, but works without it
KEPT = sys.modules.get(EAGER)

sys.modules[EAGER] = KEPT  # ty: ignore  # None: cannot be imported
try:
    import tensorflow as tf
finally:
    if KEPT is None:
        del sys.modules[EAGER]

__all__ = ["tf"]
