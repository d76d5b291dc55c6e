"""Addresses of results: an address is a hash of a description of everything that a result depends on."""

import csv
import hashlib
import json
from io import StringIO

from pwfl.store import code
from pwfl.store.files import content, write

DIGITS = 12  # of an address


class StoreError(RuntimeError):
    """A job with other code, or other external files, than it was planned with."""


def digest(description: dict | list) -> str:
    """Return the address for a description: the first hex digits of its SHA-256 digest."""
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:DIGITS]


def check_code(description: dict, stamp: str | None = None) -> None:
    """Raise StoreError if a job's code is not that of its description: it changed after the job was planned.

    `stamp` is pwfl's at planning (`code.stamp`): if it is unchanged, a job that runs only pwfl's code passes at once.
    """
    asked = {key: description[key] for key in ("sources", "functions", "reads") if key in description}
    if asked.keys() <= {"sources"} and all(map(_is_ours, asked.get("sources", ()))) and stamp == code.stamp():
        return
    now = code.described(description["stage"], **asked)
    for what in ("code", "packages"):
        if now[what] != description[what]:
            raise StoreError(
                f"the {what} of {description['stage']} changed after this job was planned, from {description[what]} "
                f"to {now[what]}; start the workflow again"
            )


def _is_ours(package: str) -> bool:
    return package.partition(".")[0] == code.LIBRARY


def check_contents(description: dict, paths: dict[str, str]) -> None:
    """Raise StoreError if external files are not those of a job's description: they changed after planning."""
    for table, expected in description.get("contents", {}).items():
        if content(paths[table]) != expected:
            raise StoreError(f"{paths[table]}: was changed after this job was planned; start the workflow again")


def write_addresses(addresses: dict[str, dict[str, str]], path: str) -> None:
    """Write addresses by scheme and stage to a CSV file: scheme, stage, address and the folder of its tables."""
    rows = [
        [scheme, stage, address, f"store/{stage}/{address}"]
        for scheme, by_stage in addresses.items()
        for stage, address in by_stage.items()
    ]
    buffer = StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerows([["scheme", "stage", "address", "folder"], *rows])
    write(lambda file: file.write(buffer.getvalue().encode()), path)


def read_addresses(content: bytes) -> dict[str, dict[str, str]]:
    """Parse the content of a file that `write_addresses` wrote: addresses by scheme and stage."""
    addresses: dict[str, dict[str, str]] = {}
    for row in csv.DictReader(StringIO(content.decode("utf-8"), newline="")):
        addresses.setdefault(row["scheme"], {})[row["stage"]] = row["address"]
    return addresses
