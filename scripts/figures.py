from pathlib import Path

from pwfl import tables
from pwfl.report import build, theme
from pwfl.runtime import jobs, store

depends, output = snakemake.params.depends, snakemake.output
scenario = jobs.start(snakemake.log[0], depends)
paths = dict(snakemake.input.items())
store.check_addresses(paths.pop("addresses"), depends)
inputs = tables.read_schemes(paths, depends, scenario)
for files in zip(*output.values()):  # of one figure, in all formats
    kinds = dict(zip(output.keys(), files))
    chart = theme.named(build.figure(scenario, Path(kinds["json"]).stem, inputs), depends["scenario"])
    theme.save(chart, kinds)
