"""Words that stand near others: by a literal cosine, of whole words alone, as a list that synonyms are read from."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from gpt1.base.errors import Gpt1Error
from gpt1.inference.neighbours import LEAST_COSINE, MOST, list_neighbours, near_words
from gpt1.inference.run import Run, load_run
from gpt1.text.synonyms import read_synonyms

TEXTS = ["Ann sold the old lamp.", "Tom saw the girl, and the girl saw Ann.", "The sailor of a lamp! sold, 7 xyzzyq"]


@pytest.fixture
def run(trained: Path) -> Run:
    """A run in which 'lamp' and 'girl' have nearly one vector, and 'sold' the opposite one."""
    found = load_run(trained, device="cpu")
    ids = {word: found.tokenizer.encode(word)[0] for word in ("lamp", "girl", "sold")}
    with torch.no_grad():
        tokens = found.network.tokens
        tokens[ids["girl"]] = tokens[ids["lamp"]] + 0.001
        tokens[ids["sold"]] = -tokens[ids["lamp"]]
    return found


def test_near_is_the_largest_cosine_once_the_mean_is_taken_off(run: Run) -> None:
    found = near_words(run, TEXTS)
    words = list(dict.fromkeys(one.word for one in found))
    known = {
        word
        for word in ("ann", "sold", "the", "old", "lamp", "tom", "saw", "girl", "and", "sailor")
        if len(run.tokenizer.encode(word)) == 1
    }
    assert set(words) <= known
    table = {word: run.network.tokens[run.tokenizer.encode(word)[0]].tolist() for word in known}
    every = run.network.tokens.tolist()
    mean = [sum(column) / len(every) for column in zip(*every, strict=True)]
    centred = {word: [x - m for x, m in zip(vector, mean, strict=True)] for word, vector in table.items()}

    def cosine(one: str, other: str) -> float:
        a, b = centred[one], centred[other]
        return sum(x * y for x, y in zip(a, b, strict=True)) / math.dist(a, [0] * len(a)) / math.dist(b, [0] * len(b))

    for word in known:
        others = sorted((cosine(word, other), other) for other in known - {word})[::-1][:MOST]
        wanted = [(other, pytest.approx(value, abs=2e-4)) for value, other in others if value >= LEAST_COSINE]
        assert [(one.near, one.cosine) for one in found if one.word == word] == wanted
    assert ("lamp", "girl") in {(one.word, one.near) for one in found}
    assert ("lamp", "sold") not in {(one.word, one.near) for one in found}


def test_the_list_is_one_of_synonyms(run: Run, tmp_path: Path) -> None:
    rows = "".join(f"{text.replace(',', '')},{n % 2}\n" for n, text in enumerate(TEXTS * 8))
    (tmp_path / "rows.csv").write_text("text,label\n" + rows)
    found = list_neighbours(run, tmp_path / "rows.csv", tmp_path / "near.tsv")
    read = read_synonyms(tmp_path / "near.tsv").words
    assert [(word, near) for word, others in read.items() for near in others] == [(one.word, one.near) for one in found]
    with pytest.raises(Gpt1Error, match="is there already"):
        list_neighbours(run, tmp_path / "rows.csv", tmp_path / "near.tsv")
    with pytest.raises(Gpt1Error, match=r"give it a name that ends in \.tsv"):
        list_neighbours(run, tmp_path / "rows.csv", tmp_path / "near.csv")


def test_too_few_words_are_told(run: Run) -> None:
    with pytest.raises(Gpt1Error, match="have 1 word of one token of the vocabulary; name other"):
        near_words(run, ["lamp a of", "lamp"])


def test_no_list_is_made_for_labels_of_words_which_learn_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / "names.conll").write_text("Ann B-PER\nsold O\nlamp O\n\n" * 12)
    with pytest.raises(Gpt1Error, match="'names' labels words, and a list of synonyms is for tasks of one"):
        list_neighbours(run, tmp_path / "names.conll", tmp_path / "near.tsv")
    assert not (tmp_path / "near.tsv").exists()
