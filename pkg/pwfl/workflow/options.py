"""Check Snakemake's options of `pwfl run`: on a mistake Snakemake prints its whole usage, a traceback, or nothing."""

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from snakemake import cli

from pwfl import workflow
from pwfl.scenario.messages import did_you_mean, nearest
from pwfl.scenario.study import TOP_LEVEL
from pwfl.workflow.parts import ORDER
from pwfl.workflow.session import OPTIONS

KEY = re.compile(r"[A-Za-z_][\w-]*\w")  # keys of --config that Snakemake accepts
NAMING = ("targets", "until", "omit_from", "forcerun", "prioritize", "allowed_rules", "set_threads", "set_resources")
RULES = ["all", "publish", *ORDER, *(f"{rule}_all" for rule in ORDER)]


class OptionError(ValueError):
    """An invalid option; the message names it and a remedy."""


def parse(words: Sequence[str], file: str) -> argparse.Namespace:
    """Parse Snakemake's options for a run of the config `file`, under Snakemake's names. Raises OptionError."""
    options = _parse(words)
    if options.configfile or options.snakefile:
        raise OptionError(f"--configfile, --snakefile: not allowed: pwfl runs its own Snakefile with the config {file}")
    for problem in (*_config(options), *_rules(options)):
        raise OptionError(problem)
    if profiles := [*_profiles(options)]:
        _parse(words, profiles)
    return options


def _parse(words: Sequence[str], profiles: Sequence[str] = ()) -> argparse.Namespace:
    parser = cli.get_argument_parser(profiles)
    parser.error = _refuse
    try:
        return parser.parse_args(words)
    except OptionError as error:
        raise OptionError(_reword(str(error), parser)) from None
    except Exception as error:  # any kind: Snakemake's functions that convert values raise several
        raise OptionError(f"Snakemake cannot read the options: {' '.join(str(error).split())}") from None


def _refuse(message: str) -> NoReturn:
    raise OptionError(message)


def _reword(message: str, parser: argparse.ArgumentParser) -> str:
    """Rewrite a message of the parser as `option: problem`, if its form is known."""
    if match := re.fullmatch(r"argument .*?--executor.*?: (invalid choice: '(.*?)'.*)", message):
        lock = workflow.folder() / "envs" / f"{match[2]}.lock"
        what = f"--require-hashes -r {lock}" if lock.exists() else f"snakemake-executor-plugin-{match[2]}"
        return f"--executor: {match[1]}; install Snakemake's plugin for it: pip install {what}"
    if match := re.fullmatch(r"argument .*?(--[\w-]+).*?: (.*)", message):
        return f"{match[1]}: {match[2]}"
    if match := re.fullmatch(r"unrecognized arguments: (\S+).*", message):
        known = sorted(set(re.findall(r"--[\w-]+", parser.format_usage())))
        return f"{match[1]}: unknown option{nearest(match[1], known)}"
    return message


def _config(options: argparse.Namespace) -> Iterator[str]:
    """Yield errors in the form of --config; its values are checked with the config file."""
    for entry in options.config or ():
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


def _rules(options: argparse.Namespace) -> Iterator[str]:
    """Yield an error for each identifier in options for targets and rules that is neither a rule nor a file."""
    for option in NAMING:
        for name in sorted(getattr(options, option) or ()):
            if name.isidentifier() and name not in RULES and not Path(name).exists():
                place = "" if option == "targets" else f"--{option.replace('_', '-')}: "
                yield f"{place}there is no rule {name!r}{did_you_mean(name, RULES)}"


def _profiles(options: argparse.Namespace) -> Iterator[str]:
    """Yield the named profiles. Raises OptionError for a missing one, which Snakemake may ignore silently."""
    for profile in options.profile or ():
        if profile != "none":
            if cli.get_profile_dir(profile) is None:
                raise OptionError(f"--profile: there is no profile {profile} here or in Snakemake's folders")
            yield profile
    if (profile := options.workflow_profile) and profile != "none":
        shipped = workflow.folder() / "profiles"
        matches = [path for path in (Path(profile), Path("profiles", profile), shipped / profile) if path.exists()]
        if not matches:
            names = ", ".join(sorted(path.name for path in shipped.iterdir()))
            raise OptionError(f"--workflow-profile: there is no profile {profile}; use one of {names}, or a path")
        yield str(matches[0])
