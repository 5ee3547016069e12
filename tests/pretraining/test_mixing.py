"""Old text among new: how much of it, in which order, for every process the same, and through kills bit for bit."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from math import floor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt1.base.errors import InputError, SettingError
from gpt1.cli.lines import score_line
from gpt1.corpus.prepare import prepare
from gpt1.inference.run import load_run
from gpt1.pretraining.measure import measure_corpus
from gpt1.pretraining.mixing import MixedWindows
from gpt1.pretraining.pretrain import pretrain
from gpt1.pretraining.stream import TokenStream
from gpt1.report import report
from gpt1.runs.files import last_scores
from gpt1.text.tokenizer import Tokenizer
from gpt1.training.batches import share_of
from tests.finetuning.tools import Told, assert_same_run, losses_of
from tests.pretraining.tools import write_corpus
from tests.processes import kill_after, start
from tests.properties import examples

CHANGES = (
    "training.steps=12",
    "training.batch=8",
    "optimizer.lr=1e-2",
    "schedule.warmup_share=0.1",
    "logging.save_every=4",
    "logging.sample_every=none",
)
OLD = 5000  # from this token on a text of these tests is the old one


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[TokenStream, TokenStream]:
    """New text whose tokens are 0, 1, 2, ..., and old text whose tokens are 5000, 5001, ..."""
    folder = tmp_path_factory.mktemp("texts")
    for name in ("new", "old"):
        (folder / name).mkdir()
    write_corpus(folder / "new", {"train": range(700)}, vocab_size=9000)
    write_corpus(folder / "old", {"train": range(OLD, OLD + 90)}, vocab_size=9000)
    return TokenStream(folder / "new", "train"), TokenStream(folder / "old", "train")


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Path:
    """A corpus of the same words in another world: numbers and keys."""
    folder = tmp_path_factory.mktemp("strange")
    (folder / "text.txt").write_text("\n\n".join(f"{n} apples, {n + 1} apples, 10 silver keys." * 9 for n in range(60)))
    document = {"document": "blank", "duplicates": "keep", "workers": 1}
    prepare([folder / "text.txt"], corpus, folder / "corpus", valid=0.2, **document)  # type: ignore[arg-type]
    return folder / "corpus"


def rows(windows: MixedWindows, batches: int) -> list[tuple[bool, list[int]]]:
    """Return of all windows of the first batches whether they are old, and their targets."""
    found = []
    for k in range(batches):
        targets = windows.batch(k).arrays["targets"]
        found += [(bool(row[0] >= OLD), row[row >= 0].tolist()) for row in targets]
    return found


@examples(60)
@given(
    share=st.decimals("0.001", "0.999", places=3),
    batch=st.integers(1, 9),
    context=st.integers(1, 40),
    seed=st.integers(0, 2**31 - 1),
)
def test_of_the_first_n_windows_exactly_the_floor_of_the_share_is_old_and_each_text_is_read_in_epochs(
    texts: tuple[TokenStream, TokenStream], share: float, batch: int, context: int, seed: int
) -> None:
    new, old = texts
    mixed = MixedWindows(new, old, share=float(share), context=context, batch=batch, seed=seed)
    found = rows(mixed, 12)
    assert len(found) == 12 * batch  # no batch is shorter, wherever an epoch ends
    assert [sum(is_old for is_old, _ in found[:n]) for n in range(len(found) + 1)] == [
        floor(n * Fraction(str(share))) for n in range(len(found) + 1)
    ]
    for kind, tokens, first in ((False, 700, 1), (True, 90, OLD + 1)):
        read = [target for is_old, targets in found if is_old is kind for target in targets]
        wanted = list(range(first, first + tokens - 1))
        for begin in range(0, len(read) - len(wanted) + 1, len(wanted)):
            assert sorted(read[begin : begin + len(wanted)]) == wanted  # each token once an epoch
        rest = read[len(read) - len(read) % len(wanted) :]
        assert len(set(rest)) == len(rest)


@examples(30)
@given(order=st.lists(st.integers(0, 200), min_size=1, max_size=6), ranks=st.integers(1, 4), micro=st.integers(1, 3))
def test_a_batch_is_the_same_whoever_asks_and_its_shares_are_its_rows(
    texts: tuple[TokenStream, TokenStream], order: list[int], ranks: int, micro: int
) -> None:
    def fresh() -> MixedWindows:
        return MixedWindows(*texts, share=0.3, context=11, batch=6, seed=4)

    asked = fresh()
    for k in [*order, *order]:
        batch, other = asked.batch(k), fresh().batch(k)
        assert batch.counts == other.counts == {"lm": float((batch.arrays["targets"] >= 0).sum())}
        np.testing.assert_array_equal(batch.arrays["ids"], other.arrays["ids"])
        parts = [part for rank in range(ranks) for part in share_of(batch, 6, micro, rank, ranks)]
        whole = np.concatenate([part.arrays["targets"] for part in parts])
        real = np.concatenate([part.sequences for part in parts])
        whole = whole[(whole >= 0).any(1)]
        np.testing.assert_array_equal(whole, batch.arrays["targets"])
        assert set(range(6)) <= set(real.tolist())


def test_an_epoch_is_one_of_the_new_text(texts: tuple[TokenStream, TokenStream]) -> None:
    mixed = MixedWindows(*texts, share=0.25, context=16, batch=4, seed=0)
    last = mixed.batches_in(1)
    read = {target for is_old, targets in rows(mixed, last) if not is_old for target in targets}
    assert read == set(range(1, 700))
    before = [target for is_old, targets in rows(mixed, last - 1) if not is_old for target in targets]
    assert len(before) < 699
    assert mixed.batches_in(2.5) == -(-round(4 / 3 * mixed._new.batches_in(2.5)) // 4)


@pytest.fixture(scope="module")
def mixed(trained: Path, corpus: Path, strange: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("mixed") / "run"
    pretrain(None, strange, out, init=trained, mix={corpus: 0.5}, changes=CHANGES, device="cpu")
    return out


def test_a_run_tells_and_keeps_what_was_mixed_in_and_is_measured_on_both(
    mixed: Path, trained: Path, corpus: Path, strange: Path, tmp_path: Path
) -> None:
    told = Told()
    again = tmp_path / "again"
    pretrain(None, strange, again, init=trained, mix={corpus: 0.5}, changes=CHANGES, device="cpu", listeners=[told])
    assert_same_run(mixed, again)
    assert f"mixed in: a share of 0.5 of {corpus} (" in told
    run = load_run(mixed, device="cpu", step="last")
    kept = run.record.mixed
    assert kept is not None
    stream = TokenStream(corpus, "train")
    assert (kept.path, kept.share) == (str(corpus.resolve()), 0.5)
    assert (kept.identity, kept.tokens) == (stream.identity, len(stream))
    _, scores = last_scores(mixed)
    assert scores["bits_per_byte"] == pytest.approx(measure_corpus(run, strange)["bits_per_byte"], rel=1e-5)
    assert scores["old_bits_per_byte"] == pytest.approx(measure_corpus(run, corpus)["bits_per_byte"], rel=1e-5)
    assert score_line(scores).endswith(f"; of the old text {scores['old_bits_per_byte']:.3f}")
    page = report([mixed], tmp_path / "report.html").read_text("utf-8")
    assert "tokens: a share of 0.5 of what was read" in page


def test_less_is_forgotten_with_old_text_mixed_in(
    mixed: Path, trained: Path, corpus: Path, strange: Path, tmp_path: Path
) -> None:
    pretrain(None, strange, tmp_path / "alone", init=trained, changes=CHANGES, device="cpu")
    lost = {
        name: measure_corpus(load_run(run, device="cpu", step="last"), corpus)["bits_per_byte"]
        for name, run in (("before", trained), ("mixed", mixed), ("alone", tmp_path / "alone"))
    }
    assert lost["alone"] - lost["before"] > 3 * max(lost["mixed"] - lost["before"], 0)


def test_a_killed_run_goes_on_bit_for_bit(
    mixed: Path, trained: Path, corpus: Path, strange: Path, tmp_path: Path
) -> None:
    asked = ["--init", trained, "--corpus", strange, "--mix", f"{corpus}=0.5", "--out", tmp_path / "run"]
    words = [word for change in CHANGES for word in ("--set", change)]
    command = [sys.executable, "-m", "gpt1", "pretrain", *map(str, asked), *words, "--device", "cpu"]
    kill_after(start(command), tmp_path / "run", 6)
    subprocess.run([*command, "--resume"], check=True, capture_output=True)
    assert_same_run(mixed, tmp_path / "run")


def test_micro_batches_change_nothing_but_rounding(
    mixed: Path, trained: Path, corpus: Path, strange: Path, tmp_path: Path
) -> None:
    changes = [*CHANGES, "training.micro_batch=3"]
    pretrain(None, strange, tmp_path / "run", init=trained, mix={corpus: 0.5}, changes=changes, device="cpu")
    assert losses_of(tmp_path / "run") == pytest.approx(losses_of(mixed), rel=1e-4)


def test_a_run_goes_on_with_its_own_mixture_alone(mixed: Path, trained: Path, corpus: Path, strange: Path) -> None:
    def go_on(mix: dict[Path, float] | None, run: Path = mixed, text: Path = strange) -> None:
        pretrain(None, text, run, mix=mix, resume=True, device="cpu")

    with pytest.raises(SettingError, match=r"begun with a share of 0.5 of .*, and is to go on with no old text: a run"):
        go_on(None)
    with pytest.raises(SettingError, match=r"with a share of 0.5 of .* and is to go on with a share of 0.4"):
        go_on({corpus: 0.4})
    with pytest.raises(SettingError, match=r"with a share of 0.5 of .* and is to go on with a share of 0.5"):
        go_on({strange: 0.5})
    with pytest.raises(SettingError, match=r"begun with no old text mixed in"):
        go_on({strange: 0.5}, trained, corpus)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 25.0, float("nan")])
def test_a_share_that_is_none_is_refused(corpus: Path, strange: Path, tmp_path: Path, share: float) -> None:
    with pytest.raises(SettingError, match="is above 0 and below 1, not"):
        pretrain("tiny", strange, tmp_path / "run", mix={corpus: share}, device="cpu")
    assert not (tmp_path / "run").exists()


def test_what_cannot_be_mixed_in_is_refused(
    corpus: Path, strange: Path, tmp_path: Path, bytes_tokenizer: Tokenizer
) -> None:
    bytes_tokenizer.save(tmp_path / "tokenizer.json")
    (tmp_path / "text.txt").write_text("Ann sold nothing. " * 50)
    prepare([tmp_path / "text.txt"], tmp_path / "tokenizer.json", tmp_path / "foreign", valid=0, workers=1)
    for mix, message in (
        ({tmp_path / "foreign": 0.5}, "was made with another tokenizer than .*and both are read by one network"),
        ({tmp_path / "nowhere": 0.5}, "nowhere"),
    ):
        with pytest.raises(InputError, match=message):
            pretrain("tiny", strange, tmp_path / "run", mix=mix, device="cpu")
    with pytest.raises(SettingError, match=r"one corpus is mixed in, not 2 \(.*; prepare their texts as one"):
        pretrain("tiny", strange, tmp_path / "run", mix={corpus: 0.2, strange: 0.2}, device="cpu")
    assert not (tmp_path / "run").exists()
