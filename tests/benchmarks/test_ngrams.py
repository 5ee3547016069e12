from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import benchmarks.ngrams
from benchmarks.ngrams import Trigram, ney_discount, train_absolute, train_kneser_ney
from tests.pretraining.tools import write_corpus
from tests.properties import examples
from tests.reference.ngrams import ReferenceTrigram

Train = Callable[[np.ndarray, int], Trigram]
BOTH = pytest.mark.parametrize(
    ("train", "kneser_ney"), [(train_absolute, False), (train_kneser_ney, True)], ids=["absolute", "kneser_ney"]
)


def skewed(seed: int, length: int, vocab_size: int) -> np.ndarray:
    """Return ids some of which are frequent, as words are."""
    draw = np.random.default_rng(seed)
    return (vocab_size * draw.random(length) ** 3).astype(np.int32)


@BOTH
@examples(40)
@given(seed=st.integers(0, 10_000), length=st.integers(3, 120), vocab_size=st.integers(1, 20))
def test_the_score_is_that_of_the_formulas(
    train: Train, kneser_ney: bool, seed: int, length: int, vocab_size: int
) -> None:
    ids, valid = skewed(seed, length, vocab_size), skewed(seed + 1, 2 + seed % 40, vocab_size)
    model, reference = train(ids, vocab_size), ReferenceTrigram(ids.tolist(), vocab_size, kneser_ney=kneser_ney)
    expected = [
        reference.probability(int(valid[place]), tuple(valid[max(0, place - 2) : place].tolist()))
        for place in range(1, len(valid))
    ]
    np.testing.assert_allclose(model.probabilities(valid), expected, rtol=1e-12)
    assert model.nats(valid) == pytest.approx(reference.nats(valid.tolist()), rel=1e-12)


@BOTH
def test_the_score_on_a_small_text_is_that_of_the_formulas(train: Train, kneser_ney: bool) -> None:
    text = np.frombuffer(Path(benchmarks.ngrams.__file__).read_bytes(), np.uint8)
    ids, valid = text[:3000], text[3000:3200]
    expected = ReferenceTrigram(ids.tolist(), 256, kneser_ney=kneser_ney).nats(valid.tolist())
    assert train(ids, 256).nats(valid) == pytest.approx(expected, rel=1e-12)
    assert 1 < expected < math.log(256)


@BOTH
@pytest.mark.parametrize("vocab_size", [30, 40_478])
def test_probabilities_over_the_vocabulary_sum_to_one_after_any_context(
    train: Train, kneser_ney: bool, vocab_size: int
) -> None:
    ids = skewed(3, 5000, 30)
    model = train(ids, vocab_size)
    seen = [ids[place : place + 2] for place in (0, 17, 4000)]
    unseen = np.random.default_rng(0).integers(0, vocab_size, (3, 2))
    for u, v in [*seen, *unseen, (29, vocab_size - 1)]:
        every_word = np.array([(u, v, word) for word in range(vocab_size)]).ravel()
        assert model.probabilities(every_word)[1::3].sum() == pytest.approx(1, abs=1e-9)


@BOTH
def test_probabilities_of_a_first_target_sum_to_one(train: Train, kneser_ney: bool) -> None:
    model = train(skewed(3, 5000, 30), 31)
    for u in range(31):
        assert sum(model.probabilities(np.array([u, word]))[0] for word in range(31)) == pytest.approx(1, abs=1e-9)


def test_what_was_never_seen_falls_back_to_the_uniform_share_and_never_to_zero() -> None:
    ids = np.array([1, 2, 1, 2, 1])
    for train in (train_absolute, train_kneser_ney):
        probabilities = train(ids, 10).probabilities(np.array([9, 8, 7, 1, 2]))
        assert (probabilities > 0).all()
        assert probabilities[0] < probabilities[3]


def test_kneser_ney_asks_in_how_many_contexts_a_token_was_seen() -> None:
    # 5 comes often but only after 4; 6 comes half as often, after many tokens.
    ids = np.array([4, 5, 4, 5, 4, 5, 4, 5, 4, 5, 4, 5, 0, 6, 1, 6, 2, 6, 3, 6])
    after_new = np.array([9, 5]), np.array([9, 6])
    absolute, kneser_ney = train_absolute(ids, 10), train_kneser_ney(ids, 10)
    assert absolute.nats(after_new[0]) < absolute.nats(after_new[1])
    assert kneser_ney.nats(after_new[0]) > kneser_ney.nats(after_new[1])


def test_neys_discount_is_estimated_where_it_can_be() -> None:
    assert ney_discount(np.array([1, 1, 1, 1, 2, 2, 3])) == pytest.approx(4 / 8)
    assert ney_discount(np.array([1, 1])) == ney_discount(np.array([2, 3])) == 0.75


def test_the_command_prints_both_scores_for_a_corpus(tmp_path: Path) -> None:
    ids, valid = skewed(1, 4000, 50), skewed(2, 500, 50)
    folder = write_corpus(tmp_path, {"train": ids.tolist(), "valid": valid.tolist()}, shard_tokens=999, vocab_size=50)
    command = [sys.executable, benchmarks.ngrams.__file__, str(folder), "--tokens", "3000"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    printed = [float(nats) for nats in re.findall(r"([\d.]+) nats a target", done.stdout)]
    expected = [train(ids[:3000], 50).nats(valid) for train in (train_absolute, train_kneser_ney)]
    assert printed == pytest.approx(expected, abs=1e-4)
    assert "3,000 training tokens, 499 targets, vocabulary of 50" in done.stdout


def test_the_command_says_what_is_wrong_without_a_traceback(tmp_path: Path) -> None:
    command = [sys.executable, benchmarks.ngrams.__file__, str(tmp_path / "absent")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "gpt1.prepare()" in done.stderr
    folder = write_corpus(tmp_path, {"train": [1, 2, 3], "valid": [1, 2]})
    done = subprocess.run([*command[:2], str(folder), "--tokens", "2"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        1,
        "error: 2 training and 2 validation tokens are too few for a trigram\n",
    )
