"""A run measured on a corpus, and on files as they are."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.corpus.prepare import prepare
from gpt1.inference.run import Run, load_run
from gpt1.pretraining.measure import measure_corpus, measure_text
from gpt1.pretraining.stream import TokenStream
from gpt1.text.tokenizer import Tokenizer
from tests.cli.tools import run as call
from tests.conftest import make_text
from tests.records import lines_in


@pytest.fixture(scope="module")
def run(trained: Path) -> Run:
    return load_run(trained, device="cpu", step="last")


def test_the_validation_text_of_a_run_gives_the_scores_its_training_told(run: Run, trained: Path) -> None:
    lines = lines_in(trained / "metrics.jsonl")
    told = [line for line in lines if "valid_loss" in line][-1]
    found = measure_corpus(run, None, "valid")
    assert found.pop("unknown_tokens") == 0
    assert found == {name: pytest.approx(told[name], rel=1e-5) for name in found}
    assert told["step"] == run.checkpoint.step


def test_scores_belong_together(run: Run, corpus: Path) -> None:
    found = measure_corpus(run, corpus, "train")
    stream = TokenStream(corpus, "train")
    assert found["targets"] == len(stream) - 1
    assert found["perplexity"] == pytest.approx(math.exp(found["valid_loss"]))
    bits = found["valid_loss"] * found["targets"] / math.log(2)
    assert found["bits_per_byte"] == pytest.approx(bits / stream.bytes)


def test_files_give_the_scores_of_the_corpus_made_of_them(run: Run, trained: Path, tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"{number}.txt").write_text(make_text(30, seed=50))  # twice the same, and both count
    paths = [str(tmp_path / f"{number}.txt") for number in range(2)]
    prepare(paths, trained, tmp_path / "corpus", valid=0.0, duplicates="keep", workers=1)
    assert measure_text(run, paths) == measure_corpus(run, tmp_path / "corpus", "train")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.txt", "1.txt", "corpus"]


def test_another_tokenizers_text_is_refused(run: Run, bytes_tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(make_text(30, seed=50))
    prepare([tmp_path / "a.txt"], bytes_tokenizer, tmp_path / "corpus", valid=0.0, workers=1)
    with pytest.raises(InputError, match=r"corpus was made with another tokenizer than the run .*: prepare it with"):
        measure_corpus(run, tmp_path / "corpus", "train")


def test_what_cannot_be_measured_is_told(run: Run, corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"unknown split 'vaild' of the corpus .*; did you mean 'valid'"):
        measure_corpus(run, corpus, "vaild")
    with pytest.raises(InputError, match="is not a folder with a corpus"):
        measure_corpus(run, tmp_path / "absent", "valid")
    with pytest.raises(InputError, match=r"absent.txt does not exist"):
        measure_text(run, [str(tmp_path / "absent.txt")])
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(InputError):
        measure_text(run, [str(tmp_path / "empty.txt")])


def test_text_in_a_script_that_the_vocabulary_cannot_spell_is_counted_and_told(
    run: Run, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "korean.txt"
    text.write_text("오늘은 날씨가 좋다. Ann sold apples.\n" * 20)
    found = measure_text(run, [str(text)])
    assert 0 < found["unknown_tokens"] < found["targets"]
    told = f"{found['unknown_tokens']:,.0f} of "
    code, _, err = call(capsys, "evaluate", str(trained), str(text), "--device", "cpu", "--json")
    assert (code, f"{text}: {told}" in err) == (0, True)
    corpus = tmp_path / "corpus"
    options = ("--tokenizer", str(trained), "--out", str(corpus), "--workers", "1", "--valid", "0")
    code, out, _ = call(capsys, "prepare", str(text), *options)
    assert (code, f"train: {told}" in out) == (0, True)
    (notice,) = TokenStream(corpus, "train").notices
    assert notice.startswith(f"{corpus}, train: {told}")
