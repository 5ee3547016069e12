"""What was learned of words lies on disk, and says what was counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from gpt1.base.errors import FormatError
from gpt1.linear.files import read_ensembles, words_file, write_words
from gpt1.linear.words import Counted, learn_words
from gpt1.records.ensemble import WORDS, EnsembleRecord, TaskEnsemble
from tests.finetuning.tools import make_task

TEXTS = [("재미있는 영화",), ("지루한 영화",), ("재미없고 지루하다",), ("정말 재미있다",)]
TASK = make_task()


def write(folder: Path, counted: Counted) -> None:
    model = learn_words(TASK, TEXTS, np.array([1, 0, 0, 1]), counted)
    record = TaskEnsemble({WORDS: 1.0}, "counted words answer", words=write_words(folder, model))
    EnsembleRecord(1, {TASK.name: record}).write(folder / "ensemble.json")


@pytest.mark.parametrize("counted", ["words and runs", "words", "characters"])
def test_what_was_counted_is_read_back_and_answers_alike(tmp_path: Path, counted: Counted) -> None:
    write(tmp_path, counted)
    found = read_ensembles(tmp_path, {TASK.name: TASK})[TASK.name].words
    assert found is not None
    assert found.counted == counted
    learned = learn_words(TASK, TEXTS, np.array([1, 0, 0, 1]), counted)
    np.testing.assert_array_equal(found.probabilities(TEXTS), learned.probabilities(TEXTS))


def test_a_file_of_words_is_what_it_was_before_characters_could_be_counted(tmp_path: Path) -> None:
    write(tmp_path, "words")
    assert set(load_file(words_file(tmp_path, TASK.name))) == {"idf", "weights", "bias", "terms"}


@pytest.mark.parametrize("counted", ["words and runs", "characters"])
def test_a_version_that_knows_words_alone_refuses_a_file_of_more(tmp_path: Path, counted: Counted) -> None:
    write(tmp_path, counted)
    assert set(load_file(words_file(tmp_path, TASK.name))) > {"idf", "weights", "bias", "terms"}


def test_no_term_holds_what_parts_them_in_a_file() -> None:
    texts = [("한 줄\n두 줄",), ("a line\tand\r\nanother",)] * 2
    assert not any("\n" in term for term in learn_words(TASK, texts, np.array([1, 0, 0, 1])).terms)


def test_a_file_that_was_changed_is_refused_by_its_name(tmp_path: Path) -> None:
    write(tmp_path, "words and runs")
    path = words_file(tmp_path, TASK.name)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(FormatError, match=r"words-.*safetensors is damaged"):
        read_ensembles(tmp_path, {TASK.name: TASK})
