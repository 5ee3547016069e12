"""Studies on the page and on a terminal: tables and figures as the studies wrote them, the paper's beside ours."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from gpt1.base.devices import device_name
from gpt1.base.errors import FormatError, SettingError
from gpt1.documents.figures import score as written
from gpt1.documents.study import spread, study_blocks, verdict
from gpt1.documents.terminal import render
from gpt1.records.study import CellCounts, Cost, StudyRecord
from gpt1.report import report
from gpt1.studies.ablations import study_ablations
from gpt1.studies.labels import study_labels
from gpt1.studies.objectives import study_objectives
from gpt1.studies.reproduce import reproduce
from gpt1.studies.transfer import study_transfer
from gpt1.studies.zeroshot import study_zeroshot
from gpt1.text.tokenizer import Tokenizer
from tests.report.tools import LABELS, PageReader, write_finetuned
from tests.studies.tools import LSTM, TRAINING, make_start, source, write_pairs, write_tasks


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> Path:
    """A study of each kind as it is left, to be read and never changed."""
    folder = tmp_path_factory.mktemp("studies")
    books = make_start(folder / "books", words_tokenizer, steps=(1, 3))
    lstm = make_start(folder / "lstm", words_tokenizer, *LSTM)
    data = write_tasks(folder / "tasks", "sst2", "storycloze")
    task = source(data, "sst2")
    study_zeroshot([books, lstm], folder / "zeroshot", tasks=["sst2", "storycloze"], data=data, device="cpu")
    study_zeroshot([lstm], folder / "grammar", tasks=["blimp"], data=write_pairs(data), device="cpu")
    study_transfer(books, folder / "transfer", source=task, training=TRAINING)
    study_ablations(books, folder / "ablations", source=task, training=TRAINING, lstm=lstm)
    mixed = make_start(folder / "mixed", words_tokenizer, "training.masked_share=0.5", steps=(1, 3))
    study_objectives((books, mixed), folder / "objectives", source=task, training=TRAINING)
    study_labels(books, folder / "labels", source=task, training=TRAINING, counts=[4, 8])
    reproduce(books, folder / "reproduction", data=data, training=TRAINING)
    return folder


def found_in(study: Path, section: str) -> Any:
    return json.loads((study / "study.json").read_text())["sections"][section]


def unsealed(path: Path) -> Any:
    """Return what a study of an earlier version would hold, which knew no checksum."""
    facts = json.loads(path.read_text())
    del facts["sha256"]
    return facts


def page(tmp_path: Path, *folders: Path) -> PageReader:
    return PageReader(report(folders, tmp_path / "report.html").read_text("utf-8"))


def pictures(found: PageReader) -> list[str]:
    return [str(attributes["aria-label"]) for _, attributes in found.elements if attributes.get("role") == "img"]


def hundred(value: float) -> str:
    return f"{100 * value:.1f}".replace("-", "\u2212")


def test_checkpoints_that_were_asked_are_curves_by_task(tmp_path: Path, studies: Path) -> None:
    found = page(tmp_path, studies / "zeroshot")
    tasks = found_in(studies / "zeroshot", "zeroshot")["tasks"]
    first = tasks["sst2"]["runs"]["books"]
    told = ", ".join(f"{point['normalised']:.2f} at {point['step']}" for point in first)
    assert pictures(found)[0].startswith(f"sst2, normalised score by updates: books: {told}; lstm: ")
    assert "storycloze: 0 is a guess (50), 1 the best of the time (77.6; not in the paper's figure)" in found.words
    assert f"sst2, books transformer 3 {hundred(first[-1]['score'])} dev accuracy, 9 examples" in found.words
    assert "The numbers are in zeroshot.csv of the study." in found.words


def test_minimal_pairs_are_a_curve_and_one_for_each_field_whose_best_is_a_person(tmp_path: Path, studies: Path) -> None:
    found = page(tmp_path, studies / "grammar")
    facts = found_in(studies / "grammar", "zeroshot")["tasks"]["blimp"]
    (last,) = facts["runs"]["lstm"]
    assert pictures(found)[0] == f"blimp, normalised score by updates: lstm: {last['normalised']:.2f} at 3"
    fields = {one["metric"].removeprefix("accuracy/"): 100 * one["score"] for one in facts["groups"]["lstm"]}
    told = "; ".join(f"{field}: {share:.1f} at 3" for field, share in fields.items())
    assert pictures(found)[1] == f"blimp in parts, lstm, accuracy by updates: {told}"
    for words in (
        "blimp: 0 is a guess (50), 1 a single person (88.6; the majority of twenty has 96.4)",
        "blimp in parts, lstm; 50 is a guess",
        "1 the best single model of the time, for blimp a single person (88.6).",
        f"blimp, lstm lstm 3 {hundred(last['score'])} pairs accuracy, 12 examples",
        "has 1 checkpoint, too few for a curve",
    ):
        assert words in found.words


def test_blocks_taken_over_are_a_curve_and_a_table(tmp_path: Path, studies: Path) -> None:
    found = page(tmp_path, studies / "transfer")
    points = found_in(studies / "transfer", "transfer")["tasks"]["sst2"]["points"]
    told, learned = (
        ", ".join(
            f"{100 * figure['median']:.1f} at {point['layers']}" for figure, point in zip(of, points, strict=True)
        )
        for of in (points, [point["train"] for point in points])
    )
    drawn = f"sst2, accuracy by blocks taken over: sst2: {told}; sst2, rows that were learned: {learned}"
    assert pictures(found) == [drawn]
    gain = points[0]["behind_most"]
    gained, *ends = (f"{100 * gain[name]:+.1f}".replace("-", "\u2212") for name in ("difference", "low", "high"))
    assert "sst2, accuracy on dev, 9 examples: one seed." in found.words
    scores = f"{hundred(points[0]['median'])} {hundred(points[0]['train']['median'])}"
    assert f"0 (embeddings alone) {scores} {gained} {' to '.join(ends)}" in found.words


def test_ablations_stand_with_the_papers_figures_and_the_best_is_marked(tmp_path: Path, studies: Path) -> None:
    out = report([studies / "ablations"], tmp_path / "report.html").read_text()
    words = PageReader(out).words
    arms = found_in(studies / "ablations", "ablations")["tasks"]["sst2"]
    for name, arm, published in (
        ("pre-trained", "full", 91.3),
        ("from scratch", "scratch", 84.0),
        ("without auxiliary LM", "no-lm", 92.0),
        ("LSTM", "lstm", 90.5),
    ):
        ours = hundred(arms[arm]["median"])
        assert f"{name} {ours} paper {published} {ours} paper {published}" in words  # one task is its own average
    medians = [figure["median"] for figure in arms.values()]
    marked = 2 * medians.count(max(medians)) if len(set(medians)) > 1 else 0
    assert out.count("<strong>") == marked
    assert "Ours: sst2 on dev, 9 examples." in words
    assert "pre-trained over from scratch sst2 dev accuracy, 9 examples" in words
    assert any(label.startswith("sst2, dev accuracy by updates: pre-trained: ") for label in pictures(PageReader(out)))


def test_few_labels_are_lines_a_table_and_differences(tmp_path: Path, studies: Path) -> None:
    found = page(tmp_path, studies / "labels")
    arms = found_in(studies / "labels", "labels")["tasks"]["sst2"]["arms"]
    told = ", ".join(f"{100 * point['median']:.1f} at {point['labels']}" for point in arms["tf-idf"])
    assert pictures(found)[0].endswith(f"TF-IDF: {told}")
    assert "4 labels 8 labels" in found.words
    assert "accuracy on dev, 9 examples: one draw. Best in bold." in found.words
    assert "pre-trained over TF-IDF 4 labels, dev accuracy, 9 examples" in found.words


def test_tables_of_the_paper_have_three_columns_of_figures(tmp_path: Path, studies: Path) -> None:
    words = page(tmp_path, studies / "reproduction").words
    (row,) = found_in(studies / "reproduction", "tables")["tables"]["table-4"]
    assert f"sst2 dev accuracy, 9 examples, 1 seed {hundred(row['median'])} 91.3 93.2" in words
    assert "Table 3: question answering and commonsense" in words
    assert "Table 2" not in words  # of which there was no data


def test_studies_and_runs_share_a_page(tmp_path: Path, studies: Path) -> None:
    run = write_finetuned(tmp_path / "moods", {"dev": LABELS})
    found = page(tmp_path, run, studies / "labels", studies / "transfer")
    ids = [attributes.get("id") for attributes in (*found.named("section"), *found.named("div"))]
    assert [one for one in ids if one] == ["results", "study-1", "study-2", "run-1"]
    assert "Report on labels, transfer, moods" in found.words


def test_a_study_says_what_was_odd_on_which_hardware_and_how_long_it_took(tmp_path: Path, studies: Path) -> None:
    shutil.copytree(studies / "zeroshot", tmp_path / "study")
    path = tmp_path / "study" / "study.json"
    facts = unsealed(path)
    (note, *_) = facts["notes"]
    assert facts["cost"]["devices"] == [device_name(torch.device("cpu"))]
    facts["cost"] = {"seconds": 7200.0, "devices": ["abacus"]}
    path.write_text(json.dumps(facts))
    words = page(tmp_path, path.parent).words
    assert "hardware abacus time of the cells 2 h" in words
    assert note in words


def test_the_same_studies_give_the_same_bytes(tmp_path: Path, studies: Path) -> None:
    folders = [studies / name for name in ("zeroshot", "ablations", "labels")]
    one, other = (report(folders, tmp_path / name).read_bytes() for name in ("one.html", "other.html"))
    assert one == other


def test_a_study_that_is_not_done_says_so(tmp_path: Path, studies: Path) -> None:
    shutil.copytree(studies / "ablations", tmp_path / "<b>begun")
    path = tmp_path / "<b>begun" / "study.json"
    facts = unsealed(path)
    facts["cells"] = {"done": 0, "planned": 4}
    facts["sections"] = {}
    path.write_text(json.dumps(facts))
    found = page(tmp_path, path.parent)
    assert "0 of 4 cells are done; the same command goes on with it." in found.words
    assert not {"b", "svg"} & {tag for tag, _ in found.elements}


@pytest.mark.parametrize("section", ["zeroshot", "transfer", "ablations", "labels", "objectives"])
def test_a_damaged_study_is_named(tmp_path: Path, studies: Path, section: str) -> None:
    shutil.copytree(studies / section, tmp_path / "study")
    path = tmp_path / "study" / "study.json"
    facts = unsealed(path)
    facts["sections"][section] = {"tasks": {"sst2": {"full": 1}}}
    path.write_text(json.dumps(facts))
    with pytest.raises(FormatError, match=r"study/study\.json is damaged"):
        report([path.parent], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_what_differs_by_nothing_is_the_same() -> None:
    assert verdict(0.0, 0.0, is_better=False) == "the same"
    assert verdict(-0.1, 0.2, is_better=True) == "could be chance"
    assert [verdict(0.1, 0.2, is_better=True), verdict(-0.2, -0.1, is_better=False)] == [
        "better, beyond chance",
        "worse, beyond chance",
    ]


def test_a_study_named_twice_is_refused(tmp_path: Path, studies: Path) -> None:
    with pytest.raises(SettingError, match="labels is named twice"):
        report([studies / "labels", studies / "labels"], tmp_path / "report.html")


# ---- on a terminal ----


def test_objectives_show_networks_arms_and_pairs_and_mark_the_best(studies: Path) -> None:
    found = StudyRecord.read(studies / "objectives" / "study.json")
    section = found.sections["objectives"]
    networks = {"causal": {"bits_per_byte": 1.25, "valid_loss": 3.5}, "mixed": {"bits_per_byte": 1.5}}
    networks["mixed"] |= {"valid_loss": 3.75, "masked_loss": 2.5}
    for arm, median in (("causal", 0.6), ("mixed", 0.7), ("both-ways", 0.75)):
        section["tasks"]["sst2"][arm] = {**section["tasks"]["sst2"][arm], "median": median}
        section["average"][arm] = median
    shown = lines(3, 3, {"objectives": {**section, "networks": networks}})
    assert "causal 1.250 3.500 -" in shown
    assert "mixed 1.500 3.750 2.500" in shown
    for row in (
        "left to right 60.0 60.0",
        "mixed, fine-tuned left to right 70.0 70.0",
        "mixed, fine-tuned both ways *75.0 *75.0",
    ):
        assert row in shown, shown
    pairs = [line for line in shown if " over " in line]
    assert [line.split(" over ")[0] for line in pairs] == ["mixed, fine-tuned both ways"] * 2 + [
        "mixed, fine-tuned left to right"
    ]


def figure(median: float, *seeds: float) -> dict[str, Any]:
    each = {str(number): seed for number, seed in enumerate(seeds or (median,))}
    ends = {"worst": min(each.values()), "best": max(each.values())}
    return {"median": median, **ends, "seeds": each, "splits": ["dev"], "examples": 9}


def lines(done: int, planned: int, sections: dict[str, dict[str, Any]]) -> list[str]:
    study = StudyRecord("labels", {}, CellCounts(done, planned), Cost(0.0, []), [], sections)
    shown = render(study_blocks(study), width=100, is_terminal=False)
    return [" ".join(line.split()) for line in shown.splitlines()]


def test_figures_are_written_as_the_paper_writes_them() -> None:
    assert written(0.6144) == "61.4"
    assert written(-0.0004) == "0.0"
    assert spread(figure(0.5)) == ""
    assert spread(figure(0.5, 0.4, 0.6)) == "40.0 to 60.0"


def test_on_a_terminal_a_study_that_is_not_done_says_so() -> None:
    assert lines(1, 4, {}) == ["1 of 4 cells are done; the same command goes on with it."]


def test_on_a_terminal_the_table_has_the_papers_figures_below_ours() -> None:
    table = {
        "arms": {"full": "pre-trained", "lstm": "LSTM"},
        "tasks": {"rte": {"full": figure(0.5)}, "mine": {"full": figure(0.75)}},
        "average": {"full": {"median": 0.625, "paper_percent": None}, "lstm": None},
        "paper_percent": {"full": {"rte": 56.0}, "lstm": {"rte": 54.6}},
    }
    found = lines(1, 1, {"ablations": table})
    assert found[:6] == [
        "Ablations",
        "average rte mine",
        "pre-trained 62.5 50.0 75.0",
        "paper 56.0",
        "LSTM - - -",
        "paper 54.6",
    ]


def test_on_a_terminal_labels_and_differences_are_told() -> None:
    pair = {
        "labels": 50,
        "arm": "full",
        "over": "tf-idf",
        "split": "dev",
        "metric": "accuracy",
        "examples": 9,
        "difference": -0.1,
        "low": -0.2,
        "high": 0.05,
    }
    points = {"full": [{"labels": 50, **figure(0.5, 0.4, 0.6)}], "tf-idf": [{"labels": 50, **figure(0.6)}]}
    section = {
        "arms": {"full": "pre-trained", "tf-idf": "TF-IDF"},
        "tasks": {"rte": {"metric": "accuracy", "arms": points, "differences": [pair]}},
    }
    found = lines(1, 1, {"labels": section})
    assert found[:5] == ["rte: few labels", "50 labels", "pre-trained 50.0", "40.0 to 60.0", "TF-IDF *60.0"]
    assert found[-5:-1] == [
        "difference by verdict",
        "pre-trained over TF-IDF -10.0 could be chance",
        "50 labels, dev accuracy, 9 examples -20.0 to +5.0",
        "In pairs: examples are drawn with replacement 1,000 times, the same for both; below a difference is",
    ]


def test_on_a_terminal_pictures_are_left_out_with_their_heading(studies: Path) -> None:
    found = StudyRecord.read(studies / "ablations" / "study.json")
    assert "curves" in found.sections
    shown = render(study_blocks(found), width=100, is_terminal=False)
    assert "With and without the auxiliary loss" not in shown
    assert "curves.csv" not in shown
