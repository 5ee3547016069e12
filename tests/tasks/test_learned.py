"""Which examples stand in train too: by their texts where rows are at hand, else by their tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpt1.tasks.encoded import EncodedTask, choose, encode_task
from gpt1.tasks.examples import Example
from gpt1.tasks.learned import in_train
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text
from tests.finetuning.tools import make_task

NO_ROWS = np.zeros(0, np.uint64)


def encode(tokenizer: Tokenizer, train: list[str], dev: list[str], shape: str = "single") -> EncodedTask:
    splits = {
        name: [Example(tuple(text.split("|")), row % 2, row) for row, text in enumerate(texts, 1)]
        for name, texts in (("train", train), ("dev", dev))
    }
    return encode_task(make_task(shape=shape), splits, tokenizer, context=16)


def found(encoded: EncodedTask, tokenizer: Tokenizer) -> list[bool]:
    return in_train(encoded, "dev", tokenizer.unknown_id).tolist()


def test_case_blanks_and_the_order_of_a_pair_do_not_count(words_tokenizer: Tokenizer) -> None:
    one = encode(words_tokenizer, ["Ann sold it"], ["ann  SOLD it ", "Ann lost it"])
    assert found(one, words_tokenizer) == [True, False]
    pair = encode(words_tokenizer, ["Ann sold it|it was red"], ["it was red|Ann sold it", "it was red|it"], "both")
    assert found(pair, words_tokenizer) == [True, False]
    assert found(replace(pair, examples={}, train_texts=NO_ROWS), words_tokenizer) == [True, False]


def test_texts_that_may_differ_in_what_was_not_read_are_not_said_to_stand_in_train(words_tokenizer: Tokenizer) -> None:
    encoded = encode(words_tokenizer, ["Ann sold \u6771"], ["Ann sold \u897f"])
    assert np.array_equal(encoded.splits["train"].ids, encoded.splits["dev"].ids)
    assert found(encoded, words_tokenizer) == [False]


def test_rows_with_unknown_tokens_or_a_lost_end_are_known_word_for_word(words_tokenizer: Tokenizer) -> None:
    long = " ".join(make_text(9, seed=3).split())
    encoded = encode(words_tokenizer, ["Ann sold \u6771", long], ["Ann sold \u6771", "Ann sold \u897f", long])
    assert encoded.splits["dev"].cut[2] > 0
    assert found(encoded, words_tokenizer) == [True, False, True]
    assert found(replace(encoded, train_texts=NO_ROWS), words_tokenizer) == [False] * 3  # as of one encoded before


def test_only_rows_that_were_chosen_to_learn_from_stand_in_train(words_tokenizer: Tokenizer) -> None:
    encoded = encode(words_tokenizer, ["Ann sold it", "Tom lost it"], ["Ann sold it", "Tom lost it"])
    few = replace(encoded, splits={**encoded.splits, "train": choose(encoded.splits["train"], [1])})
    assert found(few, words_tokenizer) == [False, True]


def test_without_train_nothing_stands_there(words_tokenizer: Tokenizer) -> None:
    encoded = encode(words_tokenizer, ["Ann sold it"], ["Ann sold it"])
    alone = replace(encoded, splits={"dev": encoded.splits["dev"]})
    assert found(alone, words_tokenizer) == [False]
