"""Sphinx configuration: ``make docs`` fails on any warning."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
import drawings
import generate
from sphinx.application import Sphinx

generate.write()

project = "svcserver"
author = "The svcserver engineers"
extensions = ["myst_parser"]
exclude_patterns = ["_build"]
highlight_language = "none"  # most blocks are commands and drawings; others say what they are
html_theme = "furo"
html_title = "svcserver"
html_static_path = ["static"]
html_css_files = ["narrow.css"]
html_js_files = ["pages.js"]
html_theme_options = {"top_of_page_buttons": []}  # their one button shows a page's source
html_show_sourcelink = html_copy_source = False
html_show_copyright = False  # LICENSE says it
myst_heading_anchors = 3
myst_fence_as_directive = ["mermaid"]
linkcheck_timeout = 20  # seconds for each link
linkcheck_ignore = [r"http://127\.0\.0\.1", r"https://play\.example\.org"]


def setup(app: Sphinx) -> None:
    """Register the extensions of this project; Sphinx calls this function."""
    app.add_directive("mermaid", drawings.Drawing)
