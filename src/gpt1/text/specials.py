"""The three tokens that fine-tuning adds (section 3.3 of the paper: start, delimiter, extract).

They have ids but no text: no string a user writes can ever become one of them.
"""

from __future__ import annotations

SPECIALS = ("start", "delimiter", "extract")


def special_ids(vocab_size: int) -> dict[str, int]:
    """Return the ids of the special tokens, which follow the vocabulary."""
    return {name: vocab_size + position for position, name in enumerate(SPECIALS)}
