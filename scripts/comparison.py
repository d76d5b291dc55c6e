from pwfl.runtime import watch

watch.start()

from pathlib import Path

from pwfl import tables
from pwfl.report import build, latex, theme
from pwfl.runtime import made
from pwfl.runtime.files import whole
from pwfl.scenario.sweep import Point
from pwfl.workflow import jobs

depends, output = snakemake.params.depends, dict(snakemake.output.items())
scenarios = jobs.start_all(snakemake.log[0], depends)
own = {"measured": depends["measured"]}
study = {name: {"scenario": scenarios[name], "point": Point(*depends["points"][name])} | own for name in scenarios}
for path in map(Path, snakemake.input.tables):  # .../SCENARIO/TABLE.parquet
    study[path.parent.name][path.stem] = tables.read_report(path)
frames = build.compare(study)
record, csvs, parquets, paper = (output.pop(key) for key in ("made", "csv", "parquet", "paper"))
for name, csv, parquet in zip(snakemake.params.tables, csvs, parquets):
    tables.write_report(frames[name], csv, parquet)
if paper:
    texts = (latex.outcomes(frames["outcomes"]), latex.claims(frames["claims"]), depends["references"])
    for text, path in zip(texts, paper):
        with whole(path) as partial:
            Path(partial).write_text(text, encoding="utf-8")
for k, (system, name) in enumerate(depends["figures"]):
    chart = build.comparison_figure(system, name, study)
    theme.save(chart, {kind: files[k] for kind, files in output.items()}, build.choices(system, name, study))
made.record(record, depends, [*csvs, *parquets, *paper, *(file for files in output.values() for file in files)])
