"""How Sphinx makes the site of the pages that `tools/website.py` lays out: `make docs`."""

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util.logging import getLogger
from sphinx.writers.html5 import HTML5Translator

from gpt1 import __version__

project = html_title = "gpt1"
author = copyright = "the authors of gpt1"
version = release = __version__

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
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
html_math_renderer = "mathml"  # which browsers show without a program from elsewhere

_AS_GITHUB = {r"\dots": r"\ldots"}  # commands that GitHub knows, and what docutils calls them


def setup(app: Sphinx) -> None:
    """Let formulas be shown as MathML."""
    app.add_html_math_renderer("mathml", (show_inline, None), (show_block, None))


def show_inline(page: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    page.body.append(in_mathml(node))
    raise nodes.SkipNode


def show_block(page: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on lines of its own."""
    page.body.append(f'<div class="math">{in_mathml(node, as_block=True)}</div>')
    raise nodes.SkipNode


def in_mathml(node: nodes.Element, as_block: bool = False) -> str:
    """Return a formula as browsers read it; what cannot be read is told with its place."""
    formula = node.astext()
    for command, known in _AS_GITHUB.items():
        formula = formula.replace(command, known)
    try:
        return tex2mathml(formula, as_block=as_block)
    except MathError as error:
        getLogger(__name__).warning("a formula cannot be shown: %s", error, location=node)
        return ""
