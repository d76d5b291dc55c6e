"""The tables that pass between stages: their schemas, their files, and conversion to arrays."""

import sys

# Dataframely imports SQLAlchemy if it is installed, which takes longer than all its other imports and is not used here.
if "sqlalchemy" not in sys.modules:
    sys.modules["sqlalchemy"] = None  # ty: ignore[invalid-assignment]
    try:
        import dataframely as dataframely
    finally:
        del sys.modules["sqlalchemy"]

from pwfl.tables.arrays import joined, to_array, to_table
from pwfl.tables.contract import TableError, finished, ordered, schema
from pwfl.tables.files import read, read_report, read_schemes, write, write_report

__all__ = [
    "TableError",
    "finished",
    "joined",
    "ordered",
    "read",
    "read_report",
    "read_schemes",
    "schema",
    "to_array",
    "to_table",
    "write",
    "write_report",
]
