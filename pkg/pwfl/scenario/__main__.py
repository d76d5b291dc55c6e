"""Check config files without running anything: `python -m pwfl.scenario FILE...`.

Of a file that is no YAML this names the line, which Snakemake, as it reads `--configfile` itself, does not.
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
