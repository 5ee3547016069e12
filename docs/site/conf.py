"""How Sphinx makes the site of the pages that `tools/website.py` lays out: `make docs`."""

from gpt1 import __version__

project = html_title = "gpt1"
author = copyright = "the authors of gpt1"
version = release = __version__

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # as GitHub gives them
nitpicky = True
root_doc = "index"
highlight_language = "text"  # commands, mostly
pygments_style, pygments_dark_style = "friendly", "github-dark"
smartquotes = False  # `--out` has two hyphens

# Nothing is fetched by whoever looks at it: Furo's letters are the system's, and so is all else.
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}
