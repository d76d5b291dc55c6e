from pwfl import jobs, schedule, tables

jobs.start(snakemake.log[0])
parameters = snakemake.params.depends["parameters"]
inputs = tables.read_all(parameters["system"], snakemake.input)
frames = schedule.run(parameters, snakemake.wildcards.scheduler, inputs)
tables.write_all(frames, parameters["system"], snakemake.output)
