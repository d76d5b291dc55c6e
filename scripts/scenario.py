from pwfl.runtime import watch

watch.start()

from pwfl import tables
from pwfl.runtime import jobs
from pwfl.scenario import resolved

jobs.log_to(snakemake.log[0])
scenario, output = snakemake.params.resolved, snakemake.output
resolved.save(scenario, output.yaml)
tables.write_report(resolved.parameter_table(scenario), output.csv, output.parquet)
