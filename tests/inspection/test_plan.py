"""A plan has the paper's numbers for the paper's recipe, and reads as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpt1.base.devices import GIB
from gpt1.base.errors import Gpt1Error, InputError, SettingError
from gpt1.base.wording import duration
from gpt1.corpus.prepare import prepare
from gpt1.inspection import plan as module
from gpt1.inspection.plan import Speed, layer_costs, plan, training_speed
from gpt1.inspection.plan_page import describe
from gpt1.inspection.sizes import Execution
from gpt1.recipes.catalog import PAPER, PAPER_LSTM, TINY
from gpt1.recipes.changes import change
from gpt1.recipes.values import Recipe
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text

TEXT: dict[str, Any] = {"tokens": 1_100_000_000, "vocab_size": 40_478}
SMALL: dict[str, Any] = {"tokens": 1_250_000, "vocab_size": 40_478}


@pytest.fixture
def slow_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of 10 GFLOP/s with 8 GiB and nothing but fp32."""
    monkeypatch.setattr(module, "measured_flops", lambda device, precision, width: 1e10)
    monkeypatch.setattr(module, "memory_total", lambda device: 8 * GIB)
    monkeypatch.setattr(module, "usable_precision", lambda device, wanted: ("fp32", "computing in fp32, not bf16: old"))


def test_the_papers_numbers() -> None:
    found = plan(PAPER, **TEXT, gpu="H200")
    assert found.figures.parameters.total == 116_534_784
    assert found.figures.flops.a_token == pytest.approx(0.724e9, rel=1e-3)
    assert found.figures.updates.tokens_an_update == 64 * 512
    assert found.figures.updates.an_epoch == pytest.approx(1_100_000_000 / (64 * 512), rel=1e-3)
    assert found.figures.updates.total == 100 * found.figures.updates.an_epoch
    assert found.figures.updates.warmup == 2000
    assert found.figures.updates.tokens == pytest.approx(100 * TEXT["tokens"], rel=1e-6)
    assert found.figures.flops.total == pytest.approx(0.7244e9 * 1.1e11, rel=1e-3)
    assert found.figures.memory.fits


def test_time_on_an_h200_is_what_was_measured_there() -> None:
    assert plan(PAPER, **TEXT, gpu="H200").figures.time.tokens_a_second == pytest.approx(547_000, rel=0.02)


def test_an_lstm_waits_for_each_of_its_states() -> None:
    time = plan(PAPER_LSTM, **TEXT, gpu="H200").figures.time
    assert time.tokens_a_second == pytest.approx(770_000, rel=0.02)  # as measured
    halves = plan(change(PAPER_LSTM, ["micro_batch=32"]), **TEXT, gpu="H200").figures.time
    assert halves.seconds_an_update - time.seconds_an_update == pytest.approx(2 * 512 * 20e-6, rel=1e-6)
    large, larger = (
        plan(change(PAPER_LSTM, [f"batch={batch}"]), **TEXT, gpu="H200").figures.time.tokens_a_second
        for batch in (1024, 2048)
    )
    assert larger == pytest.approx(large, rel=0.02)  # the products with the state are what takes time then
    assert large > 1.3 * time.tokens_a_second


def test_a_small_network_is_not_faster_than_a_gpu_is_told_what_to_do() -> None:
    time = plan(change(TINY, ["batch=1"]), **SMALL, gpu="H200").figures.time
    assert time.seconds_an_update == pytest.approx(4 * 0.022 / 12)


def test_a_short_run_warms_up_for_a_fiftieth_and_the_page_says_so() -> None:
    found = plan(PAPER, **SMALL, gpu="H200")
    assert found.figures.updates.warmup == round(found.figures.updates.total / 50) < 2000
    assert "not 2,000: the run is too short" in "\n".join(describe(found))
    assert "too short" not in "\n".join(describe(plan(PAPER, **TEXT, gpu="H200")))


def test_room_on_the_disk_is_told_with_what_lies_along_the_way() -> None:
    found = plan(change(PAPER, ["steps=1000"]), **TEXT, gpu="H200")
    page = "\n".join(describe(found))
    assert "weights alone              2.17 GiB  5 of 0.43 GiB, along the way" in page
    assert found.as_json()["disk"]["total"] == found.figures.disk.total == (3 * 3 + 5) * 4 * 116_534_784


def test_a_layer_is_told_by_part_and_a_longer_context_by_what_it_costs_a_token() -> None:
    on_gpu, on_cpu = Execution(True, True, "bf16"), Execution(False, False, "fp32")
    fused, written_out = (layer_costs(PAPER.shape, 40_478, place) for place in (on_gpu, on_cpu))
    n, d = 512, 768
    assert {name: part.flops for name, part in fused.parts.items()} == {
        "attention scores": 6 * n * n * d,  # of the pairs of tokens half: nobody sees what comes later
        "projections": 24 * n * d * d,
        "feed-forward": 48 * n * d * d,
    }
    assert fused.parts["attention scores"].saved_bytes == 0  # of pairs nothing is kept
    assert written_out.parts["attention scores"].saved_bytes == 3 * 12 * n * n * 4
    whole = plan(PAPER, **TEXT, gpu="H200").figures
    assert 64 * 12 * sum(part.saved_bytes for part in whole.layer.parts.values()) == whole.memory.peak.activations
    first, double, fourfold = fused.contexts
    assert (first.context, double.context, fourfold.context) == (512, 1024, 2048)
    assert double.flops_a_token - first.flops_a_token == 12 * 6 * n * d
    assert fourfold.flops_a_token - double.flops_a_token == 2 * 12 * 6 * n * d
    assert fourfold.saved_bytes_a_token == first.saved_bytes_a_token  # fused
    assert written_out.contexts[2].saved_bytes_a_token > 2 * written_out.contexts[0].saved_bytes_a_token
    page = "\n".join(describe(plan(PAPER, **TEXT, gpu="H200")))
    assert "A layer, 512 tokens\n-------------------\n  attention scores         1.21 GFLOP  0 MiB kept, n^2 d" in page
    assert "context 2,048                1.12 x  the FLOPs a token, 1.00 x what is kept" in page


def test_steps_take_the_place_of_epochs() -> None:
    found = plan(change(PAPER, ["steps=1000"]), **TEXT, gpu="H200").figures.updates
    assert found.total == 1000
    assert found.tokens == pytest.approx(1000 * 64 * 512, rel=1e-3)


@pytest.mark.parametrize(
    "more", ["shape.layers=13", "training.epochs=101", "shape.context=1024", "shape.feed_forward=4096"]
)
def test_more_of_anything_costs_more(more: str) -> None:
    less, found = (plan(recipe, **TEXT, gpu="H200") for recipe in (PAPER, change(PAPER, [more])))
    assert found.figures.flops.total > less.figures.flops.total
    assert found.figures.time.seconds > less.figures.time.seconds


def test_a_window_and_an_lstm_cost_less_a_token() -> None:
    def flops(recipe: Recipe) -> float:
        return float(plan(recipe, **TEXT, gpu="H200").figures.flops.a_token)

    assert flops(change(PAPER, ["window=64"])) < flops(PAPER)
    assert flops(PAPER_LSTM) < flops(PAPER)


def test_with_a_window_the_scores_of_a_longer_context_cost_a_token_no_more() -> None:
    full, windowed, far = (
        plan(change(PAPER, changes), **TEXT, gpu="H200").figures
        for changes in ([], ["window=64"], ["window=64", "global_tokens=2"])
    )
    growth = {
        name: figures.layer.contexts[-1].flops_a_token / figures.layer.contexts[0].flops_a_token
        for name, figures in (("full", full), ("windowed", windowed), ("far", far))
    }
    assert growth["full"] > 1.1
    assert growth["windowed"] < 1.01
    assert growth["far"] < 1.01
    assert full.flops.a_token > far.flops.a_token > windowed.flops.a_token
    page = describe(plan(change(PAPER, ["window=64"]), **TEXT, gpu="H200"))
    assert any(line.endswith("n w d, w = 64") for line in page)
    assert not any("w = " in line for line in describe(plan(PAPER, **TEXT, gpu="H200")))


def test_a_gpu_without_bf16_computes_in_fp16_and_the_page_says_so() -> None:
    found = plan(PAPER, **TEXT, gpu="T4")
    assert found.machine.precision == "fp16"
    assert "  computing in fp16, not bf16: T4 has no bf16 products" in describe(found)


def test_a_time_that_is_not_known_is_not_made_up() -> None:
    found = plan(change(PAPER, ["precision=fp64"]), **TEXT, gpu="H200")
    assert found.figures.time.seconds is None
    assert "  not known: no figure for products in fp64" in describe(found)


@pytest.mark.usefixtures("slow_cpu")
def test_here_the_speed_is_measured_and_what_does_not_fit_is_made_to() -> None:
    found = plan(PAPER, **SMALL, device="cpu")
    assert found.machine.product_flops_source == "measured"
    assert not found.figures.memory.fits
    flops, share = found.figures.flops.total, found.machine.utilisation.share
    assert found.figures.time.seconds == pytest.approx(flops / (1e10 * share))
    advised = plan(change(PAPER, found.advice.set), **SMALL, device="cpu")
    assert advised.figures.memory.fits
    assert advised.advice.set == []
    assert advised.figures.time.seconds == found.advice.seconds < found.figures.time.seconds
    assert advised.figures.parameters.total == found.advice.parameters


def test_a_corpus_tells_its_tokens_and_its_vocabulary(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    (tmp_path / "a.txt").write_text(make_text(400, seed=1))
    (tmp_path / "b.txt").write_text(make_text(40, seed=2))
    corpus = prepare(tmp_path, words_tokenizer, tmp_path / "corpus", workers=1)
    found = plan(TINY, tmp_path / "corpus", gpu="L4")
    assert found.text.tokens == corpus["splits"]["train"]["tokens"]
    assert found.text.bytes == corpus["splits"]["train"]["bytes"]
    assert found.text.vocab_size == words_tokenizer.vocab_size


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ({}, SettingError, "either a prepared `corpus` or a number of `tokens`"),
        ({"tokens": 5, "corpus": "x"}, SettingError, "either a prepared `corpus` or a number of `tokens`"),
        ({"tokens": 5}, SettingError, "the paper's is 40478"),
        ({"tokens": 1, "vocab_size": 10}, SettingError, "at least 2 tokens"),
        ({"corpus": "x", "vocab_size": 10}, SettingError, "has its vocabulary already"),
        ({"corpus": "nowhere"}, InputError, "nowhere is not a folder with a corpus"),
        ({**TEXT, "gpu": "H20"}, SettingError, "unknown GPU 'H20'; did you mean 'H200'"),
        ({**TEXT, "gpu": "H200", "device": "cpu"}, SettingError, "either the name of a GPU"),
        ({**TEXT, "device": "cuda:99"}, SettingError, "there is no device 'cuda:99' here"),
    ],
)
def test_what_cannot_be_planned_is_refused(given: dict[str, Any], error: type[Gpt1Error], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        plan(PAPER, **given)


@pytest.mark.parametrize("recipe", [PAPER, TINY, PAPER_LSTM], ids=lambda recipe: recipe.name)
@pytest.mark.parametrize("text", [TEXT, SMALL, {"tokens": 2, "vocab_size": 1}], ids=["much", "little", "nothing"])
def test_the_page_fits_a_terminal(recipe: Recipe, text: dict[str, Any]) -> None:
    lines = describe(plan(recipe, **text, gpu="RTX 4090"))
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line and not line.startswith((" ", "-"))][-1] == "Advice"
    assert not any("e+0" in line for line in lines if "FLOPs" not in line)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.1, "1 s"), (59, "59 s"), (90, "2 min"), (3600, "1 h"), (12_000, "3 h 20 min"), (1_051_200, "12 days 4 h")],
)
def test_times_are_said_as_people_say_them(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_speed_tells_how_long_tokens_take_and_never_less_than_the_updates() -> None:
    assert Speed(100.0).seconds(1000, 5) == 10
    assert Speed(100.0, 3.0).seconds(1000, 5) == 15
    found = training_speed(TINY, 1000, "cpu")
    assert found is not None
    assert found.tokens_a_second > 0
