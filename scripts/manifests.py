from pwfl.workflow import jobs

jobs.log_to(snakemake.log[0])
jobs.write_manifests(snakemake.output[0], **snakemake.params.plan)
