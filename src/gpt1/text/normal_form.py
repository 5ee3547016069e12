"""Characters in parts (Unicode's NFD): a Hangul syllable as its letters, é as an e and an accent.

They look like whole ones (NFC), and to a tokenizer of bytes they are other text, three times as long; one of words
joins them as it cleans. Some systems write names of files so, and what was copied from there is.
"""

from __future__ import annotations

import unicodedata

TO_WHOLE = (
    "a 'words' tokenizer joins the parts as it cleans, to a 'bytes' one they are other and longer texts than those "
    "with whole characters: write them in NFC, in Python `unicodedata.normalize('NFC', text)`"
)


def is_in_parts(text: str) -> bool:
    """Whether a text has characters in parts that can be joined."""
    return not unicodedata.is_normalized("NFC", text) and len(unicodedata.normalize("NFC", text)) < len(text)
