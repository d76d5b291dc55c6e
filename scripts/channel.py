from pwfl import run, tables
from pwfl.runtime import jobs, shards

depends = snakemake.params.depends
scenario = jobs.start(snakemake.log[0], depends)
frames = run.channel(scenario, range(*shards.bounds(snakemake.wildcards.shard)))
tables.write_all(frames, snakemake.output, depends)
