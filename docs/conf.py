"""The site: pages of docs/ and a reference made of docstrings; `make docs`."""

import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))

import torch_stand_in

torch_stand_in.install()

project = "mxdot"
release = metadata.version("mxdot")
extensions = ["myst_nb", "sphinx.ext.autodoc"]
nb_execution_mode = "force"  # notebooks show what this version computes, or the site is not built
nb_execution_raise_on_error = True
nb_execution_timeout = 300  # seconds for a cell
nb_render_markdown_format = "myst"  # with tables
html_theme = "furo"
html_title = "mxdot"
myst_heading_anchors = 3
default_role = "code"  # docstrings write names as `name`
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "imported-members": True}


def _files_outside(app: Any, page: str, source: list[str]) -> None:
    """Texts of the repository that a page points to are no pages: they are handed out as files."""
    source[0] = re.sub(r"\]\((\.\./[^)#]+\.md)\)", r"](path:\1)", source[0])


def setup(app: Any) -> None:
    """What this site adds to Sphinx."""
    app.connect("source-read", _files_outside)
