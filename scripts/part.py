from pwfl.workflow import jobs

jobs.run_part(snakemake.output[0], snakemake.log[0])
