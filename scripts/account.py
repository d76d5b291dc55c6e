from pwfl import account, logs, tables

logs.to_file(snakemake.log[0])
parameters = snakemake.params.depends["parameters"]
inputs = tables.read_all(parameters["system"], snakemake.input)
frames = account.run(parameters, inputs)
tables.write_all(frames, parameters["system"], snakemake.output)
