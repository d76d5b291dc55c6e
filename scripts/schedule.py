from pwfl.runtime import watch

watch.start()

from pwfl import run, tables
from pwfl.runtime import jobs

depends = snakemake.params.depends
scenario = jobs.start(snakemake.log[0], depends)
frames = run.schedule(scenario, depends["variant"], tables.read_all(snakemake.input, depends))
tables.write_all(frames, snakemake.output, depends)
