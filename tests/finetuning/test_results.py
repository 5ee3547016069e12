"""What a fine-tuning gave, for programs and for people."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpt1.documents.figures import between, score
from gpt1.documents.terminal import render
from gpt1.finetuning.measure import evaluation_file, measure
from gpt1.finetuning.results import results, results_blocks, run_worth
from gpt1.finetuning.seeds import write_result
from gpt1.inference.run import Run, load_run
from gpt1.records.evaluation import Evaluation
from gpt1.records.seeds import SeedsResult
from gpt1.tasks.assessment import Confusion
from gpt1.tasks.encoded import encode_task
from gpt1.text.tokenizer import Tokenizer
from tests.finetuning.tools import make_examples, make_task
from tests.inference.tools import CONTEXT, STEP, make_run

MOODS, GRADES = make_task(), make_task("grades", score_range=(0.0, 9.0))


@pytest.fixture
def run(tmp_path: Path, words_tokenizer: Tokenizer) -> Run:
    """A run of two tasks of which nothing was measured yet."""
    return load_run(make_run(tmp_path / "out" / "seed-1", words_tokenizer, MOODS, GRADES), device="cpu")


def measured(run: Run) -> Run:
    """Measure the run on dev and test of one task, and on dev of the other."""
    for task, splits in ((MOODS, ("dev", "test")), (GRADES, ("dev",))):
        rows = {split: make_examples(task, 12, seed=len(split)) for split in splits}
        measure(run, encode_task(task, rows, run.tokenizer, CONTEXT), splits)
    return run


def test_metrics_and_intervals_are_those_of_the_files(run: Run) -> None:
    found = results(measured(run))
    assert found["run"] == str(run.path)
    assert {task: list(splits) for task, splits in found["tasks"].items()} == {
        "moods": ["dev", "test"],
        "grades": ["dev"],
    }
    for task, splits in found["tasks"].items():
        for split, facts in splits.items():
            kept = json.loads((run.path / f"evaluation-{task}-{split}.json").read_text())
            facts = {
                key: value
                for key, value in facts.items()
                if key not in ("commonest", "verdict", "is_of_use", "is_flattered", "may_be_chance")
            }
            assert facts == {key: kept[key] for key in ("examples", "metrics", "intervals", "step")}
            assert (facts["examples"], facts["step"]) == (12, STEP)
    assert found["tasks"]["moods"]["dev"]["commonest"] >= 0.5
    assert (found["is_done"], found["decided"]) == (False, {})
    assert "seeds" not in found
    assert json.loads(json.dumps(found)) == found


def shown(run: Run) -> str:
    return render(results_blocks(run), width=100, is_terminal=False)


def test_people_get_a_row_for_each_split_and_what_to_do_next(run: Run) -> None:
    unfinished = f"{run.path} is not at its end; `gpt1.finetune(resume=True)` goes on"
    assert shown(measured(run)).splitlines()[-1] == unfinished
    write_result(run.path, {})
    lines = shown(run).splitlines()
    facts = results(run)["tasks"]["moods"]["dev"]
    assert lines[0] == "moods"
    assert lines[2].split()[:3] == ["dev", "12", score(facts["metrics"]["accuracy"])]
    assert between(facts["intervals"]["accuracy"]) in lines[3]
    assert lines[4].split()[:2] == ["test", "12"]
    assert "Pearson" in lines[lines.index("grades") + 1]
    assert "no better than always answering" in shown(run) or "it always answers" in shown(run)  # weights are random
    assert f"{run.path} is trained, but not of use yet" in shown(run)


def test_a_run_that_is_better_than_the_commonest_label_is_ready(run: Run) -> None:
    found = Evaluation.read(evaluation_file(measured(run).path, "moods", "dev"))
    right = Confusion(["bad", "good"], [[6, 0], [0, 6]])
    for split in ("dev", "test"):
        replace(found, split=split, metrics={"accuracy": 1.0}, right=12, confusion=right).write(
            evaluation_file(run.path, "moods", split)
        )
    write_result(run.path, {})
    last = shown(run).splitlines()[-1]
    assert last == f"{run.path} is ready: gpt1 evaluate shows its mistakes, gpt1 predict answers new rows"


def test_a_run_whose_score_is_flattered_by_rows_of_train_is_not_called_ready(run: Run) -> None:
    known = make_examples(GRADES, 60, seed=1)
    dev = [one for one in known if run.tokenizer.unknown_id not in run.tokenizer.encode(one.texts[0])][:12]
    measure(run, encode_task(GRADES, {"train": dev, "dev": dev}, run.tokenizer, CONTEXT), ["dev"])
    write_result(run.path, {})
    text = " ".join(shown(run).split())
    assert "dev: the score on dev is flattered: 12 of its 12 rows stand in train too, and there are no others" in text
    assert text.endswith("stand in train too; gpt1 evaluate with a table of other texts tells it")


def test_a_run_that_was_measured_on_nothing_has_nothing_to_tell(run: Run) -> None:
    nothing = {"run": str(run.path), "is_done": False, "decided": {}, "tasks": {"moods": {}, "grades": {}}}
    assert results(run) == nothing
    assert len(results_blocks(run)) == 1


def test_of_several_seeds_the_summary_comes_along(run: Run) -> None:
    summary = {"moods dev accuracy": {"median": 0.5}}
    SeedsResult("seed-1", {}, summary).write(run.path.parent / "seeds.json")
    assert results(load_run(run.path.parent, device="cpu"))["seeds"] == summary
    assert shown(run).splitlines()[1].split()[:4] == ["moods", "dev", "accuracy", "50.0"]


def test_the_worth_of_a_run_is_that_of_the_rows_that_tell_most_at_the_step_that_answers(run: Run) -> None:
    nothing = run_worth(measured(run), "grades")
    assert nothing.figures.startswith("Pearson ")
    assert "counted words were not asked the same" in nothing.sentence
    path = evaluation_file(run.path, "moods", "test")
    assert "on 12 rows of test." in run_worth(run, "moods").figures
    replace(Evaluation.read(path), step=STEP + 1).write(path)
    other = run_worth(run, "moods")
    assert (other.figures, other.as_json()) == ("", {"told": other.sentence})
    assert other.sentence.endswith(f"it was measured after {STEP + 1} updates, and this is after {STEP}.")


def test_what_was_measured_and_cannot_be_read_is_told_as_answers_need_none_of_it(run: Run) -> None:
    evaluation_file(measured(run).path, "moods", "test").write_text("{}")
    assert run_worth(run, "moods").sentence.startswith("What it is worth is not known: ")
