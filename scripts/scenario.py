from pwfl import jobs, scenario, tables

jobs.start(snakemake.log[0])
resolved, output = snakemake.params.resolved, snakemake.output
scenario.save(resolved, output.yaml)
tables.write_report(scenario.parameter_table(resolved), output.csv, output.parquet)
