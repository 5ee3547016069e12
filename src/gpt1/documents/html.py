"""A document as one HTML page: it needs no network, no script, no other file; the same in, the same out."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module, resources
from itertools import count

from gpt1 import __version__
from gpt1.base.errors import MissingDependency
from gpt1.documents.blocks import Plot, Section

TEMPLATE = "page.html.j2"
MARK = '<meta name="generator" content="gpt1 report'  # by which a page of ours is known


def require_libraries() -> None:
    """Refuse where what draws a page is not installed."""
    missing = []
    for name in ("matplotlib", "jinja2"):
        try:
            import_module(name)
        except ImportError:
            missing.append(name)
    if missing:
        raise MissingDependency(f"a report needs {' and '.join(missing)}: pip install 'gpt1[report]'")


def render(sections: Sequence[Section], title: str) -> str:
    """Return a page; whatever it shows is text, never markup, but for the pictures."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    from gpt1.documents.plots import draw, with_own_ids

    numbers = count(1)

    def picture(plot: Plot | str) -> Markup:
        return Markup(with_own_ids(plot if isinstance(plot, str) else draw(plot), f"picture-{next(numbers)}"))

    source = resources.files(__package__).joinpath(TEMPLATE).read_text("utf-8")
    house = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    house.filters.update(picture=picture, kind=lambda block: type(block).__name__.lower())
    return house.from_string(source).render(sections=sections, title=title, version=__version__).strip() + "\n"
