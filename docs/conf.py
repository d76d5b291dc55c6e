"""Sphinx settings of the documentation's site (`make docs-site`); docs/site.py lays out what it is built from."""

from pathlib import Path

from pygments.lexers.special import TextLexer

project = "pwfl"
author = copyright = "the pwfl authors"
extensions = ["myst_nb", "sphinx.ext.apidoc", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
exclude_patterns = ["docs/conf.py"]
html_theme = "furo"
html_title = "pwfl"
nb_execution_mode = "off"  # the notebook shows the outputs that it was committed with; the tests run it
myst_heading_anchors = 3
default_role = "literal"  # docstrings set code in single backticks
autodoc_member_order = "bysource"
napoleon_google_docstring = False
apidoc_modules = [
    {
        "path": Path(__file__).parent.parent / "pkg" / "pwfl",
        "destination": "api",
        "separate_modules": True,
        "module_first": True,
        "automodule_options": {"members"},
    }
]
PAGES = """

```{toctree}
:hidden:
:caption: Use
config/README
docs/without_snakemake
```
"""


def setup(app):
    app.add_lexer("mermaid", TextLexer)
    app.connect("source-read", _add_contents)


def _add_contents(app, page, source):
    if page == root_doc:
        source[0] += PAGES
