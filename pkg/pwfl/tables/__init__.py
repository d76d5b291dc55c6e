"""The tables that pass between stages: what they must be, their files, and arrays made of them."""

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
