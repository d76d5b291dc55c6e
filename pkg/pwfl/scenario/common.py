"""What the scenarios of all systems have in common."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from pwfl import datasets
from pwfl.scenario.fields import Section, parameter

NAME = {  # bounds of a name in tables and figures, which browsers and spreadsheets open
    "pattern": r"^[^\W_][\w .,+():/-]*$",
    "max_length": 60,
}
NAME_RULE = "use letters, digits, blanks and _ . , + - ( ) : /, beginning with a letter or digit, at most 60 of them"
Width = Annotated[int, Field(ge=1, le=10**5)]  # of a network's layer


class Shards(Section):
    """How many realizations one job takes. Results do not depend on it."""

    optimization: int = parameter(100, "realizations in a job of channel, schedule, noise and account", ge=1, le=10**9)
    training: int = parameter(5, "realizations in a job of train", ge=1, le=10**9)


class DataSource(Section):
    """What is learned."""

    dataset: Literal["digits", "mnist", "fashion_mnist"] = parameter(
        "mnist", "data set: MNIST, Fashion-MNIST, or scikit-learn's digits (ships with it, needs no download)",
        stages="channel train account")  # fmt: skip
    folder: str | None = parameter(None, "folder of the four IDX files (.gz or plain) of MNIST or Fashion-MNIST; "
                                   "without it Keras downloads them")  # fmt: skip

    def problems(self) -> list[str]:
        """A folder that does not hold the data."""
        try:
            datasets.check(self.dataset, self.folder)
        except datasets.DataError as error:
            return [f"folder: {error}"]
        return []


class Audit(Section):
    """Attacks on the training path, whose success bounds epsilon from below."""

    canaries: int = parameter(4000, "scores that an attack collects; more bound epsilon more tightly", stages="audit",
                              ge=10, le=1_000_000)  # fmt: skip


class Scheme(Section):
    """A pair of scheduler and noise scheme, and the name it has in figures and tables."""

    name: str = parameter(..., "name in figures and tables", **NAME)
    scheduler: str = parameter(..., "the scheduler's name")
    noise: str = parameter(..., "the noise scheme's name")


class Scenario(Section):
    """A scenario of any system; each has `schemes` and sections of its own besides."""

    system: str = parameter(..., "the system simulated")
    seed: int = parameter(1, "seed of every random draw", stages="channel train audit", ge=0, lt=2**63)
    realizations: int = parameter(100, "realizations that are scheduled, noised and accounted for", ge=1, le=10**9)
    training_realizations: int = parameter(10, "how many of them, from the first on, are trained", ge=1, le=10**9)
    shards: Shards = Shards()
    audit: Audit = Audit()

    @model_validator(mode="after")
    def _common(self):
        if self.training_realizations > self.realizations:
            raise ValueError(
                f"training_realizations: {self.training_realizations} is more than realizations: {self.realizations}; "
                "only realizations that exist can be trained"
            )
        for keys in (("name",), ("scheduler", "noise")):
            values = [tuple(getattr(scheme, key) for key in keys) for scheme in self.schemes]
            twice = next((value for value in values if values.count(value) > 1), None)
            if twice:
                raise ValueError(f"schemes: {' and '.join(keys)} {' + '.join(twice)} stands twice; it must be unique")
        return self

    def problems(self) -> list[str]:
        """What the scenario needs besides itself and does not find, a line `key: problem` each."""
        return [
            f"{key}.{problem}"
            for key, section in self
            if isinstance(section, Section)
            for problem in section.problems()
        ]
