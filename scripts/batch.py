from pwfl.workflow import jobs

jobs.run_batch(
    snakemake.input.manifests,
    snakemake.wildcards.batch,
    snakemake.output.done,
    snakemake.log[0],
)
