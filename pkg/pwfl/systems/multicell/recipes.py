"""What some values of parameters stand for: how the server averages and steps."""

from typing import NamedTuple


class Recipe(NamedTuple):
    """How the server averages and steps, and where training starts; `former` names what noise depends on."""

    from_zero: bool  # softmax regression starts at zero
    inverse_variance: bool  # users are weighed by the inverse variance of their noise, else by their samples
    falling: bool  # steps fall linearly
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
