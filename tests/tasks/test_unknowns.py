"""Text that a vocabulary cannot spell is counted, and told where it is more than a stray character."""

from __future__ import annotations

import numpy as np
import pytest

from gpt1.base.records import check_record
from gpt1.tasks.encoded import EncodedTask, encode_task
from gpt1.tasks.examples import Example
from gpt1.tasks.unknowns import Unknown, count_unknown, unknown_by_example
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import make_task

KOREAN = ("영화가 정말 재미있었다", "다시는 보고 싶지 않다", "배우의 연기가 좋았다")  # sentences of ours


def encode(tokenizer: Tokenizer, shape: str, *texts: tuple[str, ...], context: int = 64) -> EncodedTask:
    rows = [Example(own, row % 2, row) for row, own in enumerate(texts, 1)]
    return encode_task(make_task(shape=shape), {"train": rows}, tokenizer, context)


def by_example(encoded: EncodedTask, tokenizer: Tokenizer) -> list[list[int]]:
    split = encoded.splits["train"]
    return unknown_by_example(encoded.task, split, tokenizer.unknown_id, encoded.vocab_size).tolist()


def test_unknown_tokens_are_those_of_the_texts_alone(words_tokenizer: Tokenizer) -> None:
    texts = ["Ann lost 3 apples.", KOREAN[0], f"Ann lost {KOREAN[1]}"]
    expected = [list(words_tokenizer.count_unknown(text)) for text in texts]
    assert by_example(encode(words_tokenizer, "single", *((text,) for text in texts)), words_tokenizer) == expected
    assert [unknown for unknown, _ in expected] == [0, *(sum(c != " " for c in text) for text in KOREAN[:2])]


@pytest.mark.parametrize(("shape", "times"), [("pair", 1), ("both", 1)])
def test_a_pair_counts_once_in_whatever_orders_it_is_read(words_tokenizer: Tokenizer, shape: str, times: int) -> None:
    one, two = (words_tokenizer.count_unknown(text) for text in (KOREAN[0], "Ann lost it."))
    found = by_example(encode(words_tokenizer, shape, (KOREAN[0], "Ann lost it.")), words_tokenizer)
    assert found == [[one[0] + two[0], one[1] + two[1]]]


def test_choices_count_with_the_context_of_each(words_tokenizer: Tokenizer) -> None:
    texts = (KOREAN[0], "", "yes", KOREAN[1], "no")
    counts = [words_tokenizer.count_unknown(text)[0] for text in texts]
    ((unknown, _),) = by_example(encode(words_tokenizer, "choices", texts), words_tokenizer)
    assert unknown == 3 * counts[0] + sum(counts[2:])


def test_to_bytes_nothing_is_unknown(bytes_tokenizer: Tokenizer) -> None:
    ((unknown, tokens),) = by_example(encode(bytes_tokenizer, "single", (KOREAN[0],)), bytes_tokenizer)
    assert (unknown, tokens) == bytes_tokenizer.count_unknown(KOREAN[0])
    assert unknown == 0 < tokens


def test_only_what_is_read_counts(words_tokenizer: Tokenizer) -> None:
    encoded = encode(words_tokenizer, "single", (" ".join(KOREAN),), context=10)
    assert by_example(encoded, words_tokenizer) == [[8, 8]]


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ([[0, 50], [0, 0]], None),
        ([[1, 500], [0, 500]], None),
        ([[10, 500], [0, 500]], "10 of 1,000 tokens are not in the vocabulary; the network"),
        (
            [[5, 10], [0, 9000]],
            "5 of 9,010 tokens are not in the vocabulary, in 1 of 2 examples most of them; ",
        ),
        ([[5, 5]], "5 of 5 tokens are not in the vocabulary; the network"),
        ([], None),
    ],
)
def test_a_stray_character_is_not_told_and_a_script_is(counts: list[list[int]], told: str | None) -> None:
    notices = count_unknown(np.array(counts).reshape(-1, 2)).notice(len(counts), "moods dev")
    assert notices == [] if told is None else notices[0].startswith(f"moods dev: {told}")


def test_the_counts_that_are_kept_make_the_same_notice(words_tokenizer: Tokenizer) -> None:
    found = count_unknown(np.array([[5, 10], [0, 10]]))
    assert found.as_json() == {"tokens": 5, "of": 20, "examples": 1}
    assert check_record(found.as_json(), Unknown, "run.json") == found


def test_the_commonest_characters_are_named_and_a_script_is_spoken_of_only_where_whole_rows_are_unknown() -> None:
    (few,) = count_unknown(np.array([[10, 500], [0, 500]])).notice(2, "moods dev", ["é", "ñ"])
    assert "are not in the vocabulary (the commonest: é ñ); the network" in few
    assert few.endswith("start from a run whose vocabulary knows such characters, or one of bytes")
    (script,) = count_unknown(np.array([[10, 12], [0, 500]])).notice(2)
    assert "knows this script" in script
