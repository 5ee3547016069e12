"""Pictures as text: what is markup in them, and what only looks like it because a person wrote it."""

from __future__ import annotations

import re
from collections.abc import Callable

# In a picture's texts and attributes the characters < and > are escaped, so that these are tags and nothing else.
_COMMENT, _TAG = re.compile(r"<!--.*?-->\s*", re.DOTALL), re.compile(r"<[^>]*>")
_ID, _REFERENCE = re.compile(r' id="([^"]*)"'), re.compile(r'(url\(#|href="#)([^)"]+)')


def without_comments(svg: str) -> str:
    """Return a picture without its comments."""
    return _COMMENT.sub("", svg)


def in_tags(svg: str, change: Callable[[str], str]) -> str:
    """Change the tags of a picture; its texts are left alone, whatever they say."""
    return _TAG.sub(lambda found: change(found[0]), svg)


def with_own_ids(svg: str, own: str) -> str:
    """Drop the ids that nothing refers to and give the others names of the picture's own: many share a page."""
    needed = sorted({name for tag in _TAG.findall(svg) for _, name in _REFERENCE.findall(tag)})
    names = {name: f"{own}-{number}" for number, name in enumerate(needed)}

    def renamed(tag: str) -> str:
        tag = _REFERENCE.sub(lambda found: found[1] + names[found[2]], tag)
        return _ID.sub(lambda found: f' id="{names[found[1]]}"' if found[1] in names else "", tag)

    return in_tags(svg, renamed)
