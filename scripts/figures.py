from pwfl.runtime import watch

watch.start()

from pathlib import Path

from pwfl import tables
from pwfl.report import build, theme
from pwfl.runtime import jobs, store

depends, output = snakemake.params.depends, snakemake.output
scenario = jobs.start(snakemake.log[0], depends)
paths = dict(snakemake.input.items())
store.check_addresses(paths.pop("addresses"), depends)
inputs = tables.read_schemes(paths, depends, scenario)
kinds = dict(output.items())
for k, spec in enumerate(output.json):
    chart = theme.named(build.figure(scenario, Path(spec).stem, inputs), depends["scenario"])
    theme.save(chart, {kind: files[k] for kind, files in kinds.items()})
