"""Tasks learned with every token seen from every other: what is learned, who honours it, who refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from gpt1.base.errors import Gpt1Error, SettingError
from gpt1.exchange.to_compact import export_compact
from gpt1.exchange.to_onnx import export_onnx
from gpt1.exchange.to_transformers import export_transformers
from gpt1.finetuning.finetune import finetune
from gpt1.inference.run import Run, load_run
from gpt1.pretraining.measure import measure_corpus
from gpt1.pretraining.pretrain import pretrain
from gpt1.tasks.encoded import EncodedTask
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import (
    SETTINGS,
    Told,
    assert_same_run,
    encode,
    lines_of,
    losses_of,
    make_pretrained,
    make_task,
)
from tests.reference import transformer as reference

BOTH_WAYS = (*SETTINGS, "training.epochs=8", "finetuning.bidirectional=true", "finetuning.lm_weight=0")
MIXED = ("shape.context=16", "shape.feed_forward=64", "training.masked_share=0.5")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> Path:
    return make_pretrained(tmp_path_factory.mktemp("base") / "mixed", words_tokenizer, *MIXED)


@pytest.fixture(scope="module")
def rows(words_tokenizer: Tokenizer) -> EncodedTask:
    return encode(make_task(), words_tokenizer)


@pytest.fixture(scope="module")
def learned(base: Path, rows: EncodedTask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("learned") / "run"
    finetune(base, run, encoded=rows, changes=BOTH_WAYS, recipe="finetune", device="cpu")
    return run


def literal(run: Run, text: str) -> np.ndarray:
    """Return the probabilities of a text's labels by the formula."""
    weights = {name: weight.double() for name, weight in run.checkpoint.model.items()}
    body = {name.removeprefix("body."): weight for name, weight in weights.items() if name.startswith("body.")}
    specials = run.tokenizer.specials
    ids = torch.tensor([[specials["start"], *run.tokenizer.encode(text), specials["extract"]]])
    hidden, _ = reference.forward(body, ids, run.recipe.shape, bidirectional=True)  # type: ignore[no-untyped-call]
    logits = hidden[0, -1] @ weights["heads.moods.weight"].T + weights["heads.moods.bias"]
    found: np.ndarray = logits.softmax(-1).numpy()
    return found


def test_a_run_answers_as_the_formula_does_alone_beside_others_and_in_int8(learned: Path) -> None:
    run, texts = load_run(learned, device="cpu"), ["somebody sold the lamp", "Ann", "the girl saw a lamp by the sea"]
    found = [[*row["probabilities"].values()] for row in run.predict(texts)]
    np.testing.assert_allclose(found, [literal(run, text) for text in texts], atol=1e-5)
    rounded = [[*row["probabilities"].values()] for row in load_run(learned, device="cpu", int8=True).predict(texts)]
    np.testing.assert_allclose(rounded, found, atol=0.05)


def test_the_task_is_learned_and_nothing_beside_it(learned: Path, base: Path, rows: EncodedTask) -> None:
    lines = lines_of(learned)
    terms = [line["terms"] for line in lines if "terms" in line]
    assert all(list(one) == ["moods"] for one in terms)
    assert terms[-1]["moods"] < terms[0]["moods"]
    assert load_run(learned, device="cpu").is_bidirectional


def test_a_killed_run_goes_on_bit_for_bit(learned: Path, base: Path, rows: EncodedTask, tmp_path: Path) -> None:
    run = tmp_path / "run"

    class Enough(Exception):
        pass

    def stop(event: object) -> None:
        if getattr(event, "step", 0) == 7:
            raise Enough

    with pytest.raises(Enough):
        finetune(base, run, encoded=rows, changes=BOTH_WAYS, recipe="finetune", device="cpu", listeners=[stop])
    finetune(base, run, encoded=rows, changes=BOTH_WAYS, recipe="finetune", device="cpu", resume=True)
    assert_same_run(learned, run)


def test_parts_of_a_batch_change_nothing_but_rounding(
    learned: Path, base: Path, rows: EncodedTask, tmp_path: Path
) -> None:
    changes = [*BOTH_WAYS, "training.micro_batch=3"]
    finetune(base, tmp_path / "run", encoded=rows, changes=changes, recipe="finetune", device="cpu")
    assert losses_of(tmp_path / "run") == {
        step: pytest.approx(loss, rel=1e-4) for step, loss in losses_of(learned).items()
    }


def test_what_reads_answers_honours_it(learned: Path, tmp_path: Path) -> None:
    run = load_run(learned, device="cpu")
    text = "somebody sold the lamp"
    export_compact(run, tmp_path / "compact")
    (compact,) = load_run(tmp_path / "compact", device="cpu").predict([text])
    np.testing.assert_allclose([*compact["probabilities"].values()], literal(run, text), atol=0.05)
    (explained,) = run.predict([text], explain=True)
    assert [*explained["probabilities"].values()] == pytest.approx(literal(run, text), abs=1e-5)
    assert explained["explanation"]
    first, second = run.embed(["Ann sold it", "Ann sold them"], pooling="mean")
    ids = [run.tokenizer.encode(one) for one in ("Ann sold it", "Ann sold them")]
    hidden = [run.model(torch.tensor([one]))[0][0].mean(0).detach().numpy() for one in ids]
    np.testing.assert_allclose([first, second], hidden, atol=1e-5)


@pytest.mark.parametrize(
    "ask",
    [
        lambda run, out: run.generate("Ann"),
        lambda run, out: next(run.stream("Ann")),
        lambda run, out: run.score(["Ann sold it"]),
        lambda run, out: run.attention("Ann sold it", layer=1),
        lambda run, out: export_onnx(run, out / "run.onnx"),
        lambda run, out: export_transformers(run, out / "theirs"),
    ],
    ids=["generate", "stream", "score", "attention", "onnx", "transformers"],
)
def test_what_asks_for_a_next_token_or_goes_out_is_refused(
    learned: Path, tmp_path: Path, ask: Callable[[Run, Path], object]
) -> None:
    with pytest.raises(Gpt1Error, match=r"looks? (both ways|back alone)"):
        ask(load_run(learned, device="cpu"), tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_a_text_is_not_measured_by_it(learned: Path, corpus: Path) -> None:
    with pytest.raises(SettingError, match="fine-tuned to look both ways"):
        measure_corpus(load_run(learned, device="cpu"), corpus)


def test_a_text_can_be_read_on_from_it_left_to_right(learned: Path, corpus: Path, tmp_path: Path) -> None:
    changes = ["training.steps=1", "training.precision=fp32", "training.batch=4"]
    run = pretrain("tiny", corpus, tmp_path / "run", init=learned, changes=changes, device="cpu")
    assert not run.is_bidirectional
    assert measure_corpus(run, corpus)["bits_per_byte"] > 0


def test_who_has_not_learned_to_look_both_ways_is_told_of(
    base: Path, learned: Path, rows: EncodedTask, words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    causal = make_pretrained(tmp_path / "causal", words_tokenizer, "shape.context=16")

    def told(name: str, init: Path, *more: str) -> Told:
        hears, changes = Told(), [*BOTH_WAYS, "training.steps=1", *more]
        finetune(
            init, tmp_path / name, encoded=rows, changes=changes, recipe="finetune", device="cpu", listeners=[hears]
        )
        return hears

    assert "every token is read with those after it, which" in told("one", causal)
    for number, hears in enumerate(
        (told("two", base), told("three", learned), told("four", causal, "finetuning.scratch=true"))
    ):
        assert "every token is read with those after it" in hears, number
        assert "has not learned" not in hears


def test_it_is_refused_where_it_cannot_be(
    base: Path, rows: EncodedTask, words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    def refused(message: str, *changes: str, init: Path = base) -> None:
        with pytest.raises(SettingError, match=message):
            finetune(
                init, tmp_path / "run", encoded=rows, changes=[*SETTINGS, *changes], recipe="finetune", device="cpu"
            )
        assert not (tmp_path / "run").exists()

    both_ways = ("finetuning.bidirectional=true", "finetuning.lm_weight=0")
    refused("sees the next token.*say finetuning.lm_weight=0 too, not 0.5", "finetuning.bidirectional=true")
    refused("training.masked_share is of pre-training", "training.masked_share=0.5")
    lstm = make_pretrained(
        tmp_path / "lstm", words_tokenizer, "shape.kind=lstm", "shape.layers=1", "shape.units=8", "shape.context=16"
    )
    refused(
        "finetuning.bidirectional wants attention that looks both ways, and an LSTM has none", *both_ways, init=lstm
    )
    window = make_pretrained(tmp_path / "window", words_tokenizer, "shape.window=4", "shape.context=16")
    refused(r"finetuning.bidirectional wants .* a window \(shape.window=4\) looks back alone", *both_ways, init=window)
