from pwfl import logs, scenario

logs.to_file(snakemake.log[0])
scenario.save(snakemake.params.resolved, snakemake.output[0])
