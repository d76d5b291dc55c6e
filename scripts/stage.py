from pwfl.runtime import watch

watch.start()

from pwfl import tables
from pwfl.learning import stored
from pwfl.runtime import checkpoint, devices, shards, store
from pwfl.stages import MAKER
from pwfl.work.stage import Task
from pwfl.workflow import jobs
from pwfl.workflow.execution import execute

depends, shard = snakemake.params.depends, snakemake.wildcards.get("shard")
inputs, outputs = dict(snakemake.input.items()), dict(snakemake.output.items())
device = snakemake.resources.get("device", devices.CPU)
values = jobs.start(snakemake.log[0], depends, device)
store.check_contents(depends, inputs)
found = {}
for name, paths in inputs.items():
    if (maker := MAKER.get(name)) not in depends["upstream"]:
        found[name] = paths  # from outside
    elif name in stored.FIELDS:
        found[name] = stored.read(name, paths, depends["upstream"][maker])
    else:
        found[name] = tables.read(name, paths, depends)
first = next(iter(outputs.values()))
saved = checkpoint.Checkpoint(first, depends)
realizations = range(*shards.bounds(shard)) if shard else None
made = execute(Task(depends["stage"], values, depends["variant"], realizations, saved, device), found)
for name, path in outputs.items():
    write = stored.write if name in stored.FIELDS else tables.write
    write(made[name], name, path, depends)
store.explain(depends, first)
saved.remove()
