"""How Sphinx makes the site of these guides and the pages of man(1): ``make doc``."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import manual  # noqa: E402

import treepool  # noqa: E402

project = "treepool"
author = "treepool developers"
copyright = f"2026 {author}"
version = release = treepool.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
exclude_patterns = ["nodes"]

autodoc_member_order = "bysource"
toc_object_entries = False

#: Blocks without a language are output.
highlight_language = "none"

html_theme = "alabaster"
html_theme_options = {
    "description": "topology-aware scheduling for Flux",
    # The outputs in the guides have 100 columns: otherwise each has a scroll bar.
    "page_width": "1240px",
    "body_max_width": "auto",
    "sidebar_width": "250px",
    "code_font_size": "0.8em",
}
html_sidebars = {"**": ["about.html", "searchfield.html", "navigation.html"]}

manual.write(HERE / "man")
man_pages = [(f"man/{page.name}", page.name, page.summary, author, 1) for page in manual.PAGES]
