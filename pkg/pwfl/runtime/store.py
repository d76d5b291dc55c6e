"""The store: a stage's tables lie under an address, a digest of all that they depend on (`pwfl.workflow.plan`)."""

import csv
import hashlib
import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import yaml

from pwfl.runtime.files import content, write
from pwfl.runtime.fingerprint import fingerprint, packages

DIGITS = 12  # of an address


class StoreError(RuntimeError):
    """A job whose code is not the code that it was planned with."""


def digest(description: dict) -> str:
    """The address of what a description is of."""
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:DIGITS]


def code(*modules: str, files: Sequence[str] = ()) -> dict:
    """The part of a description that tells the code of some modules and files, and the packages that they use."""
    texts = tuple((name, Path(name).read_text(encoding="utf-8")) for name in files)
    told = {"code": fingerprint(*modules, files=texts), "packages": packages(*modules, files=texts)}
    return {"modules": list(modules)} | ({"files": list(files)} if files else {}) | told


def check_code(description: dict) -> None:
    """Raise StoreError where a job's code is not that of its description: it changed after the job was planned."""
    now = code(*description["modules"], files=description.get("files", ()))
    for what in ("code", "packages"):
        if now[what] != description[what]:
            raise StoreError(
                f"the {what} of {description['stage']} changed after this job was planned, from {description[what]} "
                f"to {now[what]}; start the workflow again"
            )


def check_contents(description: dict, paths: dict[str, str]) -> None:
    """Raise StoreError where files from outside are not those of a job's description: they changed since."""
    for table, expected in description.get("contents", {}).items():
        if content(paths[table]) != expected:
            raise StoreError(f"{paths[table]}: was changed after this job was planned; start the workflow again")


def explain(description: dict, path: str) -> None:
    """Write a description, as YAML, for people, into the folder of its address, of which `path` is a file."""
    home = next(parent for parent in Path(path).parents if parent.name == description["address"])
    text = yaml.safe_dump(description, sort_keys=False).encode()
    place = home / "description.yaml"
    if not place.is_file() or place.read_bytes() != text:
        write(lambda buffer: buffer.write(text), str(place))


def write_addresses(rows: list[list[str]], path: str) -> None:
    """Write rows of scheme, stage, address and folder to a CSV file."""
    buffer = StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerows([["scheme", "stage", "address", "folder"], *rows])
    write(lambda file: file.write(buffer.getvalue().encode()), path)


def read_addresses(content: bytes) -> dict[str, dict[str, str]]:
    """The addresses in a file that `write_addresses` wrote, by scheme and stage."""
    found: dict[str, dict[str, str]] = {}
    for row in csv.DictReader(StringIO(content.decode("utf-8"), newline="")):
        found.setdefault(row["scheme"], {})[row["stage"]] = row["address"]
    return found
