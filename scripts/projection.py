from pwfl.runtime import watch

watch.start()

from pwfl.learning import projection
from pwfl.runtime import jobs

depends = snakemake.params.depends
jobs.start(snakemake.log[0], depends)
learned = projection.learn(depends["variant"], depends["parameters"]["side"])
projection.store(learned, snakemake.output.projection, depends)
