"""Parameters, sections and the model class that the scenarios of all systems share."""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

import numpy as np
from pydantic import Field, create_model, model_validator

from pwfl.learning import data_file, datasets
from pwfl.learning.datasets import FILE
from pwfl.process import user_code
from pwfl.scenario import fields
from pwfl.scenario.fields import (
    OWN,
    ListOf,
    OrFunction,
    Section,
    conditions_of,
    parameter,
    parameters,
    selected,
    stages_of,
    unless_of,
    values_of,
)
from pwfl.scenario.values import select_part
from pwfl.stages import AUDIT, DATASET, READERS, REPORT, STAGES

OF_USERS = "FILE.py:FUNCTION"  # listed among choices, for a user-defined function
RELEASE = "what is published of data.file in results/ (docs/how-to/own_data.md); other data sets are public"
RELEASES = {
    "without_private": "all except columns and figures computed from users' records without noise",
    "everything": "all columns and figures",
}
# Bounds of a name in tables and figures, as browsers and spreadsheets open these.
NAME: dict[str, Any] = {"pattern": r"^[^\W_][\w .,+():/-]*$", "max_length": 60}
SHA256 = r"^[0-9a-f]{64}$"
NAME_RULE = "use letters, digits, blanks and _ . , + - ( ) : /, beginning with a letter or digit, at most 60 of them"
PARTITION = "how training records are assigned to users, without overlap (docs/explanation/partitions.md)"
PARTITIONS = {
    "iid": "at random",
    "dirichlet": "label proportions of each user drawn from a Dirichlet distribution",
    "shards": "few labels per user",
    "given": "by the users that data.file names",
}
ALPHA = "concentration of the Dirichlet distribution; near 0, a user has one label; large values approach `iid`"
RESERVED = (
    "number of reserved training records, the last ones; no user has them, so constants chosen on them cost no privacy"
)
EVALUATED_ON = "records on which models are evaluated"
EVALUATIONS = {"test": "the test set", "reserved": "the reserved training records, while constants are chosen"}
# Allowed ranges by kind of quantity, the same for all parameters of a kind.
Count = Annotated[int, Field(ge=1, le=10**6)]  # of users, records, rounds
Width = Annotated[int, Field(ge=1, le=10**5)]  # of a network's layer
Positive = Annotated[float, Field(ge=1e-9, le=1e9)]
Scale = Annotated[float, Field(ge=1e-6, le=1e6)]  # of amplitudes and norms
Variance = Annotated[float, Field(ge=0, le=1e12)]
StepSize = Annotated[float, Field(ge=1e-9, le=1e38)]
Distance = Annotated[float, Field(ge=1e-3, le=1e6)]  # m
Frequency = Annotated[float, Field(ge=1e3, le=1e13)]  # Hz
Bandwidth = Annotated[float, Field(ge=1, le=1e12)]  # Hz
PowerDbm = Annotated[float, Field(ge=-100, le=100)]
NoiseDensity = Annotated[float, Field(ge=-250, le=0)]  # dBm/Hz
Exponent = Annotated[float, Field(ge=0, le=6)]  # of a distance in a path loss
FadingScale = Annotated[float, Field(ge=1e-3, le=1e3)]
Records = Annotated[int, Field(ge=0, le=10**9)]  # number of a file's records or classes, or length of a record's axis
Bound = Annotated[float, Field(ge=-1e30, le=1e30)]  # of a feature
# Usual ranges of parameters with units.
USUAL_DISTANCE = (1.0, 1e5)  # m
USUAL_FREQUENCY = (1e7, 3e11)  # Hz
USUAL_BANDWIDTH = (1e3, 1e10)  # Hz
USUAL_POWER = (-10.0, 50.0)  # dBm
USUAL_NOISE_DENSITY = (-180.0, -130.0)  # dBm/Hz

Dataset = Literal["digits", "mnist", "fashion_mnist", "cifar10", "cifar100", "file"]
Device = Literal["auto", "cpu", "gpu"]
Features = Literal["pixels", "scattering", "strokes", "shapes"]


def _shared(default, meaning: str, **options):
    """Return a function `f(stages, **more)` that declares a shared parameter; `stages` are its readers in a system."""
    return lambda stages, **more: parameter(default, meaning, stages=stages, **options, **more)


seed = _shared(1, "seed of every random draw", ge=0, lt=2**63)
NOISED = "number of realizations for which schedules, noise and privacy are computed"
realizations = partial(parameter, description=NOISED, stages="audit report", ge=1, le=10**9)
system = partial(parameter, description="the system simulated")
dataset = _shared(
    "mnist",
    "data set",
    values={
        "digits": "scikit-learn's digits, 8 x 8 pixels; no download",
        "mnist": "MNIST, downloaded by Keras or from data.folder",
        "fashion_mnist": "Fashion-MNIST, downloaded by Keras or from data.folder",
        "cifar10": "CIFAR-10, downloaded by Keras",
        "cifar100": "CIFAR-100, downloaded by Keras",
        "file": "the file data.file; the default if that is set",
    },
)
content = _shared(
    None,
    "record counts and shape of data.file; filled in when the file is read. If set, the file must match",
    observes=True,  # noise depends on the records themselves
)
features = _shared(
    "pixels",
    "features that users train on (docs/explanation/features.md)",
    values={
        "pixels": "pixels",
        "scattering": "scattering coefficients",
        "strokes": "scattering coefficients, projected to directions that separate random glyphs of pen strokes; uses "
        "task knowledge",
        "shapes": "as `strokes`, with directions that separate textured shapes",
    },
)
device = partial(
    parameter,
    "auto",
    "processor that trains; results of other processors are reused, though last digits may differ",
    values={
        "auto": "a GPU if TensorFlow sees one, otherwise the CPU",
        "cpu": "the CPU",
        "gpu": "a GPU, with as many realizations batched as its memory holds",
    },
)
EVALUATED = "rounds between evaluations on the test set; the first and last round are always evaluated"
evaluate_every = partial(
    parameter, description=EVALUATED, unit="rounds", stages="train audit", observes=True, ge=1, le=10**6
)
delta = _shared(1e-5, "delta of the (epsilon, delta) guarantee", ge=1e-100, lt=1)
LTE = "the paper states none; default: that of an LTE resource block (3GPP TS 36.211)"
BANDWIDTH = f"bandwidth B of the channel; a symbol lasts 1 / B; {LTE}"
resource_block_hz = _shared(180e3, BANDWIDTH, unit="Hz", usual=USUAL_BANDWIDTH, ge=1, le=1e12)


Model = OrFunction[Literal["dense", "cnn"]]
model = _shared(
    "dense",
    "model that is trained",
    values={
        "dense": "a fully connected network of `hidden_layers`; without any, softmax regression",
        "cnn": "two convolutions and two dense layers, 26,010 parameters for MNIST",
        OF_USERS: "the Keras model that a user-defined function returns (docs/how-to/own_functions.md)",
    },
)
model_reads = _shared(
    [],
    "files that the user-defined function in `model` reads (docs/how-to/own_functions.md)",
    observes=True,  # the function decides how to use them
    max_length=1000,
)


def own_reads(stages: str, **options):
    """Declare the parameter `own.reads` of a system that runs user-defined functions in some stages."""
    meaning = (
        "files that user-defined functions read, except the function training.model (docs/how-to/own_functions.md)"
    )
    return parameter([], meaning, stages=stages, observes=True, max_length=1000, **options)  # functions decide how


def hidden_layers(default: list[int], stages: str):
    """Declare the parameter `hidden_layers` of a system that trains a network."""
    meaning = "widths of the network's hidden ReLU layers; [] is softmax regression"
    return parameter(default, meaning, unit="units", stages=stages, max_length=100)


def target_epsilon(stages: str, otherwise: str = "null: the paper's noise"):
    """Declare the parameter `target_epsilon` of a system that adds noise."""
    meaning = (
        "target epsilon of the most exposed record, after all rounds, at delta, against the observer in the table "
        "outcome; noise is calibrated in each realization; epsilon is at most 0.01 % below target; "
        f"{otherwise}"
    )
    return parameter(None, meaning, stages=stages, ge=1e-2, le=100)


# Parameters that these stages of all systems read, whatever the system's own modules read.
READ_FOR_ALL = {"realizations": {AUDIT, REPORT}, "training_realizations": {REPORT}, "schemes": {AUDIT, REPORT}}
# Parameters that determine the training and test features, in systems that have them.
OF_TRAIN = ("training.features", "data.reserved", "data.evaluate_on")
READ_FOR_ALL |= {key: {"train"} for key in OF_TRAIN}


class Content(Section):
    """How much a file of one's own holds; of `given` users, training records of each who has any."""

    train: Records
    test: Records
    shape: ListOf[Records]
    classes: Records
    users: ListOf[Records]


class DataSource(Section):
    """What is learned."""

    dataset: Dataset = dataset(stages="channel receive train account audit report")
    folder: str | None = parameter(
        None, "folder of the four IDX files (.gz or plain) of MNIST or Fashion-MNIST; without it Keras downloads them"
    )
    file: str | None = parameter(
        None,
        "your data set, an .npz or .parquet file that every job can read (docs/how-to/own_data.md)",
        stages=DATASET,
    )
    bounds: ListOf[Bound] | None = parameter(
        None,
        "minimum and maximum of features in data.file, not computed from the data; features are scaled from this range "
        "to [0, 1]; a value outside is an error; null: 0 and 255, for bytes (uint8)",
        stages=DATASET,
        min_length=2,
        max_length=2,
    )
    sha256: str | None = parameter(
        None,
        "SHA-256 of data.file, as `sha256sum FILE` prints it; filled in when the file is read. If it is set, any other "
        "file is refused",
        stages=DATASET,
        pattern=SHA256,
    )
    content: Content | None = content(stages="channel receive train account audit report")
    release: Literal["without_private", "everything"] = parameter(
        "without_private", RELEASE, values=RELEASES, stages=REPORT
    )
    partition: Literal["iid", "dirichlet", "shards", "given"] = parameter(
        "iid", PARTITION, values=PARTITIONS, stages="train"
    )
    alpha: float = parameter(0.5, ALPHA, stages="train", ge=1e-3, le=1e6)
    labels_per_user: int = parameter(
        2,
        "number of labels per user, for `shards`; a user has equally many records of each",
        stages="train",
        ge=1,
        le=1000,
    )
    reserved: int | None = parameter(None, RESERVED, unit="samples", stages="train", ge=1, le=10**6)
    evaluate_on: Literal["test", "reserved"] = parameter(
        "test", EVALUATED_ON, values=EVALUATIONS, stages="train", observes=True
    )

    @model_validator(mode="before")
    @classmethod
    def _implied(cls, content):
        if isinstance(content, dict) and content.get("file") is not None:
            return {"dataset": FILE} | content
        return content

    @model_validator(mode="after")
    def _file(self):
        if self.dataset != FILE and self.file is not None:
            raise ValueError(
                f"file: {self.file} conflicts with data.dataset: {self.dataset}; write `dataset: file`, or leave one "
                "out"
            )
        if self.dataset == FILE and self.file is None:
            raise ValueError("file: is missing; data.dataset: file requires the path of an .npz or .parquet file")
        if self.folder is not None and self.dataset in (FILE, "cifar10", "cifar100"):
            raise ValueError(
                f"folder: {self.folder} is for IDX files, which data.dataset: {self.dataset} does not have; leave it "
                "out"
            )
        if self.bounds is not None and self.bounds[0] >= self.bounds[1]:
            raise ValueError(f"bounds: {self.bounds} is wrong: must be a minimum and a larger maximum")
        if self.evaluate_on == "reserved" and self.reserved is None:
            raise ValueError("reserved: is missing; data.evaluate_on: reserved requires some training images")
        if self.dataset == FILE and None in (self.sha256, self.content):
            vars(self).update(self.describe_file())  # the model is frozen, but not complete yet
        if self.partition == "given" and not (self.content and self.content.users):
            raise ValueError(
                "partition: given requires a data.file that names users, as `user_train` or a column `user`; "
                f"{self.file or self.dataset} names none"
            )
        return self

    def describe_file(self) -> dict:
        """Return the file's `sha256` and `content`. Raises ValueError if the config has others, or it is invalid.

        The digest is compared before any record is read.
        """
        assert self.file is not None  # called only if a file is given
        try:
            sha256 = data_file.digest(self.file)
            if self.sha256 not in (None, sha256):
                raise ValueError(
                    f"sha256: {self.sha256} is not the digest of {self.file}, {sha256}; the file was changed or is "
                    "corrupt: restore it, or leave the key out to use the file as it is"
                )
            size, users = data_file.look(self.file, sha256, self.bounds and tuple(self.bounds))
        except datasets.DataError as error:
            raise ValueError(f"file: {error}") from None
        dealt = users[: max(size.train - datasets.held_out(self), 0)]
        counts = np.unique(dealt, return_counts=True)[1].tolist() if self.partition == "given" else []
        held = Content(train=size.train, test=size.test, shape=list(size.shape), classes=size.classes, users=counts)
        if self.content not in (None, held):
            raise ValueError(f"content: differs from {self.file}'s, {held}; leave it out to use the file as it is")
        return {"sha256": sha256, "content": held}

    @model_validator(mode="after")
    def _labels(self):
        classes, held = datasets.size(self).classes, self.labels_per_user
        if self.partition == "shards" and held > classes:
            name = self.file or self.dataset
            raise ValueError(f"labels_per_user: {held} is more than the {classes} labels of {name}")
        return self


class Audit(Section):
    """Tests of the code that trains, against what is stated of it."""

    canaries: int = parameter(
        4000, "number of canary records; more detect smaller errors", stages="audit", ge=10, le=1_000_000
    )


class Own(Section):
    """Parameters of user-defined functions."""

    schedule: fields.Own = fields.user_parameters("a scheduler", stages="schedule/own")
    noise: fields.Own = fields.user_parameters("a noise scheme", stages="noise/own")
    reads: ListOf[str] = own_reads("schedule/own noise/own")


class Scheme(Section):
    """A pair of scheduler and noise scheme, and the name it has in figures and tables."""

    name: str = parameter(..., "name in figures and tables", **NAME)
    scheduler: str = parameter(..., "the scheduler's name")
    noise: str = parameter(..., "the noise scheme's name")


class Scenario(Section):
    """A scenario of any system; each has `schemes` and sections of its own besides."""

    lacks: ClassVar[Mapping[str, str]] = {}  # keys that only other systems have, and the reason

    system: str = system(...)
    seed: int = seed(stages="channel train audit")
    realizations: int = realizations(100)
    training_realizations: int = parameter(
        10, "number of realizations that are also trained, from the first on", stages="report", ge=1, le=10**9
    )
    audit: Audit = Audit()
    if TYPE_CHECKING:
        schemes: Sequence[Any]  # objects of the system's Scheme
        release: str  # only for stages that draw noise: see `pwfl.streams.name_noise`
        contents: Any  # Values, for which pydantic has no schema; documentation tools set TYPE_CHECKING

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs):
        """Check the declared readers of parameters, and the choices of schemes. Raises TypeError."""
        super().__pydantic_init_subclass__(**kwargs)
        if "schemes" not in cls.model_fields:
            return
        scheme = get_args(cls.model_fields["schemes"].annotation)[0]
        cls.conditions = scheme.conditions
        known = set(READERS)
        for name, stage in STAGES.items():
            if stage.variant:
                field = scheme.model_fields[stage.variant]
                choices = set(get_args(field.annotation))
                known |= {f"{name}/{variant}" for variant in choices}
                explained = set(values_of(field)) - {OF_USERS}
                if explained and (differing := explained ^ choices):
                    names = ", ".join(sorted(differing))
                    raise TypeError(f"{cls.__name__}: {stage.variant}: {names}: must be a choice and have a meaning")
                known |= {f"{name}/own"} if OWN in field.metadata else set()
        declared = {".".join(path): field for path, field in parameters(cls)}
        for key, field in declared.items():
            explained, readers = f"{cls.__name__}: {key}", stages_of(field)
            if missing := READ_FOR_ALL.get(key, set()) - readers:
                raise TypeError(f"{explained} must be declared to be read by {', '.join(sorted(missing))}, too")
            if strange := readers - known:
                names, others = ", ".join(sorted(strange)), ", ".join(sorted(known))
                raise TypeError(f"{explained} is declared to be read by {names}; known: {others}")
            for stage, (other, _) in unless_of(field).items():
                met = other in cls.conditions or (other in declared and stage in stages_of(declared[other]))
                if not (met and stage in readers):
                    raise TypeError(
                        f"{explained} is declared not to be read by {stage} unless {other} has a value; "
                        f"{stage} must be declared to read both"
                    )

    @cached_property  # the report receives this value, but not all parameters that determine it
    def withholds(self) -> bool:
        """Whether the report omits private columns: for the user's data file, unless all is to be released."""
        data = getattr(self, "data", None)
        return isinstance(data, DataSource) and data.dataset == FILE and data.release != "everything"

    def part(self, wanted: set[str] | None = None) -> Self:
        """Select the parameters that at least one of the wanted stages reads (None: any stage)."""
        return select_part(type(self), self.dump_read(wanted))

    def select_stage(self, stage: str, variant: str | None = None) -> Self:
        """Select the parameters that a stage, or a variant of one, is declared to read."""
        return select_part(type(self), self.dump_for(stage, variant))

    def dump_read(self, wanted: set[str] | None = None) -> dict[str, Any]:
        """Return, in plain types, the parameters that at least one of the wanted stages reads (None: any stage).

        Also returns whether each condition is met on which their reading depends, `system`, and for the report
        `withholds`.
        """
        met = {name: self.meets(name) for name in sorted(conditions_of(type(self), frozenset(wanted or ())))}
        met |= {"withholds": self.withholds} if REPORT in (wanted or ()) else {}
        return selected(self, None if wanted is None else frozenset(wanted), self) | met | {"system": self.system}

    def meets(self, condition: str) -> bool:
        """Return whether the schemes meet a condition of the model."""
        return self.conditions[condition].met(self.schemes)

    def dump_for(self, stage: str, variant: str | None = None) -> dict[str, Any]:
        """Return, in plain types, the parameters that a stage, or a variant of one, is declared to read."""
        if variant and user_code.is_reference(variant):  # may read the parameters of all variants
            every = {reader for _, field in parameters(type(self)) for reader in stages_of(field)}
            return self.dump_read({reader for reader in every if reader.partition("/")[0] == stage})
        return self.dump_read({stage, f"{stage}/{variant}"})


def schemes(*compared: Scheme):
    """Declare the parameter `schemes` of a system; `compared` is its default."""
    meaning = "the schemes compared; a list replaces the default one"
    return parameter(list(compared), meaning, stages="audit report", min_length=1)


def scenario(
    name: str,
    *,
    sections: Sequence[type[Section]],
    schemes: Sequence[Scheme],
    draws: str = "channel train audit",
    realizations: int = 100,
    lacks: Mapping[str, str] | None = None,
) -> type[Scenario]:
    """Create the model of a system's scenarios without a class statement; type checkers do not see its sections.

    A section's key is its class's name in lower case: `network` for `Network`. `schemes`, which are objects of the
    system's subclass of Scheme, and `realizations` are defaults. `draws` lists the stages that draw random numbers, as
    `stages` of `parameter` does. `lacks` contains the reason for each parameter that only other systems have.
    """
    module = globals()  # its `realizations` and `schemes` are shadowed by arguments
    fields: dict[str, Any] = {section.__name__.lower(): (section, section()) for section in sections}
    fields = {"system": (Literal[name], system(name)), "seed": (int, seed(stages=draws)), **fields}  # ty: ignore[invalid-type-form]
    fields["realizations"] = (int, module["realizations"](realizations))
    fields["schemes"] = (list[type(schemes[0])], module["schemes"](*schemes))  # ty: ignore[invalid-type-form]
    docstring = f"A scenario of the system `{name}`."
    model = create_model(name.title().replace("_", ""), __base__=Scenario, __doc__=docstring, **fields)
    model.lacks = dict(lacks or {})
    return model
