from pwfl import jobs

jobs.start(snakemake.log[0])
jobs.limit_tensorflow(snakemake.threads)

from pwfl import audit, tables  # noqa: E402

parameters = snakemake.params.depends["parameters"]
inputs = tables.read_all(parameters["system"], snakemake.input)
tables.write_all(audit.run(parameters, inputs), parameters["system"], snakemake.output)
