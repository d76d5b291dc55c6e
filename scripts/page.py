from pwfl.runtime import watch

watch.start()

from pathlib import Path

from pwfl.report import page
from pwfl.runtime import jobs, store
from pwfl.runtime.files import whole

depends, [output] = snakemake.params.depends, snakemake.output
jobs.log_to(snakemake.log[0])
store.check_code(depends)
with whole(output) as partial:
    text = page.of_files(depends["study"], snakemake.params.parts, Path(output).parent)
    Path(partial).write_text(text, encoding="utf-8")
