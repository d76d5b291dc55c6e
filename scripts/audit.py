import os

from pwfl import jobs

jobs.start(snakemake.log[0])
# TensorFlow reads its number of threads when it is imported.
os.environ["TF_NUM_INTRAOP_THREADS"] = os.environ["TF_NUM_INTEROP_THREADS"] = str(snakemake.threads)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

from pwfl import audit, tables  # noqa: E402

parameters = snakemake.params.depends["parameters"]
inputs = tables.read_all(parameters["system"], snakemake.input)
tables.write_all(audit.run(parameters, inputs), parameters["system"], snakemake.output)
