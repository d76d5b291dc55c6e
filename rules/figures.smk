# Figures as the report shows them, which only Snakemake can say.
def shown(file, figure, category):
    """A figure's SVG, pair of system and name, as the report shows it."""
    caption = str(reports.caption(*figure, PROJECT / "report"))
    return report(file, caption=caption, category=category, labels={"figure": figure[1]})


def drawn(path, figures, category):
    """Output files of figures, pairs of system and name, in all formats; `path` is a pattern without suffix."""
    files = {
        kind: [f"{path.format(system=s, figure=f)}.{kind}" for s, f in figures]
        for kind in reports.formats(study)
    }
    return files | {"svg": [shown(*each, category) for each in zip(files["svg"], figures)]}
