from pwfl.runtime import watch

watch.start()

from pwfl import tables
from pwfl.report import build
from pwfl.runtime import jobs, store
from pwfl.scenario.sweep import Point

depends = snakemake.params.depends
scenario = jobs.start(snakemake.log[0], depends)
paths = dict(snakemake.input.items())
store.check_addresses(paths.pop("addresses"), depends)
frames = build.summarize(scenario, tables.read_schemes(paths, depends, scenario))
frames = build.placed(frames, Point(*depends["point"]))
for name, csv, parquet in zip(snakemake.params.captions, snakemake.output.csv, snakemake.output.parquet):
    tables.write_report(frames[name], csv, parquet)
