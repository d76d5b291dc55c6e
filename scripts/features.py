from pwfl.runtime import watch

watch.start()

from pwfl.learning import datasets, extraction, projection
from pwfl.runtime import jobs

depends = snakemake.params.depends
jobs.start(snakemake.log[0], depends)
made = depends["upstream"]
images = datasets.read(snakemake.input.dataset, depends["parameters"]["dataset"], made["dataset"])
path = snakemake.input.get("projection")
learned = projection.restore(path, made["projection"]) if path else None
found = extraction.extract(images, depends["variant"], depends["parameters"]["variants"], learned)
extraction.store(found, snakemake.output.features, depends, learned)
