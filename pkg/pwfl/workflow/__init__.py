"""Plan and compute a study's results, and publish them."""

from pathlib import Path


def folder() -> Path:
    """Return the folder of the Snakefile: the root of a checkout, or the folder `bundled` of an installed package."""
    package = Path(__file__).parent.parent
    bundled = package / "bundled"
    return bundled if bundled.is_dir() else package.parent.parent
