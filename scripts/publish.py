from pwfl.workflow import jobs, publish

jobs.log_to(snakemake.log[0])
publish.publish_planned(snakemake.output.mark)
