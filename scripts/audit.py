from pwfl.runtime import watch

watch.start()

from pwfl import tables
from pwfl.report import columns
from pwfl.runtime import made
from pwfl.scenario.sweep import Point
from pwfl.workflow import execution, jobs

depends, output = snakemake.params.depends, snakemake.output
scenario = jobs.start(snakemake.log[0], depends)
found = tables.read_schemes(dict(snakemake.input.items()), depends, scenario)
frames = columns.placed({"audit": execution.audit(scenario, found)}, Point(*depends["point"]))
tables.write_report(frames["audit"], output.csv, output.parquet)
made.record(output.made, depends, [output.csv, output.parquet])
