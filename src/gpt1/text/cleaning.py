"""The first step of the paper's tokenizer: `ftfy.fix_text`, exactly, at the speed of a byte scan.

ftfy works line by line and leaves nearly every line of ordinary text alone, or only straightens
its quotes. Those lines are recognised from their bytes; ftfy itself sees the others, one by one,
with the one thing it remembers between lines: after a `<` it no longer unescapes HTML entities.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from gpt1.base.errors import InputError

# What ftfy, and the five replacements that follow it in the paper's rules, make of the characters
# that fill typeset English. Lines of these and of plain ASCII are never taken for mojibake by ftfy.
TAME = {"‘": "'", "’": "'", "“": '"', "”": '"', "—": "-", "–": "-", "…": "..."}
DASHES = str.maketrans({"—": "-", "–": "-", "―": "-", "…": "...", "´": "'"})

_TAME_BYTES = [(character.encode(), plain.encode()) for character, plain in TAME.items()]
# Any other byte, `&` and the control characters among them, may make ftfy act.
_QUIET = bytes(code for code in range(0x20, 0x7F) if code != ord("&")) + b"\t\n"
_LOUD = re.compile(b"[^" + re.escape(_QUIET) + b"]")


def clean(text: str) -> bytes:
    """Return `ftfy.fix_text(text)`, dashes and dots made plain, as UTF-8 (for one piece of text)."""
    raw = to_utf8(text)
    plain = raw
    if not raw.isascii():
        for character, replacement in _TAME_BYTES:
            plain = plain.replace(character, replacement)
    if plain.isascii() and not plain.translate(None, _QUIET):
        return plain
    return b"".join(_clean_lines(raw, plain))


def _clean_lines(raw: bytes, plain: bytes) -> Iterator[bytes]:
    """Spell out `plain` with its loud lines replaced by what ftfy makes of their `raw` form."""
    raw_lines = raw.split(b"\n")
    angle = plain.find(b"<")
    done = number = 0
    while loud := _LOUD.search(plain, done):
        start = plain.rfind(b"\n", done, loud.start()) + 1 or done
        end = plain.find(b"\n", loud.start())
        number += plain.count(b"\n", done, start)
        line = raw_lines[number].decode()
        if end >= 0:
            line += "\n"  # ftfy sees a line with its end
        else:
            end = len(plain)
        unescape = False if 0 <= angle < end else "auto"
        yield plain[done:start]
        yield _fix_line(line, unescape).translate(DASHES).encode()
        done, number = end + 1, number + 1
    yield plain[done:]


def _fix_line(line: str, unescape: str | bool) -> str:
    fix_and_explain, config = _ftfy()
    return str(fix_and_explain(line, config._replace(unescape_html=unescape)).text)


@cache
def _ftfy() -> tuple[Any, Any]:
    import ftfy  # here, because decoding must work without it

    return ftfy.fix_and_explain, ftfy.TextFixerConfig(explain=False)


def to_utf8(text: str) -> bytes:
    """Return `text` as UTF-8, or say where half a surrogate pair stands in it."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"character {error.start} is a lone surrogate (U+{ord(text[error.start]):04X}), half of a broken "
            "UTF-16 pair and no character: remove it, or read the text anew with the right encoding"
        ) from None
