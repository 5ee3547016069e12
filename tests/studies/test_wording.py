"""What a study found, in lines."""

from __future__ import annotations

from typing import Any

from gpt1.records.study import CellCounts, Cost, StudyRecord
from gpt1.studies.wording import aligned, describe, hundred, spread


def figure(median: float, *seeds: float) -> dict[str, object]:
    each = {str(number): seed for number, seed in enumerate(seeds or (median,))}
    return {"median": median, "worst": min(each.values()), "best": max(each.values()), "seeds": each}


def study(done: int, planned: int, sections: dict[str, dict[str, Any]]) -> StudyRecord:
    return StudyRecord("labels", {}, CellCounts(done, planned), Cost(0.0, []), [], sections)


def test_figures_are_written_as_the_paper_writes_them() -> None:
    assert hundred(0.6144) == "61.4"
    assert hundred(None) == "-"
    assert spread(figure(0.5)) == "50.0"
    assert spread(figure(0.5, 0.4, 0.6)) == "50.0 (40.0 to 60.0)"
    assert aligned([["a", "bb"], ["ccc", "d"]]) == ["a    bb", "ccc  d"]


def test_a_study_that_is_not_done_says_so() -> None:
    assert describe(study(1, 4, {})) == ["1 of 4 cells are done; the same command goes on"]


def test_the_table_has_the_papers_figures_below_ours() -> None:
    table = {
        "arms": {"full": "pre-trained", "lstm": "LSTM"},
        "tasks": {"rte": {"full": figure(0.5)}, "mine": {"full": figure(0.75)}},
        "average": {"full": {"median": 0.625, "paper_percent": None}, "lstm": None},
        "paper_percent": {"full": {"rte": 56.0}, "lstm": {"rte": 54.6}},
    }
    lines = describe(study(1, 1, {"ablations": table}))
    assert [line.split("  ") for line in (" ".join(lines[1].split()), " ".join(lines[2].split()))] == [
        ["pre-trained 62.5 50.0 75.0"],
        ["the paper's - 56.0 -"],
    ]
    assert lines[3].split() == ["LSTM", "-", "-", "-"]


def test_labels_and_differences_are_told() -> None:
    pair = {
        "labels": 50,
        "arm": "full",
        "over": "tf-idf",
        "split": "dev",
        "difference": -0.1,
        "low": -0.2,
        "high": 0.05,
    }
    points = {"full": [{"labels": 50, **figure(0.5)}], "tf-idf": [{"labels": 50, **figure(0.6)}]}
    section = {
        "arms": {"full": "pre-trained", "tf-idf": "TF-IDF"},
        "tasks": {"rte": {"metric": "accuracy", "arms": points, "differences": [pair]}},
    }
    lines = describe(study(1, 1, {"labels": section}))
    assert lines == [
        "rte, accuracy  50 labels",
        "pre-trained    50.0",
        "TF-IDF         60.0",
        "50 labels, dev  full over tf-idf  -10.0  -20.0 to +5.0",
    ]
