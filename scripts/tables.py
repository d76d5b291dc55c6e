from pwfl.runtime import watch

watch.start()

from pwfl import tables
from pwfl.report import build, columns
from pwfl.runtime import made, store
from pwfl.scenario.sweep import Point
from pwfl.workflow import jobs

depends, output = snakemake.params.depends, snakemake.output
scenario = jobs.start(snakemake.log[0], depends)
frames = build.summarize(scenario, tables.read_schemes(dict(snakemake.input.items()), depends, scenario))
frames = columns.placed(frames, Point(*depends["point"]))
for name, csv, parquet in zip(snakemake.params.tables, output.csv, output.parquet):
    tables.write_report(frames[name], csv, parquet)
store.write_addresses(depends["addresses"], output.addresses)
made.record(output.made, depends, [*output.csv, *output.parquet, output.addresses])
