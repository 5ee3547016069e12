"""Texts of tasks are found in a corpus where they stand, and nowhere else."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt1.base.errors import InputError
from gpt1.inspection.doctor import examine
from gpt1.inspection.leakage import hash_words

SENTENCE = "It was the best of times, it was the worst of times, it was the age of wisdom."
FILLER = "\n".join(f"Line {number} says nothing that anybody has ever said before {number}." for number in range(50))


def look(folder: Path, corpus: str, rows: Sequence[dict[str, Any]], name: str = "task.jsonl") -> dict[str, Any]:
    (folder / "corpus.txt").write_text(corpus, "utf-8")
    (folder / name).write_text("\n".join(map(json.dumps, rows)), "utf-8")
    report = examine([folder / "corpus.txt"], against=[folder / name], workers=1)
    file: dict[str, Any] = report["leakage"]["files"][0]
    return {**file, "keys": [finding["key"] for finding in report["findings"]]}


def test_a_leaked_sentence_is_found_whatever_its_case_punctuation_and_line_breaks(tmp_path: Path) -> None:
    corpus = f"{FILLER}\n“IT WAS THE BEST\nof times—it was the worst of_times; it was the age of wisdom…”\n{FILLER}"
    rows = [{"text": SENTENCE, "label": "1"}, {"text": "Nobody ever wrote this sentence in a book of any kind."}]
    found = look(tmp_path, corpus, rows)
    assert found["examples"] == 2
    assert found["examples_sharing_run"] == found["examples_sharing_quote"] == found["examples_contained"] == 1
    (shown,) = found["shown"]
    assert shown["position"] == "line 1"
    assert shown["words_in_a_row"] == 18
    assert shown["words"] == SENTENCE.lower().replace(",", "").replace(".", "")
    assert shown["shared_runs"] == shown["runs"] == 11
    assert shown["corpus"]["position"] == "line 51"
    assert "leaked" in found["keys"]


def test_part_of_an_example_is_not_the_whole_of_it(tmp_path: Path) -> None:
    found = look(tmp_path, FILLER + "\nit was the best of times it was\n", [{"text": SENTENCE}])
    assert found["examples_sharing_run"] == 1
    assert found["examples_sharing_quote"] == found["examples_contained"] == 0
    assert found["shown"][0]["words"] == "it was the best of times it was"
    assert "leaked" not in found["keys"]


def test_seven_words_are_too_few(tmp_path: Path) -> None:
    found = look(tmp_path, SENTENCE + "\n" + FILLER, [{"text": "It was the best of times, it"}, {"text": ""}])
    assert found["examples_too_short"] == 2
    assert found["examples_sharing_run"] == 0


def test_runs_never_cross_from_one_text_or_document_into_another(tmp_path: Path) -> None:
    first, second = "one two three four", "five six seven eight"
    found = look(tmp_path, f"{FILLER}\n{first} {second}\n", [{"a": first, "b": second}])
    assert found["examples_too_short"] == 1
    (tmp_path / "corpus.txt").write_text(f"{first}\n{second}\n")
    (tmp_path / "task.jsonl").write_text(json.dumps({"text": f"{first} {second}"}))
    report = examine([tmp_path / "corpus.txt"], against=[tmp_path / "task.jsonl"], document="line", workers=1)
    assert report["leakage"]["files"][0]["examples_sharing_run"] == 0


def test_all_texts_of_a_row_are_looked_for_lists_of_answers_too(tmp_path: Path) -> None:
    rows = [{"context": "short", "choices": ["no", SENTENCE], "label": 1}, {"a": "short", "b": SENTENCE, "label": "x"}]
    assert look(tmp_path, FILLER + SENTENCE, rows)["examples_contained"] == 2


def test_examples_about_one_passage_are_shown_once_and_the_longest_first(tmp_path: Path) -> None:
    rows = [{"a": SENTENCE, "b": f"question {number}"} for number in range(4)]
    other = "a second passage that is long enough to be found here"
    found = look(tmp_path, f"{FILLER}\n{other}\n{SENTENCE}", [{"a": other}, *rows])
    assert found["examples_contained"] == 5
    assert [shown["words_in_a_row"] for shown in found["shown"]] == [18, 11]


def test_a_folder_stands_for_its_tables_and_a_text_for_its_lines(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text(f"{FILLER}\n{SENTENCE}\n")
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    (tasks / "a.csv").write_text(f'text,label\n"{SENTENCE}",1\nother,0\n')
    (tasks / "b.jsonl").write_text(json.dumps({"text": "other"}))
    (tasks / "notes.md").write_text("Notes about the task, which are no part of it.")
    (tmp_path / "lines.txt").write_text(f"first line\n\n{SENTENCE}\n")
    leakage = examine([tmp_path / "corpus.txt"], against=[tasks, tmp_path / "lines.txt"], workers=1)["leakage"]
    assert leakage["folder"] == str(tmp_path)
    figures = [(Path(file["file"]).name, file["examples"], file["examples_contained"]) for file in leakage["files"]]
    assert figures == [("a.csv", 2, 1), ("b.jsonl", 1, 0), ("lines.txt", 2, 1)]
    assert [shown["position"] for file in leakage["files"] for shown in file["shown"]] == ["row 2", "line 3"]


def test_the_name_of_a_task_alone_is_answered_with_what_to_give(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text(FILLER)
    with pytest.raises(InputError, match="`against=DIR/rte`"):
        examine([tmp_path / "corpus.txt"], against=["rte"], workers=1)
    with pytest.raises(InputError, match="does not exist"):
        examine([tmp_path / "corpus.txt"], against=[tmp_path / "nowhere.jsonl"], workers=1)


# ---- hashed words, against a plain reading of the rules ----

TEXTS = st.lists(st.text(st.sampled_from("abAÉé' .,\n\t-—’“”_0"), max_size=40), max_size=6)


def plain_words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9é]+", re.sub("['’“”]", lambda mark: "" if mark[0] in "'’" else " ", text.lower()))


@given(TEXTS)
def test_words_are_runs_of_letters_and_digits_without_apostrophes(texts: list[str]) -> None:
    words = hash_words(texts)
    expected = [plain_words(text) for text in texts]
    assert words.ends.tolist() == np.cumsum([len(own) for own in expected]).tolist()
    flat = [word for own in expected for word in own]
    assert words.spell(0, len(flat)) == " ".join(flat)
    assert len(set(words.hashes.tolist())) == len(set(flat))


@given(TEXTS, st.integers(1, 4))
def test_runs_lie_in_one_text_and_are_equal_when_their_words_are(texts: list[str], length: int) -> None:
    words = hash_words(texts)
    hashes, begins = words.runs(length)
    expected, begin = [], 0
    for text in texts:
        own = plain_words(text)
        expected += [(begin + at, tuple(own[at : at + length])) for at in range(len(own) - length + 1)]
        begin += len(own)
    assert begins.tolist() == [at for at, _ in expected]
    pairs = set(zip(hashes.tolist(), [run for _, run in expected], strict=True))
    assert len(pairs) == len({hash for hash, _ in pairs}) == len({run for _, run in pairs})


@given(TEXTS)
def test_words_are_located_by_text_and_line(texts: list[str]) -> None:
    words = hash_words(texts)
    expected = [
        (number, line)
        for number, text in enumerate(texts)
        for line, part in enumerate(text.split("\n"))
        for _ in plain_words(part)
    ]
    found, lines = words.locate(np.arange(len(words.hashes)))
    assert list(zip(found.tolist(), lines.tolist(), strict=True)) == expected


def test_hashes_are_the_same_everywhere() -> None:
    assert hash_words(["Hello, hello"]).hashes.tolist() == [9022087748821825191] * 2
