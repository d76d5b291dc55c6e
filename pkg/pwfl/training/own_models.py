"""User-defined Keras models: build them by the user's function, and refuse those that would be trained wrongly.

Training minimizes the cross-entropy of logits by per-sample gradients. It ignores everything else a Keras model may
have: state, random numbers, regularizers, constraints, losses and training steps. `user_model` refuses such models.
"""

import inspect
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pwfl import errors
from pwfl.process import user_code

if TYPE_CHECKING:
    import keras

    from pwfl.training.models import Network

TRIED = 3  # samples that a model is tried with
ALIKE = 1e-4  # relative to the largest output: rounding differences in float32
MOVED = 0.1  # standard deviation of noise added to start weights, which may be zero and hide a dependence
SEED = "seed_generator_state"  # Keras's name for the state of a layer's random numbers
OWN_STEPS = ("compute_loss", "train_step")  # methods of keras.Model that are not called


def built(network: "Network") -> tuple["keras.Model", np.ndarray, Any]:
    """Build a user-defined model by its function and call it once, so that its weights exist.

    Returns the model, the random samples it was called with, float32, shape (TRIED, feature), and its output. Raises
    UserCodeError if the function does not return a Keras model, or the model does not accept the samples.
    """
    features, name = network.size.features, network.model
    model = user_code.call(name, features, network.size.classes, reads=network.reads)
    if not hasattr(model, "stateless_call"):
        raise user_code.UserCodeError(f"{name}: returns {type(model).__name__}; must return a Keras model")
    samples = np.random.default_rng(0).random((TRIED, features), np.float32)
    try:
        return model, samples, model(samples)
    except Exception as error:
        message = re.sub(r"\\x1b\[[0-9;]*m", "", errors.describe(error)).partition(" Arguments received by")[0]
        raise user_code.UserCodeError(
            f"{name}: its model does not accept features of shape (sample, {features}); let it begin with "
            f"Input([{features}]), then Reshape: {message}"
        ) from error


def user_model(network: "Network") -> "keras.Model":
    """Build a user-defined model and check that it can be trained.

    It must map features, shape (sample, feature), to logits, shape (sample, class). Raises UserCodeError if it does
    not, and if per-sample gradients of its cross-entropy would not train it as Keras would.
    """
    model, samples, output = built(network)
    fault = _shape(output, network.size.classes) or _unsupported(model) or _state(model, samples)
    if fault := fault or next(_outputs(model, samples), None):
        raise user_code.UserCodeError(f"{network.model}: its model {fault}")
    return model


def _shape(output, classes: int) -> str | None:
    """Return what is wrong with the shape of a model's output for TRIED samples; None: nothing."""
    if tuple(getattr(output, "shape", ())) == (TRIED, classes):
        return None
    has = f"the shape {tuple(output.shape)}" if hasattr(output, "shape") else f"a {type(output).__name__}"
    return f"gives {has} for {TRIED} samples, must give one tensor of shape {(TRIED, classes)}"


def _unsupported(model: "keras.Model") -> str | None:
    """Return which feature of a built model training does not support; None: none."""
    import keras

    for layer in model._flatten_layers():
        kinds = layer.compute_dtype, layer.variable_dtype
        if precision := next((kind for kind in kinds if "float" in kind and kind != "float32"), None):
            at = f"its layer {_uncounted(layer.name)} computes in {precision}"
            return f"must compute in float32; {at}: leave out its dtype or policy"
    if not model.trainable_variables:
        return "has no weights to train"
    if odd := [name for name in OWN_STEPS if getattr(type(model), name) is not getattr(keras.Model, name)]:
        return (
            f"has its own {' and '.join(odd)}, which training does not call: it minimizes the cross-entropy of logits"
        )
    if bound := [_uncounted(weight.path) for weight in model.trainable_variables if weight.constraint is not None]:
        return f"has constraints, which are not enforced: of {', '.join(bound)}; leave them out"
    return None


def _state(model: "keras.Model", samples: np.ndarray) -> str | None:
    """Return what a call with training=True adds to the loss or changes in the model's state; None: nothing.

    `samples` has shape (sample, feature).
    """
    weights, state = _values(model)
    _, after, losses = model.stateless_call(weights, state, samples, **_training(model, True), return_losses=True)
    if losses or model.losses:
        return "has regularizers, or losses of its own, which are not trained with; leave them out"
    drawn, changed, fixed = [], [], []
    for variable, before, now in zip(model.non_trainable_variables, state, after, strict=True):
        moved = not np.array_equal(before, now)
        if variable.path.endswith(SEED):  # recurrent layers have one also without dropout: then no call changes it
            drawn += [variable] if moved else []
        else:
            (changed if moved else fixed).append(variable)
    for faulty, fault, cure in (
        (drawn, "draws random numbers in training", "leave out dropout and noise"),
        (changed, "has state that training changes", "leave out batch normalization and the like"),
        (fixed, "has weights that are not trained", "train all layers, and give Normalization its mean and variance"),
    ):
        if faulty:
            return f"{fault}, in {', '.join(sorted({_owner(model, variable) for variable in faulty}))}; {cure}"
    return None


def _outputs(model: "keras.Model", samples: np.ndarray) -> Iterator[str]:
    """Yield what is wrong with a model's outputs for samples, at its start weights and at others near them.

    `samples` has shape (sample, feature).
    """
    weights, state = _values(model)
    generator = np.random.default_rng(1)
    moved = [weight + MOVED * generator.standard_normal(weight.shape).astype(weight.dtype) for weight in weights]
    for at in (weights, moved):

        def outputs(rows, in_training=False, at=at):
            return np.asarray(model.stateless_call(at, state, rows, **_training(model, in_training))[0])

        together = outputs(samples)
        if (together >= 0).all() and np.allclose(together.sum(axis=1), 1, atol=1e-5):
            yield "returns probabilities; must return logits: leave out the softmax"
        if _differ(together, np.concatenate([outputs(samples[[row]]) for row in range(TRIED)])):
            yield (
                "gives outputs for a sample that depend on the other samples of a batch, or on random draws; a "
                "sample's gradient must not: leave out layers that do so, such as means over a batch"
            )
        if _differ(together, outputs(samples, in_training=True)):
            yield "computes something else with training=True; training and evaluation call it alike"


def _differ(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.abs(one - other).max() > ALIKE * max(np.abs(one).max(), np.abs(other).max()))


def _values(model: "keras.Model") -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return a model's trained weights and the rest of its state."""
    trained, rest = model.trainable_variables, model.non_trainable_variables
    return [variable.numpy() for variable in trained], [variable.numpy() for variable in rest]


def _training(model: "keras.Model", in_training: bool) -> dict[str, bool]:
    """Return the keyword argument `training` for a call of the model, if it has one."""
    return {"training": in_training} if "training" in inspect.signature(model.call).parameters else {}


def _owner(model: "keras.Model", variable) -> str:
    """Return the name of the innermost layer that has a variable."""
    layers = [layer for layer in model._flatten_layers() if any(weight is variable for weight in layer.variables)]
    return _uncounted(layers[-1].name if layers else variable.path)


def _uncounted(name: str) -> str:
    """Return a layer's or weight's name without the numbers that Keras appends."""
    return re.sub(r"_\d+", "", name)
