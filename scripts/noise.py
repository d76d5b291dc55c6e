from pwfl import jobs, noise, tables

jobs.start(snakemake.log[0])
parameters = snakemake.params.depends["parameters"]
inputs = tables.read_all(parameters["system"], snakemake.input)
frames = noise.run(parameters, snakemake.wildcards.noise, inputs)
tables.write_all(frames, parameters["system"], snakemake.output)
