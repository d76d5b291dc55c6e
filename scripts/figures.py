from pathlib import Path

from pwfl import tables
from pwfl.report import build, theme
from pwfl.runtime import jobs, store

depends, output = snakemake.params.depends, snakemake.output
scenario = jobs.start(snakemake.log[0], depends)
paths = dict(snakemake.input.items())
store.check_addresses(paths.pop("addresses"), depends)
inputs = tables.read_schemes(paths, depends, scenario)
for html, png, svg in zip(output.html, output.png, output.svg):
    chart = build.figure(scenario, Path(html).stem, inputs)
    theme.save(chart, {"html": html, "png": png, "svg": svg})
