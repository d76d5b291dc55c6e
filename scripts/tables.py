from pathlib import Path

from pwfl import jobs, report, tables

jobs.start(snakemake.log[0])
parameters = snakemake.params.depends["parameters"]
schemes = [scheme["name"] for scheme in parameters["schemes"]]
inputs = {
    table: tables.read_schemes(parameters["system"], table, paths, schemes) for table, paths in snakemake.input.items()
}
frames = report.summarize(parameters, inputs)
for csv, parquet in zip(snakemake.output.csv, snakemake.output.parquet):
    tables.write_report(frames[Path(csv).stem], csv, parquet)
