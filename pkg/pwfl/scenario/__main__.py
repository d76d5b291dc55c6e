"""Check config files without running anything: `python -m pwfl.scenario FILE...`.

Snakemake reads the files of `--configfile` before the workflow is asked, and of those that are no YAML says no more
than that; this names file and line.
"""

import sys

from pwfl import scenario
from pwfl.entrance import command


def main(paths: list[str]) -> int:
    """Print the scenarios of the study of some files. Raises ScenarioError with what is wrong with it."""
    study = scenario.load(scenario.read(paths), ", ".join(paths))
    scenario.check_surroundings(study)
    for warning in study.warnings:
        print(warning, file=sys.stderr)
    print(f"{study.source}: study {study.name} of {', '.join(study.scenarios)}")
    return 0


if __name__ == "__main__":
    command(main)
