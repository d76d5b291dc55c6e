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
suppress_warnings = ["ref.python"]  # annotations name classes, such as Training, that every system has one of

myst_heading_anchors = 3
nb_execution_mode = "off"  # the notebook shows what it was committed with; the tests run it

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
# The sidebar: a caption, and its pages; a star stands for the others of a folder.
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
    """Connect what follows."""
    app.add_lexer("mermaid", TextLexer)  # shown as text: drawing it needs a program that comes from a network
    app.add_lexer("csv", TextLexer)  # which code hosts colour, and Pygments does not know
    app.connect("source-read", _add_contents)
    app.connect("doctree-read", _link_code)
    app.connect("autodoc-process-docstring", _plain, priority=400)  # before napoleon writes markup of its own


def _add_contents(app, page, source):
    """The site's contents follow the front page, which the code hosts show without."""
    if page == root_doc:
        source[0] += "".join(TREE % (caption, "\n".join(pages)) for caption, pages in PAGES.items())


def _link_code(app, doctree):
    """Names of the package in a page's text link to the reference; one that is not there is a mistake."""
    from sphinx import addnodes  # not above: the tests import this file for its doctests, where Sphinx may be missing

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
    """Docstrings are plain text: formulas hold |x| and a * b, which mean something else to reStructuredText."""
    example = False
    for i, line in enumerate(lines):
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        if not example:
            lines[i] = re.sub(r"[*|]", r"\\\g<0>", line)
