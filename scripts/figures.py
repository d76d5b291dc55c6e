from pwfl.runtime import watch

watch.start()

from pathlib import Path

from pwfl import tables
from pwfl.report import build, theme
from pwfl.runtime import made
from pwfl.workflow import jobs

depends, output = snakemake.params.depends, dict(snakemake.output.items())
scenario = jobs.start(snakemake.log[0], depends)
paths = dict(snakemake.input.items())
audit = tables.read_report(paths.pop("audit"))
inputs = tables.read_schemes(paths, depends, scenario) | {"audit": audit}
record = output.pop("made")
with theme.of_study(depends["system"], depends["schemes"]):
    for k, spec in enumerate(output["json"]):
        chart = theme.named(build.figure(scenario, Path(spec).stem, inputs), depends["scenario"])
        theme.save(chart, {kind: files[k] for kind, files in output.items()})
made.record(record, depends, [file for files in output.values() for file in files])
