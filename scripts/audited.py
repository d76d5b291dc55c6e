from pwfl.runtime import watch

watch.start()

from pwfl import tables
from pwfl.report import build
from pwfl.runtime import jobs, store
from pwfl.scenario.sweep import Point

depends, output = snakemake.params.depends, snakemake.output
scenario = jobs.start(snakemake.log[0], depends)
paths = dict(snakemake.input.items())
store.check_addresses(paths.pop("addresses"), depends)
frames = build.placed(tables.read_schemes(paths, depends, scenario), Point(*depends["point"]))
tables.write_report(frames["audit"], output.csv, output.parquet)
