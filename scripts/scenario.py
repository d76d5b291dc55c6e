from pwfl import logs, scenario, tables

logs.to_file(snakemake.log[0])
resolved, output = snakemake.params.resolved, snakemake.output
scenario.save(resolved, output.yaml)
tables.write_report(scenario.parameter_table(resolved), output.csv, output.parquet)
