"""Whether Snakemake has the executor that a command asks for, as it answers with its whole usage where it has not."""

from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import yaml

from pwfl import workflow


class ExecutorError(ValueError):
    """An executor without a plugin; the message says what to install."""


def check(options: Sequence[str]) -> None:
    """Raise ExecutorError for an executor of Snakemake's options, or of a profile that they name, without a plugin."""
    from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

    parser = ArgumentParser(add_help=False)
    parser.add_argument("--executor", "-e")
    parser.add_argument("--workflow-profile")
    parser.add_argument("--profile", nargs="+", default=[])
    given, _ = parser.parse_known_args(options)
    profiles = [given.workflow_profile, *given.profile]
    asked = given.executor or next(_executors(filter(None, profiles)), None)
    installed = ExecutorPluginRegistry().plugins
    if asked is None or asked in installed:
        return
    lock = workflow.folder() / "envs" / f"{asked}.lock"
    how = f"--require-hashes -r {_near(lock)}" if lock.exists() else f"snakemake-executor-plugin-{asked}"
    raise ExecutorError(
        f"executor {asked!r}: Snakemake's plugin for it is not installed; install it by `pip install {how}` "
        f"(installed: {', '.join(installed)})"
    )


def _executors(profiles: Iterable[str]) -> Iterator[str]:
    """The executors that profiles name, which Snakemake finds here, in the folder `profiles`, or by the Snakefile."""
    from snakemake.cli import get_profile_dir

    for profile in profiles:
        near = [Path(profile), Path("profiles", profile), workflow.folder() / "profiles" / profile]
        found = next((get_profile_dir(str(path)) for path in near if path.exists()), None)
        if found is not None:
            content = yaml.safe_load(found[1].read_bytes())
            if isinstance(content, dict) and isinstance(name := content.get("executor"), str):
                yield name


def _near(path: Path) -> Path:
    """A path from the working directory where it is in there."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
