import os

from pwfl import logs

logs.to_file(snakemake.log[0])
# TensorFlow reads its number of threads when it is imported.
os.environ["TF_NUM_INTRAOP_THREADS"] = os.environ["TF_NUM_INTEROP_THREADS"] = str(snakemake.threads)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

from pwfl import datasets, tables, train  # noqa: E402

parameters = snakemake.params.depends["parameters"]
first, stop = map(int, snakemake.wildcards.shard.split("-"))
paths = dict(snakemake.input.items())
data = datasets.restore(paths.pop("data"))
frames = train.run(parameters, data, range(first, stop), tables.read_all(parameters["system"], paths))
tables.write_all(frames, parameters["system"], snakemake.output)
