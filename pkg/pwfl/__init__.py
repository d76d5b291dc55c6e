"""Reproducible simulation of private wireless federated learning."""

import os
import sys

if "polars" not in sys.modules:  # reads it when imported; threads share a group's sum, see runtime.threads
    os.environ["POLARS_MAX_THREADS"] = "1"

__all__ = ["results", "simulate"]


def __getattr__(name: str):
    # Loaded when asked for: the workflow's jobs, which import this package, would wait two seconds for it.
    if name in __all__:
        from pwfl import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
