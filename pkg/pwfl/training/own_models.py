"""Keras models of users' own: built by their functions, and refused where training would not be Keras's."""

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
ALIKE = 1e-4  # of the largest output: what outputs of a sample may differ by in float32
MOVED = 0.1  # standard deviation of what is added to start weights, which may hide what depends on others
SEED = "seed_generator_state"  # what Keras calls the state of a layer's random numbers
OWN_STEPS = ("compute_loss", "train_step")  # methods of keras.Model that are not called


def built(network: "Network") -> tuple["keras.Model", np.ndarray, Any]:
    """The model of a user's function, anew, which was called and so has its weights; samples, and what it gave.

    Raises UserCodeError where there is none, or it cannot be called with features.
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
    """The Keras model that a function of the user's own returns, of the numbers of features and classes.

    It maps features, shape (sample, feature), to logits, shape (sample, class). Raises UserCodeError for another one,
    and for one that per-sample training of its cross-entropy would train otherwise than Keras does.
    """
    model, samples, output = built(network)
    fault = _shape(output, network.size.classes) or _unsupported(model) or _state(model, samples)
    if fault := fault or next(_outputs(model, samples), None):
        raise user_code.UserCodeError(f"{network.model}: its model {fault}")
    return model


def _shape(output, classes: int) -> str | None:
    """What is wrong with the shape of what a model gave."""
    if tuple(getattr(output, "shape", ())) == (TRIED, classes):
        return None
    has = f"the shape {tuple(output.shape)}" if hasattr(output, "shape") else f"a {type(output).__name__}"
    return f"gives {has} for {TRIED} samples, must give one tensor of shape {(TRIED, classes)}"


def _unsupported(model: "keras.Model") -> str | None:
    """What a model, which was called, has that training does not use."""
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
    """What a call in training adds or changes beside the weights that are trained."""
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
    """What is wrong with what a model computes of samples, at its start weights and at others near them."""
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
    """A model's trained weights, and the rest of its state."""
    trained, rest = model.trainable_variables, model.non_trainable_variables
    return [variable.numpy() for variable in trained], [variable.numpy() for variable in rest]


def _training(model: "keras.Model", in_training: bool) -> dict[str, bool]:
    """The argument `training` of a model that has it."""
    return {"training": in_training} if "training" in inspect.signature(model.call).parameters else {}


def _owner(model: "keras.Model", variable) -> str:
    """The name of the innermost layer that has a variable."""
    layers = [layer for layer in model._flatten_layers() if any(weight is variable for weight in layer.variables)]
    return _uncounted(layers[-1].name if layers else variable.path)


def _uncounted(name: str) -> str:
    """A layer's or weight's name without the numbers that Keras counts them by."""
    return re.sub(r"_\d+", "", name)
