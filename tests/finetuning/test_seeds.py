"""Several seeds of one fine-tuning: what they gave, which is kept, and how they go on."""

from __future__ import annotations

import json
import shutil
import statistics
from pathlib import Path
from typing import Any

import pytest
import torch

from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.documents.evaluation import seeds_blocks
from gpt1.documents.terminal import render
from gpt1.finetuning.finetune import finetune
from gpt1.finetuning.measure import measure_split
from gpt1.finetuning.seeds import is_done, report_seeds, summarise, write_result
from gpt1.inference.run import load_run
from gpt1.records.seeds import SeedsResult
from gpt1.runs.checkpoints import list_checkpoints, save_checkpoint
from gpt1.runs.events import Event, Stepped
from gpt1.tasks.encoded import EncodedTask, encode_task
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import SETTINGS, Told, assert_same_run, encode, losses_of, make_examples, make_task
from tests.records import facts_in

MOODS = make_task()
CHANGES = (*SETTINGS, "training.epochs=1", "training.seed=3")


@pytest.fixture(scope="module")
def moods(words_tokenizer: Tokenizer) -> EncodedTask:
    """Examples for training, dev and test."""
    rows = make_examples(MOODS, 64)
    splits = {"train": rows[:24], "dev": rows[24:44], "test": rows[44:]}
    return encode_task(MOODS, splits, words_tokenizer, 16)


@pytest.fixture(scope="module")
def three(trained: Path, moods: EncodedTask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The seeds 3, 4 and 5, trained to the end."""
    out = tmp_path_factory.mktemp("seeds") / "three"
    finetune(trained, out, encoded=moods, changes=CHANGES, seeds=3, device="cpu")
    return out


def copy(run: Path, to: Path) -> Path:
    return Path(shutil.copytree(run, to))


def seeds_file(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = facts_in(out / "seeds.json")
    return found


def metric(out: Path, seed: int, split: str) -> float:
    facts = json.loads((out / f"seed-{seed}" / f"evaluation-moods-{split}.json").read_text())
    return float(facts["metrics"]["accuracy"])


# ---- what they gave ----


def test_the_summary_is_that_of_the_results() -> None:
    found = summarise([0.5, 0.9, 0.6, 0.8])
    assert found == pytest.approx({"median": 0.7, "mean": 0.7, "sd": 0.18257418583505536, "worst": 0.5, "best": 0.9})
    assert summarise([0.25]) == {"median": 0.25, "mean": 0.25, "sd": 0.0, "worst": 0.25, "best": 0.25}


def test_a_damaged_result_of_a_seed_is_refused_before_anything_is_trained_or_removed(
    three: Path, trained: Path, moods: EncodedTask, tmp_path: Path
) -> None:
    out = copy(three, tmp_path / "out")
    worst = next(seed for seed in (3, 4, 5) if f"seed-{seed}" != seeds_file(out)["best"])
    path = out / f"seed-{worst}" / "result.json"
    other = path.read_text().replace('"accuracy": 0.', '"accuracy": 1.')  # one bit of a figure
    assert other != path.read_text()
    path.write_text(other)
    before = {one: one.stat().st_mtime_ns for one in out.rglob("*")}
    with pytest.raises(FormatError, match=rf"result\.json is damaged.*remove .*seed-{worst} to have it trained anew"):
        finetune(trained, out, encoded=moods, changes=CHANGES, seeds=4, resume=True, device="cpu")
    assert {one: one.stat().st_mtime_ns for one in out.rglob("*")} == before


def test_each_seed_is_a_run_and_the_file_tells_of_all(three: Path) -> None:
    found = seeds_file(three)
    assert list(found["seeds"]) == ["seed-3", "seed-4", "seed-5"]
    for seed in (3, 4, 5):
        own = found["seeds"][f"seed-{seed}"]
        assert own == {f"moods {split} accuracy": metric(three, seed, split) for split in ("dev", "test")}
        assert load_run(three / f"seed-{seed}", device="cpu").recipe.training.seed == seed
    dev = [metric(three, seed, "dev") for seed in (3, 4, 5)]
    assert found["summary"]["moods dev accuracy"] == summarise(dev)
    assert found["summary"]["moods dev accuracy"]["median"] == statistics.median(dev)
    assert found["best"] == f"seed-{3 + dev.index(max(dev))}"
    assert len({tuple(losses_of(three / f"seed-{seed}").values()) for seed in (3, 4, 5)}) == 3


def test_only_the_best_keeps_its_weights_and_is_what_the_folder_opens(three: Path) -> None:
    best = seeds_file(three)["best"]
    for seed in (3, 4, 5):
        assert bool(list_checkpoints(three / f"seed-{seed}")) == (best == f"seed-{seed}")
        assert (three / f"seed-{seed}" / "predictions-moods-test.jsonl").is_file()
    run = load_run(three, device="cpu")
    assert run.path == three / best
    assert run.classifier.heads["moods"].weight.shape[0] == 2


def test_a_seed_is_the_run_that_it_would_be_alone(
    three: Path, trained: Path, moods: EncodedTask, tmp_path: Path
) -> None:
    best = seeds_file(three)["best"]
    seed = int(best.removeprefix("seed-"))
    finetune(trained, tmp_path / "run", encoded=moods, changes=[*CHANGES, f"training.seed={seed}"], device="cpu")
    assert_same_run(tmp_path / "run", three / best)


def test_the_best_on_dev_is_kept_whatever_test_says(three: Path, tmp_path: Path) -> None:
    out = copy(three, tmp_path / "out")
    for seed, dev, test in ((3, 0.5, 0.9), (4, 0.7, 0.1), (5, 0.6, 0.8)):
        write_result(out / f"seed-{seed}", {"moods": {"dev": {"accuracy": dev}, "test": {"accuracy": test}}})
    assert report_seeds(out, {"moods": MOODS}) == seeds_file(out)["best"] == "seed-4"
    shown = render(seeds_blocks(SeedsResult.read(out / "seeds.json")), width=100, is_terminal=False)
    header, dev, *_ = shown.splitlines()
    assert header.split() == ["score", "median", "mean", "deviation", "worst", "best", "each"]
    assert " ".join(dev.split()) == "moods dev accuracy 60.0 60.0 10.0 50.0 70.0 50.0, 70.0, 60.0"
    assert "\n3 seeds: seed-3, seed-4, seed-5. Scores are x 100.\n" in shown
    assert "\nseed-4 is kept: the best on dev; all" in shown


def test_of_seeds_that_are_equal_on_dev_the_one_with_the_lowest_loss_is_kept(three: Path, tmp_path: Path) -> None:
    out = tmp_path / "equal"
    for seed, loss in ((3, 0.5), (4, 0.2), (5, 0.3)):
        run = copy(three / "seed-3", out / f"seed-{seed}")
        write_result(run, {"moods": {"dev": {"accuracy": 0.75}}})
        shutil.rmtree(run / "checkpoints", ignore_errors=True)
        save_checkpoint(run, 3, {"w": torch.ones(2)}, None, {"cost": 0.25, "tiebreak": loss})
    for _ in range(2):  # the second time the others have no weights any more
        assert report_seeds(out, {"moods": MOODS}) == "seed-4"
        assert [path.parent.name for path in sorted(out.glob("*/checkpoints"))] == ["seed-4"]


def test_a_run_of_seeds_can_be_what_another_starts_from(three: Path, moods: EncodedTask, tmp_path: Path) -> None:
    changes = [*SETTINGS, "training.steps=1"]
    run = finetune(three, tmp_path / "run", encoded=moods, changes=changes, device="cpu")
    assert run.record.parent == str((three / seeds_file(three)["best"]).resolve())


def test_several_tasks_decide_together(trained: Path, words_tokenizer: Tokenizer, tmp_path: Path) -> None:
    tasks = [encode(make_task("a"), words_tokenizer, 16), encode(make_task("b", "both"), words_tokenizer, 16)]
    finetune(trained, tmp_path / "out", encoded=tasks, changes=CHANGES, seeds=2, device="cpu")
    found = seeds_file(tmp_path / "out")
    means = {seed: statistics.fmean(own.values()) for seed, own in found["seeds"].items()}
    assert means[found["best"]] == max(means.values())
    assert set(found["summary"]) == {"a dev accuracy", "b dev accuracy"}


# ---- going on ----


def test_what_is_done_is_not_done_again(three: Path, trained: Path, moods: EncodedTask, tmp_path: Path) -> None:
    out, told = copy(three, tmp_path / "out"), Told()
    given: dict[str, Any] = {"encoded": moods, "changes": CHANGES, "device": "cpu"}
    run = finetune(trained, out, seeds=3, resume=True, listeners=[told], **given)
    assert not any(isinstance(event, Stepped) for event in told.events)
    assert all(f"seed {seed} is trained already" in told for seed in (3, 4, 5))
    assert seeds_file(out) == seeds_file(three)
    assert run.path == out / seeds_file(three)["best"]
    run.model  # noqa: B018


def test_more_seeds_can_be_added(three: Path, trained: Path, moods: EncodedTask, tmp_path: Path) -> None:
    out = copy(three, tmp_path / "out")
    given: dict[str, Any] = {"encoded": moods, "changes": CHANGES, "device": "cpu"}
    finetune(trained, out, seeds=5, resume=True, **given).model  # noqa: B018
    assert list(seeds_file(out)["seeds"]) == [f"seed-{seed}" for seed in range(3, 8)]
    assert sum(bool(list_checkpoints(out / f"seed-{seed}")) for seed in range(3, 8)) == 1


class Crashed(Exception):
    """Stands in for a power cut."""


def crash_in(seed: str, step: int) -> Any:
    """Return a listener that ends the training at a step of a seed."""
    where = ""

    def listen(event: Event) -> None:
        nonlocal where
        where = getattr(event, "text", where)[:6] if getattr(event, "text", "").startswith("seed ") else where
        if where == seed and isinstance(event, Stepped) and event.step == step:
            raise Crashed

    return listen


@pytest.mark.parametrize(("seed", "step"), [("seed 3", 2), ("seed 4", 1), ("seed 4", 3), ("seed 5", 2)])
def test_seeds_that_were_cut_off_go_on_bit_for_bit(
    three: Path, trained: Path, moods: EncodedTask, tmp_path: Path, seed: str, step: int
) -> None:
    given: dict[str, Any] = {"encoded": moods, "changes": CHANGES, "seeds": 3, "device": "cpu"}
    with pytest.raises(Crashed):
        finetune(trained, tmp_path / "out", listeners=[crash_in(seed, step)], **given)
    finetune(trained, tmp_path / "out", resume=True, **given)
    assert seeds_file(tmp_path / "out") == seeds_file(three)
    for folder in seeds_file(three)["seeds"]:
        assert losses_of(tmp_path / "out" / folder) == losses_of(three / folder)
    best = seeds_file(three)["best"]
    assert_same_run(tmp_path / "out" / best, three / best)


def test_seeds_in_slices_of_time_are_those_of_one_go(
    three: Path, trained: Path, moods: EncodedTask, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"encoded": moods, "changes": CHANGES, "seeds": 3, "device": "cpu", "minutes": 0.0}
    for _ in range(12):
        finetune(trained, tmp_path / "out", resume=True, **given)
    assert seeds_file(tmp_path / "out") == seeds_file(three)


def test_the_time_budget_is_that_of_all_seeds_together(
    trained: Path, moods: EncodedTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def tick(event: Event) -> None:
        nonlocal now
        now += 10.0 if isinstance(event, Stepped) else 0.0

    monkeypatch.setattr("gpt1.training.signals.time.monotonic", lambda: now)
    given: dict[str, Any] = {"encoded": moods, "changes": CHANGES, "device": "cpu", "listeners": [tick]}
    # A seed takes three steps of ten seconds, all of them a minute and a half; there are 40 seconds.
    finetune(trained, tmp_path / "out", seeds=3, minutes=40 / 60, **given)
    assert now < 60


def test_a_seed_whose_measuring_was_cut_off_is_measured(
    three: Path, trained: Path, moods: EncodedTask, tmp_path: Path
) -> None:
    out = copy(three, tmp_path / "out")
    best = out / seeds_file(three)["best"]
    (out / "seeds.json").unlink()
    for name in ("evaluation-moods-dev.json", "evaluation-moods-test.json", "result.json"):
        (best / name).unlink()
    assert not is_done(best)
    finetune(trained, out, encoded=moods, changes=CHANGES, seeds=3, resume=True, device="cpu")
    assert seeds_file(out) == seeds_file(three)


def test_a_seed_of_which_only_dev_was_measured_is_measured_on(
    three: Path, trained: Path, moods: EncodedTask, tmp_path: Path
) -> None:
    out = copy(three, tmp_path / "out")
    best = out / seeds_file(three)["best"]
    (out / "seeds.json").unlink()
    for name in ("evaluation-moods-test.json", "result.json"):
        (best / name).unlink()
    finetune(trained, out, encoded=moods, changes=CHANGES, seeds=3, resume=True, device="cpu")
    assert seeds_file(out) == seeds_file(three)


def test_a_seed_that_somebody_evaluated_before_it_was_done_goes_on(
    three: Path, trained: Path, moods: EncodedTask, tmp_path: Path
) -> None:
    changes = [*CHANGES, "logging.save_every=1"]
    given: dict[str, Any] = {"encoded": moods, "changes": changes, "seeds": 3, "device": "cpu"}
    with pytest.raises(Crashed):
        finetune(trained, tmp_path / "out", listeners=[crash_in("seed 4", 2)], **given)
    for split in ("dev", "test"):
        measure_split(load_run(tmp_path / "out" / "seed-4", device="cpu"), moods, split)
    finetune(trained, tmp_path / "out", resume=True, **given)
    assert len(losses_of(tmp_path / "out" / "seed-4")) == len(losses_of(three / "seed-4"))


def test_seeds_without_rows_to_be_measured_on_can_be_resumed_after_the_end(
    trained: Path, words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"encoded": encode(MOODS, words_tokenizer, 16, 0), "changes": CHANGES, "device": "cpu"}
    finetune(trained, tmp_path / "out", seeds=2, **given)
    finetune(trained, tmp_path / "out", seeds=2, resume=True, **given)


# ---- what is refused ----


def test_fewer_seeds_than_before_are_refused_and_nothing_is_touched(
    three: Path, trained: Path, moods: EncodedTask, tmp_path: Path
) -> None:
    out = copy(three, tmp_path / "out")
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=r"holds other seeds too \(5\); ask for all of them"):
        finetune(trained, out, encoded=moods, changes=CHANGES, seeds=2, resume=True, device="cpu")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_folders_of_one_seed_and_of_several_are_not_mixed(
    three: Path, trained: Path, moods: EncodedTask, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"encoded": moods, "changes": CHANGES, "device": "cpu"}
    for resume in (False, True):
        with pytest.raises(InputError, match="holds other files"):
            finetune(trained, three, resume=resume, **given)
    finetune(trained, tmp_path / "one", **given)
    with pytest.raises(InputError, match="holds a run of one seed; choose another folder for several"):
        finetune(trained, tmp_path / "one", seeds=2, **given)
    with pytest.raises(InputError, match=r"seed-3 holds a run already; .*go on with it by `resume=True`"):
        finetune(trained, three, seeds=3, **given)


def test_seeds_that_are_not_done_refuse_other_examples_and_settings(
    trained: Path, moods: EncodedTask, words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    given: dict[str, Any] = {"seeds": 3, "device": "cpu"}
    with pytest.raises(Crashed):
        finetune(trained, tmp_path / "out", encoded=moods, changes=CHANGES, listeners=[crash_in("seed 3", 2)], **given)
    other = encode(MOODS, words_tokenizer, 20)
    with pytest.raises(InputError, match="the training examples are not those"):
        finetune(trained, tmp_path / "out", encoded=other, changes=CHANGES, resume=True, **given)
    slower = [*CHANGES, "optimizer.lr=1e-5"]
    with pytest.raises(SettingError, match=r"optimizer.lr is 0.005 in the run .*seed-3 and 1e-05 now"):
        finetune(trained, tmp_path / "out", encoded=moods, changes=slower, resume=True, **given)


def test_seeds_that_are_done_refuse_other_examples_and_settings_too(
    three: Path, trained: Path, moods: EncodedTask, words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    out = copy(three, tmp_path / "out")
    given: dict[str, Any] = {"seeds": 5, "resume": True, "device": "cpu"}
    with pytest.raises(InputError, match="the training examples are not those"):
        finetune(trained, out, encoded=encode(MOODS, words_tokenizer, 20), changes=CHANGES, **given)
    with pytest.raises(SettingError, match=r"optimizer.lr is 0.005 in the run .*seed-3 and 1e-05 now"):
        finetune(trained, out, encoded=moods, changes=[*CHANGES, "optimizer.lr=1e-5"], **given)
    assert not (out / "seed-6").exists()


def test_a_folder_with_other_files_is_not_written_to(trained: Path, moods: EncodedTask, tmp_path: Path) -> None:
    (tmp_path / "seeds.json").write_text("mine")
    with pytest.raises(InputError, match=r"holds other files \(seeds.json\)"):
        finetune(trained, tmp_path, encoded=moods, changes=CHANGES, seeds=2, device="cpu")


@pytest.mark.parametrize("resume", [False, True])
def test_seeds_that_begin_elsewhere_do_not_join_a_folder(
    three: Path, trained: Path, moods: EncodedTask, tmp_path: Path, resume: bool
) -> None:
    out, changes = copy(three, tmp_path / "out"), [*CHANGES, "training.seed=10"]
    with pytest.raises(InputError, match=r"holds other seeds too \(3, 4, 5\); ask for all of them"):
        finetune(trained, out, encoded=moods, changes=changes, seeds=2, resume=resume, device="cpu")


def test_seeds_that_are_done_are_not_made_longer(
    three: Path, trained: Path, moods: EncodedTask, tmp_path: Path
) -> None:
    out = copy(three, tmp_path / "out")
    longer = [*CHANGES, "training.epochs=2"]
    with pytest.raises(SettingError, match=r"training.epochs was 1.0 for the seed in .*seed-3, which is done"):
        finetune(trained, out, encoded=moods, changes=longer, seeds=4, resume=True, device="cpu")
    assert seeds_file(out) == seeds_file(three)
    assert not (out / "seed-6").exists()


def test_a_table_for_test_may_come_later(
    trained: Path, moods: EncodedTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    early = replace(moods, splits={name: split for name, split in moods.splits.items() if name != "test"})
    given: dict[str, Any] = {"changes": CHANGES, "device": "cpu"}
    finetune(trained, tmp_path / "out", encoded=early, seeds=2, **given)
    monkeypatch.setattr("gpt1.finetuning.seeds.decisive", lambda scores, tasks: len(scores["moods"]))  # best: the last
    finetune(trained, tmp_path / "out", encoded=moods, seeds=3, resume=True, **given)
    found = seeds_file(tmp_path / "out")
    assert list(found["seeds"]) == ["seed-3", "seed-4", "seed-5"]
    assert list(found["summary"]) == ["moods dev accuracy"]  # of test there is one seed's figure only
    assert "moods test accuracy" in found["seeds"]["seed-5"]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("finetuning.synonyms=0.1", "no list is named"),
        ("training.masked_share=0.5", "is of pre-training"),
        ("shape.layers=1", "whose network is taken"),
    ],
)
def test_what_the_first_seed_refuses_is_refused_before_there_is_a_folder(
    setting: str, said: str, trained: Path, moods: EncodedTask, tmp_path: Path
) -> None:
    with pytest.raises(SettingError, match=said):
        finetune(trained, tmp_path / "out", encoded=moods, changes=[*CHANGES, setting], seeds=2, device="cpu")
    assert not (tmp_path / "out").exists()
