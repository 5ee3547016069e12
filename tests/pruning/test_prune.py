"""A pruned run is a whole run, smaller, that every verb reads, and a short training brings it back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from gpt1.base.errors import InputError, SettingError
from gpt1.exchange.to_compact import export_compact
from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.results import run_worth
from gpt1.inference.run import load_run
from gpt1.pretraining.distill import distill_text
from gpt1.pretraining.measure import measure_corpus
from gpt1.pretraining.pretrain import pretrain
from gpt1.pruning.prune import prune, pruned_shape, pruned_weights
from gpt1.recipes.values import LSTM, Shape
from gpt1.report import report
from gpt1.report.card import make_card
from gpt1.tasks.catalog import Task
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import SMALL_RUN
from tests.finetuning.tools import SETTINGS, make_examples, make_pretrained, make_task, write_table
from tests.records import facts_in


@pytest.fixture(scope="module")
def deep(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of four layers that were dropped now and then while it learned."""
    run = tmp_path_factory.mktemp("deep") / "run"
    changes = [*SMALL_RUN, "shape.layers=4", "shape.layer_drop=0.3", "training.steps=40"]
    pretrain("tiny", corpus, run, changes=changes, device="cpu")
    return run


def test_a_pruned_run_is_a_run_like_any_other_and_says_what_it_was(deep: Path, corpus: Path, tmp_path: Path) -> None:
    told: list[str] = []
    made = prune(deep, tmp_path / "half", layers=2, feed_forward=40, device="cpu", tell=told.append)
    run = load_run(tmp_path / "half", device="cpu")
    shape = run.recipe.shape
    assert (shape.layers, shape.feed_forward, shape.layer_drop) == (2, 40, 0.0)
    pruned = run.record.pruned
    assert pruned is not None
    assert sorted([*pruned.layers, *(one.layer + 1 for one in made.removed)]) == [1, 2, 3, 4]
    assert (pruned.of_layers, pruned.of_feed_forward) == (4, 64)
    assert measure_corpus(run, corpus)["valid_loss"] == pytest.approx(pruned.loss_after, rel=1e-5)
    assert measure_corpus(load_run(deep, device="cpu"), corpus)["valid_loss"] == pytest.approx(pruned.loss_before)
    assert pruned.loss_after < made.removed[-1].loss + 0.05  # units that count little were few of all
    assert told[0].startswith(f"loss {pruned.loss_before:.4f} with 4 layers and 64 units in each feed-forward part, on")
    assert told[1] == f"loss {made.removed[0].loss:.4f} without layer {made.removed[0].layer + 1}"
    kept = ", ".join(map(str, pruned.layers))
    assert f"layers {kept} of 4, 40 of 64 units" in make_card(tmp_path / "half")
    assert f"layers {kept} of 4, 40 of 64 units" in report([tmp_path / "half"], tmp_path / "r.html").read_text("utf-8")
    assert export_compact(run, tmp_path / "compact")
    assert load_run(tmp_path / "half", device="cpu", int8=True).generate("Ann", max_new_tokens=3)


def test_a_short_training_brings_it_back(deep: Path, corpus: Path, tmp_path: Path) -> None:
    made = prune(deep, tmp_path / "half", layers=2, corpus=corpus, device="cpu")
    for name, train in (
        ("alone", lambda out, **how: pretrain(None, corpus, out, init=tmp_path / "half", **how)),
        ("taught", lambda out, **how: distill_text([deep], corpus, out, init=tmp_path / "half", **how)),
    ):
        run = train(tmp_path / name, changes=["training.steps=40"], device="cpu")
        assert run.recipe.shape.layers == 2
        assert measure_corpus(run, corpus)["valid_loss"] < made.pruning.loss_after
        assert run.record.pruned is None
    with pytest.raises(SettingError, match="without the optimiser's moments"):
        pretrain(None, corpus, tmp_path / "half", resume=True, changes=["training.steps=60"], device="cpu")


MOODS, TOPICS = make_task(), replace(make_task("topics"), labels_sep="|", metrics=("micro_f1",))


@pytest.mark.parametrize("task", [MOODS, make_task("pairs", "pair"), TOPICS], ids=lambda task: task.name)
def test_a_fine_tuned_run_is_pruned_by_its_rows_and_measured(task: Task, deep: Path, tmp_path: Path) -> None:
    table = write_table(tmp_path / f"{task.name}.csv", task, make_examples(task, 60))
    how = {"labels_sep": "|"} if task.is_multilabel else {}
    if task.is_multilabel:
        table.write_text(table.read_text().replace(" 3,", " 3,bad|"))
    changes = [*SETTINGS, "finetuning.ensemble=true", "finetuning.folds=0", "finetuning.calibrate=true"]
    whole = finetune(deep, tmp_path / "run", train=table, changes=changes, device="cpu", **how)  # type: ignore[arg-type]
    made = prune(whole.path, tmp_path / "half", layers=2, device="cpu")
    run = load_run(tmp_path / "half", device="cpu")
    assert run.record.pruned == made.pruning
    assert not run.ensembles
    assert run.calibration is None
    assert (run.thresholds is not None) == task.is_multilabel
    rows = facts_in(tmp_path / "half" / f"evaluation-{task.name}-dev.json")["examples"]
    assert rows == run.record.examples[task.name]["dev"]
    assert "is not known" not in run_worth(run, task.name).sentence
    row = {"text": "Ann sold nothing"} if len(task.fields) == 1 else {"a": "Ann sold", "b": "nothing"}
    assert len(list(run.predict([row]))) == 1
    again = finetune(run.path, tmp_path / "again", train=table, changes=SETTINGS, device="cpu", **how)  # type: ignore[arg-type]
    assert again.recipe.shape.layers == 2


def test_a_fine_tuned_run_that_is_pruned_by_text_says_that_it_was_not_measured(
    deep: Path, corpus: Path, tmp_path: Path
) -> None:
    table = write_table(tmp_path / "moods.csv", MOODS, make_examples(MOODS, 60))
    finetune(deep, tmp_path / "run", train=table, changes=SETTINGS, device="cpu")
    made = prune(tmp_path / "run", tmp_path / "half", layers=3, corpus=corpus, device="cpu")
    told = run_worth(load_run(tmp_path / "half", device="cpu"), "moods").sentence
    assert told == "What it is worth is not known: it was made smaller, and not measured."
    assert made.pruning.measured_on.endswith("tokens of text for validation")


def test_weights_of_other_layers_and_units_are_left_out_and_those_that_stay_keep_their_order() -> None:
    names = ("attention.qkv.weight", "feed_forward.up.weight", "feed_forward.up.bias", "feed_forward.down.weight")
    weights = {f"body.blocks.{layer}.{name}": torch.randn(4, 4) for layer in range(3) for name in names}
    weights["body.tokens"], weights["heads.moods.weight"] = torch.randn(2, 2), torch.randn(1, 4)
    found = pruned_weights(weights, [0, 2], [[1, 3], [0, 2]])
    assert found.keys() == {name for name in weights if "blocks.2" not in name}
    assert torch.equal(found["body.blocks.1.attention.qkv.weight"], weights["body.blocks.2.attention.qkv.weight"])
    assert torch.equal(
        found["body.blocks.1.feed_forward.up.bias"], weights["body.blocks.2.feed_forward.up.bias"][[0, 2]]
    )
    up, down = (f"body.blocks.{{}}.feed_forward.{part}.weight" for part in ("up", "down"))
    assert torch.equal(found[up.format(0)], weights[up.format(0)][[1, 3]])
    assert torch.equal(found[down.format(1)], weights[down.format(2)][:, [0, 2]])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "what is to be left"),
        ({"layers": 0}, "`layers` is 0: the network has 4, and at least 1 is left"),
        ({"layers": 5}, "`layers` is 5: the network has 4"),
        ({"feed_forward": 65}, "`feed_forward` is 65: the network has 64"),
        ({"layers": 4, "feed_forward": 64}, "there is nothing to remove"),
    ],
)
def test_what_leaves_nothing_out_or_too_much_is_refused(given: dict[str, int], message: str) -> None:
    shape = Shape(layers=4, width=16, heads=2, feed_forward=64)
    with pytest.raises(SettingError, match=message):
        pruned_shape(shape, given.get("layers"), given.get("feed_forward"))
    with pytest.raises(SettingError, match="an LSTM has one layer"):
        pruned_shape(Shape(kind=LSTM, layers=1), 1, None)


def test_another_run_is_not_written_over_and_what_a_kill_left_is(
    deep: Path, corpus: Path, tmp_path: Path, words_tokenizer: Tokenizer
) -> None:
    other = make_pretrained(tmp_path / "other", words_tokenizer)
    with pytest.raises(InputError, match="other is there already; choose a new or empty folder"):
        prune(deep, other, layers=3, corpus=corpus, device="cpu")
    prune(deep, tmp_path / "half", layers=3, corpus=corpus, device="cpu")
    (tmp_path / "half" / "run.json").unlink()  # which is written last
    prune(deep, tmp_path / "half", layers=3, corpus=corpus, device="cpu")
    assert load_run(tmp_path / "half", device="cpu").recipe.shape.layers == 3
