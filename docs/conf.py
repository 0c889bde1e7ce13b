"""Sphinx: ``make docs`` builds these pages without a warning."""

project = "svcserver"
author = "The svcserver engineers"
extensions = ["myst_parser"]
exclude_patterns = ["_build"]
html_theme = "alabaster"
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_missing"]
