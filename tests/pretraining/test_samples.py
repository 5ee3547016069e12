"""Which text of the corpus is looked at, and what is written of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpt1.inference.run import load_run
from gpt1.pretraining.pretrain import pretrain
from gpt1.pretraining.samples import DIGITS, LONGEST, find_sentences
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import SMALL_RUN
from tests.records import facts_in

SHORT = "They ran."
GOOD = "Ann sold the well-known map to her brother."
LONG = "Ann lost 3 apples and " + "her brother's hat and " * 8 + "nothing."


@pytest.fixture(params=["words_tokenizer", "bytes_tokenizer"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    found: Tokenizer = request.getfixturevalue(request.param)
    return found


def found(tokenizer: Tokenizer, text: str, most: int = LONGEST) -> str:
    ids = find_sentences(tokenizer, tokenizer.encode(text), most)
    assert len(ids) <= most
    return tokenizer.decode(ids).strip().lower()


def test_the_first_sentence_that_is_neither_short_nor_long_is_found(tokenizer: Tokenizer) -> None:
    for before in ("", f"{LONG} ", f"{LONG}\n\n"):
        assert found(tokenizer, f"{before}{GOOD} {LONG}") == GOOD.lower()


def test_sentences_that_fit_together_are_seen_together(tokenizer: Tokenizer) -> None:
    assert found(tokenizer, f"{SHORT} {GOOD} {LONG}", most=40) == f"{SHORT} {GOOD}".lower()


def test_where_no_sentence_fits_the_beginning_is_seen(tokenizer: Tokenizer) -> None:
    for text in (LONG, "Ann lost " + "nothing " * 40, SHORT):
        start = tokenizer.decode(tokenizer.encode(text)[:LONGEST]).strip().lower()
        assert found(tokenizer, text) == start
    assert find_sentences(tokenizer, tokenizer.encode(GOOD), 3) == tokenizer.encode(GOOD)[:3]


def test_a_run_tells_how_it_looked_when_it_ended(trained: Path) -> None:
    run = load_run(trained, device="cpu", step="last")
    told = facts_in(trained / "attention.json")
    assert told["step"] == 12
    text = "".join(told["tokens"])
    assert len(run.tokenizer.encode(text)) == len(told["tokens"]) <= run.recipe.shape.context
    for layer, heads in enumerate(told["weights"], 1):
        seen = run.attention(text, layer=layer).weights
        assert heads == [
            [pytest.approx(row[: t + 1].tolist(), abs=10**-DIGITS) for t, row in enumerate(head)] for head in seen
        ]


def test_an_lstm_has_nothing_to_tell(corpus: Path, tmp_path: Path) -> None:
    changes = [*SMALL_RUN, "shape.kind=lstm", "shape.layers=1", "shape.units=16", "training.steps=1"]
    pretrain("tiny", corpus, tmp_path / "run", changes=changes, device="cpu")
    assert (tmp_path / "run" / "samples.jsonl").exists()
    assert not (tmp_path / "run" / "attention.json").exists()
