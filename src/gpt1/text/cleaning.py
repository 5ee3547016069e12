"""The first step of the paper's tokenizer: `ftfy.fix_text`, exactly, at the speed of a byte scan.

ftfy works line by line and leaves nearly every line of ordinary text alone, or only straightens
its quotes. Those lines are recognised from their bytes. Of the others, only the words with unusual characters are
looked at, unless the line holds HTML escapes or mojibake: those ftfy sees whole, with the one thing it remembers
between lines, that after a `<` it no longer unescapes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

from gpt1.base.errors import InputError

# What ftfy, and the five replacements that follow it in the paper's rules, make of the characters
# that fill typeset English. Lines of these and of plain ASCII are never taken for mojibake by ftfy.
TAME = {"‘": "'", "’": "'", "“": '"', "”": '"', "—": "-", "–": "-", "…": "..."}
DASHES = {"—": "-", "–": "-", "―": "-", "…": "...", "´": "'"}

_TAME_BYTES = [(character.encode(), plain.encode()) for character, plain in TAME.items()]
# Any other byte, `&` and the control characters among them, may make ftfy act.
_QUIET = bytes(code for code in range(0x20, 0x7F) if code != ord("&")) + b"\t\n"
_LOUD = re.compile(b"[^" + re.escape(_QUIET) + b"]")

_QUOTES = "‘’“”"  # the tame characters that ftfy itself replaces
_WILD = re.compile("[^" + re.escape(_QUIET.decode() + "".join(TAME)) + "]")
_MOJIBAKE_REACH = 7  # characters of the longest pattern by which ftfy knows mojibake
_STEPS = (
    "fix_c1_controls",
    "fix_latin_ligatures",
    "fix_character_width",
    "uncurl_quotes",
    "fix_line_breaks",
    "fix_surrogates",
    "remove_terminal_escapes",
    "remove_control_chars",
)

_MOST_PASSES = 50
_ESCAPE = re.compile("&#?[0-9A-Za-z]{1,24};")  # as ftfy finds them
_ESCAPE_HERE = re.compile(_ESCAPE.pattern + r"\Z")
_LONGEST_ESCAPE = 27
_IN_ESCAPE = re.compile("[&#;0-9A-Za-z]?")


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


def repaired(text: str) -> str:
    """Return `ftfy.fix_text(text)`, by ftfy itself: the first half of `clean`."""
    return str(_ftfy()[0].fix_text(text))


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
        unescape = not 0 <= angle < end
        if unescape and "&" in line and line.count(";") > _MOST_PASSES:
            line = _unnest(line)
        yield plain[done:start]
        fixed = _fix_line(line, unescape)
        for character, replacement in DASHES.items():  # much faster than one `translate`
            fixed = fixed.replace(character, replacement)
        yield fixed.encode()
        done, number = end + 1, number + 1
    yield plain[done:]


def _fix_line(line: str, unescape: bool) -> str:
    fixed = _fix_words(line, unescape)
    if fixed is not None:
        return fixed
    ftfy, config = _ftfy()
    return str(ftfy.fix_and_explain(line, config._replace(unescape_html=unescape)).text)


def _fix_words(line: str, unescape: bool) -> str | None:
    """Return what ftfy makes of a line by looking at its wild words only, or nothing if that would not be exact.

    Of ftfy's steps only two look further than a word: unescaping, which has nothing to do where there is no escape,
    and mojibake, a matter of a few neighbouring characters of which at least one is wild. Tame quotes are
    straightened anywhere.
    """
    if unescape and _ESCAPE.search(line):
        return None
    parts: list[str] = []
    done = 0
    while wild := _WILD.search(line, done):
        start = line.rfind(" ", done, wild.start()) + 1 or done
        end = line.find(" ", wild.end())
        end = len(line) if end < 0 else end
        if _is_bad(line[max(0, start - _MOJIBAKE_REACH) : end + _MOJIBAKE_REACH]):
            return None
        parts += [line[done:start], _one_pass(line[start:end])]
        done = end
    fixed = "".join([*parts, line[done:]])
    for quote in _QUOTES:
        fixed = fixed.replace(quote, TAME[quote])
    # ftfy begins again until nothing changes.
    return fixed if fixed == line else _fix_words(fixed, unescape)


def _is_bad(text: str) -> bool:
    return bool(_ftfy()[0].badness.is_bad(text))


def _one_pass(text: str) -> str:
    """Take the steps of ftfy that change single characters."""
    fixes = _ftfy()[0].fixes
    for step in _STEPS:
        text = getattr(fixes, step)(text)
    return unicodedata.normalize("NFC", text)


@cache
def _ftfy() -> tuple[Any, Any]:
    import ftfy  # here, because decoding must work without it

    return ftfy, ftfy.TextFixerConfig(explain=False)


def _unnest(line: str) -> str:
    """Unescape in one go what was escaped over and over, `&amp;amp;amp;lt;`, if there is very much of it.

    ftfy takes one level off in each pass over the whole line. Escapes do not overlap, so they may as well be taken
    off where they stand. Only those that can be part of another escape are: the rest is one pass for ftfy.
    """
    fixes = _ftfy()[0].fixes
    bare = fixes.remove_control_chars(fixes.remove_terminal_escapes(line))
    outermost = sum(_part_of_escape(escape) is not None for escape in _ESCAPE.findall(bare))
    if not outermost:
        return line
    nested = -outermost
    done: list[str] = []
    todo = list(bare)[::-1]
    while todo:
        done.append(todo.pop())
        if done[-1] == ";" and (match := _ESCAPE_HERE.search("".join(done[-_LONGEST_ESCAPE:]))):
            part = _part_of_escape(match.group())
            if part is not None:
                del done[-len(match.group()) :]
                todo += part
                nested += 1
    return "".join(done) if nested > _MOST_PASSES else line


@lru_cache(10_000)
def _part_of_escape(escape: str) -> str | None:
    """Return the character of an HTML escape if it can be part of another escape; nothing if ftfy drops it."""
    fixes = _ftfy()[0].fixes
    character = str(fixes.remove_control_chars(fixes.unescape_html(escape)))
    return character if _IN_ESCAPE.fullmatch(character) else None


def to_utf8(text: str) -> bytes:
    """Return `text` as UTF-8, or say where half a surrogate pair stands in it."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"character {error.start} is a lone surrogate (U+{ord(text[error.start]):04X}), half of a broken "
            "UTF-16 pair and no character: remove it, or read the text anew with the right encoding"
        ) from None
