from pathlib import Path

from pwfl import jobs, report, tables
from pwfl.report import theme

jobs.start(snakemake.log[0])
parameters = snakemake.params.depends["parameters"]
schemes = [scheme["name"] for scheme in parameters["schemes"]]
inputs = {
    table: tables.read(parameters["system"], table, paths)
    if table in ("users", "links")
    else tables.read_schemes(parameters["system"], table, paths, schemes)
    for table, paths in snakemake.input.items()
}
output = snakemake.output
for html, png, svg in zip(output.html, output.png, output.svg):
    chart = report.figure(parameters, Path(html).stem, inputs)
    theme.save(chart, {"html": html, "png": png, "svg": svg})
