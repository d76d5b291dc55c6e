from pwfl.runtime import watch

watch.start()

from pathlib import Path

from pwfl.learning import sources
from pwfl.runtime import jobs

depends = snakemake.params.depends
jobs.start(snakemake.log[0], depends)
folder = str(Path(snakemake.input[0]).parent) if snakemake.input else None
sources.store(sources.load(depends["variant"], folder), snakemake.output.data, depends)
