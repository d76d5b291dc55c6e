from pwfl.runtime import watch

watch.start()

from pathlib import Path

from pwfl.report import page
from pwfl.runtime import made
from pwfl.runtime.files import whole
from pwfl.workflow import jobs

depends, output = snakemake.params.depends, snakemake.output
jobs.start(snakemake.log[0], depends)
with whole(output.html) as partial:
    folder = Path(output.html).parent
    text = page.of_files(depends["study"], depends["parts"], folder, depends["computed"])
    Path(partial).write_text(text, encoding="utf-8")
made.record(output.made, depends, [output.html])
