from pwfl import channel, jobs, tables

jobs.start(snakemake.log[0])
parameters = snakemake.params.depends["parameters"]
first, stop = map(int, snakemake.wildcards.shard.split("-"))
frames = channel.run(parameters, range(first, stop))
tables.write_all(frames, parameters["system"], snakemake.output)
