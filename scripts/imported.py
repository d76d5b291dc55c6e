from pwfl.runtime import watch

watch.start()

from pwfl import run, tables
from pwfl.runtime import jobs, store

depends = snakemake.params.depends
jobs.start(snakemake.log[0], depends)
paths = dict(snakemake.input.items())
store.check_contents(depends, paths)
tables.write_all(run.imported(depends["system"], paths), snakemake.output, depends)
