"""How a text too long to hold is cut before it is encoded.

The cut is part of what `encode` means, so ids never depend on who encodes or how the text arrived:
a text over one million characters is cut after its last newline within the first million characters,
else after the last blank there, else right there; what follows is cut again in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

LIMIT = 1_000_000


def pieces(blocks: Iterable[str], limit: int = LIMIT) -> Iterator[str]:
    """Cut the text that `blocks` spell out, one after another, into pieces of at most `limit` characters.

    The pieces joined are the blocks joined, and how the text was spread over blocks changes nothing.
    """
    held = ""
    for block in blocks:
        held += block
        start = 0
        while len(held) - start > limit:
            end = (held.rfind("\n", start, start + limit) + 1) or (held.rfind(" ", start, start + limit) + 1)
            end = end or start + limit
            yield held[start:end]
            start = end
        held = held[start:]
    if held:
        yield held
