"""`finetune` from end to end: what it learns, what it writes, how it goes on, what it refuses."""

from __future__ import annotations

import json
import math
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpt1.base.errors import InputError, SettingError
from gpt1.base.files import lock_folder
from gpt1.finetuning.batches import PackedBatch
from gpt1.finetuning.finetune import chosen_recipe, finetune
from gpt1.finetuning.measure import measure
from gpt1.finetuning.results import results_blocks
from gpt1.inference import run as run_module
from gpt1.inference.classification import probabilities
from gpt1.inference.run import load_run
from gpt1.model.costs import count_parameters
from gpt1.recipes.catalog import AUTO, FINETUNE, LESSONS, PAPER, SMALL, TINY, recipe
from gpt1.recipes.changes import differences
from gpt1.recipes.derived import settled
from gpt1.runs.checkpoints import Checkpoint, list_checkpoints, load_checkpoint, newest_checkpoint
from gpt1.runs.events import Event, RolledBack, Saved, Stepped
from gpt1.runs.folder import read_run
from gpt1.tasks.catalog import CATALOGUE
from gpt1.tasks.encoded import EncodedTask, encode_task, save
from gpt1.tasks.examples import Labelled
from gpt1.tasks.preparing import prepare_task
from gpt1.text.tokenizer import Tokenizer
from gpt1.training.batches import MicroBatchArrays
from tests.conftest import make_text
from tests.finetuning.tools import (
    SETTINGS,
    Told,
    assert_same_run,
    command,
    encode,
    lines_of,
    losses_of,
    make_examples,
    make_pretrained,
    make_task,
    state_of,
    write_table,
)
from tests.moments import changes_told, counted, signalled
from tests.processes import finish, kill_after, start, wait_for_metrics
from tests.records import lines_in

SETTINGS_OF_FAST: dict[str, Any] = {"training.steps": 2, "training.precision": "fp32"}
FAST = tuple(f"{name}={value}" for name, value in SETTINGS_OF_FAST.items())
MOODS, PAIRS, STORIES = make_task(), make_task("pairs", "both"), make_task("stories", "choices")


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> dict[str, Path]:
    """Three prepared tasks of different shapes."""
    folder = tmp_path_factory.mktemp("encoded")
    for task in (MOODS, PAIRS, STORIES):
        save(encode(task, words_tokenizer, 48 if task is MOODS else 20), folder / task.name)
    return {task.name: folder / task.name for task in (MOODS, PAIRS, STORIES)}


@pytest.fixture(scope="module")
def unbroken(trained: Path, tasks: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve updates on one task."""
    run = tmp_path_factory.mktemp("runs") / "unbroken"
    finetune(trained, run, encoded=tasks["moods"], changes=SETTINGS, device="cpu")
    return run


@pytest.fixture(scope="module")
def several(trained: Path, tasks: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An epoch and a half on three tasks."""
    run = tmp_path_factory.mktemp("runs") / "several"
    finetune(trained, run, encoded=list(tasks.values()), changes=SETTINGS, device="cpu")
    return run


def copy(run: Path, to: Path) -> Path:
    return Path(shutil.copytree(run, to))


# ---- what it writes ----


def test_a_run_folder_holds_all_one_needs(unbroken: Path, trained: Path) -> None:
    run = load_run(unbroken, device="cpu")
    assert {path.name for path in unbroken.iterdir()} == {
        "tokenizer.json",
        "run.json",
        "metrics.jsonl",
        "events.jsonl",
        "log.txt",
        "checkpoints",
        "evaluation-moods-dev.json",
        "predictions-moods-dev.jsonl",
        "result.json",
    }
    assert run.record.kind == "finetuning"
    assert run.record.parent == str(trained.resolve())
    assert run.tasks == {"moods": MOODS}
    assert run.record.examples == {"moods": {"train": 48, "dev": 16}}
    assert run.recipe.shape.width == load_run(trained, device="cpu").recipe.shape.width
    assert run.recipe.shape.dropout == 0.1  # of the fine-tuning; the parent has none
    assert list(losses_of(unbroken)) == list(range(1, 13))
    evaluated = [line["step"] for line in lines_of(unbroken) if "dev_accuracy" in line]
    assert evaluated == [6, 12]  # after each epoch
    assert losses_of(unbroken)[12] < losses_of(unbroken)[1] - 0.3


def test_the_same_command_gives_the_same_run_and_another_seed_another(
    unbroken: Path, trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    finetune(trained, tmp_path / "again", encoded=tasks["moods"], changes=SETTINGS, device="cpu")
    assert_same_run(unbroken, tmp_path / "again")
    other = [*SETTINGS, "training.seed=1"]
    finetune(trained, tmp_path / "other", encoded=tasks["moods"], changes=other, device="cpu")
    assert losses_of(unbroken) != losses_of(tmp_path / "other")


def test_nothing_is_made_where_something_to_start_from_or_to_learn_is_missing(
    trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    for init, given in ((tmp_path / "absent", {"encoded": tasks["moods"]}), (trained, {"train": tmp_path / "no.csv"})):
        with pytest.raises(InputError, match="does not exist"):
            finetune(init, tmp_path / "run", **given, device="cpu")
        assert not (tmp_path / "run").exists()


def test_a_folder_with_a_run_or_with_other_files_is_not_written_to(
    unbroken: Path, trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    given: dict[str, Any] = {"encoded": tasks["moods"], "changes": SETTINGS, "device": "cpu"}
    with pytest.raises(InputError, match=r"holds a run already; .*go on with it by `resume=True`"):
        finetune(trained, unbroken, **given)
    with pytest.raises(InputError, match="holds a run already"):
        finetune(trained, trained, **given)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError, match=r"holds other files \(notes.txt\)"):
        finetune(trained, tmp_path, **given)


def test_two_commands_cannot_train_in_one_folder(trained: Path, tasks: dict[str, Path], tmp_path: Path) -> None:
    with lock_folder(tmp_path / "run"), pytest.raises(InputError, match="another command is at work in"):
        finetune(trained, tmp_path / "run", encoded=tasks["moods"], changes=SETTINGS, device="cpu")


# ---- what it learns ----


def accuracy_of(run: Path, task: str) -> float:
    return float(json.loads((run / f"evaluation-{task}-dev.json").read_text())["metrics"]["accuracy"])


def test_what_is_prepared_gives_the_losses_of_the_raw_rows_where_no_other_library_can_be_imported(
    trained: Path, tmp_path: Path
) -> None:
    table = write_table(tmp_path / "moods.csv", MOODS, make_examples(MOODS, 40))
    story = CATALOGUE["storycloze"]
    (tmp_path / "storycloze").mkdir()
    write_table(tmp_path / "storycloze" / "train.jsonl", story, make_examples(story, 20))
    write_table(tmp_path / "storycloze" / "dev.jsonl", story, make_examples(story, 6, seed=1))
    raw: dict[str, dict[str, Any]] = {"moods": {"train": table}, "storycloze": {"task": "storycloze", "data": tmp_path}}
    tokenizer = load_run(trained, device="cpu").tokenizer
    prepare_task(str(table), tokenizer, tmp_path / "encoded" / "moods", context=16)
    prepare_task("storycloze", tokenizer, tmp_path / "encoded" / "storycloze", data=tmp_path, context=16)
    changes = [*SETTINGS, "training.steps=6"]
    for name, source in raw.items():
        finetune(trained, tmp_path / "raw" / name, **source, changes=changes, device="cpu")

    absent = ("spacy", "ftfy", "rich", "click", "sklearn", "scipy", "pyarrow", "tokenizers", "rensa", "zstandard")
    absent += ("pandas", "datasets", "transformers")
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({absent!r}))\n"
        "from gpt1 import finetune\n"
        f"for name in {list(raw)!r}:\n"
        f"    run = finetune({str(trained)!r}, {str(tmp_path / 'bare')!r} + '/' + name, device='cpu',\n"
        f"        encoded={str(tmp_path / 'encoded')!r} + '/' + name, changes={changes!r})\n"
        "    print(sorted(run.tasks))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("['moods']\n['storycloze']\n", 0), done.stderr
    for name in raw:
        assert_same_run(tmp_path / "raw" / name, tmp_path / "bare" / name)
        told, predicted = f"evaluation-{name}-dev.json", f"predictions-{name}-dev.jsonl"
        assert (tmp_path / "raw" / name / predicted).read_bytes() == (tmp_path / "bare" / name / predicted).read_bytes()
        raws, bares = (json.loads((tmp_path / kind / name / told).read_text()) for kind in ("raw", "bare"))
        for found in (raws, bares):
            del found["sha256"]
            for mistake in found["mistakes"]:  # rows and their texts are known only where the file was read
                del mistake["text"]
                mistake.pop("row", None)
        assert raws == bares


def test_true_labels_are_learned_and_shuffled_ones_leave_the_score_at_chance(trained: Path, tmp_path: Path) -> None:
    """Whatever of dev had leaked into training would show with labels that can only be learned by heart."""
    from scipy.stats import binom

    rows = make_examples(MOODS, 600)
    labels = [row.label for row in rows]
    random.Random(0).shuffle(labels)
    shuffled = [replace(row, label=label) for row, label in zip(rows, labels, strict=True)]
    changes = [*SETTINGS, "training.batch=32", "training.epochs=4", "logging.save_every=none", "optimizer.lr=1e-2"]
    scores = {}
    for name, examples in (("true", rows), ("shuffled", shuffled)):
        table = write_table(tmp_path / f"{name}.csv", MOODS, examples)
        run = finetune(trained, tmp_path / name, train=table, changes=changes, device="cpu")
        assert run.record.examples[name] == {"train": 540, "dev": 60}
        scores[name] = accuracy_of(tmp_path / name, name)
    low, high = (count / 60 for count in binom.interval(0.999, 60, 0.5))
    assert scores["true"] > 0.95
    assert low <= scores["shuffled"] <= high


def test_choices_in_another_order_get_the_same_probabilities_in_that_order(
    several: Path, words_tokenizer: Tokenizer
) -> None:
    model = load_run(several, device="cpu").classifier
    order, rows = [2, 0, 1], make_examples(STORIES, 30, seed=5)
    moved = [
        replace(row, texts=(*row.texts[:2], *(row.texts[2 + place] for place in order)), label=order.index(row.label))
        for row in rows
    ]
    one, other = (encode_task(STORIES, {"dev": some}, words_tokenizer, 16).splits["dev"] for some in (rows, moved))
    before, after = probabilities(model, "stories", one), probabilities(model, "stories", other)
    np.testing.assert_allclose(after, before[:, order], atol=1e-6)
    right = (before.argmax(1) == one.labels).mean()
    assert (after.argmax(1) == other.labels).mean() == right
    assert before.std() > 0.01  # they are not all alike


def test_a_pair_the_other_way_round_gets_the_same_answer(several: Path, words_tokenizer: Tokenizer) -> None:
    model = load_run(several, device="cpu").classifier
    rows = make_examples(PAIRS, 30, seed=5)
    swapped = [replace(row, texts=row.texts[::-1]) for row in rows]
    one, other = (encode_task(PAIRS, {"dev": some}, words_tokenizer, 16).splits["dev"] for some in (rows, swapped))
    before, after = probabilities(model, "pairs", one), probabilities(model, "pairs", other)
    np.testing.assert_allclose(after, before, atol=1e-6)
    assert before.std() > 0.01


# ---- ways to train ----


def test_a_batch_may_be_larger_than_the_data(trained: Path, words_tokenizer: Tokenizer, tmp_path: Path) -> None:
    few = encode(MOODS, words_tokenizer, 5, 0)
    for batch in ("5", "32"):
        changes = [*SETTINGS, f"training.batch={batch}"]
        finetune(trained, tmp_path / batch, encoded=few, changes=changes, device="cpu")
    wanted = {step: pytest.approx(loss, rel=1e-5) for step, loss in losses_of(tmp_path / "5").items()}
    assert losses_of(tmp_path / "32") == wanted
    assert len(wanted) == 2


def test_activations_computed_twice_change_nothing(
    several: Path, trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    changes = [*SETTINGS, "training.checkpoint_activations=true"]
    finetune(trained, tmp_path / "run", encoded=list(tasks.values()), changes=changes, device="cpu")
    assert_same_run(several, tmp_path / "run")


def test_several_dev_splits_decide_together(trained: Path, words_tokenizer: Tokenizer, tmp_path: Path) -> None:
    task = make_task("both-ways", dev_splits=("dev_a", "dev_b"))
    rows = make_examples(task, 60)
    splits = {"train": rows[:24], "dev_a": rows[24:34], "dev_b": rows[34:]}
    known = encode_task(task, splits, words_tokenizer, 16)
    changes = [*SETTINGS, "training.epochs=4", "logging.keep=9", "optimizer.lr=1e-3"]
    run = finetune(trained, tmp_path / "run", encoded=known, changes=changes, device="cpu")
    scores = {
        line["step"]: (line["dev_a_accuracy"] + line["dev_b_accuracy"], -line["dev_a_loss"] - line["dev_b_loss"])
        for line in lines_of(tmp_path / "run")
        if "loss" not in line
    }
    assert run.checkpoint.step == max(scores, key=lambda step: scores[step])
    for split in ("dev_a", "dev_b"):
        assert (tmp_path / "run" / f"evaluation-both-ways-{split}.json").is_file()


def test_without_the_language_model_the_loss_is_the_tasks_alone(
    trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    changes = [*SETTINGS, "finetuning.lm_weight=0", "training.steps=2"]
    finetune(trained, tmp_path / "run", encoded=tasks["moods"], changes=changes, device="cpu")
    first = lines_of(tmp_path / "run")[0]
    assert first["terms"] == {"moods": first["loss"]}
    assert first["loss"] == pytest.approx(math.log(2), abs=0.2)


def test_weights_that_are_taken_over_help_and_those_that_are_not_are_new(
    unbroken: Path, trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    first: dict[str, float] = {"all": lines_of(unbroken)[0]["terms"]["_lm"]}
    for name, change in (("scratch", "finetuning.scratch=true"), ("0", "finetuning.transfer_layers=0")):
        changes = [*SETTINGS, change, "training.steps=1"]
        run = finetune(trained, tmp_path / name, encoded=tasks["moods"], changes=changes, device="cpu")
        first[name] = lines_of(tmp_path / name)[0]["terms"]["_lm"]
        assert run.recipe.shape.layers == 2
    assert first["all"] < first["0"] < first["scratch"]


def test_rare_labels_can_count_as_much_as_frequent_ones(
    trained: Path, words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    rows = [row for row in make_examples(MOODS, 200) if row.label == 0][:44]
    rows += [row for row in make_examples(MOODS, 200) if row.label == 1][:4]
    skewed = encode_task(MOODS, {"train": rows}, words_tokenizer, 16)
    changes = [*SETTINGS, "training.batch=48", "training.steps=1", "shape.dropout=0"]
    terms = {}
    for weighted in ("false", "true"):
        run = tmp_path / weighted
        given = [*changes, f"finetuning.class_weights={weighted}"]
        finetune(trained, run, encoded=skewed, changes=given, device="cpu")
        terms[weighted] = lines_of(run)[0]["terms"]["moods"]
    checkpoint = dict(list_checkpoints(tmp_path / "true"))[1]
    assert checkpoint.is_dir()
    model = load_run(tmp_path / "true", device="cpu", step=1).classifier  # the rate of the first update is 0
    chances = probabilities(model, "moods", skewed.splits["train"])
    costs = -np.log(chances[np.arange(48), skewed.splits["train"].labels])
    labels = skewed.splits["train"].labels
    assert terms["false"] == pytest.approx(costs.mean(), rel=1e-4)
    assert terms["true"] == pytest.approx((costs[labels == 0].mean() + costs[labels == 1].mean()) / 2, rel=1e-4)


def test_words_left_out_and_last_batches_left_out_change_the_run(
    unbroken: Path, trained: Path, words_tokenizer: Tokenizer, tasks: dict[str, Path], tmp_path: Path
) -> None:
    thinned = [*SETTINGS, "finetuning.word_dropout=0.3"]
    finetune(trained, tmp_path / "thinned", encoded=tasks["moods"], changes=thinned, device="cpu")
    assert losses_of(tmp_path / "thinned").keys() == losses_of(unbroken).keys()
    assert losses_of(tmp_path / "thinned") != losses_of(unbroken)
    uneven = encode(MOODS, words_tokenizer, 21)
    for drop, updates in (("false", 6), ("true", 4)):
        given = [*SETTINGS, f"finetuning.drop_last={drop}"]
        finetune(trained, tmp_path / drop, encoded=uneven, changes=given, device="cpu")
        assert len(losses_of(tmp_path / drop)) == updates


@pytest.mark.parametrize(("epochs", "updates"), [("0.5", 3), ("1", 6), ("1.49", 9), ("0.01", 1)])
def test_epochs_are_counted_in_updates(
    trained: Path, tasks: dict[str, Path], tmp_path: Path, epochs: str, updates: int
) -> None:
    changes = [*SETTINGS, f"training.epochs={epochs}"]
    finetune(trained, tmp_path / "run", encoded=tasks["moods"], changes=changes, device="cpu")
    assert len(losses_of(tmp_path / "run")) == updates
    assert lines_of(tmp_path / "run")[-1]["step"] == updates  # the end is evaluated too
    assert "dev_accuracy" in lines_of(tmp_path / "run")[-1]


def test_the_best_epoch_on_dev_is_kept_and_measured(trained: Path, words_tokenizer: Tokenizer, tmp_path: Path) -> None:
    """Labels that say nothing make the score go up and down, so that the best epoch is seldom the last."""
    rows = [replace(row, label=random.Random(n).randrange(2)) for n, row in enumerate(make_examples(MOODS, 64))]
    noise = encode_task(MOODS, {"train": rows[:24], "dev": rows[24:]}, words_tokenizer, 16)
    early = 0
    for seed in range(3):
        run = tmp_path / str(seed)
        changes = [*SETTINGS, "training.epochs=5", f"training.seed={seed}", "logging.keep=1", "optimizer.lr=2e-2"]
        changes += ["schedule.kind=constant"]
        found = finetune(trained, run, encoded=noise, changes=changes, device="cpu")
        evaluated = [line for line in lines_of(run) if "dev_accuracy" in line]
        scores = {line["step"]: (line["dev_accuracy"], -line["dev_loss"]) for line in evaluated}
        best = max(scores, key=lambda step: scores[step])
        assert found.checkpoint.step == best
        assert [step for step, _ in list_checkpoints(run)] == sorted({best, 15})
        assert accuracy_of(run, "moods") == scores[best][0]
        early += best < 15
    assert early


def test_a_run_is_measured_with_the_weights_in_memory_and_its_best_are_all_that_it_keeps(
    trained: Path, words_tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [replace(row, label=random.Random(n).randrange(2)) for n, row in enumerate(make_examples(MOODS, 64))]
    noise = encode_task(MOODS, {"train": rows[:24], "dev": rows[24:]}, words_tokenizer, 16)
    opened: list[Path] = []

    def opening(path: Path, **how: Any) -> Checkpoint:
        opened.append(path)
        return load_checkpoint(path, **how)

    monkeypatch.setattr(run_module, "load_checkpoint", opening)
    early = 0
    for seed in range(3):
        run = tmp_path / str(seed)
        changes = [*SETTINGS, "training.epochs=5", f"training.seed={seed}", "optimizer.lr=2e-2"]
        changes += ["schedule.kind=constant", "logging.keep=1", "logging.keep_optimizer=false"]
        finetune(trained, run, encoded=noise, changes=changes, device="cpu")
        assert [path for path in opened if run in path.parents] == []
        ((step, _),) = list_checkpoints(run)
        kept = {path: path.read_bytes() for path in run.glob("*-moods-dev.json*")}
        assert len(kept) == 2
        found = load_run(run, device="cpu")
        assert found.checkpoint.step == step
        measure(found, noise, ["dev"])  # from the disk
        assert {path: path.read_bytes() for path in kept} == kept
        told, before = Told(), (run / "metrics.jsonl").read_bytes()
        finetune(trained, run, encoded=noise, changes=changes, device="cpu", resume=True, listeners=[told])
        assert "all 15 updates are made" in told
        assert (run / "metrics.jsonl").read_bytes() == before
        early += step < 15
    assert early


# ---- the recipe that suits a base ----


def test_without_a_recipe_a_small_base_has_one_that_suits_it_told_in_a_line_and_kept_in_numbers(
    trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    told, run = Told(), tmp_path / "run"
    base = read_run(trained)
    parameters = count_parameters(base.recipe.shape, base.vocab_size).total
    given: dict[str, Any] = {"encoded": [tasks["moods"], tasks["pairs"]], "changes": FAST, "device": "cpu"}
    examples = 48 + 20
    finetune(trained, run, listeners=[told], **given)
    assert [line for line in told.lines if line.startswith("recipe")] == [
        f"recipe auto: rate 1.00e-03 for {parameters / 1e6:.1f} M parameters, batches of 16 for {examples} examples"
    ]
    found = read_run(run).recipe
    assert found == replace(settled(recipe("auto", **SETTINGS_OF_FAST), parameters, examples), shape=found.shape)
    assert (found.optimizer.lr, found.training.batch, found.training.epochs) == (1e-3, 16, 15)
    kept = json.loads((run / "run.json").read_text())["recipe"]
    assert (kept["optimizer"]["lr"], kept["training"]["batch"], kept["training"]["epochs"]) == (1e-3, 16, 15)
    assert "derived" not in kept
    again = Told()
    finetune(trained, run, resume=True, listeners=[again], **given)
    assert read_run(run).recipe == found
    assert "recipe auto" not in again


def test_what_is_asked_for_wins_over_what_is_derived(trained: Path, tasks: dict[str, Path], tmp_path: Path) -> None:
    told = Told()
    asked = [*FAST, "optimizer.lr=2e-5", "training.batch=7", "training.epochs=1"]
    finetune(trained, tmp_path / "run", encoded=tasks["moods"], changes=asked, device="cpu", listeners=[told])
    found = read_run(tmp_path / "run").recipe
    assert (found.name, found.optimizer.lr, found.training.batch, found.training.epochs) == ("auto", 2e-5, 7, 1)
    assert "recipe auto" not in told


def test_the_papers_own_recipe_is_a_word_away_and_goes_on_without_it(
    trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    given: dict[str, Any] = {"encoded": tasks["moods"], "changes": FAST, "device": "cpu"}
    for out, seeds in ((tmp_path / "run", 1), (tmp_path / "seeds", 2)):
        finetune(trained, out, recipe="finetune", seeds=seeds, **given)
        finetune(trained, out, resume=True, seeds=max(seeds, 2 * seeds - 1), **given)  # as earlier versions began it
    for run in (tmp_path / "run", *(tmp_path / "seeds" / f"seed-{seed}" for seed in range(3))):
        found = read_run(run).recipe
        changed = differences(replace(FINETUNE, shape=found.shape), found).keys()
        assert changed - {"training.seed"} == SETTINGS_OF_FAST.keys()
    with pytest.raises(SettingError, match=r"optimizer\.lr is 6\.25e-05 in the run .* and 0\.001 now"):
        finetune(trained, tmp_path / "run", recipe="auto", resume=True, **given)


def test_a_recipe_is_chosen_by_who_asks_by_what_was_begun_or_by_the_base(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{")
    for begun in ((), (tmp_path, tmp_path / "absent")):
        assert chosen_recipe(None, PAPER.shape, begun) is FINETUNE
        assert chosen_recipe(None, SMALL.shape, begun) is AUTO
    assert chosen_recipe(None, SMALL.shape, (tmp_path, trained)) is TINY
    assert chosen_recipe("lessons", SMALL.shape, (trained,)) is LESSONS


# ---- the best on dev ----


def test_of_epochs_that_are_equal_on_dev_the_one_with_the_lowest_loss_is_kept(
    trained: Path, words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    rows = make_examples(MOODS, 56)
    wrong = [replace(row, label=1 - int(row.label or 0)) for row in rows[48:50]]  # the surer a model is, the worse
    moods = encode_task(MOODS, {"train": rows[:48], "dev": [*wrong, *rows[50:]]}, words_tokenizer, 16)
    changes = [*SETTINGS, "logging.evaluate_every=2", "logging.keep=1", "training.epochs=8", "optimizer.lr=3e-2"]
    given: dict[str, Any] = {"encoded": moods, "changes": changes, "device": "cpu"}
    finetune(trained, tmp_path / "run", **given)
    evaluated = [line for line in lines_of(tmp_path / "run") if "dev_accuracy" in line]
    highest = max(line["dev_accuracy"] for line in evaluated)
    equals = {line["step"]: line["dev_loss"] for line in evaluated if line["dev_accuracy"] == highest}
    lowest = min(equals, key=lambda step: equals[step])
    assert min(equals) < lowest < max(equals)  # neither the first of them nor the last
    assert load_run(tmp_path / "run", device="cpu").checkpoint.step == lowest
    for after in (lowest - 1, lowest + 1):
        crash(trained, tmp_path / f"{after}", 2 * after, **given)
        finetune(trained, tmp_path / f"{after}", resume=True, **given)
        assert_same_run(tmp_path / "run", tmp_path / f"{after}")


def test_a_run_ends_when_its_patience_does_and_is_done_then(
    trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    changes = [*SETTINGS, "optimizer.lr=1e-12", "training.epochs=9", "training.patience=2"]
    run, told = tmp_path / "run", Told()
    finetune(trained, run, encoded=tasks["moods"], changes=changes, device="cpu")
    assert len(losses_of(run)) == 18  # the first epoch is the best, and two more are not better
    assert (run / "evaluation-moods-dev.json").exists()
    kept = copy(run, tmp_path / "kept")
    (run / "evaluation-moods-dev.json").unlink()
    finetune(trained, run, encoded=tasks["moods"], changes=changes, resume=True, device="cpu", listeners=[told])
    assert_same_run(kept, run)
    assert (run / "evaluation-moods-dev.json").exists()
    assert not any(isinstance(event, Stepped) for event in told.events)
    patient = [*changes, "training.patience=3"]
    finetune(trained, run, encoded=tasks["moods"], changes=patient, resume=True, device="cpu")
    assert len(losses_of(run)) == 24


def test_a_run_that_ended_by_its_patience_does_not_say_that_it_goes_on(
    trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    changes = [*SETTINGS, "optimizer.lr=1e-12", "training.epochs=9", "training.patience=1"]
    told = Told()
    finetune(trained, tmp_path / "run", encoded=tasks["moods"], changes=changes, device="cpu")
    given: dict[str, Any] = {"encoded": tasks["moods"], "changes": changes, "resume": True, "listeners": [told]}
    finetune(trained, tmp_path / "run", **given, device="cpu")
    assert "going on from update" not in told


def test_several_tasks_share_a_body_and_each_has_a_head(several: Path) -> None:
    run = load_run(several, device="cpu")
    assert list(run.tasks) == ["moods", "pairs", "stories"]
    assert {name for name in run.checkpoint.model if name.startswith("heads.")} == {
        f"heads.{task}.{kind}" for task in run.tasks for kind in ("weight", "bias")
    }
    steps = [line for line in lines_of(several) if "loss" in line]
    assert len(steps) == 24  # 6 + 3 + 3 batches an epoch
    for line in steps:
        terms = {name: value for name, value in line["terms"].items() if value and name != "_lm"}
        assert len(terms) == 1  # a batch is of one task
        assert line["loss"] == pytest.approx(sum(terms.values()) + 0.5 * line["terms"]["_lm"], rel=1e-5)
    last = [line for line in lines_of(several) if "moods_dev_accuracy" in line][-1]
    assert {"pairs_dev_accuracy", "stories_dev_loss"} <= last.keys()
    for task in run.tasks:
        assert (several / f"evaluation-{task}-dev.json").is_file()


@pytest.mark.parametrize("seed", range(2))
def test_tasks_with_many_and_with_few_labels_can_be_learned_together(
    trained: Path, words_tokenizer: Tokenizer, tmp_path: Path, seed: int
) -> None:
    """A batch of many labels has a loss far above one of few; that is no spike."""
    few = encode(make_task("few"), words_tokenizer, 240, 0)
    wide = make_task("wide", labels=tuple(f"label {number}" for number in range(80)))
    many = encode(wide, words_tokenizer, 80, 0)
    told = Told()
    changes = [*SETTINGS, "finetuning.lm_weight=0", "training.epochs=1", f"training.seed={seed}"]
    finetune(trained, tmp_path / "run", encoded=[few, many], changes=changes, device="cpu", listeners=[told])
    assert not any(isinstance(event, RolledBack) for event in told.events)


def test_a_fine_tuned_run_can_learn_another_task(
    unbroken: Path, tasks: dict[str, Path], trained: Path, tmp_path: Path
) -> None:
    run = finetune(unbroken, tmp_path / "run", encoded=tasks["pairs"], changes=SETTINGS, device="cpu")
    assert list(run.tasks) == ["pairs"]
    assert run.record.parent == str(unbroken.resolve())
    fresh = tmp_path / "fresh"
    finetune(trained, fresh, encoded=tasks["pairs"], changes=SETTINGS, device="cpu")
    lm = [lines_of(path)[0]["terms"]["_lm"] for path in (tmp_path / "run", fresh)]
    assert lm[0] < lm[1] - 0.5  # its special tokens are known, and so are the words of the tasks


NETWORKS = {
    "lstm": ("shape.kind=lstm", "shape.layers=1", "shape.units=20"),
    "modern": ("shape.norm=rms", "shape.norm_first=true", "shape.positions=rotary", "shape.tied=false"),
    "window": ("shape.window=3",),
    "global tokens": ("shape.window=3", "shape.global_tokens=1"),
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_other_networks_learn_and_go_on_bit_for_bit_too(
    kind: str, tasks: dict[str, Path], words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    init = make_pretrained(tmp_path / "init", words_tokenizer, *NETWORKS[kind])
    given: dict[str, Any] = {"encoded": [tasks["moods"], tasks["stories"]], "changes": SETTINGS, "device": "cpu"}
    run = finetune(init, tmp_path / "run", **given)
    assert np.mean(list(losses_of(run.path).values())[-4:]) < losses_of(run.path)[1]
    crash(init, tmp_path / "again", 20, **given)
    finetune(init, tmp_path / "again", resume=True, **given)
    assert_same_run(run.path, tmp_path / "again")


def test_scores_of_any_range_are_learned(trained: Path, tmp_path: Path) -> None:
    task = make_task("grades", score_range=(-10.0, 30.0))
    table = write_table(tmp_path / "grades.csv", task, make_examples(task, 120))
    changes = [*SETTINGS, "training.epochs=6", "optimizer.lr=1e-2"]
    run = finetune(trained, tmp_path / "run", train=table, regression=True, changes=changes, device="cpu")
    assert run.tasks["grades"].score_range == (-10.0, 30.0)
    found = lines_in(tmp_path / "run" / "predictions-grades-dev.jsonl")
    assert all(-10 <= one["prediction"] <= 30 for one in found)
    assert np.mean([abs(one["prediction"] - one["label"]) for one in found]) < 6  # 13 for a constant
    assert json.loads((run.path / "evaluation-grades-dev.json").read_text())["metrics"]["pearson"] > 0.8


def test_a_table_of_choices_is_learned(trained: Path, tmp_path: Path) -> None:
    table = write_table(tmp_path / "stories.jsonl", STORIES, make_examples(STORIES, 120))
    changes = [*SETTINGS, "training.epochs=5", "optimizer.lr=1e-2"]
    run = finetune(trained, tmp_path / "run", train=table, changes=changes, device="cpu")
    assert (run.tasks["stories"].shape, run.tasks["stories"].choices) == ("choices", 3)
    assert accuracy_of(run.path, "stories") > 0.6


@pytest.mark.parametrize("name", ["train.csv", "eval.jsonl", "keys.csv", "Größe (neu).v2.csv"])
def test_a_table_may_have_any_name(trained: Path, tmp_path: Path, name: str) -> None:
    table = write_table(tmp_path / name, MOODS, make_examples(MOODS, 40))
    given: dict[str, Any] = {"train": table, "changes": [*SETTINGS, "training.steps=3"], "device": "cpu"}
    (task,) = finetune(trained, tmp_path / "run", **given).tasks
    assert task == {"Größe (neu).v2.csv": "größe-neu"}.get(name, name.split(".")[0])
    finetune(trained, tmp_path / "run", resume=True, **given)
    assert (tmp_path / "run" / f"evaluation-{task}-dev.json").is_file()


def test_a_table_may_be_called_lm(trained: Path, tmp_path: Path) -> None:
    table = write_table(tmp_path / "lm.csv", MOODS, make_examples(MOODS, 200))
    changes = [*SETTINGS, "training.epochs=4", "optimizer.lr=1e-2"]
    finetune(trained, tmp_path / "run", train=table, changes=changes, device="cpu")
    assert accuracy_of(tmp_path / "run", "lm") > 0.95


def test_tasks_with_awkward_names_are_learned_together(
    trained: Path, words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    found = [encode(make_task(name), words_tokenizer, 16) for name in ("train", "v1.2", "a.b-c_d")]
    run = finetune(trained, tmp_path / "run", encoded=found, changes=SETTINGS, device="cpu")
    again = load_run(tmp_path / "run", device="cpu")
    assert list(again.tasks) == ["train", "v1.2", "a.b-c_d"]
    for task in again.tasks:
        assert probabilities(again.classifier, task, found[0].splits["dev"]).shape == (16, 2)
    assert run.classifier.training is False


def test_texts_over_the_context_are_counted_in_a_notice_and_in_the_log(trained: Path, tmp_path: Path) -> None:
    rows = [
        replace(row, texts=(make_text(9, seed=n),)) if n < 7 else row for n, row in enumerate(make_examples(MOODS, 40))
    ]
    table, told = write_table(tmp_path / "moods.csv", MOODS, rows), Told()
    given: dict[str, Any] = {"train": table, "changes": [*SETTINGS, "training.steps=1", "finetuning.windows=off"]}
    finetune(trained, tmp_path / "run", **given, device="cpu", listeners=[told])
    (line,) = [line for line in told.lines if "longer than 16 tokens" in line and "train" in line]
    assert line.startswith("moods train: ")
    assert line in (tmp_path / "run" / "log.txt").read_text()


def test_examples_can_be_values(trained: Path, tmp_path: Path) -> None:
    rows = make_examples(MOODS, 24)
    labelled = Labelled(MOODS, {"train": rows[:16], "test": [replace(row, label=None) for row in rows[16:]]})
    run = finetune(trained, tmp_path / "run", examples=labelled, changes=SETTINGS, device="cpu")
    assert (run.record.source.tasks, run.record.source.encoded) == ([], [])
    assert [line for line in lines_of(tmp_path / "run") if "loss" not in line] == []  # there is nothing to score on
    assert run.checkpoint.step == 4


# ---- settings ----


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"changes": ["shape.layers=4"]}, "shape.layers is decided by .*, whose network is taken"),
        ({"changes": ["finetuning.transfer_layers=5"]}, "5 blocks cannot be taken from .*, which has 2"),
        ({"changes": ["finetuning.lm_wieght=1"]}, "did you mean 'finetuning.lm_weight'"),
        ({"seeds": 0}, "at least one seed is needed, not 0"),
        ({"recipe": "finetnue"}, "did you mean 'finetune'"),
        ({"task": "sst2"}, "leave out all but one of `task` and `encoded`"),
    ],
)
def test_settings_that_do_not_fit_are_refused_and_nothing_is_written(
    trained: Path, tasks: dict[str, Path], tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        finetune(trained, tmp_path / "run", encoded=tasks["moods"], device="cpu", **given)
    assert not (tmp_path / "run").exists()


def test_examples_that_the_network_cannot_read_are_refused(
    trained: Path, words_tokenizer: Tokenizer, bytes_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="encoded for a context of 40 tokens"):
        finetune(trained, tmp_path / "run", encoded=encode(MOODS, words_tokenizer, context=40), device="cpu")
    with pytest.raises(InputError, match="encoded with another tokenizer"):
        finetune(trained, tmp_path / "run", encoded=encode(MOODS, bytes_tokenizer), device="cpu")
    assert not (tmp_path / "run").exists()


# ---- going on ----


class Crashed(Exception):
    """Stands in for a power cut: what is on the disk at this moment is all that is left."""


def crash(init: Path, out: Path, after: int, **given: Any) -> None:
    """Train until so many things have been told, and end there as if killed."""
    told = 0

    def listen(event: Event) -> None:
        nonlocal told
        told += 1
        if told > after:
            raise Crashed

    with pytest.raises(Crashed):
        finetune(init, out, listeners=[listen], **given)


@pytest.mark.parametrize("after", [0, 1, 2, 6, 7, 8, 12, 15, 19])
def test_a_run_that_was_cut_off_anywhere_goes_on_bit_for_bit(
    unbroken: Path, trained: Path, tasks: dict[str, Path], tmp_path: Path, after: int
) -> None:
    given: dict[str, Any] = {"encoded": tasks["moods"], "changes": SETTINGS, "device": "cpu"}
    crash(trained, tmp_path / "run", after, **given)
    finetune(trained, tmp_path / "run", resume=True, **given)
    assert_same_run(unbroken, tmp_path / "run")
    for name in ("evaluation-moods-dev.json", "predictions-moods-dev.jsonl"):
        assert (tmp_path / "run" / name).read_text() == (unbroken / name).read_text()


def test_a_run_of_several_tasks_that_was_cut_off_again_and_again_goes_on_bit_for_bit(
    several: Path, trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    given: dict[str, Any] = {"encoded": list(tasks.values()), "changes": SETTINGS, "device": "cpu"}
    for after in (5, 11, 9, 14):
        crash(trained, tmp_path / "run", after, resume=True, **given)
    finetune(trained, tmp_path / "run", resume=True, **given)
    assert_same_run(several, tmp_path / "run")


def test_a_run_in_slices_of_time_is_the_unbroken_run(trained: Path, tasks: dict[str, Path], tmp_path: Path) -> None:
    given: dict[str, Any] = {"encoded": tasks["moods"], "changes": [*SETTINGS, "training.steps=4"], "device": "cpu"}
    finetune(trained, tmp_path / "whole", **given)
    for step in range(1, 5):
        told = Told()
        run = finetune(trained, tmp_path / "run", resume=True, minutes=0.0, listeners=[told], **given)
        assert run.path == tmp_path / "run"
        assert ("stopped at update" in told) == (step < 4)
        assert (run.path / "evaluation-moods-dev.json").exists() == (step == 4)
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_what_was_prepared_can_go_on_from_the_raw_rows_and_the_other_way_round(trained: Path, tmp_path: Path) -> None:
    table = write_table(tmp_path / "moods.csv", MOODS, make_examples(MOODS, 40))
    prepare_task(str(table), load_run(trained, device="cpu").tokenizer, tmp_path / "encoded", context=16)
    raw, kept = {"train": table}, {"encoded": tmp_path / "encoded"}
    finetune(trained, tmp_path / "whole", **raw, changes=SETTINGS, device="cpu")
    crash(trained, tmp_path / "run", 9, **raw, changes=SETTINGS, device="cpu")
    crash(trained, tmp_path / "run", 5, **kept, changes=SETTINGS, device="cpu", resume=True)
    finetune(trained, tmp_path / "run", **raw, changes=SETTINGS, device="cpu", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def test_a_finished_run_resumed_is_left_as_it_is_and_can_be_made_longer(
    unbroken: Path, trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    run, told = copy(unbroken, tmp_path / "run"), Told()
    given: dict[str, Any] = {"encoded": tasks["moods"], "resume": True, "device": "cpu"}
    finetune(trained, run, changes=SETTINGS, listeners=[told], **given)
    assert_same_run(unbroken, run)
    assert "all 12 updates are made" in told
    finetune(trained, run, changes=[*SETTINGS, "training.epochs=3"], **given)
    assert list(losses_of(run)) == list(range(1, 19))


def test_a_run_keeps_its_folds_once_it_is_decided_who_answers(trained: Path, tmp_path: Path) -> None:
    table, run = write_table(tmp_path / "moods.csv", MOODS, make_examples(MOODS, 60)), tmp_path / "run"
    changes = [*SETTINGS, "finetuning.ensemble=true", "training.steps=1"]
    given: dict[str, Any] = {"train": table, "device": "cpu"}
    finetune(trained, run, changes=changes, **given)
    before = (run / "run.json").read_bytes()
    with pytest.raises(SettingError, match=r"folds is 3 in the run .* and 1 now.*a run that is decided keeps its"):
        finetune(trained, run, changes=[*changes, "finetuning.folds=1"], resume=True, **given)
    assert (run / "run.json").read_bytes() == before
    finetune(trained, run, changes=changes, resume=True, **given)


def test_a_run_that_is_made_longer_is_not_done_before_it_gets_there(
    unbroken: Path, trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    run = copy(unbroken, tmp_path / "run")
    changes = [*SETTINGS, "training.epochs=9"]
    given: dict[str, Any] = {"encoded": tasks["moods"], "changes": changes, "resume": True, "device": "cpu"}
    found = finetune(trained, run, minutes=0.0, **given)
    assert "not at its end" in str(results_blocks(found)[-1])


def test_a_run_is_not_made_shorter_than_it_is(
    unbroken: Path, trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    run = copy(unbroken, tmp_path / "run")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for fewer in ("training.epochs=1.0", "training.steps=5"):
        with pytest.raises(SettingError, match=rf"has made 12 updates; {fewer} makes \d, which is fewer"):
            finetune(trained, run, encoded=tasks["moods"], changes=[*SETTINGS, fewer], resume=True, device="cpu")
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_finished_run_keeps_no_moments_unless_told_to_and_says_why_it_cannot_go_on(
    unbroken: Path, trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    run, told = tmp_path / "run", Told()
    changes = [*SETTINGS, "logging.keep_optimizer=false"]
    given: dict[str, Any] = {"encoded": tasks["moods"], "device": "cpu", "listeners": [told]}
    finetune(trained, run, changes=changes, **given)
    assert [path.name for path in run.rglob("optimizer.safetensors")] == []
    kept, own = load_run(unbroken, device="cpu").checkpoint, load_run(run, device="cpu").checkpoint
    assert [name for name in kept.model if not torch.equal(kept.model[name], own.model[name])] == []
    finetune(trained, run, changes=changes, resume=True, **given)
    assert "all 12 updates are made" in told
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    for other in ("training.epochs=3", "training.epochs=1", "training.steps=40", "training.patience=1"):
        with pytest.raises(SettingError, match=r"optimiser's moments; .*; `changes=\['logging.keep_op"):
            finetune(trained, run, changes=[*changes, other], resume=True, **given)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_run_with_a_parent_saves_nothing_before_its_first_update(
    unbroken: Path, trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    told = Told()
    finetune(trained, tmp_path / "run", encoded=tasks["moods"], changes=SETTINGS, device="cpu", listeners=[told])
    assert min(event.step for event in told.events if isinstance(event, Saved)) > 0


def test_resume_begins_where_there_is_nothing_and_says_so(
    unbroken: Path, trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    told = Told()
    given: dict[str, Any] = {"encoded": tasks["moods"], "resume": True, "device": "cpu", "listeners": [told]}
    finetune(trained, tmp_path / "run", changes=SETTINGS, **given)
    assert_same_run(unbroken, tmp_path / "run")
    assert "nothing to resume" in told


def test_resume_refuses_other_examples_another_task_other_settings_and_another_kind_of_run(
    unbroken: Path, trained: Path, tasks: dict[str, Path], words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    def resume(out: Path, what: Path | EncodedTask | list[Path], *changes: str) -> None:
        finetune(trained, out, encoded=what, changes=[*SETTINGS, *changes], resume=True, device="cpu")

    before = {path: path.read_bytes() for path in unbroken.rglob("*") if path.is_file()}
    others = "the training examples are not those that the run .* was begun with"
    fewer = encode(MOODS, words_tokenizer, 40, 24)
    renamed = encode(make_task("moods", labels=("good", "bad")), words_tokenizer)
    for what in (fewer, renamed, tasks["pairs"], [tasks["moods"], tasks["pairs"]]):
        with pytest.raises(InputError, match=others):
            resume(unbroken, what)
    for change in (
        "optimizer.lr=1e-3",
        "training.batch=4",
        "training.seed=1",
        "shape.dropout=0",
        "finetuning.lm_weight=0",
        "finetuning.scratch=true",
        "finetuning.transfer_layers=1",
        "finetuning.class_weights=true",
        "finetuning.word_dropout=0.1",
        "schedule.kind=cosine",
    ):
        with pytest.raises(SettingError, match=f"{change.split('=')[0]} is .* in the run .* and .* now"):
            resume(unbroken, tasks["moods"], change)
    with pytest.raises(SettingError, match="is a run of another kind"):
        resume(trained, tasks["moods"])
    assert {path: path.read_bytes() for path in unbroken.rglob("*") if path.is_file()} == before


def test_a_run_that_has_no_checkpoint_yet_is_not_resumed_with_another_parent(
    trained: Path, tasks: dict[str, Path], words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    one = make_pretrained(tmp_path / "one", words_tokenizer)
    other = make_pretrained(tmp_path / "other", words_tokenizer, seed=9)
    given: dict[str, Any] = {"encoded": tasks["moods"], "changes": SETTINGS, "device": "cpu"}
    crash(one, tmp_path / "run", 0, **given)  # run.json is there and names its parent; nothing else is
    finetune(one, tmp_path / "whole", **given)
    with pytest.raises((SettingError, InputError), match="one"):
        finetune(other, tmp_path / "run", resume=True, **given)


def test_a_damaged_checkpoint_is_passed_over_by_name(
    unbroken: Path, trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    run, told = copy(unbroken, tmp_path / "run"), Told()
    file = list_checkpoints(run)[-1][1] / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-9])
    given: dict[str, Any] = {"encoded": tasks["moods"], "changes": SETTINGS, "resume": True, "listeners": [told]}
    finetune(trained, run, **given, device="cpu")
    assert "step-00000012 is damaged: model.safetensors does not match its checksum; using the checkpoint" in told
    assert_same_run(unbroken, run)


@pytest.mark.parametrize("resume", [False, True])
def test_a_run_killed_while_it_began_can_be_begun_again(
    unbroken: Path, trained: Path, tasks: dict[str, Path], tmp_path: Path, resume: bool
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    shutil.copyfile(trained / "tokenizer.json", run / "tokenizer.json")
    (run / "run.json.77.tmp").write_text("{")
    finetune(trained, run, encoded=tasks["moods"], changes=SETTINGS, resume=resume, device="cpu")
    assert_same_run(unbroken, run)


# ---- faults ----


def plant(monkeypatch: pytest.MonkeyPatch, numbers: tuple[int, ...]) -> None:
    """Let batches of these numbers have a loss that is no number."""
    made = PackedBatch.part

    def part(batch: PackedBatch, first: int, real: int, size: int) -> MicroBatchArrays:
        found = made(batch, first, real, size)
        if batch.key[1] in numbers:
            found.arrays["shares"][:] = np.nan
        return found

    monkeypatch.setattr(PackedBatch, "part", part)


def test_a_batch_that_blows_up_is_skipped_for_good(
    trained: Path, tasks: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, (5,))
    told = Told()
    given: dict[str, Any] = {"encoded": tasks["moods"], "changes": SETTINGS, "device": "cpu"}
    finetune(trained, tmp_path / "run", listeners=[told], **given)
    (back,) = [event for event in told.events if isinstance(event, RolledBack)]
    assert (back.step, back.batch, back.to_step) == (6, 5, 4)
    assert math.isnan(back.loss)
    assert len(losses_of(tmp_path / "run")) == 12
    assert all(math.isfinite(loss) for loss in losses_of(tmp_path / "run").values())
    assert all(torch.isfinite(tensor).all() for tensor in state_of(tmp_path / "run").values())
    assert [line["batch"] for line in lines_of(tmp_path / "run") if "loss" in line] == [*range(5), *range(6, 13)]
    for after in (8, 10, 14):
        crash(trained, tmp_path / f"cut{after}", after, **given)
        finetune(trained, tmp_path / f"cut{after}", resume=True, **given)
        assert_same_run(tmp_path / "run", tmp_path / f"cut{after}")


def test_a_full_disk_is_a_clear_error_and_the_checkpoints_before_it_stay(
    unbroken: Path, trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    """A limit on the size of files stands in for the full disk: the same system call fails, for real."""
    run = copy(unbroken, tmp_path / "run")
    before = list_checkpoints(run)
    limit = max(file.stat().st_size for file in before[-1][1].iterdir()) // 2
    more = ["--encoded", str(tasks["moods"]), "--resume", "--epochs", "3"]
    words = command(trained, run, *more)[3:]
    script = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}));"
        f"from gpt1.cli import main; main({words!r})"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "cannot write" in ended.stderr
    assert str(run) in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list_checkpoints(run) == before
    assert newest_checkpoint(run, pytest.fail) is not None
    longer = [*SETTINGS, "training.epochs=3"]
    finetune(trained, run, encoded=tasks["moods"], changes=longer, resume=True, device="cpu")
    assert len(losses_of(run)) == 18


# ---- however a batch is cut ----


@pytest.mark.parametrize("micro", [1, 3])
def test_micro_batches_change_nothing_but_rounding(
    unbroken: Path, several: Path, trained: Path, tasks: dict[str, Path], tmp_path: Path, micro: int
) -> None:
    for whole, what in ((unbroken, [tasks["moods"]]), (several, list(tasks.values()))):
        run = tmp_path / whole.name
        given = [*SETTINGS, f"training.micro_batch={micro}"]
        finetune(trained, run, encoded=what, changes=given, device="cpu")
        assert losses_of(run) == {step: pytest.approx(loss, rel=1e-4) for step, loss in losses_of(whole).items()}


RANKS = """
import sys
from itertools import count
from pathlib import Path
import torch.distributed as dist
from gpt1 import finetune
from gpt1.finetuning import finetune as module
sys.path.append({root!r})
from tests.waiting import eventually

init, out, *tasks = sys.argv[1:]
begin, report = dist.init_process_group, module.report_seeds
dist.init_process_group = lambda *a, **how: None if dist.is_initialized() else begin(*a, **how)  # one for all the runs
dist.destroy_process_group = lambda: None
runs = [
    ("one", tasks[:1], "ddp", []),
    ("ddp", tasks, "ddp", []),
    ("fsdp", tasks, "fsdp", []),
    ("micro", tasks, "fsdp", ["training.micro_batch=3"]),
]
for name, what, how, more in runs:
    changes = [*{settings!r}, "training.parallelism=" + how, *more]
    finetune(init, out + "/" + name, encoded=what, changes=changes, device="cpu")

barrier, calls, folder = dist.barrier, count(), Path(out)

def told_barrier():
    (folder / f"barrier-{{next(calls)}}-of-rank-{{dist.get_rank()}}").touch()
    barrier()

def report_last(*given):  # only when the other rank has come to the next barrier, or went past where one should be
    passed = len(list(folder.glob("barrier-*-of-rank-0")))
    signs = folder / f"barrier-{{passed}}-of-rank-1", folder / "end-of-rank-1"
    eventually(lambda: any(sign.exists() for sign in signs), "the other rank waits for the report")
    return report(*given)

dist.barrier, module.report_seeds = told_barrier, report_last
try:
    finetune(init, out + "/seeds", encoded=tasks[0], seeds=2, changes=[*{settings!r}, "training.steps=2"], device="cpu")
    end = "well"
except Exception as error:
    end = str(error)
(folder / f"end-of-rank-{{dist.get_rank()}}").write_text(end)
barrier()
"""


@pytest.fixture(scope="module")
def two_ranks(trained: Path, tasks: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs that two processes made together: starting them takes longer than all of it."""
    folder = tmp_path_factory.mktemp("ranks")
    (folder / "ranks.py").write_text(RANKS.format(settings=list(SETTINGS), root=str(Path(__file__).parents[2])))
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(folder / "ranks.py")]
    finish(start([sys.executable, *launch, *map(str, (trained, folder, *tasks.values()))]))
    return folder


@pytest.mark.parametrize("name", ["one", "ddp", "fsdp", "micro"])
def test_two_ranks_give_the_losses_of_one_whatever_the_tasks_and_however_weights_are_kept(
    unbroken: Path, several: Path, two_ranks: Path, name: str
) -> None:
    run, whole = two_ranks / name, unbroken if name == "one" else several
    assert losses_of(run) == {step: pytest.approx(loss, rel=1e-4) for step, loss in losses_of(whole).items()}
    assert load_run(run, device="cpu").classifier.body.tokens.shape[1] == 32
    scores = [[line for line in lines_of(path) if "moods_dev_loss" in line] for path in (run, whole)]
    for found, wanted in zip(*scores, strict=True):
        assert found == pytest.approx(wanted, abs=0.07)  # one answer of 16 may tip over
    assert (run / "evaluation-moods-dev.json").is_file()


def test_what_two_ranks_began_one_can_end(
    two_ranks: Path, trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    run = copy(two_ranks / "fsdp", tmp_path / "run")
    given = [*SETTINGS, "training.epochs=3", "training.parallelism=fsdp"]
    finetune(trained, run, encoded=list(tasks.values()), changes=given, resume=True, device="cpu")
    assert len(losses_of(run)) == 36


def test_all_ranks_find_the_best_of_several_seeds(two_ranks: Path) -> None:
    assert [(two_ranks / f"end-of-rank-{rank}").read_text() for rank in range(2)] == ["well", "well"]


# ---- processes ----


KILLED = """
import os, signal, sys
from gpt1 import finetune
from gpt1.runs.events import Saved

init, out, task, step, *changes = sys.argv[1:]

def kill(event):
    if isinstance(event, Saved) and event.step == int(step):
        os.kill(os.getpid(), signal.SIGKILL)

finetune(init, out, encoded=task, changes=changes, device="cpu", listeners=[kill])
"""


@pytest.mark.parametrize("step", [4, 8])
def test_a_killed_run_goes_on_bit_for_bit(
    unbroken: Path, trained: Path, tasks: dict[str, Path], tmp_path: Path, step: int
) -> None:
    run = tmp_path / "run"
    arguments = map(str, (trained, run, tasks["moods"], step, *SETTINGS))
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert list_checkpoints(run)[-1][0] >= step
    finetune(trained, run, encoded=tasks["moods"], changes=SETTINGS, resume=True, device="cpu")
    assert_same_run(unbroken, run)


def test_a_signal_stops_the_command_saved_and_it_says_how_to_go_on(
    trained: Path, tasks: dict[str, Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    process = start(command(trained, run, "--encoded", str(tasks["moods"]), "--steps", "100000"))
    wait_for_metrics(process, run)
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=300)
    assert (process.returncode, out) == (130, "")
    assert "saved; the same again with --resume goes on" in errors
    assert list_checkpoints(run)[-1][0] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("what", ["one task", "several tasks", "in parts", "two ranks", "three seeds"])
def test_runs_killed_at_ten_random_moments_go_on_bit_for_bit(
    trained: Path, tasks: dict[str, Path], tmp_path: Path, what: str
) -> None:
    encoded = [
        word for name in tasks if what != "one task" or name == "moods" for word in ("--encoded", str(tasks[name]))
    ]
    more = [*encoded, *(["--seeds", "3"] if what == "three seeds" else [])]
    settings = [*SETTINGS, *(["training.micro_batch=3"] if what == "in parts" else [])]
    ranks = 2 if what == "two ranks" else 1
    folders = [f"seed-{seed}" for seed in range(3)] if what == "three seeds" else ["."]

    def words(out: Path, *last: str) -> list[str]:
        return command(trained, out, *more, *last, settings=settings, ranks=ranks)

    whole = tmp_path / "whole"
    _, errors = finish(start(words(whole) if ranks > 1 else counted(whole, *words(whole)[1:])))
    draw = random.Random(what)
    for point in range(10):
        run = tmp_path / f"run{point}"
        if ranks > 1:
            kill_after(start(words(run)), run, draw.randint(0, len(losses_of(whole))))
        else:
            moment = draw.randint(1, changes_told(errors))
            killed = start(signalled(moment, run, signal.SIGKILL, *words(run)[1:]))
            killed.communicate()
            assert killed.returncode == -signal.SIGKILL
        finish(start(words(run, "--resume")))
        for folder in folders:
            if list_checkpoints(whole / folder):
                assert_same_run(whole / folder, run / folder)
            else:
                assert losses_of(whole / folder) == losses_of(run / folder)
                assert not list_checkpoints(run / folder)
