from pathlib import Path

from pwfl import datasets, jobs

jobs.start(snakemake.log[0])
folder = str(Path(snakemake.input[0]).parent) if snakemake.input else None
datasets.store(datasets.load(snakemake.wildcards.dataset, folder), snakemake.output[0])
