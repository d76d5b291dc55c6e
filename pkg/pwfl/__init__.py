"""Reproducible simulation of private wireless federated learning."""

from typing import TYPE_CHECKING

from pwfl.process import forks

if TYPE_CHECKING:
    from pwfl.api import results, simulate

    __version__: str

forks.watch()

__all__ = ["__version__", "results", "simulate"]


def __getattr__(name: str):
    # Imported at first access: the workflow's jobs, which import this package, would wait two seconds for it.
    if name == "__version__":
        return _version()
    if name in __all__:
        from pwfl import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return [*globals(), *__all__]


def _version() -> str:
    """Return the version of the checkout that contains this file, or of the installed package."""
    import tomllib
    from importlib import metadata
    from pathlib import Path

    project = Path(__file__).parents[2] / "pyproject.toml"
    if project.is_file():
        return tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"]
    return metadata.version("pwfl")
