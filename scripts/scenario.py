from pwfl.runtime import watch

watch.start()

from pwfl import tables
from pwfl.runtime import made
from pwfl.scenario import resolved
from pwfl.workflow import jobs

depends, output = snakemake.params.depends, snakemake.output
jobs.start(snakemake.log[0], depends)
resolved.save(depends["resolved"], output.yaml)
tables.write_report(resolved.parameter_table(depends["resolved"]), output.csv, output.parquet)
made.record(output.made, depends, [output.yaml, output.csv, output.parquet])
