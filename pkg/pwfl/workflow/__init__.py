"""What a study's jobs are, and what they depend on."""

from pathlib import Path


def folder() -> Path:
    """The folder of the Snakefile: the checkout's, or where a wheel installed it."""
    package = Path(__file__).parent.parent
    bundled = package / "bundled"
    return bundled if bundled.is_dir() else package.parent.parent
