"""Claims of the paper held against made-up figures: each of the three words where its rule says so."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import scipy.stats

from gpt1.records.study import CANNOT_BE_TOLD, DOES_NOT_HOLD, HOLDS, ClaimFigures
from gpt1.studies import paper
from gpt1.studies.claims import ASKED, CLAIMS, STUDENT, Evidence, hold_against, judge
from gpt1.studies.paper import ABLATED, FULL, LSTM, NO_LM, SCRATCH

THREE = {"0": 0.0, "1": 0.0, "2": 0.0}


@pytest.mark.parametrize(
    ("found", "word", "why"),
    [
        (Evidence(0.05, 0.01, 0.09, 100, 3), HOLDS, ""),
        (Evidence(-0.05, -0.09, -0.01, 100, 3), DOES_NOT_HOLD, ""),
        (Evidence(0.05, -0.01, 0.11, 100, 3), CANNOT_BE_TOLD, "could be chance"),
        (Evidence(0.05, 0.0, 0.11, 100, 3), CANNOT_BE_TOLD, "could be chance"),
        (Evidence(0.05, 0.01, 0.09, 100, 2), CANNOT_BE_TOLD, "fewer than 3 seeds"),
        (Evidence(-0.05, -0.09, -0.01, 100, 2), CANNOT_BE_TOLD, "fewer than 3 seeds"),
        (Evidence(0.5, 0.1, 0.9, 100), HOLDS, ""),  # of one pre-training, which has no seeds
        (Evidence(lacking="not learned: race"), CANNOT_BE_TOLD, "not learned: race"),
        (Evidence(0.05, examples=100, seeds=3), CANNOT_BE_TOLD, "no interval"),
    ],
)
def test_the_rule_has_three_words(found: Evidence, word: str, why: str) -> None:
    assert judge(found) == (word, why)


def claim(sections: Any, words: str) -> ClaimFigures:
    (found,) = (one for one in hold_against(sections) if words in one["claim"])
    return found


def tables(gain: float, half: float = 0.01, without: Sequence[str] = ()) -> Any:
    """Every task of tables 2 to 4 by so much better than the best before."""
    rows = [
        {
            "task": row.task,
            "metric": row.metric,
            "median": row.previous / 100 + gain,
            "low": row.previous / 100 + gain - half,
            "high": row.previous / 100 + gain + half,
            "previous_percent": row.previous,
            "remark": row.remark,
            "examples": 100,
            "seeds": THREE,
        }
        for table in paper.TABLES.values()
        for row in table
        if row.task not in without
    ]
    return {"tables": {"titles": {}, "tables": {"table-2": rows}}}


def test_without_any_figure_no_claim_can_be_told() -> None:
    found = hold_against({})
    assert len(found) == len(CLAIMS)
    assert {one["verdict"] for one in found} == {CANNOT_BE_TOLD}
    assert all(one["why"] for one in found)


@pytest.mark.parametrize(
    "sections",
    [
        lambda: tables(0.05, without=["stsb", "race"]),
        lambda: {"glue": {"missing": ["wnli"], "score": None, "previous_percent": 68.9}},
        lambda: {"differences": {"pairs": []}, "ablations": {"tasks": {"mnli": {FULL: {"seeds": THREE}}}}},
        lambda: ablations(LSTM, {"mrpc": -0.05}),
        lambda: {"transfer": {"tasks": {}}, "added": {}},
        lambda: {"transfer": {"tasks": {"mnli": {"points": []}, "race": {"points": []}}}, "added": {}},
        lambda: blocks(0.7, whole=False),  # the full model alone
        lambda: blocks(0.5, 0.7, whole=False),
        lambda: blocks(0.7, tasks=["mnli"], whole=False),
        lambda: blocks(0.5, 0.6, 0.7, tasks=["race"]),
        lambda: {"zeroshot": {"tasks": {}, "kinds": {}}},
        lambda: {"zeroshot": {"tasks": {}, "kinds": {"transformer": "transformer"}}},
        lambda: curves(transformer=[0.1]),
        lambda: curves(transformer=[0.1], lstm=[0.1]),
        lambda: curves(transformer=[], lstm=[]),
    ],
)
def test_at_any_stage_of_a_reproduction_every_claim_has_its_word(sections: Callable[[], Any]) -> None:
    found = hold_against(sections())
    assert len(found) == len(CLAIMS)
    assert all(one["why"] for one in found if one["verdict"] == CANNOT_BE_TOLD)


@pytest.mark.parametrize(
    ("gain", "word"), [(0.05, HOLDS), (-0.05, DOES_NOT_HOLD), (0.005, CANNOT_BE_TOLD), (-0.005, CANNOT_BE_TOLD)]
)
def test_gains_over_the_best_before_are_judged_by_the_interval_of_ours(gain: float, word: str) -> None:
    for words in ("reasoning (Story Cloze)", "question answering (RACE)", "entailment (MNLI", "STS-B, 5.7 k"):
        found = claim(tables(gain), words)
        assert (found["verdict"], found["value"]) == (word, pytest.approx(gain))


def test_one_task_that_is_surely_worse_refutes_a_claim_about_two_though_the_other_may_be_lower() -> None:
    sections = tables(0.05)
    for row in sections["tables"]["tables"]["table-2"]:
        if row["task"] == "stsb":
            row.update(
                {place: row["previous_percent"] / 100 + gain for place, gain in (("low", -0.03), ("high", -0.01))}
            )
        if row["task"] == "snli":
            row.update(
                {place: row["previous_percent"] / 100 + gain for place, gain in (("low", -0.043), ("high", 0.037))}
            )
    found = claim(sections, "STS-B, 5.7 k")
    assert (found["verdict"], found["low"], found["high"]) == (
        DOES_NOT_HOLD,
        pytest.approx(-0.03),
        pytest.approx(-0.01),
    )


def test_nine_of_twelve_are_counted_with_what_may_still_be_better() -> None:
    words = "nine of twelve"
    held = claim(tables(0.05, without=["cola", "rte"]), words)
    assert (held["verdict"], held["told"]) == (HOLDS, "9, surely 9, at most 12")  # but for QNLI, not comparable
    assert claim(tables(0.05, without=["cola", "rte", "mrpc"]), words)["verdict"] == CANNOT_BE_TOLD
    assert claim(tables(-0.05, without=["cola", "rte"]), words)["verdict"] == DOES_NOT_HOLD
    assert claim(tables(0.005), words)["verdict"] == CANNOT_BE_TOLD


def test_a_task_on_which_the_paper_is_worse_is_judged_the_other_way_round() -> None:
    assert claim(tables(-0.05), "Worse on RTE")["verdict"] == HOLDS
    assert claim(tables(0.05), "Worse on RTE")["verdict"] == DOES_NOT_HOLD


def test_what_is_not_comparable_is_shown_and_not_judged() -> None:
    found = claim(tables(0.05), "Better on QNLI")
    assert (found["verdict"], found["value"]) == (CANNOT_BE_TOLD, pytest.approx(0.05))
    assert found["why"] == "the paper's QNLI is version 1, which is not comparable"


def glue(worst: float, best: float) -> Any:
    score = {"median": (worst + best) / 2, "worst": worst, "best": best, "examples": 9, "seeds": THREE}
    return {"glue": {"missing": [], "score": score, "previous_percent": 68.9}}


def test_glue_is_judged_from_the_worst_seed_to_the_best() -> None:
    assert claim(glue(0.70, 0.75), "Better on GLUE")["verdict"] == HOLDS
    assert claim(glue(0.60, 0.65), "Better on GLUE")["verdict"] == DOES_NOT_HOLD
    assert claim(glue(0.65, 0.75), "Better on GLUE")["verdict"] == CANNOT_BE_TOLD
    lacking = claim({"glue": {"missing": ["wnli"], "score": None, "previous_percent": 68.9}}, "Better on GLUE")
    assert (lacking["verdict"], lacking["why"]) == (CANNOT_BE_TOLD, "not learned: wnli")


def ablations(over: str, gains: dict[str, float], half: float = 0.02) -> Any:
    """The full model better than another arm by so much on each task."""
    pairs = [
        {
            "task": task,
            "arm": FULL,
            "over": over,
            "difference": gain,
            "low": gain - half,
            "high": gain + half,
            "examples": 50,
        }
        for task, gain in gains.items()
        for _ in range(2 if task == "mnli" else 1)  # which has two splits
    ]
    arms = {task: {arm: {"seeds": THREE} for arm in (FULL, over)} for task in gains}
    return {"differences": {"pairs": pairs}, "ablations": {"tasks": arms}}


def test_a_mean_over_tasks_has_a_narrower_interval_than_each_of_them() -> None:
    found = claim(ablations(SCRATCH, dict.fromkeys(ABLATED, 0.015)), "without pre-training")
    assert (found["verdict"], found["value"], found["paper"]) == (HOLDS, pytest.approx(0.015), "+14.8")
    half = 0.02 * math.sqrt(7 + 1 / 2) / 8
    assert found["low"] == pytest.approx(0.015 - half)
    assert found["examples"] == 50 * 9
    assert claim(ablations(SCRATCH, dict.fromkeys(ABLATED, -0.015)), "without pre-training")["verdict"] == DOES_NOT_HOLD
    absent = claim(ablations(SCRATCH, dict.fromkeys(ABLATED[:-1], 0.5)), "without pre-training")
    assert (absent["verdict"], absent["why"]) == (CANNOT_BE_TOLD, "not compared: rte")


def test_the_auxiliary_loss_is_for_larger_tasks_and_against_smaller_ones() -> None:
    gains = {task: 0.03 if task in ("qqp", "mnli", "qnli") else -0.03 for task in ABLATED}
    sections = ablations("no-lm", gains)
    assert claim(sections, "helps larger")["verdict"] == HOLDS
    smaller = claim(sections, "does not help smaller")
    assert (smaller["verdict"], smaller["value"]) == (HOLDS, pytest.approx(0.03))
    turned = ablations("no-lm", {task: -gain for task, gain in gains.items()})
    assert [claim(turned, words)["verdict"] for words in ("helps larger", "does not help smaller")] == [
        DOES_NOT_HOLD,
        DOES_NOT_HOLD,
    ]


def test_the_lstm_wins_on_one_task_alone() -> None:
    gains = {task: -0.05 if task == "mrpc" else 0.05 for task in ABLATED}
    assert claim(ablations(LSTM, gains), "MRPC alone")["verdict"] == HOLDS
    assert claim(ablations(LSTM, gains | {"rte": 0.0}), "MRPC alone")["verdict"] == CANNOT_BE_TOLD
    assert claim(ablations(LSTM, gains | {"rte": -0.05}), "MRPC alone")["verdict"] == DOES_NOT_HOLD
    assert claim(ablations(LSTM, gains | {"mrpc": 0.05}), "MRPC alone")["verdict"] == DOES_NOT_HOLD


def test_pretraining_helps_on_each_task_only_where_it_does_on_all() -> None:
    words = "each of the eight tasks"
    gains = dict.fromkeys(ABLATED, 0.05)
    assert claim(ablations(SCRATCH, gains), words)["verdict"] == HOLDS
    assert claim(ablations(SCRATCH, gains | {"rte": 0.0}), words)["verdict"] == CANNOT_BE_TOLD
    assert claim(ablations(SCRATCH, gains | {"rte": -0.05}), words)["verdict"] == DOES_NOT_HOLD
    assert claim(ablations(SCRATCH, {"rte": 0.05}), words)["why"].startswith("not compared: cola, sst2")


def further(**gains: float) -> Any:
    """Arms of what the paper says in words, by task better than what they are held against."""
    arms = {
        "storycloze": ("contiguous", "shuffled"),
        "race": ("contiguous", "shuffled"),
        "rte": ("multi-task", FULL),
        "mnli": ("layers-0", SCRATCH),
    }
    pairs = [
        {"task": task, "arm": arms[task][0], "over": arms[task][1], **paired(gain, 0.01)}
        for task, gain in gains.items()
    ]
    tasks = {task: {arm: {"seeds": THREE} for arm in arms[task]} for task in gains}
    return {"further": {"tasks": tasks, "pairs": pairs}}


@pytest.mark.parametrize(
    ("words", "tasks"),
    [("Contiguous text", ("storycloze", "race")), ("multi-task", ("rte",)), ("Embeddings alone help", ("mnli",))],
)
def test_what_is_said_in_words_is_held_against_its_other_arm(words: str, tasks: Sequence[str]) -> None:
    for gain, word in ((0.05, HOLDS), (0.0, CANNOT_BE_TOLD), (-0.05, DOES_NOT_HOLD)):
        found = claim(further(**dict.fromkeys(tasks, gain)), words)
        assert (found["verdict"], found["value"], found["seeds"]) == (word, pytest.approx(gain), 3)
    assert claim(further(), words)["why"] == f"not compared: {', '.join(tasks)}"


def counted(**gains: Sequence[float]) -> Any:
    """The auxiliary loss better by so much from 10, 20, ... labels."""
    tasks = {
        task: {
            "arms": {arm: [{"seeds": THREE}] for arm in (FULL, NO_LM)},
            "differences": [
                {"labels": 10 * place, "arm": FULL, "over": NO_LM, **paired(gain, 0.01)}
                for place, gain in enumerate(each, 1)
            ],
        }
        for task, each in gains.items()
    }
    return {"labels": {"tasks": tasks}}


def test_the_auxiliary_loss_helps_the_more_the_more_labels_there_are_by_the_fewest_and_the_most() -> None:
    words = "more labels there are"
    rising = claim(counted(snli=(-0.02, 0.5, 0.03), qqp=(0.0, 0.05), mnli=(0.0, 0.05)), words)
    assert (rising["verdict"], rising["value"], rising["examples"]) == (HOLDS, pytest.approx(0.05), 120)
    assert rising["low"] == pytest.approx(0.05 - 0.01 * math.sqrt(2) * math.sqrt(3) / 3)
    falling = dict.fromkeys(("snli", "qqp", "mnli"), (0.05, 0.0))
    assert claim(counted(**falling), words)["verdict"] == DOES_NOT_HOLD
    one = claim(counted(snli=(0.0, 0.1), qqp=(0.1,), mnli=(0.0, 0.1)), words)
    assert one["why"] == "not learned from several numbers of labels: qqp"


def learned(with_lm: Sequence[int], without: Sequence[int], tasks: Sequence[str] = ABLATED) -> Any:
    """Each task learned after so many updates, seed by seed."""
    updates = {arm: dict(enumerate(found)) for arm, found in ((FULL, with_lm), (NO_LM, without))}
    return {"convergence": {"tasks": {task: {"level": 0.5, "updates": updates} for task in tasks}}}


def test_the_auxiliary_loss_speeds_convergence_where_it_takes_fewer_updates_beyond_the_seeds() -> None:
    words = "speeds up convergence"
    faster = claim(learned((10, 20, 40), (21, 39, 82)), words)
    assert (faster["verdict"], faster["seeds"]) == (HOLDS, 3)
    ratios = [math.log(ratio) for ratio in (2.1, 1.95, 2.05)]
    error = statistics.stdev(ratios) / math.sqrt(3 * len(ABLATED))
    assert faster["value"] == pytest.approx(statistics.fmean(ratios))
    # of eight tasks two degrees of freedom each
    assert faster["high"] == pytest.approx(faster["value"] + scipy.stats.t.ppf(0.975, 16) * error, rel=1e-3)
    assert claim(learned((20, 40, 80), (10, 20, 41)), words)["verdict"] == DOES_NOT_HOLD
    assert claim(learned((10, 40, 20), (20, 20, 21)), words)["verdict"] == CANNOT_BE_TOLD
    assert claim(learned((10, 20), (20, 40)), words)["why"] == "fewer than 3 seeds"
    assert claim(learned((1,), (2,), ["cola"]), words)["why"].startswith("not compared: sst2, mrpc")


def test_the_quantiles_are_students() -> None:
    assert pytest.approx(scipy.stats.t.ppf(0.975, range(1, len(STUDENT) + 1)), abs=0.006) == STUDENT


def test_an_interval_that_lies_unevenly_around_its_value_stays_so() -> None:
    sections = ablations(LSTM, {task: -0.01 if task == "mrpc" else 0.05 for task in ABLATED})
    (pair,) = (one for one in sections["differences"]["pairs"] if one["task"] == "mrpc")
    pair["low"], pair["high"] = -0.014, 0.001
    found = claim(sections, "MRPC alone")
    assert (found["verdict"], found["value"], found["low"], found["high"]) == (CANNOT_BE_TOLD, 0.01, -0.001, 0.014)


def test_a_mean_adds_up_what_lies_below_and_above_its_values_apart() -> None:
    sections = ablations(NO_LM, dict.fromkeys(ABLATED, 0.0))
    for pair in sections["differences"]["pairs"]:
        pair["low"], pair["high"] = pair["difference"] - 0.04, pair["difference"] + 0.01
    root = math.sqrt(2 + 1 / 2) / 3  # of three tasks, one of them of two splits
    larger, smaller = claim(sections, "helps larger"), claim(sections, "does not help smaller")
    assert (larger["low"], larger["high"]) == (pytest.approx(-0.04 * root), pytest.approx(0.01 * root))
    root = 1 / math.sqrt(5)
    assert (smaller["low"], smaller["high"]) == (pytest.approx(-0.01 * root), pytest.approx(0.04 * root))


def blocks(*medians: float, half: float = 0.01, tasks: Sequence[str] = ("mnli", "race"), whole: bool = True) -> Any:
    """So many blocks taken over from none on; all of them unless it is said that some are missing."""
    points = []
    for count, value in enumerate(medians):
        point = {"layers": count, "median": value, "seeds": THREE, "examples": 40}
        pair = paired(medians[-1] - value, half)
        points.append(point if count == len(medians) - 1 else {**point, "behind_most": pair})
    added = [paired(after - before, half) for before, after in pairwise(medians)]
    return {
        "transfer": {"tasks": {task: {"points": points} for task in tasks}},
        "added": dict.fromkeys(tasks, added) if whole else {},
    }


def paired(gain: float, half: float) -> dict[str, float]:
    return {"difference": gain, "low": gain - half, "high": gain + half, "examples": 40}


@pytest.mark.parametrize(
    ("medians", "each", "most"),
    [
        ((0.5, 0.6, 0.7), HOLDS, HOLDS),
        ((0.5, 0.7, 0.695), CANNOT_BE_TOLD, HOLDS),  # a step back that may be chance
        ((0.5, 0.7, 0.7001), CANNOT_BE_TOLD, HOLDS),  # a step forward that may be
        ((0.5, 0.8, 0.7), DOES_NOT_HOLD, HOLDS),  # fewer blocks are better beyond chance
        ((0.5, 0.7, 0.6, 0.8), DOES_NOT_HOLD, HOLDS),  # than one more, though not than all
        ((0.7, 0.6, 0.5), DOES_NOT_HOLD, DOES_NOT_HOLD),
    ],
)
def test_blocks_are_judged_one_by_one_and_all_together(medians: tuple[float, ...], each: str, most: str) -> None:
    sections = blocks(*medians)
    assert claim(sections, "Each block")["verdict"] == each
    assert claim(sections, "embeddings alone (MNLI)")["verdict"] == most


def test_each_block_cannot_be_told_before_both_tasks_have_all_of_them() -> None:
    words, why = "Each block", "not learned with each number of blocks: "
    assert claim(blocks(0.7, whole=False), words)["why"] == f"{why}mnli, race"
    assert claim(blocks(0.5, 0.7, whole=False), words)["why"] == f"{why}mnli, race"
    one = claim(blocks(0.5, 0.6, 0.7, tasks=["mnli"]), words)
    assert (one["verdict"], one["why"]) == (CANNOT_BE_TOLD, f"{why}race")


def curves(**runs: Sequence[float]) -> Any:
    def points(values: Sequence[float]) -> list[dict[str, Any]]:
        return [{"step": n, "score": value, "normalised": value, "examples": 30} for n, value in enumerate(values)]

    tasks = {task: {"runs": {run: points(values) for run, values in runs.items()}} for task in ASKED}
    return {"zeroshot": {"tasks": tasks, "kinds": {run: run for run in runs}}}


def test_a_curve_rises_steadily_where_more_pairs_of_checkpoints_rise_than_by_chance() -> None:
    words = "rise steadily"
    rising = claim(curves(transformer=[0.0, 0.1, 0.2, 0.3, 0.4]), words)
    assert (rising["verdict"], rising["value"], rising["high"], rising["seeds"]) == (HOLDS, 1.0, 1.0, None)
    falling = claim(curves(transformer=[0.4, 0.3, 0.2, 0.1, 0.0]), words)
    assert (falling["verdict"], falling["value"], falling["low"]) == (DOES_NOT_HOLD, -1.0, -1.0)
    assert claim(curves(transformer=[0.1, 0.3, 0.0, 0.2, 0.15]), words)["verdict"] == CANNOT_BE_TOLD
    assert claim(curves(lstm=[0.1, 0.2]), words)["why"] == "no Transformer was asked"


def test_four_tasks_of_one_pretraining_tell_a_rise_no_more_surely_than_one() -> None:
    # Eight pairs of ten rise and two fall: of a single curve that may be chance.
    found = claim(curves(transformer=[0.1, 0.0, 0.2, 0.4, 0.3]), "rise steadily")
    assert (found["verdict"], found["value"]) == (CANNOT_BE_TOLD, pytest.approx(0.6))
    assert found["low"] == pytest.approx(0.6 - 1.96 * math.sqrt(50 / 3) / 10)


@pytest.mark.parametrize("checkpoints", [1, 2, 4])
def test_a_few_checkpoints_are_no_steady_rise(checkpoints: int) -> None:
    found = claim(curves(transformer=[0.0001 * n for n in range(checkpoints)]), "rise steadily")
    assert (found["verdict"], found["why"]) == (CANNOT_BE_TOLD, "fewer than 5 checkpoints")


def test_an_lstm_varies_more_where_its_steps_do() -> None:
    smooth, rough = [0.0, 0.1, 0.21, 0.3, 0.41, 0.5], [0.0, 0.4, 0.1, 0.6, 0.2, 0.5]
    assert claim(curves(transformer=smooth, lstm=rough), "vary more")["verdict"] == HOLDS
    assert claim(curves(transformer=rough, lstm=smooth), "vary more")["verdict"] == DOES_NOT_HOLD
    assert claim(curves(transformer=rough, lstm=rough), "vary more")["verdict"] == CANNOT_BE_TOLD
    assert claim(curves(transformer=smooth), "vary more")["why"] == "no LSTM was asked"


def test_the_papers_figures_beside_claims_are_those_of_its_tables() -> None:
    figures = {one.says: one.figure for one in CLAIMS}
    assert figures["Works on small data (STS-B, 5.7 k) and on large (SNLI, 550 k)"] == " and ".join(
        f"{row.paper - row.previous:.1f}" for task in ("stsb", "snli") for row in paper.whole_rows()[task]
    )
    summary = [one.figure for one in CLAIMS if one.section == "summary" and one.says.startswith("Better on")]
    assert summary == ["+8.9", "+5.7", "+1.5", "in words +5.5, by table 4 +3.9"]
    each = [one.figure for one in CLAIMS if one.section == "4.2" and one.says.startswith(("Better", "Worse"))]
    assert each == ["+0.6", "+5.0", "+5.8", "+5.7", "+1.0", "+4.2", "+3.7", "+10.4", "+1.9"]
    assert figures["and on each of the eight tasks"] == "from +2.2 to +51.1"
    assert figures["Better than the LSTM on average"] == "+5.6"

    def gained(tasks: Sequence[str]) -> float:
        return sum(paper.ABLATIONS[FULL][task] - paper.ABLATIONS["no-lm"][task] for task in tasks) / len(tasks)

    assert (
        figures["The auxiliary LM helps larger data sets (QQP, MNLI, QNLI)"]
        == f"{gained(('qqp', 'mnli', 'qnli')):+.1f}"
    )
    smaller = gained(("cola", "sst2", "mrpc", "stsb", "rte"))
    assert figures["and does not help smaller ones: better without it"] == f"{-smaller:+.1f}"
