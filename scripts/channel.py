from pwfl.runtime import watch

watch.start()

from pwfl import run, tables
from pwfl.runtime import jobs, shards

depends = snakemake.params.depends
scenario = jobs.start(snakemake.log[0], depends)
outside = tables.read_all(snakemake.input, depends)
frames = run.channel(scenario, range(*shards.bounds(snakemake.wildcards.shard)), outside)
tables.write_all(frames, snakemake.output, depends)
