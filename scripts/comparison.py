from pathlib import Path

import polars as pl

from pwfl import jobs, report, tables

jobs.start(snakemake.log[0])
scenarios = {
    name: {
        "parameters": parameters,
        "realizations": pl.read_parquet(realizations),
        "summary": pl.read_parquet(summary),
    }
    for (name, parameters), realizations, summary in zip(
        snakemake.params.depends["parameters"].items(), snakemake.input.realizations, snakemake.input.summary
    )
}
frames = report.compare(scenarios)
for csv, parquet in zip(snakemake.output.csv, snakemake.output.parquet):
    tables.write_report(frames[Path(csv).stem], csv, parquet)
