from pwfl import jobs

jobs.start(snakemake.log[0])
jobs.limit_tensorflow(snakemake.threads)

from pwfl import datasets, tables, train  # noqa: E402

depends = snakemake.params.depends
parameters = depends["parameters"]
first, stop = map(int, snakemake.wildcards.shard.split("-"))
paths = dict(snakemake.input.items())
data = datasets.restore(path) if (path := paths.pop("data")) else None
checkpoint = train.Checkpoint(snakemake.output.history, depends, paths)
inputs = tables.read_all(parameters["system"], paths)
frames = train.run(parameters, data, range(first, stop), inputs, checkpoint)
tables.write_all(frames, parameters["system"], snakemake.output)
checkpoint.remove()
