"""Snakemake's options of `pwfl run`, checked before anything starts: of many mistakes it says where its code failed."""

import argparse
import re
import tempfile
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NoReturn

from snakemake import cli
from snakemake.common import get_appdirs

from pwfl import workflow
from pwfl.scenario.messages import did_you_mean, nearest
from pwfl.scenario.study import TOP_LEVEL
from pwfl.workflow.parts import ORDER
from pwfl.workflow.session import OPTIONS

KEY = re.compile(r"[A-Za-z_][\w-]*\w")  # of --config, as Snakemake takes them
# What would be right, of options whose values Snakemake itself converts.
RIGHT = {
    "--cores": "must be a number or all",
    "--jobs": "must be a number or unlimited",
    "--resources": "must be NAME=NUMBER, such as gpu=1",
    "--default-resources": "must be NAME=VALUE, such as mem_mb=4000",
    "--set-resources": "must be RULE:NAME=VALUE, such as train:mem_mb=4000",
    "--set-threads": "must be RULE=NUMBER, such as train=2",
    "--set-scatter": "must be NAME=NUMBER",
    "--set-resource-scopes": "must be NAME=local, NAME=global or NAME=excluded",
    "--groups": "must be RULE=GROUP",
    "--group-components": "must be GROUP=NUMBER",
    "--batch": "must be RULE=BATCH/BATCHES, such as all=1/3",
    "--max-jobs-per-timespan": "must be NUMBER/TIME, such as 10/1m",
    "--consider-ancient": "must be RULE=INPUT",
    "--list-changes": "must be code, input or params",
}
NO_NUMBER = re.compile("invalid (int|float) value: ")
SHORT = {"-c": "--cores", "-j": "--jobs"}
LEAST = {"cores": 1, "jobs": 1, "local_cores": 1, "max_threads": 1, "retries": 0, "latency_wait": 0}
NAMING = ("targets", "until", "omit_from", "forcerun", "prioritize", "allowed_rules", "set_threads", "set_resources")
ALL = {"cores": ", or all", "jobs": ", or unlimited"}


class OptionError(ValueError):
    """An option that cannot be; the message says which, and what would be right."""


def parse(words: Sequence[str], file: str) -> argparse.Namespace:
    """Snakemake's options, by its own names, of a run of a config file. Raises OptionError."""
    parser = cli.get_argument_parser()
    parser.error = _refuse
    try:
        given = parser.parse_args(words)
    except OptionError as error:
        raise OptionError(_reworded(str(error), parser)) from None
    except Exception as error:  # of any kind: what Snakemake's functions meet that convert values
        raise OptionError(_converted(words, parser, error)) from None
    problems = (
        _replaced(given, file),
        _folder(given),
        _config(given),
        _numbers(given),
        _threads(words),
        _profiles(given),
        _rules(given),
    )
    if problem := next(chain.from_iterable(problems), None):
        raise OptionError(problem)
    return given


def check_cache() -> None:
    """Raise OSError, which says what to do, where Snakemake cannot write into its cache: in HOME, by default."""
    folder = Path(get_appdirs().user_cache_dir, "snakemake", "source-cache")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise OSError(
            f"{folder}: cannot be written: {error.strerror}; name another folder: export XDG_CACHE_HOME=FOLDER"
        ) from None


def _refuse(message: str) -> NoReturn:
    raise OptionError(message)


def _reworded(message: str, parser: argparse.ArgumentParser) -> str:
    """What the parser says, as `option: what is wrong`."""
    if found := re.fullmatch(r"argument .*?(--[\w-]+).*?: (.*)", message):
        option, words = found.groups()
        return f"{option}: {RIGHT.get(option, NO_NUMBER.sub('must be a number, is ', words))}"
    if found := re.fullmatch(r"unrecognized arguments: (\S+).*", message):
        known = set(re.findall(r"--[\w-]+", parser.format_usage()))
        return f"{found[1]}: unknown option{nearest(found[1], sorted(known))}"
    return message


def _converted(words: Sequence[str], parser: argparse.ArgumentParser, error: Exception) -> str:
    """Which option's value cannot be converted: the first that cannot be when it is alone."""
    parts: list[list[str]] = [[]]
    for word in words:
        parts += [[]] if word.startswith("-") and not word[1:2].isdigit() else []
        parts[-1].append(word)
    for first, *values in filter(None, parts):
        try:
            parser.parse_args([first, *values])
        except Exception:
            is_joined = first[:2] in SHORT and len(first) > 2  # -c4
            name, value = (first[:2], first[2:]) if is_joined else first.partition("=")[::2]
            name = SHORT.get(name, name)
            shown = " ".join([value, *values] if value else values)
            return f"{name}: {RIGHT.get(name, ' '.join(str(error).split()))}, is {shown}"
    return " ".join(str(error).split())


def _replaced(given: argparse.Namespace, file: str) -> Iterator[str]:
    if given.configfile:
        yield (
            f"--configfile: not allowed, since {file} is already the config; for several files, use snakemake "
            "--configfile"
        )
    if given.snakefile:
        yield "--snakefile: not allowed, since pwfl runs its own; for another one, use snakemake --snakefile"


def _folder(given: argparse.Namespace) -> Iterator[str]:
    """A working folder that is none; Snakemake makes one that is not there."""
    if given.directory and Path(given.directory).exists() and not Path(given.directory).is_dir():
        yield f"--directory: must be a folder, is the file {given.directory}"


def _config(given: argparse.Namespace) -> Iterator[str]:
    """What is wrong with the form of --config; what its values mean is checked with the file."""
    for entry in given.config or ():
        key, equals, value = entry.partition("=")
        first, *inner = key.split(".")
        if not (equals and key):
            yield f"--config: {entry}: must be KEY=VALUE; put a value with spaces in quotes, as in 'base={{seed: 2}}'"
        elif inner:
            parts = [first, *inner] if first in TOP_LEVEL else ["base", first, *inner]
            text = f"{': {'.join(parts[1:])}: {value}{'}' * (len(parts) - 1)}"
            yield f"--config: {key}: write {parts[0]}={{{text}, in quotes"
        elif not KEY.fullmatch(key):
            yield f"--config: {key}: unknown key{did_you_mean(key, (*TOP_LEVEL, *OPTIONS))}"


def _numbers(given: argparse.Namespace) -> Iterator[str]:
    for name, least in LEAST.items():
        number = getattr(given, name)
        if number is not None and number < least:
            yield f"--{name.replace('_', '-')}: must be a number from {least}{ALL.get(name, '')}, is {number}"


def _profiles(given: argparse.Namespace) -> Iterator[str]:
    """Profiles that are not there, of which Snakemake says much, or nothing."""
    for profile in given.profile or ():
        if profile != "none" and cli.get_profile_dir(profile) is None:
            yield f"--profile: there is no profile {profile} here or in Snakemake's folders; give its folder's path"
    if (profile := given.workflow_profile) and profile != "none":
        own = workflow.folder() / "profiles"
        if not any(path.exists() for path in (Path(profile), Path("profiles", profile), own / profile)):
            names = sorted(path.name for path in own.iterdir())
            yield f"--workflow-profile: there is no profile {profile}; use one of {', '.join(names)}, or a path"


def _rules(given: argparse.Namespace) -> Iterator[str]:
    """Names that are no rules', where they can be no files either."""
    known = ["all", "publish", *ORDER, *(f"{rule}_all" for rule in ORDER)]
    for option in NAMING:
        for name in sorted(getattr(given, option) or ()):
            if name.isidentifier() and name not in known and not Path(name).exists():
                place = "" if option == "targets" else f"--{option.replace('_', '-')}: "
                yield f"{place}there is no rule {name!r}{did_you_mean(name, known)}"


def _threads(words: Sequence[str]) -> Iterator[str]:
    """Numbers of threads that are none, which Snakemake takes for code that computes one."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--set-threads", nargs="+", default=())
    for entry in parser.parse_known_args(words)[0].set_threads:
        if not re.fullmatch("[1-9][0-9]*", entry.partition("=")[2]):
            yield f"--set-threads: {RIGHT['--set-threads']}, is {entry}"
