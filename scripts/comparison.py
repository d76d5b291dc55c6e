from pathlib import Path

import polars as pl

from pwfl import jobs, report, tables
from pwfl.report import theme

jobs.start(snakemake.log[0])
scenarios = {name: {"parameters": parameters} for name, parameters in snakemake.params.depends["parameters"].items()}
for path in map(Path, snakemake.input):  # .../SCENARIO/report/TABLE.parquet
    scenarios[path.parts[-3]][path.stem] = pl.read_parquet(path)
frames = report.compare(scenarios)
output = snakemake.output
for csv, parquet in zip(output.csv, output.parquet):
    tables.write_report(frames[Path(csv).stem], csv, parquet)
for (system, name), html, png, svg in zip(snakemake.params.figures, output.html, output.png, output.svg):
    theme.save(report.comparison_figure(system, name, scenarios), {"html": html, "png": png, "svg": svg})
