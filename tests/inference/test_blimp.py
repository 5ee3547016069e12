"""Minimal pairs: the likelier sentence by the reference network, means over paradigms and fields, files, refusals."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import numpy as np
import pytest
import torch

from gpt1.base.errors import InputError, RuinedWeights
from gpt1.inference.blimp import MinimalPair, blimp, read_pairs
from gpt1.inference.run import Run, load_run
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import DEEDS, PEOPLE, THINGS
from tests.finetuning.tools import make_pretrained
from tests.reference import transformer
from tests.reference.zeroshot import token_logs

CONTEXT = 48


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> Run:
    """A run with random weights that are far from nothing."""
    changes = [f"shape.context={CONTEXT}", "training.precision=fp64", "shape.init_std=0.4"]
    return load_run(make_pretrained(tmp_path_factory.mktemp("run") / "run", words_tokenizer, *changes), device="cpu")


def pairs() -> list[MinimalPair]:
    """Three paradigms of two fields, of 3, 4 and 5 pairs."""
    found = []
    for paradigm, (field, size) in {"agreement": ("forms", 3), "order": ("syntax", 4), "gaps": ("syntax", 5)}.items():
        for place in range(size):
            who, deed, thing = PEOPLE[place], DEEDS[place % 8], THINGS[place % 7]
            found.append(MinimalPair(f"{who} {deed} {thing}.", f"{thing} {who} {deed}.", paradigm, field))
    return found


def literal_score(run: Run, text: str) -> float:
    """Return the log-probability of a text that begins a document, by the reference network."""
    weights = {name: tensor.detach().double() for name, tensor in run.model.named_parameters()}
    ids = [run.tokenizer.newline_id, *run.tokenizer.encode(text)]
    return sum(token_logs(ids, lambda ids: transformer.forward(weights, ids, run.recipe.shape)))  # type: ignore[no-any-return, no-untyped-call]


def test_the_likelier_sentence_counts_as_the_reference_has_it(run: Run) -> None:
    asked = pairs()
    right = np.array([literal_score(run, pair.good) > literal_score(run, pair.bad) for pair in asked])
    wanted = {
        name: float(np.mean([is_right for is_right, pair in zip(right, asked, strict=True) if pair.paradigm == name]))
        for name in ("agreement", "gaps", "order")
    }
    assert 0 < right.mean() < 1  # else the figures below could come from anywhere
    found = blimp(run, asked)
    assert found.paradigms == pytest.approx(wanted)
    assert found.fields == pytest.approx(
        {"forms": wanted["agreement"], "syntax": (wanted["gaps"] + wanted["order"]) / 2}
    )
    assert found.accuracy == pytest.approx(np.mean(list(wanted.values())))
    assert (found.pairs, found.step) == (12, 3)
    assert [line.prediction == line.label for line in found.lines] == right.tolist()
    assert "lines" not in found.as_json()


def test_a_pair_of_equal_likelihood_is_not_known(run: Run) -> None:
    assert blimp(run, [MinimalPair("Ann ran.", "Ann ran.", "same", "none")]).accuracy == 0


def test_a_field_that_is_written_in_two_ways_is_one(tmp_path: Path) -> None:
    rows = [{**vars(pairs()[0]), "field": field} for field in ("syntax_semantics", "syntax/semantics")]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [pair.field for pair in read_pairs(tmp_path / "pairs.jsonl")] == ["syntax_semantics"] * 2


def test_files_of_ours_and_official_ones_hold_the_same(tmp_path: Path) -> None:
    own = "".join(json.dumps({**vars(pair), "term": "any"}) + "\n" for pair in pairs())
    (tmp_path / "blimp").mkdir()
    (tmp_path / "blimp" / "dev.jsonl.xz").write_bytes(lzma.compress(own.encode()))
    (tmp_path / "official").mkdir()
    for pair in pairs():
        row = {"sentence_good": pair.good, "sentence_bad": pair.bad, "field": pair.field, "UID": pair.paradigm}
        with (tmp_path / "official" / f"{pair.paradigm}.jsonl").open("a") as file:
            file.write(json.dumps({**row, "pairID": "0", "simple_LM_method": True}) + "\n")
    found = [read_pairs(tmp_path), read_pairs(tmp_path / "blimp" / "dev.jsonl.xz")]
    assert found == [pairs(), pairs()]
    assert sorted(map(str, read_pairs(tmp_path / "official"))) == sorted(map(str, pairs()))


def test_what_is_no_pair_is_refused_by_file_and_row(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps(vars(pairs()[0])) + "\n" + json.dumps({"good": "A cat.", "label": 1}) + "\n")
    with pytest.raises(InputError, match=r"pairs.jsonl, row 2: a minimal pair has good, bad, .*; found good, label"):
        read_pairs(path)
    path.write_text(json.dumps({**vars(pairs()[0]), "bad": ""}) + "\n")
    with pytest.raises(InputError, match=r"pairs.jsonl, row 1: 'bad' is '', expected text"):
        read_pairs(path)
    path.write_text("")
    with pytest.raises(InputError, match="holds no minimal pairs"):
        read_pairs(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no \.jsonl file of minimal pairs"):
        read_pairs(tmp_path / "empty")
    with pytest.raises(InputError, match="does not exist"):
        read_pairs(tmp_path / "nowhere")


def test_a_sentence_beyond_the_context_and_ruined_weights_are_told(run: Run, words_tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match=rf"a sentence has \d+ tokens, and .* reads {CONTEXT}"):
        blimp(run, [MinimalPair("a cat " * CONTEXT, "b", "long", "none")])
    with torch.no_grad():
        weight = next(run.model.parameters())
        kept = weight.clone()
        weight.fill_(float("nan"))
        try:
            with pytest.raises(RuinedWeights, match="no numbers"):
                blimp(run, pairs())
        finally:
            weight.copy_(kept)
