from pwfl import account, jobs, tables

jobs.start(snakemake.log[0])
parameters = snakemake.params.depends["parameters"]
inputs = tables.read_all(parameters["system"], snakemake.input)
frames = account.run(parameters, inputs)
tables.write_all(frames, parameters["system"], snakemake.output)
