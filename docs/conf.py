"""Sphinx's settings for the site that `docs/build_site.py` makes."""

import re
from pathlib import Path

from docutils import nodes
from pygments.lexers.special import TextLexer

import pwfl

project = "pwfl"
author = project_copyright = "the pwfl authors"
extensions = ["myst_nb", "sphinx.ext.apidoc", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
exclude_patterns = ["examples/*/*/*"]  # the captions
html_theme = "furo"
html_title = "pwfl"
suppress_warnings = ["ref.python"]  # annotations name classes, such as Training, that several systems define

myst_heading_anchors = 3
nb_execution_mode = "off"  # the notebook shows its committed outputs; the tests run it

default_role = "literal"  # docstrings set code in single backticks
napoleon_google_docstring = False
napoleon_use_ivar = True
autodoc_member_order = "bysource"
apidoc_modules = [
    {
        "path": Path(__file__).parent.parent / "pkg" / "pwfl",
        "destination": "api",
        "module_first": True,
        "implicit_namespaces": True,
        "automodule_options": {"members"},
    }
]
# The sidebar: each caption with its pages; a star matches the other pages of a folder.
PAGES = {
    "Tutorials": ["docs/tutorials/*", "examples/*/README"],
    "How to": ["docs/how-to/*"],
    "Reference": ["config/README", "config/*", "docs/reference/*", "Python reference <api/modules>"],
    "Explanation": ["docs/explanation/*"],
    "Results": ["docs/papers/README"],
    "Project": ["CONTRIBUTING", "docs/project/*", "docs/upgrading", "CHANGELOG", "CODE_OF_CONDUCT", "SECURITY"],
}
TREE = """
```{toctree}
:hidden:
:glob:
:caption: %s
%s
```
"""


def setup(app):
    """Register lexers and the functions below with Sphinx."""
    app.add_lexer("mermaid", TextLexer)  # shown as text: drawing it requires a program from a network
    app.add_lexer("csv", TextLexer)  # code hosts colour it, but Pygments has no lexer for it
    app.connect("source-read", _add_contents)
    app.connect("doctree-read", _link_code)
    app.connect("autodoc-process-docstring", _plain, priority=400)  # before napoleon adds its own markup


def _add_contents(app, page, source):
    """Append the site's contents to the front page; code hosts show the page without them."""
    if page == root_doc:
        source[0] += "".join(TREE % (caption, "\n".join(pages)) for caption, pages in PAGES.items())


def _link_code(app, doctree):
    """Link names of the package in a page's text to the reference; Sphinx warns of a name that is missing there."""
    from sphinx import addnodes  # not at the top: tests import this file for doctests, perhaps without Sphinx

    if app.env.current_document.docname.startswith("api/"):
        return
    for literal in list(doctree.findall(nodes.literal)):
        name = literal.astext()
        if re.fullmatch(r"pwfl(\.\w+)+", name) and name != "pwfl.__version__":
            if (short := name.partition(".")[2]) in pwfl.__all__:
                name = f"{getattr(pwfl, short).__module__}.{short}"
            to = {"refdomain": "py", "reftype": "obj", "reftarget": name, "refwarn": True}
            literal.replace_self(addnodes.pending_xref("", literal.deepcopy(), **to))


def _plain(app, what, name, obj, options, lines):
    """Escape * and | outside doctests: docstrings are plain text, with |x| and a * b, not reStructuredText."""
    example = False
    for i, line in enumerate(lines):
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        if not example:
            lines[i] = re.sub(r"[*|]", r"\\\g<0>", line)
