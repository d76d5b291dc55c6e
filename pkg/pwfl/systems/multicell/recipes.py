"""Recipes of training, the values of `training.recipe`: initial model, aggregation weights and step sizes."""

from typing import NamedTuple


class Recipe(NamedTuple):
    """A recipe; `former` contains the former parameters that it replaces, which key the random noise (`keyed`)."""

    from_zero: bool  # softmax regression starts at zero
    inverse_variance: bool  # aggregation weights by the inverse variance of the noise, otherwise by samples
    falling: bool  # step sizes fall linearly
    former: dict[str, str]


_ZERO, _PRECISION, _FALLING = (
    {"training.initial_weights": "zero"}, {"training.weights": "precision"}, {"training.step_decay": "linear"}
)  # fmt: skip
RECIPES = {
    "paper": Recipe(False, False, False, {}),
    "zero_start": Recipe(True, False, False, _ZERO),
    "falling_steps": Recipe(False, False, True, _FALLING),
    "inverse_variance": Recipe(True, True, False, _ZERO | _PRECISION),
    "inverse_variance_falling": Recipe(True, True, True, _PRECISION | _FALLING),
}
