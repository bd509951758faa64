"""The site: pages of docs/ and a reference made of docstrings; `make docs`."""

from importlib import metadata

project = "mxdot"
release = metadata.version("mxdot")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["examples"]
html_theme = "furo"
html_title = "mxdot"
myst_heading_anchors = 3
default_role = "code"  # docstrings write names as `name`
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "imported-members": True}
# Files of the repository that pages point to are not pages.
suppress_warnings = ["myst.xref_missing"]
