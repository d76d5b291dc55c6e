from pwfl.workflow import jobs

jobs.log_to(snakemake.log[0])
jobs.check_complete(snakemake.input)
