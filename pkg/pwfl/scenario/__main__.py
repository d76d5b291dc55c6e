"""Check config files without running anything: `python -m pwfl.scenario FILE...`.

Snakemake reads the files of `--configfile` before the workflow is asked, and of those that are no YAML says no more
than that; this names file and line.
"""

import sys

from pwfl import scenario


def main(paths: list[str]) -> int:
    """Print what is wrong with the study of some files, or its scenarios; the exit status."""
    try:
        files = scenario.read(paths)
        study = scenario.load(files, ", ".join(paths))
        scenario.check_surroundings(study)
    except scenario.ScenarioError as error:
        print(error, file=sys.stderr)
        return 1
    for warning in study.warnings:
        print(warning, file=sys.stderr)
    print(f"{study.source}: study {study.name} of {', '.join(study.scenarios)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
