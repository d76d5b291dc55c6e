"""Studies: config files, read and validated before anything runs.

A config file has `study` (its name), `title` and `question` (its subject), `base` (a scenario) and `scenarios`
(name -> overrides of the base, and the scenario's `title`). Mappings merge key by key, all other values replace.
If a scenario or the base has a `sweep`, each of its points is a scenario of the study, named after the scenario and
the point's values.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, reduce, wraps
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from pwfl import registry
from pwfl.process import devices
from pwfl.process.user_code import is_reference
from pwfl.scenario import checks, size, sweep, units, written
from pwfl.scenario.checks import available
from pwfl.scenario.common import DataSource, Scenario
from pwfl.scenario.fields import parameters, stages_of
from pwfl.scenario.messages import ScenarioError, at, blame, did_you_mean, first, report, sets, shown
from pwfl.scenario.resolution import field_problems, look_up, merge, model_of, resolve, typed
from pwfl.scenario.values import value_of
from pwfl.stages import READERS, variants

TOP_LEVEL = ("study", "title", "question", "run", "base", "scenarios", "allow_large", "print")
NAMED = "study"  # the key of the study's name
TITLE = "title"
TEXTS = {TITLE: 100, "question": 300, f"scenarios.NAME.{TITLE}": 60}  # characters, at most
UNPRINTED = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
)  # control characters, ends of lines, surrogates
LONG_AUDIT = 30.0  # seconds per scheme from which a warning is given
COMMAND_LINE = "--config"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")  # part of file names, which file systems limit to 255 bytes
NAME_RULE = "use letters, digits, '_', '.' and '-', beginning with a letter or digit, at most 100 of them"
SUFFIXES = (
    ".bib",
    ".csv",
    ".html",
    ".json",
    ".log",
    ".parquet",
    ".pdf",
    ".png",
    ".svg",
    ".tex",
    ".tsv",
)  # of a study's files and logs


@dataclass(frozen=True)
class Study:
    """The scenarios of one config file that are to be run."""

    name: str
    source: str
    scenarios: dict[str, Scenario]
    points: dict[str, sweep.Point] = field(default_factory=dict)  # by name, of the scenarios that are sweep points
    title: str = ""  # "": none
    question: str = ""
    titles: dict[str, str] = field(default_factory=dict)  # of scenarios and swept ones, by name; default: the name
    warnings: tuple[str, ...] = ()
    print: bool = False  # whether every figure is also drawn for print
    files: dict | None = None  # content of the files without --config; None: unknown
    unusual: tuple[str, ...] = ()  # the warnings about units

    @cached_property
    def swept(self) -> list[str]:
        """The keys of all parameters that a sweep varies, in the order of the config."""
        return list(dict.fromkeys(key for point in self.points.values() for key in point.values))

    def point(self, name: str) -> sweep.Point:
        """Return a scenario's point: the name that it has in `scenarios`, and its values of all swept parameters."""
        scenario = self.points[name].of if name in self.points else name
        return sweep.Point(scenario, {key: value_of(self.scenarios[name], key) for key in self.swept})

    def scenario(self, name: str) -> Scenario:
        """Return the scenario `name`. Raises ScenarioError if there is none."""
        if name not in self.scenarios:
            raise ScenarioError(f"there is no scenario {name!r}{did_you_mean(name, self.scenarios)}")
        return self.scenarios[name]


def read(paths: Sequence[str | Path], command: Collection[str] = ()) -> dict:
    """Read config files and merge later ones over earlier ones; the default study name is the last file's.

    `command` are the keys that --config adds. Raises ScenarioError with a line for every file that is not a config.
    """
    contents, flaws = [], {}
    for path in paths:
        try:
            contents.append(written.read(path))
        except OSError as error:
            flaws[str(path)] = [f"cannot be read: {error.strerror}"]
        except ValueError as error:
            flaws[str(path)] = [str(error)]
    merged = reduce(merge, contents, {})
    if paths and not flaws and NAMED not in merged:
        merged[NAMED] = Path(paths[-1]).stem
        if not (NAMED in command or NAME.fullmatch(merged[NAMED])):
            flaw = f"{NAMED}: is missing, and this file's name is not a valid one; add `{NAMED}: NAME`: {NAME_RULE}"
            flaws[str(paths[-1])] = [flaw]
    if flaws:
        raise ScenarioError(report(flaws))
    return merged


def command_line(arguments: Iterable[str]) -> dict:
    """Parse and merge KEY=VALUE `arguments` of --config, by the same rules as files. Raises ScenarioError."""
    values: dict = {}
    for argument in arguments:
        key, _, value = argument.partition("=")
        try:
            values = merge(values, {key: written.parse(value)})
        except ValueError as error:
            raise ScenarioError(f"{COMMAND_LINE}: {key}: {str(error).partition(': ')[2]}") from None
    return values


def load_files(paths: Sequence[str], arguments: Iterable[str] = ()) -> Study:
    """Load a study from files and KEY=VALUE `arguments` of --config, and check files and solvers that it needs.

    Raises ScenarioError.
    """
    command = command_line(arguments)
    files = read(paths, command)
    study = load(merge(files, command), ", ".join(paths), files)
    check_surroundings(study)
    return study


def load(config: dict, source: str, files: dict | None = None) -> Study:
    """Return the study that a config describes. Raises ScenarioError with a line for every mistake in any scenario.

    Parameters
    ----------
    config
        Content of the file(s), with `--config` merged over it: `study` (default: "study"), `base`, `scenarios`, and
        optionally `title`, `question`, `run` (names of the scenarios to run; default: all), `allow_large` (for
        studies beyond the limits of `size`), and `print` (for a paper's figures and tables).
    source
        Names of the files, for messages.
    files
        Content of the file(s) only. Messages attribute problems of `config` that `files` does not have to `--config`.
    """
    problems, asked = _find(config)
    if problems:
        lines = {problem: at(problem, points) for problem, points in problems.items()}
        refused = _refused(lines, problems if files is None else _find(files)[0], source)
        raise after_units(_unusual(config), refused, source)
    chosen = {name: one.scenario for name, one in asked.items()}
    points = {name: sweep.Point(one.name, one.point) for name, one in asked.items() if one.point}
    firsts: dict[str, Scenario] = {}  # the first point of each sweep represents all
    for one in asked.values():
        firsts.setdefault(one.name, one.scenario)
    shadowed = _shadowed(config, asked, config if files is None else files)
    unusual = tuple(_unusual(config, asked))
    notes = chain(_unread(firsts), _lengthy(firsts), _exposed(chosen))
    warnings = (*shadowed, *_once(notes), *unusual)
    for_print = bool(_flag(config.get("print", False)))
    name, (title, question) = str(config.get(NAMED, NAMED)), (config.get(key, "") for key in (TITLE, "question"))
    titles = _titles(config["scenarios"], asked)
    return Study(name, source, chosen, points, title, question, titles, warnings, for_print, files, unusual)


def after_units(unusual: Iterable[str], error: ScenarioError, source: str) -> ScenarioError:
    """Put warnings about units in the files `source` before an error, as a wrong unit may be its cause."""
    return ScenarioError("\n".join([*(f"{source}: {line}" for line in unusual), str(error)]))


def with_units(check: Callable) -> Callable:
    """Decorate a check of a study: the study's warnings about units precede its error."""

    @wraps(check)
    def checked(study: Study):
        try:
            return check(study)
        except ScenarioError as error:
            raise after_units(study.unusual, error, study.source) from None

    return checked


@with_units
def check_surroundings(study: Study) -> None:
    """Check the files, user-defined functions and solvers that scenarios need.

    Raises ScenarioError with one line for everything that is missing or invalid.
    """
    names = defaultdict(list)  # by problem
    for name, scenario in study.scenarios.items():
        for problem in checks.problems(scenario):
            names[problem].append(name)
    if names:
        known = set(names)
        if study.files is not None:
            known = {problem for one in _find(study.files)[1].values() for problem in checks.problems(one.scenario)}
        lines = {problem: f"scenarios.{first(where, 'scenario')}: {problem}" for problem, where in names.items()}
        raise _refused(lines, known, study.source)


@with_units
def check_device(study: Study) -> None:
    """Check that this machine has a GPU if a scenario requires one. Raises ScenarioError."""
    asking = [name for name, scenario in study.scenarios.items() if value_of(scenario, "training.device") == "gpu"]
    if asking and not devices.present():
        raise ScenarioError(
            f"{study.source}: scenarios.{asking[0]}: training.device: gpu: this machine has no NVIDIA GPU; use "
            "`cpu`, or `auto`, which uses a GPU if there is one"
        )


def _refused(problems: dict[str, str], file_problems: Collection[str], source: str) -> ScenarioError:
    """Return an error with a config's problems: those of its files under the files' names, others under --config."""
    places = defaultdict(list)
    for problem, line in problems.items():
        places[source if problem in file_problems else COMMAND_LINE].append(line)
    return ScenarioError(report({place: places[place] for place in (source, COMMAND_LINE) if place in places}))


Lines = dict[str, list[str]]  # messages about a config, each with the sweep points that it concerns


class _Asked(NamedTuple):
    """A requested scenario: its name in `scenarios`, its sweep point, its overrides, and the result."""

    name: str
    point: sweep.Values
    override: dict
    scenario: Scenario


def _find(config: dict) -> tuple[Lines, dict[str, _Asked]]:
    """Return all problems of a config, and the scenarios to run."""
    problems: Lines = defaultdict(list, {problem: [] for problem in _check_top_level(config)})
    if problems:
        return problems, {}
    base = config.get("base", {})
    asked: dict[str, _Asked] = {}
    for name, override in config["scenarios"].items():
        wrong, points = _points(name, base, override)
        wrong |= {f"scenarios.{name}: the name {point} appears twice": [] for point in points if point in asked}
        for problem, names in wrong.items():
            problems[problem] += names
        asked |= points
    # Values of the base that every scenario overrides are not checked above, but must be valid, too.
    for system in dict.fromkeys(one.scenario.system for one in asked.values()):
        for line in field_problems({"system": system} | _parameters(base)):
            problems.setdefault(f"base.{line}", [])
    run, known = config.get("run", list(config["scenarios"])), {*config["scenarios"], *asked}
    for name in run:
        if name not in known:
            problems.setdefault(f"run: there is no scenario {name!r}{did_you_mean(name, known)}", [])
    if problems:
        return problems, {}
    chosen = {point: one for name in run for point, one in asked.items() if name in (one.name, point)}
    if not _flag(config.get("allow_large", False)):
        for point, problem in size.problems({point: one.scenario for point, one in chosen.items()}):
            problems[f"scenarios.{chosen[point].name}: {problem}"] += [point] if chosen[point].point else []
    return problems, chosen


def _points(name: str, base: dict, override: dict) -> tuple[Lines, dict[str, _Asked]]:
    """Return the problems of a config's scenario, and the scenarios of its sweep, or the scenario itself."""
    merged = merge(base, override)
    grids = merged.pop(sweep.KEY, {})
    merged.pop(TITLE, None)
    plain, overridden = _parameters(base), _parameters(override)
    try:
        flaws = sweep.problems(grids, model_of(merged))
    except ScenarioError as error:
        flaws = [str(error)]
    problems: Lines = defaultdict(list, {flaw: [] for flaw in flaws})
    points = {}
    for values in [] if flaws else sweep.points(grids) or [{}]:
        point = merge(overridden, sweep.nested(values))
        try:
            scenario = resolve(plain, point)
        except ScenarioError as error:
            for line in str(error).splitlines():
                problems[_blame_sweep(line, values)] += [sweep.name(name, values)] if values else []
            continue
        validated = {key: value_of(scenario, key) for key in values}
        label = sweep.name(name, validated)
        if label in points:
            problems.setdefault(f"{sweep.KEY}: the point {label} appears twice", [])
        if len(label) > sweep.MAX_NAME:
            problem = (
                f"{sweep.KEY}: the point {label} has a name of {len(label)} characters; at most {sweep.MAX_NAME} are "
                "allowed, as a folder has this name; shorten the scenario's name, or sweep fewer parameters"
            )
            problems.setdefault(problem, [])
        points[label] = _Asked(name, validated, point, scenario)
    return {blame(line, name, base, override): names for line, names in problems.items()}, points


def _blame_sweep(line: str, values: sweep.Values) -> str:
    """Turn a line `key: problem` about a parameter into one about the sweep, if the sweep sets the key."""
    return f"{sweep.KEY}: {line}" if line.startswith(tuple(f"{key}:" for key in values)) else line


def _parameters(content: dict) -> dict:
    """Return a scenario's content without its sweep and title."""
    return {key: value for key, value in content.items() if key not in (sweep.KEY, TITLE)}


def _titles(scenarios: dict, asked: dict[str, _Asked]) -> dict[str, str]:
    """Return the titles of scenarios, sweeps included, and of sweep points, by name."""
    titles = {one.name: scenarios[one.name].get(TITLE, one.name) for one in asked.values()}
    return titles | {name: sweep.title(titles[one.name], one.point) for name, one in asked.items()}


def _check_top_level(config: dict) -> list[str]:
    if not isinstance(config, dict):
        return [f"must be a mapping, with `scenarios:` among its keys, is {shown(config)}"]
    problems = [f"{key}: unknown key{_meant(key)}" for key in config if key not in TOP_LEVEL]
    if not isinstance(config.get("scenarios"), dict) or not config["scenarios"]:
        return [*problems, "scenarios: must name at least one scenario, as in `scenarios: {first: {}}`"]
    if not isinstance(config.get("base", {}), dict):
        hint = "; leave it out, or write {} for no base" if config["base"] is None else ""
        problems.append(f"base: must be a mapping of parameters, is {shown(config['base'])}{hint}")
    run = config.get("run", ["all"])
    if not isinstance(run, list):
        problems.append(f"run: must be a list of scenario names, is {shown(run)}")
    elif not run:
        problems.append("run: names no scenario; leave it out to run all")
    else:
        problems += [f"run: {shown(name)} is not the name of a scenario" for name in run if not isinstance(name, str)]
    for name, override in config["scenarios"].items():
        if not (isinstance(name, str) and NAME.fullmatch(name)):
            problems.append(f"scenarios: {shown(name)} is not a valid name; {NAME_RULE}")
        if name == "comparison":
            problems.append(
                "scenarios: 'comparison' is reserved for the folder of comparisons, results/STUDY/comparison; "
                "choose another name"
            )
        if isinstance(name, str) and name.lower().endswith(SUFFIXES):
            problems.append(
                f"scenarios: {shown(name)} ends like a file of the study, such as results/STUDY/claims.csv, and "
                f"names a folder beside these; choose a name without {Path(name).suffix}"
            )
        if not isinstance(override, dict):
            hint = "; write {} to change nothing in the base" if override is None else ""
            problems.append(f"scenarios.{name}: must be a mapping of parameters, is {shown(override)}{hint}")
    for key in ("allow_large", "print"):
        if _flag(config.get(key, False)) is None:
            problems.append(f"{key}: must be true or false, is {shown(config[key])}")
    problems += _check_titles(config)
    study = config.get("study", "study")
    if isinstance(study, bool) or not isinstance(study, str | int) or not NAME.fullmatch(str(study)):
        problems.append(f"study: {shown(study)} is not a valid name; {NAME_RULE}")
    return problems


def _meant(key) -> str:
    """Suggest the meaning of an unknown key at the config's top level, as the end of a message."""
    if key == sweep.KEY or any(key in registry.system(name).model.model_fields for name in registry.BUILT_IN):
        return f"; it is of scenarios: write it under `base`, as in `base: {{{key}: ...}}`"
    return did_you_mean(key, TOP_LEVEL)


def _check_titles(config: dict) -> list[str]:
    """List problems with the titles and the question of a study and its scenarios."""
    base = config.get("base", {})
    problems = ["base.title: give each scenario its own title"] if isinstance(base, dict) and TITLE in base else []
    texts = {key: (config[key], TEXTS[key]) for key in (TITLE, "question") if key in config}
    scenario_titles = {
        name: one[TITLE] for name, one in config["scenarios"].items() if isinstance(one, dict) and TITLE in one
    }
    texts |= {
        f"scenarios.{name}.{TITLE}": (text, TEXTS[f"scenarios.NAME.{TITLE}"]) for name, text in scenario_titles.items()
    }
    for key, (text, most) in texts.items():
        if not (isinstance(text, str) and text.strip() and len(text) <= most and "\n" not in text.strip()):
            problems.append(f"{key}: must be a line of text of at most {most} characters, is {shown(text)}")
        elif match := UNPRINTED.search(text):
            problems.append(f"{key}: has the character {match[0]!a}, which is not printed; leave it out")
    titles = [str(text) for text in scenario_titles.values()]
    for text in sorted({text for text in titles if titles.count(text) > 1}):
        names = ", ".join(str(name) for name, title in scenario_titles.items() if title == text)
        problems.append(f"scenarios: {names} have the same title, {text!r}; readers could not tell them apart")
    return problems


def _shadowed(config: dict, asked: dict[str, _Asked], files: dict) -> Iterator[str]:
    """Yield a warning for each base value that all scenarios to run replace, or that --config sets and one replaces."""
    base = _parameters(config.get("base", {}))
    for path, value in _leaves(base):
        shadowing = [one for one in asked.values() if sets(one.override, path)]
        source = "" if _says(files, ("base", *path), value) else f"{COMMAND_LINE}: "
        if shadowing and (source or len(shadowing) == len(asked)):
            key, names = ".".join(path), list(dict.fromkeys(one.name for one in shadowing))
            by = f"the sweep of {key}" if key in shadowing[0].point else f"scenarios.{names[0]}.{key}"
            hint = f"; set it by {COMMAND_LINE} 'scenarios={{{names[0]}: {_inline(path, value)}}}'"
            is_named = source and key not in shadowing[0].point
            yield (
                f"{source}base.{key}: {_plain(value)} has no effect in {', '.join(names)}: {by} replaces it"
                f"{hint if is_named else ''}"
            )


def _plain(value) -> str:
    """Write a value as in YAML; values of --config may be text already."""
    return value if isinstance(value, str) else "null" if value is None else str(value)


def _inline(path: tuple[str, ...], value) -> str:
    """Write a value at a key's parts as YAML in one line: `{schedule: {gamma: 500}}`."""
    return reduce(lambda text, part: f"{{{part}: {text}}}", reversed(path), _plain(value))


def _once(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Write a line for each different message among pairs of a scenario's name and a message about it."""
    names = defaultdict(list)
    for name, message in pairs:
        names[message].append(name)
    return [f"scenarios.{first(scenarios, 'scenario')}: {message}" for message, scenarios in names.items()]


def _unread(chosen: dict[str, Scenario]) -> Iterator[tuple[str, str]]:
    """Yield scenario and warning for each value that no scheme reads, or that another parameter makes ineffective.

    Values that have an effect in another scenario are left out, as a base is for all scenarios.
    """
    effective, idling = set(), []
    for name, scenario in chosen.items():
        read = set(READERS)
        for scheme in scenario.schemes:
            stage_variants = variants(scheme.scheduler, scheme.noise).items()
            read |= {f"{stage}/{'own' if is_reference(variant) else variant}" for stage, variant in stage_variants}
        values, idle = scenario.model_dump(), checks.idle(scenario)
        for path, declared in parameters(type(scenario)):
            key, readers, value = ".".join(path), stages_of(declared), look_up(values, path)
            if not readers or value == declared.default:
                continue
            setting = f"{key}: {value!r}"
            if not readers & read:
                why = f": only {', '.join(sorted(readers))} reads it, and no scheme uses that"
                idling.append((name, setting, why))
            elif key in idle:
                idling.append((name, setting, f" with {idle[key]}"))
            else:
                effective.add(setting)
    yield from ((name, f"{setting} has no effect{why}") for name, setting, why in idling if setting not in effective)


def _lengthy(chosen: dict[str, Scenario]) -> Iterator[tuple[str, str]]:
    """Yield scenario and warning for each audit that takes long because of its canaries."""
    for name, scenario in chosen.items():
        if (seconds := checks.audit_seconds(scenario)) > LONG_AUDIT:
            canaries, total = scenario.audit.canaries, len(scenario.schemes) * seconds
            yield (
                name,
                f"audit.canaries: {canaries} take about {seconds:,.0f} seconds per scheme, {total:,.0f} in all, "
                f"in the one realization that is audited; {canaries // 10} take a tenth of that",
            )


def _exposed(chosen: dict[str, Scenario]) -> Iterator[tuple[str, str]]:
    """Yield scenario (or sweep point) and warning for each delta that publication of whole records would satisfy, too.

    A mechanism that publishes each of n records unchanged, with probability delta, is (0, delta)-private. It discloses
    n delta records on average, so delta must be well below 1 / n.
    """
    for name, scenario in chosen.items():
        delta, data = value_of(scenario, "privacy.delta"), getattr(scenario, "data", None)
        if delta is not None and isinstance(data, DataSource) and delta * (count := available(data)) >= 1:
            source = data.file or data.dataset
            yield (
                name,
                f"privacy.delta: {delta:g} is no protection: {source} has {count:,} training records, and with "
                f"1 / {count:,} ({1 / count:.2g}) or more, publishing a record as it is would be allowed; set it well "
                f"below that, such as {0.1 / count:.0e}",
            )


def _unusual(config: dict, asked: Collection[str] | None = None) -> list[str]:
    """List warnings about values that may be in a wrong unit, in all scenarios, or only in the `asked` ones.

    The config may be invalid: entries that are no scenarios are left out.
    """
    unusual = defaultdict(list)
    base, scenarios = (config.get(key, {}) for key in ("base", "scenarios")) if isinstance(config, dict) else ({}, {})
    written_ = scenarios.items() if isinstance(base, dict) and isinstance(scenarios, dict) else ()
    for name, override in written_:
        for values, content, model in _contents(base, override) if isinstance(override, dict) else ():
            point = sweep.name(name, {key: value_of(content, key) for key in values})
            for line in units.unusual(content, model) if asked is None or point in asked else ():
                unusual[blame(_blame_sweep(line, values), name, base, override)] += [point] if values else []
    return [at(line, points) for line, points in unusual.items()]


def _contents(base: dict, override: dict) -> Iterator[tuple[sweep.Values, dict, type[Scenario]]]:
    """Yield a scenario's sweep points, valid or not: the swept values, the content, and the system's model."""
    merged = merge(base, override)
    grids = merged.pop(sweep.KEY, {})
    with suppress(ScenarioError):  # an unknown system
        model = model_of(merged)
        for values in [] if sweep.problems(grids, model) else sweep.points(grids) or [{}]:
            yield values, typed(merge(_parameters(merged), sweep.nested(values)), model), model


def _says(content, path: tuple[str, ...], value) -> bool:
    """Return whether a config, valid or not, has a value at a key's parts."""
    if not path:
        return content == value
    return isinstance(content, dict) and path[0] in content and _says(content[path[0]], path[1:], value)


def _leaves(content: dict, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    for key, value in content.items():
        yield from _leaves(value, (*prefix, key)) if isinstance(value, dict) else [((*prefix, key), value)]


def _flag(value) -> bool | None:
    """Return a config's truth value, which is text if --config sets it for a module; None: it is no truth value."""
    return {"true": True, "false": False}.get(str(value).lower())
