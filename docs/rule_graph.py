"""Redraw the rule graph in a Markdown file: `snakemake --rulegraph dot | python docs/rule_graph.py FILE`."""

import re
import sys
from pathlib import Path

BLOCK = re.compile(r"(```mermaid\n).*?(```)", re.DOTALL)


def mermaid(dot: str) -> str:
    """Convert Snakemake's rule graph to Mermaid, which code hosts draw; equal graphs give equal texts.

    The target `all` is omitted, and so are arrows that follow from others.

    Examples
    --------
    >>> print(mermaid('0[label = "all"] 1[label = "a"] 2[label = "b"] 3[label = "c"] 3 -> 2 2 -> 1 3 -> 1 1 -> 0'))
    flowchart LR
        b --> a
        c --> b
    <BLANKLINE>
    """
    names = {number: name for number, name in re.findall(r'(\d+)\[label = "(\w+)"', dot) if name != "all"}
    after = {name: set() for name in names.values()}
    for start, end in re.findall(r"(\d+) -> (\d+)", dot):
        if start in names and end in names:
            after[names[start]].add(names[end])

    def reached(name):
        return set().union(*({follower} | reached(follower) for follower in after[name]))

    arrows = {
        (name, follower)
        for name, followers in after.items()
        for follower in followers - set().union(*map(reached, followers))
    }
    unlinked = set(after) - {name for arrow in arrows for name in arrow}
    rows = sorted(arrows | {(name,) for name in unlinked})
    return "\n".join(["flowchart LR", *(f"    {' --> '.join(row)}" for row in rows), ""])


if __name__ == "__main__":
    path, graph = Path(sys.argv[1]), mermaid(sys.stdin.read())
    if "-->" not in graph:
        sys.exit("no graph of rules came from Snakemake")
    text, count = BLOCK.subn(rf"\g<1>{graph}\g<2>", path.read_text(encoding="utf-8"))
    if count != 1:
        sys.exit(f"{path}: has {count} blocks of mermaid, not one")
    path.write_text(text, encoding="utf-8")
