from pwfl.runtime import watch

watch.start()

from pwfl import run, tables
from pwfl.runtime import jobs

depends = snakemake.params.depends
scenario = jobs.start(snakemake.log[0], depends)
tables.write_all(run.audit(scenario, tables.read_all(snakemake.input, depends)), snakemake.output, depends)
