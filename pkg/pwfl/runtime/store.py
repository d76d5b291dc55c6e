"""The store: a stage's tables lie under an address, a digest of all that they depend on.

A *description* says in words what an address stands for: system, stage, variant, the parameters that the stage reads,
the code that it runs and the versions of the packages that this imports, and the addresses of the stages before it.
"""

import csv
import hashlib
import json
from functools import cache
from io import StringIO
from math import isqrt
from pathlib import Path

from pwfl.learning.datasets import SIZES
from pwfl.learning.features import DIRECTIONS, asked
from pwfl.runtime.files import content, whole
from pwfl.runtime.fingerprint import fingerprint, packages, script
from pwfl.scenario import checks
from pwfl.scenario.values import plain
from pwfl.stages import IMPORTED, MAKER, STAGES, variants
from pwfl.systems import registry

DIGITS = 12  # of an address
DATASET, PROJECTION, FEATURES = "dataset", "projection", "features"
GIVEN = (DATASET, PROJECTION, FEATURES, IMPORTED)  # what is made before the stages, for some


class StoreError(RuntimeError):
    """A job whose code is not the code that it was planned with."""


def addresses(scenario) -> dict[tuple[str, str | None, str | None], dict]:
    """The descriptions of all that a scenario computes, by stage, scheduler and noise scheme (None: any).

    Each has its `address`. Stages and variants that read the same have the same one, whichever scenario they are of.
    """
    found = {}
    if "data" in type(scenario).model_fields:
        found |= {(given["stage"], None, None): given for given in data(scenario)}
    outside = {}
    if paths := checks.imports(scenario):
        found[IMPORTED, None, None] = imported(scenario.system, paths)
        outside[IMPORTED] = found[IMPORTED, None, None]["address"]
    found["channel", None, None] = _describe(scenario, "channel", None, outside)
    for scheme in scenario.schemes:
        chosen = variants(scheme.scheduler, scheme.noise)
        before = {key[0]: d["address"] for key, d in found.items() if key[1:] == (None, None)}
        for stage in list(STAGES)[1:]:
            key = (stage, scheme.scheduler, scheme.noise if stage != "schedule" else None)
            if key not in found:
                found[key] = _describe(scenario, stage, chosen.get(stage), before)
            before[stage] = found[key]["address"]
    return found


def of_scheme(found: dict, stage: str, scheme) -> dict:
    """The description of a stage's tables in a scheme, out of `addresses`."""
    wanted = ((stage, scheme.scheduler, scheme.noise), (stage, scheme.scheduler, None), (stage, None, None))
    return next(found[key] for key in wanted if key in found)


def data(scenario) -> list[dict]:
    """The descriptions of what a scenario trains on: a data set's file; features, and the projection behind them.

    A projection is learned from no data: its description names neither users nor a data set.
    """
    name, wanted = scenario.data.dataset, asked(scenario)
    found = [_addressed({"stage": DATASET, "variant": name, **code("pwfl.learning.sources", *script(DATASET))})]
    if wanted.pixels:
        return found
    if wanted.kind in DIRECTIONS:
        side = isqrt(SIZES[name].features)
        learned = {"stage": PROJECTION, "variant": wanted.kind, "parameters": {"side": side}}
        found.append(_addressed(learned | code("pwfl.learning.projection", *script(PROJECTION))))
    extracted = {
        "stage": FEATURES,
        "variant": wanted.kind,
        "parameters": {"dataset": name, "variants": wanted.variants},
        "upstream": {given["stage"]: given["address"] for given in found},
    }
    return [*found, _addressed(extracted | code("pwfl.learning.extraction", *script(FEATURES)))]


def imported(system: str, paths: dict[str, str]) -> dict:
    """The description of tables from outside: what their files hold, not where they lie."""
    package = registry.system(system).package
    return _addressed(
        {
            "system": system,
            "stage": IMPORTED,
            "variant": None,
            "parameters": {},
            "contents": {table: content(path) for table, path in paths.items()},
            **code(f"{package}.{IMPORTED}", f"{package}.tables", STAGES["channel"].work, *script(IMPORTED)),
        }
    )


@cache
def code(*modules: str) -> dict:
    """The part of a description that tells the code of some modules, and the packages that they use."""
    return {"modules": list(modules), "code": fingerprint(*modules), "packages": packages(*modules)}


def check_code(description: dict) -> None:
    """Raise StoreError where a job's code is not that of its description: it changed after the job was planned."""
    now = code(*description["modules"])
    for what in ("code", "packages"):
        if now[what] != description[what]:
            raise StoreError(
                f"the {what} of {description['stage']} changed after this job was planned, from {description[what]} "
                f"to {now[what]}; start the workflow again"
            )


def check_contents(description: dict, paths: dict[str, str]) -> None:
    """Raise StoreError where files from outside are not those of their description: they changed since."""
    for table, path in paths.items():
        if content(path) != description["contents"][table]:
            raise StoreError(f"{path}: was changed after this job was planned; start the workflow again")


def listing(scenario, found: dict) -> list[list[str]]:
    """The addresses behind a scenario's report: rows of scheme, stage, address, and the folder of its tables."""
    return [
        [scheme.name, stage, address := of_scheme(found, stage, scheme)["address"], f"store/{stage}/{address}"]
        for scheme in scenario.schemes
        for stage in (*GIVEN, *STAGES)
        if stage in STAGES or (stage, None, None) in found
    ]


def write_addresses(rows: list[list[str]], path: str) -> None:
    """Write the rows of `listing` to a CSV file."""
    buffer = StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerows([["scheme", "stage", "address", "folder"], *rows])
    with whole(path) as partial:
        Path(partial).write_text(buffer.getvalue(), encoding="utf-8")


def read_addresses(content: bytes) -> dict[str, dict[str, str]]:
    """The addresses in a file that `write_addresses` wrote, by scheme and stage."""
    found: dict[str, dict[str, str]] = {}
    for row in csv.DictReader(StringIO(content.decode("utf-8"), newline="")):
        found.setdefault(row["scheme"], {})[row["stage"]] = row["address"]
    return found


def _describe(scenario, stage: str, variant: str | None, before: dict[str, str]) -> dict:
    """The description of a stage's variant, given the addresses of the stages before it."""
    upstream = {MAKER[table] for table in registry.reads(scenario.system, stage, variant)}
    if stage == "train":
        upstream |= {FEATURES if FEATURES in before else DATASET} & set(before)
    if stage == "channel":
        upstream |= {IMPORTED} & set(before)
    package = registry.system(scenario.system).package
    return _addressed(
        {
            "system": scenario.system,
            "stage": stage,
            "variant": variant,
            "parameters": plain(scenario.of_stage(stage, variant)),
            "upstream": {name: before[name] for name in (*GIVEN, *STAGES) if name in upstream},
            **code(f"{package}.{stage}", f"{package}.tables", STAGES[stage].work, *script(stage)),
        }
    )


def _addressed(description: dict) -> dict:
    text = json.dumps(description, sort_keys=True)
    return {"address": hashlib.sha256(text.encode()).hexdigest()[:DIGITS], **description}
