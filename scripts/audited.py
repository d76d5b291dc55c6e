from pwfl.runtime import watch

watch.start()

from pwfl import tables
from pwfl.report import build
from pwfl.runtime import made
from pwfl.scenario.sweep import Point
from pwfl.workflow import jobs

depends, output = snakemake.params.depends, snakemake.output
scenario = jobs.start(snakemake.log[0], depends)
inputs = tables.read_schemes(dict(snakemake.input.items()), depends, scenario)
frame = build.placed(inputs, Point(*depends["point"]))["audit"]
tables.write_report(frame, output.csv, output.parquet)
made.record(output.made, depends, [output.csv, output.parquet])
