"""Undoing hard wrapping: what is joined, what is left alone, and what counts as wrapped at all."""

from __future__ import annotations

import lzma
import re
import textwrap
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt1.corpus.unwrap import STRETCH, looks_wrapped, unwrap

PROSE = (
    "The house stood a little way back from the road, behind a row of limes that had been planted in the year "
    "of the old king's death, and nobody who passed it in the evening could have said whether it was lived in "
    "or not. There was a lamp, sometimes, in the upper window; there was smoke, sometimes, from the chimney; "
    "and once, in a dry summer, a child had been seen to lean over the gate and look up and down the lane."
)
DIALOGUE = '"You are late," said the old man, without turning round from the fire, which had burnt very low.'
POEM = """\
The curfew tolls the knell of parting day,
The lowing herd wind slowly o'er the lea,
The plowman homeward plods his weary way,
And leaves the world to darkness and to me.

Now fades the glimm'ring landscape on the sight,
And all the air a solemn stillness holds,
Save where the beetle wheels his droning flight,
And drowsy tinklings lull the distant folds;
"""
LONG_LINED_POEM = """\
In a quiet water'd land, a land of roses, stands the city that I knew in days of old,
And the warriors of the city in their hundreds lie asleep there with the carven spear and gold.
There they laid to rest the seven kings of ancient story, swords beside them in the clay,
And the ogham on the stone above them carries all the tale of that forgotten day.
"""
CHAT = "".join(f"<{who}> {what}\n" for who, what in [("ann", "hi there"), ("bob", "lol no"), ("ann", "see u")] * 30)
LOWER_CHAT = "ok so what now\nno idea\nwe could just go home and forget about all of this\nlol\nyes please\n" * 20
LISTED = "".join(
    f"- item {n} of the list, with a description that is about as long as the others are\n" for n in range(30)
)
CONTENTS = "".join(
    f"CHAPTER {n}. Of What Befell Them on the {n}th Day of the Voyage ....... {9 * n}\n" for n in range(30)
)
TABLE = "".join(f"novel number {n} of the series          post 8vo    with plates    {n}.50\n" for n in range(30))
ONE_A_LINE = "\n".join([PROSE, DIALOGUE, PROSE[:200], DIALOGUE[:40]] * 10)
BLANK_BETWEEN = ONE_A_LINE.replace("\n", "\n\n")


def wrapped(text: str, width: int = 70) -> str:
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=True)


def unwrapped(text: str) -> str:
    return "".join(unwrap([text]))


@pytest.mark.parametrize("width", [60, 65, 72, 80, 100])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_wrapped_paragraphs_come_back_as_they_were(width: int, end: str) -> None:
    paragraphs = [PROSE, DIALOGUE, PROSE[:150] + ".", "No.", PROSE]
    text = "\n\n".join(wrapped(paragraph, width) for paragraph in paragraphs).replace("\n", end)
    assert looks_wrapped(text)
    assert unwrapped(text) == (end * 2).join(paragraphs)


def test_blank_lines_headings_verse_and_addresses_stay_as_they_are() -> None:
    prose = wrapped(PROSE)
    apart = [
        "THE HOUSE BEHIND THE LIMES\nA TALE\n\nby Nobody\n\n\n\nCHAPTER I\nIn Which a Child Looks over a Gate",
        POEM.strip(),
        "    Indented verse of some length, nearly as long as a line\n    of the prose around it, stays two lines",
        "Yours, dear Sir,\nwith all respect,\nS. BILLINGTON & SON",
    ]
    text = "\n\n\n".join(f"{piece}\n\n{prose}" for piece in apart)
    assert unwrapped(text) == "\n\n\n".join(f"{piece}\n\n{PROSE}" for piece in apart)


def test_list_items_and_table_rows_inside_a_wrapped_text_stay_lines() -> None:
    items = "1. Of the house that stood a little way back from the road, and so on\n2. Of the lamp in the window above"
    table = (
        "The Moccasin Ranch, illustrated by hand        Post 8vo   1.00\nThe Long Trail, a story        Post 8vo   1.25"
    )
    text = f"{wrapped(PROSE)}\n\n{items}\n\n{table}\n\n{wrapped(PROSE)}"
    assert unwrapped(text) == f"{PROSE}\n\n{items}\n\n{table}\n\n{PROSE}"


def test_a_new_paragraph_that_is_only_indented_stays_a_paragraph() -> None:
    paragraph = textwrap.fill(PROSE, 70, initial_indent="   ")
    assert unwrapped(f"{paragraph}\n{paragraph}\n{paragraph}") == "\n".join([f"   {PROSE}"] * 3)


def test_a_hyphen_or_dash_at_a_line_end_joins_without_a_blank() -> None:
    lines = [
        "He had been, as she very well knew and had often remarked upon, a well-",
        "known man in that part of the country, and a proud one in his own way--",
        "though nobody had ever been able to say what it was he was so proud of",
        "in all the years that he had lived behind the limes beside the old road.",
    ]
    assert unwrapped("\n".join(lines)) == f"{lines[0]}{lines[1]}{lines[2]} {lines[3]}"


def test_in_a_double_spaced_text_one_blank_line_is_the_line_break() -> None:
    text = "\n\n\n\n".join(wrapped(PROSE, 66).replace("\n", "\n\n") for _ in range(3))
    assert looks_wrapped(text)
    assert unwrapped(text) == "\n\n\n\n".join([PROSE] * 3)


def test_a_change_of_width_between_stretches_is_followed() -> None:
    wide = "\n\n".join([wrapped(PROSE, 100)] * (2 * STRETCH // len(PROSE)))
    narrow = "\n\n".join([wrapped(PROSE, 55)] * (2 * STRETCH // len(PROSE)))
    lines_left = [line for line in unwrapped(f"{wide}\n\n{narrow}").split("\n") if line and line != PROSE]
    assert len(lines_left) <= 20  # a few in the one stretch that has both widths


@pytest.mark.parametrize(
    "text",
    [
        POEM,
        LONG_LINED_POEM,
        CHAT,
        LOWER_CHAT,
        LISTED,
        CONTENTS,
        TABLE,
        ONE_A_LINE,
        BLANK_BETWEEN,
        PROSE,
        "",
        "\n\n",
        "a\nb",
        Path(__file__).read_text(encoding="utf-8"),
    ],
    ids=lambda text: repr(text[:20]),
)
def test_what_is_not_wrapped_is_seen_so_and_left_alone(text: str) -> None:
    assert not looks_wrapped(text)
    assert unwrapped(text) == text


def test_two_short_lines_prove_nothing() -> None:
    assert not looks_wrapped(wrapped(PROSE[:130]))
    assert looks_wrapped(wrapped(PROSE))


@given(
    st.lists(st.sampled_from([wrapped(PROSE), POEM, "\n", "\n\n", "\r\n", "\r", "  x", "--", "word ", "日本", "\f"])),
    st.integers(1, 300),
)
def test_the_blocks_do_not_matter_and_only_white_space_changes(texts: list[str], cut: int) -> None:
    text = "".join(texts)
    blocks = [text[at : at + cut] for at in range(0, len(text), cut)]
    out = "".join(unwrap(blocks))
    assert out == unwrapped(text)
    assert re.sub(r"\s", "", out) == re.sub(r"\s", "", text)


@pytest.mark.parametrize("cut", [1000, 4096, 100_003, 1_000_000])
def test_the_blocks_do_not_matter_over_many_stretches(cut: int) -> None:
    text = "\n\n".join([wrapped(PROSE), POEM, wrapped(DIALOGUE)] * 400)
    assert len(text) > 5 * STRETCH
    assert "".join(unwrap(text[at : at + cut] for at in range(0, len(text), cut))) == unwrapped(text)


@pytest.mark.parametrize("unit", [wrapped(PROSE) + "\n\n", "x", "\n", "one endless line "], ids=repr)
def test_memory_does_not_grow_with_the_text(unit: str) -> None:
    block = unit * (200_000 // len(unit))
    tracemalloc.start()
    try:
        size = sum(len(out) for out in unwrap(block for _ in range(50)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size >= 49 * len(block)
    assert peak < 5_000_000


@pytest.fixture(scope="module")
def books(data: Path) -> list[Path]:
    found = sorted((data / "books").glob("*.txt.xz"))
    assert found
    return found


def read(path: Path) -> str:
    return lzma.decompress(path.read_bytes()).decode()


def test_every_book_is_told_right_from_its_middle(books: list[Path]) -> None:
    unseen = []
    for path in books:
        text = read(path)
        if not looks_wrapped(text[len(text) // 2 :][:20_000]):
            unseen.append(path.name)
    assert unseen == ["w-w-jacobs-at-sunwich-port.txt.xz"]  # the one with a paragraph a line


def test_hardly_a_wrapped_line_of_a_book_is_left_and_no_word_is_lost(books: list[Path]) -> None:
    breaks = left = 0
    for path in books[::8]:
        text = read(path)
        out = unwrapped(text)
        assert re.sub(r"\s", "", out) == re.sub(r"\s", "", text)
        # A break before a lower-case letter that follows no stop is almost surely one of wrapping.
        breaks += len(re.findall(r"[a-z,]\n(?=[a-z])", text))
        left += len(re.findall(r"[a-z,]\n(?=[a-z])", out))
    assert breaks > 50_000
    assert left < 0.001 * breaks


def test_the_verse_in_alice_stays_verse(books: list[Path]) -> None:
    (path,) = (path for path in books if "alices-adventures" in path.name)
    out = unwrapped(read(path))
    assert "    'And your hair has become very white;\n   And yet you incessantly stand on your head--\n" in out
