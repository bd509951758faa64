"""The site: pages of docs/ and a reference made of docstrings; `make docs`."""

import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tools")]

import contract
import evidence
import torch_stand_in

torch_stand_in.install()
contract.write()

project = "mxdot"
release = metadata.version("mxdot")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_generated"]
html_theme = "furo"
html_title = f"mxdot {release}"
html_static_path = ["static"]
html_show_copyright = False
html_css_files = ["site.css"]
highlight_language = "none"  # a block without a language is output, a diagram or a formula
smartquotes = False  # `--option` in a table is no dash
myst_heading_anchors = 3
default_role = "code"  # docstrings write names as `name`
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "imported-members": True}


def _files_outside(app: Any, page: str, source: list[str]) -> None:
    """Texts of the repository that a page points to are no pages: they are handed out as files."""
    source[0] = re.sub(r"\]\((\.\./[^)#]+\.md)\)", r"](path:\1)", source[0])


def _evidence(app: Any, page: str, source: list[str]) -> None:
    """Results whose sources have changed are marked by today's sources."""
    if page == "evidence":
        source[0] = evidence.render(source[0], evidence.load())


def setup(app: Any) -> None:
    """What this site adds to Sphinx."""
    app.connect("source-read", _files_outside)
    app.connect("source-read", _evidence)
