"""The command `pwfl`. Subcommands import modules only when they run, so that help and completion start fast."""

import sys
from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path

import click

from pwfl import errors
from pwfl.process import interrupts, threads

FILES = click.argument("files", nargs=-1, required=True, metavar="FILE...")


class _Commands(click.Group):
    """Commands that print one line on Ctrl-C (`pwfl.process.interrupts`), instead of click's message."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(interrupts.status() or interrupts.CTRL_C)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pwfl")
def pwfl() -> None:
    """Simulate private wireless federated learning.

    Shell completion: add eval "$(_PWFL_COMPLETE=bash_source pwfl)" to ~/.bashrc; for zsh or fish, use zsh_source or
    fish_source.
    """


@pwfl.command(context_settings={"allow_interspersed_args": False})
@click.argument("file")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[SNAKEMAKE OPTION]...")
def run(file: str, options: tuple[str, ...]) -> None:
    """Run a study in the current folder.

    FILE is the study's config. Results are written to ./results, ./store and ./logs.

    All arguments after FILE are passed to Snakemake: targets and options such as --dry-run, --cores 4 or --config.
    """
    interrupts.answer(interrupts.STOPPED)
    from snakemake import cli

    from pwfl import scenario, workflow
    from pwfl.workflow import options as snakemake_options
    from pwfl.workflow import startup
    from pwfl.workflow.session import study_values

    try:
        given = snakemake_options.parse(options, file)
    except snakemake_options.OptionError as error:
        raise click.UsageError(str(error)) from None
    values = study_values(given.config or [])
    study = scenario.load_files([file], values)
    startup.check(Path(given.directory or "."), study.name, is_dry=given.dryrun)
    # The store decides what runs, and several runs may share it.
    ours = ["--rerun-triggers", "mtime", "--logger", "pwfl", "--nolock", "--keep-going"]
    cli.main([*ours, *options, "--snakefile", str(workflow.folder() / "Snakefile"), "--configfile", file])


@pwfl.command()
@FILES
def check(files: tuple[str, ...]) -> None:
    """Check a study's config without running it.

    FILEs are the config; later files override earlier ones.
    """
    from pwfl import scenario

    study = scenario.load_files(files)
    for warning in study.warnings:
        click.echo(warning, err=True)
    names, count = ", ".join(study.scenarios), len(study.scenarios)
    click.echo(f"OK: study {study.name!r} is valid ({count} scenario{'s' * (count > 1)}: {names})")


@pwfl.command()
def where() -> None:
    """Print the folder of the Snakefile, profiles and lock files."""
    from pwfl import workflow

    click.echo(workflow.folder())


@pwfl.command()
@click.argument("name")
@click.option("--air", is_flag=True, help="Write a custom air (radio.air) instead of a system.")
def new(name: str, air: bool) -> None:
    """Write a template of a custom system.

    Creates the folder NAME with a package that runs, to be edited module by module, and a study. With --air, creates a
    module that defines how the users of `multicell` transmit (radio.air), and a study.
    """
    from pwfl import new

    if air:
        folder = new.write_air(name)
        click.echo(f"Created {folder}. To test it and run its study:\n")
        click.echo(f"  pwfl test {folder}/{name}.py\n  pwfl run {folder}/study.yaml\n")
        click.echo("Next steps: docs/how-to/own_air.md in the repository")
        return
    folder = new.write(name)
    click.echo(f"Created {folder}. To install it, test it and run its study:\n")
    click.echo(f"  pip install --no-deps --no-build-isolation --editable {folder}\n  pwfl test {name}")
    click.echo(f"  pwfl run {folder}/study.yaml\n\nNext steps: docs/how-to/own_system.md in the repository")


def _systems(context, parameter, incomplete: str) -> list[str]:
    from pwfl import registry

    return [name for name in registry.systems() if name.startswith(incomplete)]


@pwfl.command()
@click.argument("names", nargs=-1, required=True, metavar="SYSTEM...", shell_complete=_systems)
@click.option("--only", multiple=True, metavar="STEP", help="Run only this step; may be repeated. Default: all.")
def test(names: tuple[str, ...], only: tuple[str, ...]) -> None:
    """Run the conformance tests of a system.

    SYSTEM is a name, or the FILE.py of a custom air. Also prints which stages each parameter invalidates.
    """
    from pwfl import testing
    from pwfl.testing import signals

    if unknown := set(only) - set(testing.STEPS):
        raise click.UsageError(f"--only: there is no step {min(unknown)}; steps are {', '.join(testing.STEPS)}")
    passed = [signals.report(name) if name.endswith(".py") else testing.report(name, only) for name in names]
    sys.exit(int(not all(passed)))


@pwfl.command()
@FILES
@click.option("--delete", is_flag=True, help="Delete the listed results.")
def prune(files: tuple[str, ...], delete: bool) -> None:
    """List (or delete) unused results.

    FILEs are configs of studies; their results in ./store are kept.

    Results produced only by --config overrides count as unused. Recent ones, and those that a recent run needs, are
    kept.
    """
    from pwfl.workflow import prune

    prune.prune(files, delete)


@pwfl.command()
@click.argument("folder", metavar="results/STUDY")
@click.argument("name", required=False, metavar="[TABLE")
@click.argument("columns", nargs=-1, metavar="[COLUMN]...]")
@click.option("--csv", is_flag=True, help="Print the whole table, as CSV.")
@click.option("--columns", "meanings", is_flag=True, help="Print what the table's columns mean, not its rows.")
def tables(folder: str, name: str | None, columns: tuple[str, ...], csv: bool, meanings: bool) -> None:
    """List the tables of a finished study, or print one.

    TABLE compares scenarios, SCENARIO/TABLE belongs to a scenario's report, SCENARIO/stages/TABLE is a stage's output.
    Large tables are shortened: rows in the middle are omitted, and columns, too, unless some are named; a line below
    shows their numbers. All rows of claims are printed. Columns with one value are listed below the table.
    """
    import polars as pl

    from pwfl import api

    study = api.results(folder)
    found = {table: (study.comparison, table) for table in study.comparison}
    for scenario, left in study.scenarios.items():
        found |= {f"{scenario}/{table}": (left.report, table) for table in left.report}
        found |= {f"{scenario}/stages/{table}": (left.stages, table) for table in left.stages}
    if name is None:
        if meanings:
            raise click.UsageError(f"--columns: name a table; `pwfl tables {folder}` lists them")
        for table in found:
            click.echo(table)
        return
    if name not in found:
        raise click.UsageError(f"{folder} has no table {name}; `pwfl tables {folder}` lists its tables")
    tables_, table = found[name]
    frame = tables_[table]
    if unknown := [column for column in columns if column not in frame.columns]:
        raise click.UsageError(f"{name} has no column {unknown[0]}; it has {', '.join(frame.columns)}")
    asked = frame.select(columns or frame.columns)
    if meanings:
        _print_columns(asked, table, dict.fromkeys(study.scenarios[each].system for each in _of(name, study.scenarios)))
        return
    alike = []
    if not (columns or csv) and len(frame) > 1:
        alike = [each.name for each in frame if not each.dtype.is_nested() and each.n_unique() == 1]
        asked = asked.drop(alike)
    rows, width = len(asked) if table == "claims" else 40, len(columns) or 8
    with pl.Config(
        tbl_rows=rows,
        tbl_cols=width,
        fmt_str_lengths=1000 if table == "claims" else 80,
        tbl_hide_dataframe_shape=True,
        tbl_hide_column_data_types=True,
    ):
        click.echo(asked.write_csv() if csv else asked, nl=not csv)
    if not csv and (len(asked) > rows or asked.width > width):
        shown = f"{min(rows, len(asked))} of {len(asked)} rows, {min(width, asked.width)} of {asked.width} columns"
        click.echo(f"Shown: {shown}; all of them: pwfl tables {folder} {name} --csv")
    if alike:
        said = [f"{column} {frame[column][0]}" for column in alike if frame[column][0] is not None]
        click.echo(f"The same in all rows: {', '.join(said)}")


def _of(table: str, scenarios: Collection[str]) -> Collection[str]:
    """Return the scenarios of a table, from its name for `pwfl tables`; all for a table that compares them."""
    return [scenario for scenario in scenarios if table.startswith(f"{scenario}/")] or scenarios


def _print_columns(frame, table: str, systems: Iterable[str]) -> None:
    """Print the meaning, unit and type of a table's columns, and what each reveals of records."""
    from pwfl.report import meanings

    for name, dtype in frame.schema.items():
        column = meanings.describe(name, dtype, table, systems)
        details = ", ".join(filter(None, (column.type, column.unit, column.reveals)))
        click.echo(f"{name} ({details})\n    {column.meaning or 'declares no meaning'}")


def _studies(context, parameter, incomplete: str) -> list[str]:
    from pwfl.workflow import pages

    return [name for name in pages.finished() if name.startswith(incomplete)]


@pwfl.command("open")
@click.argument("study", required=False, shell_complete=_studies)
def open_(study: str | None) -> None:
    """Open a finished study's report in a browser.

    STUDY is its name in ./results, or its folder anywhere. Without it, the study with the newest report is opened.
    """
    from pwfl.workflow import pages

    page = pages.find(study)
    several = len(pages.finished()) if study is None else 1
    click.echo(f"Opening {page}" + (f", the newest of {several} studies" if several > 1 else ""))
    pages.show(page)


def main() -> None:
    """Run the command with the arguments of this process; errors are printed without a traceback."""
    interrupts.answer(interrupts.ENDED)
    threads.before_polars()
    errors.run_command(partial(pwfl, prog_name="pwfl"))


if __name__ == "__main__":  # python -m pwfl.cli
    main()
