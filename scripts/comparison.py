from pwfl.runtime import watch

watch.start()

from pathlib import Path

import polars as pl

from pwfl import tables
from pwfl.report import build, theme
from pwfl.runtime import jobs
from pwfl.scenario.sweep import Point

depends, output = snakemake.params.depends, snakemake.output
scenarios = jobs.start_all(snakemake.log[0], depends)
study = {name: {"scenario": scenarios[name], "point": Point(*depends["points"][name])} for name in scenarios}
for path in map(Path, snakemake.input):  # .../SCENARIO/TABLE.parquet
    study[path.parent.name][path.stem] = pl.read_parquet(path)
frames = build.compare(study)
for name, csv, parquet in zip(snakemake.params.captions, output.csv, output.parquet):
    tables.write_report(frames[name], csv, parquet)
kinds = [kind for kind, _ in output.items() if kind not in ("csv", "parquet")]
for k, (system, name) in enumerate(snakemake.params.figures):
    chart = build.comparison_figure(system, name, study)
    theme.save(chart, {kind: output[kind][k] for kind in kinds}, build.choices(system, name, study))
