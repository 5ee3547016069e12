"""Which sentences are found in a text, and which passages are drawn."""

from __future__ import annotations

import pytest

from gpt1.base.errors import InputError
from gpt1.corpus.documents import DocumentPart, Fault
from gpt1.lessons.passages import SENTENCES, STRETCH_LENGTH, draw_passages, draw_stretches, sentences
from tests.lessons.tools import library, passages


def test_sentences_end_where_a_reader_ends_them() -> None:
    text = (
        'Mr. Pike came in late. "Is it J. P. Smith?" he asked the maid. She said nothing at all!\n'
        "He went on to the next room."
    )
    assert sentences(text) == [
        [
            "Mr. Pike came in late.",
            '"Is it J. P. Smith?" he asked the maid.',
            "She said nothing at all!",
            "He went on to the next room.",
        ]
    ]


def test_a_script_without_capitals_has_sentences_too() -> None:
    lines = ["영화가 너무 짧아서 정말 아쉽다. 그래도 다시 한 번 보고 싶다.", "끝까지 눈을 뗄 수 없었음"]
    text = "\n".join([*lines, "짧다.", "왜 이렇게 끝나는지 모르겠다…"])
    assert sentences(text) == [
        ["영화가 너무 짧아서 정말 아쉽다.", "그래도 다시 한 번 보고 싶다.", "끝까지 눈을 뗄 수 없었음"],
        ["왜 이렇게 끝나는지 모르겠다…"],
    ]


@pytest.mark.parametrize(
    "between", ["CHAPTER THE SECOND OF IT.", "* * * * *", "Table 1234 has a few rows of it.", "Oh!", "without an end"]
)
def test_what_is_no_prose_ends_a_stretch(between: str) -> None:
    one, other = "This is the first of them.", "That is the second of them."
    assert sentences(f"{one}\n\n{between}\n\n{other}") == [[one], [other]]


def test_all_passages_are_drawn_where_there_are_no_more() -> None:
    found = passages()
    assert [passage.document for passage in found] == [0] * 15 + [1] * 15 + [2] * 15
    texts = [part.text for part in library()]
    for passage in found:
        assert len(passage.sentences) == SENTENCES
        assert " ".join(passage.sentences) in texts[passage.document]
    assert len(set(found)) == len(found)


def test_so_many_are_drawn_from_all_over_and_by_the_seed_alone() -> None:
    found = draw_passages(library(), 20, seed=0)
    assert len(found) == 20
    assert {passage.document for passage in found} == {0, 1, 2}
    assert found == [passage for passage in passages() if passage in found]  # in their order
    assert found == draw_passages(library(), 20, seed=0, workers=2)
    assert found != draw_passages(library(), 20, seed=1)


def test_the_halves_of_a_stretch_are_text_as_it_was_written_in_whole_words() -> None:
    text = "".join(f'word{at}, "talk"\n\n' if at % 7 == 0 else f"word{at} " for at in range(2_000))
    found = draw_stretches([DocumentPart(text, True, True, 0, "", len(text))], 1000, seed=0)
    assert len(found) == len(text) // STRETCH_LENGTH
    words = text.split(" ")
    for stretch in found:
        first, second = stretch.sentences
        assert f" {first} {second} " in text
        assert {*first.split(" "), *second.split(" ")} <= set(words)
        assert abs(len(first) - len(second)) < STRETCH_LENGTH / 20


def test_a_short_text_has_no_stretches() -> None:
    text = "word " * (STRETCH_LENGTH // 5 - 1)
    assert draw_stretches([DocumentPart(text, True, True, 0, "", len(text))], 10, seed=0) == []


def test_a_document_in_several_parts_is_one() -> None:
    (whole,) = library(documents=1)
    parts = [
        DocumentPart(whole.text, True, False, 0, "", len(whole.text)),
        DocumentPart(whole.text, False, True, 0, "", len(whole.text)),
    ]
    assert {passage.document for passage in draw_passages(parts, 100, seed=0)} == {0}


def test_what_cannot_be_read_is_an_error() -> None:
    fault = Fault(0, "line 3", "bad bytes", "books/a.txt, line 3: not UTF-8")
    with pytest.raises(InputError, match=r"books/a.txt, line 3: not UTF-8"):
        draw_passages([*library(), fault], 10, seed=0)
