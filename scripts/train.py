from pwfl.runtime import watch

watch.start()

from pwfl import run, tables
from pwfl.learning import features
from pwfl.runtime import checkpoint, jobs, shards

depends = snakemake.params.depends
scenario = jobs.start(snakemake.log[0], depends)
paths = dict(snakemake.input.items())
data = features.of_file(path, scenario, depends["upstream"]) if (path := paths.pop("data", None)) else None
saved = checkpoint.Checkpoint(snakemake.output.history, depends)
inputs = tables.read_all(paths, depends)
frames = run.train(scenario, data, range(*shards.bounds(snakemake.wildcards.shard)), inputs, saved)
tables.write_all(frames, snakemake.output, depends)
saved.remove()
