"""What the paper claims, held against what a reproduction found: each claim holds, does not hold, or cannot be told.

The rule. What a claim says is above zero (a gain, a loss, a rise) is measured with its 95 % interval. Above zero as a
whole: the claim holds. Below zero as a whole: it does not. Anything else cannot be told here, nor can what stands on
fewer than three seeds or lacks a task of the claim. A claim about each of several (tasks, blocks) holds where it holds
for all of them, and does not where it does not for one. Only the sign is judged; the paper's figure stands beside ours.

Where intervals come from: a score against a printed figure, and two arms in pairs, by drawing examples
(`comparison.py`); a mean over tasks by adding up variances, below and above apart; GLUE's score from the worst seed to
the best; curves by Kendall's count of rising pairs of checkpoints, as wide as that of a single curve; variances by the
logarithm of their ratio; numbers of updates by that of theirs, over seeds (Student's t).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from statistics import fmean, variance
from typing import NotRequired

from gpt1.records.study import (
    CANNOT_BE_TOLD,
    DOES_NOT_HOLD,
    HOLDS,
    CheckpointPoint,
    ClaimFigures,
    LabelledTask,
    PairedDifference,
    PublishedFigures,
    StudySections,
    Verdict,
)
from gpt1.studies import paper
from gpt1.studies.further import CONTIGUOUS, EMBEDDINGS, LONG, MULTI_TASK, OF_EMBEDDINGS, SHUFFLED
from gpt1.studies.paper import ABLATED, BETTER, FULL, LSTM, NO_LM, SCRATCH

SEEDS = 3  # with fewer a difference may be that of the seeds
NORMAL = 1.96  # deviations on either side of 95 %
CHECKPOINTS = 5  # with fewer a curve that rises throughout may be chance
TRANSFERRED = ("mnli", "race")  # of figure 2 left
ASKED = ("cola", "sst2", "race", "dpr")  # of figure 2 right
LARGER, SMALLER = ("qqp", "mnli", "qnli"), ("cola", "sst2", "mrpc", "stsb", "rte")
COUNTED = ("snli", "qqp", "mnli")  # learned from more and more labels, with and without the auxiliary loss
TRANSFORMER = "transformer"


@dataclass(frozen=True)
class Evidence:
    """What was found about a claim: a value that should be above zero, with its interval; or why there is none."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    examples: int = 0
    seeds: int | None = None  # None: of one pre-training, which has none
    lacking: str = ""
    told: str = ""  # what a person reads for the value, where that is no number


def judge(found: Evidence) -> tuple[Verdict, str]:
    """Return the word for what was found, and why where it cannot be told."""
    if found.lacking or found.low is None or found.high is None:
        return CANNOT_BE_TOLD, found.lacking or "no interval"
    if found.seeds is not None and found.seeds < SEEDS:
        return CANNOT_BE_TOLD, f"fewer than {SEEDS} seeds"
    if found.low > 0:
        return HOLDS, ""
    if found.high < 0:
        return DOES_NOT_HOLD, ""
    return CANNOT_BE_TOLD, "could be chance"


class FoundSections(StudySections):
    """The sections of a reproduction, and what each block adds to the one before it, of tasks that have all of them."""

    added: NotRequired[dict[str, list[PairedDifference]]]


Look = Callable[[FoundSections], Evidence]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, its figure, and how ours is found."""

    section: str
    says: str
    figure: str  # as the paper has it
    look: Look
    is_score: bool = True  # x 100 for people


def hold_against(found: FoundSections) -> list[ClaimFigures]:
    """Return every claim with the paper's figure, ours, and whether it holds."""
    return [_held(claim, claim.look(found)) for claim in CLAIMS]


def _held(claim: Claim, found: Evidence) -> ClaimFigures:
    verdict, why = judge(found)
    return {
        "section": claim.section,
        "claim": claim.says,
        "paper": claim.figure,
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "is_score": claim.is_score,
        "told": found.told,
        "examples": found.examples,
        "seeds": found.seeds,
        "verdict": verdict,
        "why": why,
    }


# ---- against the best before: tables 2 to 4 ----


def _rows(sections: StudySections, task: str) -> list[PublishedFigures]:
    tables = sections["tables"]["tables"].values() if "tables" in sections else ()
    return [row for rows in tables for row in rows if row["task"] == task and "/" not in row["metric"]]


def _over_before(row: PublishedFigures) -> Evidence:
    before = row["previous_percent"] / 100
    if "low" not in row or "high" not in row:
        return Evidence(row["median"] - before, examples=row["examples"], seeds=len(row["seeds"]))
    low, high = row["low"] - before, row["high"] - before
    return Evidence(row["median"] - before, low, high, row["examples"], len(row["seeds"]))


def better(*tasks: str, sign: int = 1) -> Look:
    """Look by how much tasks are better than the best before (by the sign -1: worse), each of them: the weakest counts.

    What is not comparable is shown, and not judged.
    """

    def look(sections: StudySections) -> Evidence:
        found = {task: _rows(sections, task)[:1] for task in tasks}
        if absent := [task for task, rows in found.items() if not rows]:
            return Evidence(lacking=f"not learned: {', '.join(absent)}")
        weakest = _weakest([_turned(_over_before(row), sign) for rows in found.values() for row in rows])
        remarks = [row["remark"] for rows in found.values() for row in rows if row["remark"]]
        return replace(weakest, lacking=", ".join(remarks))

    return look


def _weakest(found: Sequence[Evidence]) -> Evidence:
    """Return what decides a claim about each of several: one that is surely below zero, else the lowest."""
    refuted = [one for one in found if one.high is not None and one.high < 0]
    return min(refuted or found, key=_lowest)


def _lowest(found: Evidence) -> float:
    return -math.inf if found.low is None else found.low


def _on_nine_of_twelve(sections: StudySections) -> Evidence:
    """Count tasks that are surely better, and those that may be: what is missing or not comparable may be."""
    surely, maybe, ours, examples, seeds = 0, 0, 0, 0, []
    for task, published in paper.whole_rows().items():
        found = [_over_before(row) for row in _rows(sections, task)]
        if not found or any(one.remark for one in published):
            maybe += 1
            continue
        examples += sum(one.examples for one in found)
        seeds += [one.seeds or 0 for one in found]
        ours += all((one.value or 0) > 0 for one in found)
        surely += all(one.low is not None and one.low > 0 for one in found)
        maybe += all(one.high is None or one.high > 0 for one in found)
    if not seeds:
        return Evidence(lacking="no task of tables 2 to 4 was learned")
    # Above zero is nine and more.
    above = BETTER - 0.5
    told = f"{ours}, surely {surely}, at most {maybe}"
    return Evidence(ours - above, surely - above, maybe - above, examples, min(seeds), told=told)


def _glue(sections: StudySections) -> Evidence:
    glue = sections.get("glue")
    if glue is None or glue["score"] is None:
        missing = ", ".join(glue["missing"]) if glue is not None else "all of it"
        return Evidence(lacking=f"not learned: {missing}")
    found, before = glue["score"], glue["previous_percent"] / 100
    spread = (found["worst"] - before, found["best"] - before)
    return Evidence(found["median"] - before, *spread, found["examples"], len(found["seeds"]))


# ---- ablations: table 5 ----


def mean_gain(over: str, tasks: Sequence[str], sign: int = 1) -> Look:
    """Look by how much the full model is better than an ablation on average (by the sign -1: worse)."""

    def look(sections: StudySections) -> Evidence:
        found = [_gain(sections, over, task) for task in tasks]
        if absent := [task for task, one in zip(tasks, found, strict=True) if one is None]:
            return Evidence(lacking=f"not compared: {', '.join(absent)}")
        return _mean([one for one in found if one is not None], sign)

    return look


def _gain(sections: StudySections, over: str, task: str, arm: str = FULL) -> Evidence | None:
    pairs = [pair for name in ("differences", "further") if name in sections for pair in sections[name]["pairs"]]
    found = [pair for pair in pairs if (pair["task"], pair["arm"], pair["over"]) == (task, arm, over)]
    return _mean([_of_pair(pair, _seeds(sections, task, arm, over)) for pair in found]) if found else None


def _of_pair(pair: PairedDifference, seeds: int) -> Evidence:
    return Evidence(pair["difference"], pair["low"], pair["high"], pair["examples"], seeds)


def _seeds(sections: StudySections, task: str, *pair: str) -> int:
    """Return how many seeds both arms of a pair have."""
    found = [sections[name]["tasks"].get(task, {}) for name in ("ablations", "further") if name in sections]
    return min((len(arms[arm]["seeds"]) for arms in found for arm in pair if arm in arms), default=0)


def _mean(found: Sequence[Evidence], sign: int = 1) -> Evidence:
    """Return the mean of differences on examples that have nothing to do with each other; a single one as it is."""
    if len(found) == 1:
        return _turned(found[0], sign)
    value = fmean(one.value or 0.0 for one in found)
    # An interval by drawing examples need not lie evenly around its value.
    below = math.hypot(*(max(0.0, (one.value or 0.0) - (one.low or 0.0)) for one in found)) / len(found)
    above = math.hypot(*(max(0.0, (one.high or 0.0) - (one.value or 0.0)) for one in found)) / len(found)
    seeds = min(one.seeds or 0 for one in found)
    mean = Evidence(value, value - below, value + above, sum(one.examples for one in found), seeds)
    return _turned(mean, sign)


def _turned(found: Evidence, sign: int) -> Evidence:
    """Return a difference as it is; by the sign -1 the other way round."""
    if sign > 0 or found.value is None or found.low is None or found.high is None:
        return found
    return replace(found, value=-found.value, low=-found.high, high=-found.low)


def _lstm_wins_on_mrpc_alone(sections: StudySections) -> Evidence:
    """Look at the weakest gain over the LSTM on the other tasks; on MRPC it is a loss, turned round."""
    found = {task: _gain(sections, LSTM, task) for task in ABLATED}
    if absent := [task for task, one in found.items() if one is None]:
        return Evidence(lacking=f"not compared: {', '.join(absent)}")
    return _weakest([_turned(one, -1 if task == "mrpc" else 1) for task, one in found.items() if one is not None])


def each_gain(over: str, tasks: Sequence[str]) -> Look:
    """Look by how much the full model is better than an ablation on each task: the weakest counts."""

    def look(sections: StudySections) -> Evidence:
        found = {task: _gain(sections, over, task) for task in tasks}
        if absent := [task for task, one in found.items() if one is None]:
            return Evidence(lacking=f"not compared: {', '.join(absent)}")
        return _weakest([one for one in found.values() if one is not None])

    return look


def _more_with_more_labels(sections: StudySections) -> Evidence:
    """Look how much more the auxiliary loss gains from the most labels than from the fewest, on average over tasks."""
    tasks = sections["labels"]["tasks"] if "labels" in sections else {}
    found = {task: _gained_by_labels(tasks[task]) for task in COUNTED if task in tasks}
    if absent := [task for task in COUNTED if found.get(task) is None]:
        return Evidence(lacking=f"not learned from several numbers of labels: {', '.join(absent)}")
    return _mean([one for one in found.values() if one is not None])


def _gained_by_labels(found: LabelledTask) -> Evidence | None:
    """Return the gain with the most labels less that with the fewest, of one task."""
    pairs = [pair for pair in found["differences"] if (pair["arm"], pair["over"]) == (FULL, NO_LM)]
    counts = sorted({pair["labels"] for pair in pairs})
    if len(counts) < 2:
        return None
    seeds = min(len(point["seeds"]) for arm in (FULL, NO_LM) for point in found["arms"][arm])
    fewest, most = (
        _mean([_of_pair(pair, seeds) for pair in pairs if pair["labels"] == count]) for count in (counts[0], counts[-1])
    )
    return _less(most, fewest)


def _less(one: Evidence, other: Evidence) -> Evidence:
    """Return how much more one is than another, with the interval that it would have if both had other examples."""
    (value, low, high), (less, below, above) = (
        (found.value or 0.0, found.low or 0.0, found.high or 0.0) for found in (one, other)
    )
    more = value - less
    bounds = more - math.hypot(value - low, above - less), more + math.hypot(high - value, less - below)
    return Evidence(more, *bounds, one.examples, one.seeds)


# ---- how fast it is learned ----

# Student's t for 95 %, by degrees of freedom from 1 on; with more, the last.
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10)


def _faster_with_lm(sections: StudySections) -> Evidence:
    """Look how many times as many updates it takes without auxiliary loss, as a logarithm, on average over tasks."""
    tasks = sections["convergence"]["tasks"] if "convergence" in sections else {}
    if absent := [task for task in ABLATED if task not in tasks]:
        return Evidence(lacking=f"not compared: {', '.join(absent)}")
    ratios = [
        [math.log(without / found["updates"][FULL][seed]) for seed, without in found["updates"][NO_LM].items()]
        for found in tasks.values()
    ]
    seeds = min(map(len, ratios))
    if seeds < SEEDS:
        return Evidence(fmean(map(fmean, ratios)), seeds=seeds, lacking=f"fewer than {SEEDS} seeds")
    value, freedom = fmean(map(fmean, ratios)), sum(len(own) - 1 for own in ratios)
    error = math.sqrt(sum(variance(own) / len(own) for own in ratios)) / len(ratios)
    half = STUDENT[min(freedom, len(STUDENT)) - 1] * error
    return Evidence(value, value - half, value + half, seeds=seeds)


# ---- what the paper says in words ----


def pair_gain(arm: str, over: str, *tasks: str) -> Look:
    """Look by how much one arm is better than another, on average over tasks."""

    def look(sections: StudySections) -> Evidence:
        found = {task: _gain(sections, over, task, arm) for task in tasks}
        if absent := [task for task, one in found.items() if one is None]:
            return Evidence(lacking=f"not compared: {', '.join(absent)}")
        return _mean([one for one in found.values() if one is not None])

    return look


# ---- figure 2 ----


def most_over_none(task: str) -> Look:
    """Look what all blocks are worth over the embeddings alone."""

    def look(sections: StudySections) -> Evidence:
        points = sections["transfer"]["tasks"].get(task, {"points": []})["points"] if "transfer" in sections else []
        for point in points:
            if point["layers"] == 0 and (gain := point.get("behind_most")) is not None:
                seeds = len(point["seeds"])
                return Evidence(gain["difference"], gain["low"], gain["high"], gain["examples"], seeds)
        return Evidence(lacking=f"not learned: {task}")

    return look


def _each_block_adds(found: FoundSections) -> Evidence:
    """Look at the weakest of what blocks add to the one before, in pairs."""
    added = found.get("added", {})
    if absent := [task for task in TRANSFERRED if not added.get(task)]:
        return Evidence(lacking=f"not learned with each number of blocks: {', '.join(absent)}")
    points = [point for task in TRANSFERRED for point in found["transfer"]["tasks"][task]["points"]]
    seeds = min(len(point["seeds"]) for point in points)
    return _weakest(
        [
            Evidence(gain["difference"], gain["low"], gain["high"], gain["examples"], seeds)
            for task in TRANSFERRED
            for gain in added[task]
        ]
    )


def _curves(sections: StudySections, kind: str) -> dict[str, list[CheckpointPoint]] | str:
    """Return the curves of the first run of a kind by task; or why there are none."""
    if "zeroshot" not in sections:
        return "no checkpoint was asked"
    content = sections["zeroshot"]
    run = next((name for name, found in content["kinds"].items() if found == kind), None)
    if run is None:
        return f"no {'LSTM' if kind == LSTM else 'Transformer'} was asked"
    found = {task: content["tasks"][task]["runs"].get(run, []) for task in ASKED if task in content["tasks"]}
    absent = [task for task in ASKED if not found.get(task)]
    return f"not asked: {', '.join(absent)}" if absent else found


def _rises(sections: StudySections) -> Evidence:
    """Count of pairs of checkpoints how many more rise than fall (Kendall's tau), on average over the figure's tasks.

    The curves are of one pre-training and may rise together, so that all of them tell no more surely than one.
    """
    curves = _curves(sections, TRANSFORMER)
    if isinstance(curves, str):
        return Evidence(lacking=curves)
    n = min(len(points) for points in curves.values())
    if n < CHECKPOINTS:
        return Evidence(lacking=f"fewer than {CHECKPOINTS} checkpoints")
    value = fmean(_tau(points) for points in curves.values())
    half = NORMAL * math.sqrt(n * (n - 1) * (2 * n + 5) / 18) / math.comb(n, 2)
    examples = sum(points[0]["examples"] for points in curves.values())
    return Evidence(value, max(-1.0, value - half), min(1.0, value + half), examples)


def _tau(points: Sequence[CheckpointPoint]) -> float:
    values = [point["score"] for point in sorted(points, key=lambda point: point["step"])]
    return fmean((after > before) - (after < before) for before, after in combinations(values, 2))


def _lstm_varies_more(sections: StudySections) -> Evidence:
    """Hold the variance of steps from checkpoint to checkpoint of an LSTM against a Transformer's, as a logarithm."""
    own, other = _curves(sections, TRANSFORMER), _curves(sections, LSTM)
    if isinstance(own, str) or isinstance(other, str):
        return Evidence(lacking=own if isinstance(own, str) else str(other))
    (one, freedom), (two, others) = _variance(own.values()), _variance(other.values())
    if not one or not two:
        return Evidence(lacking="too few checkpoints")
    value, half = math.log(two / one), NORMAL * math.sqrt(2 / freedom + 2 / others)
    return Evidence(value, value - half, value + half, sum(points[0]["examples"] for points in own.values()))


def _variance(curves: Iterable[Sequence[CheckpointPoint]]) -> tuple[float, int]:
    """Return the variance of the steps of curves around each curve's mean step, and how many steps are free."""
    squares, freedom = 0.0, 0
    for points in curves:
        values = [point["normalised"] or 0.0 for point in sorted(points, key=lambda point: point["step"])]
        steps = [after - before for before, after in pairwise(values)]
        if len(steps) > 1:
            mean = fmean(steps)
            squares, freedom = squares + sum((step - mean) ** 2 for step in steps), freedom + len(steps) - 1
    return (squares / freedom, freedom) if freedom else (0.0, 0)


def _not_here(why: str) -> Look:
    return lambda sections: Evidence(lacking=why)


def _gap(arm: str) -> str:
    return f"{paper.ABLATIONS[FULL]['average'] - paper.ABLATIONS[arm]['average']:+.1f}"


def _range(arm: str) -> str:
    gaps = [paper.ABLATIONS[FULL][task] - paper.ABLATIONS[arm][task] for task in ABLATED]
    return f"from {min(gaps):+.1f} to {max(gaps):+.1f}"


def _before(task: str, sign: int = 1) -> str:
    row = paper.whole_rows()[task][0]
    return f"{sign * (row.paper - row.previous):+.1f}"


CLAIMS = (
    Claim(
        "summary", "Better than the best before on nine of twelve tasks", f"{BETTER} of 12", _on_nine_of_twelve, False
    ),
    Claim("summary", "Better on commonsense reasoning (Story Cloze)", _before("storycloze"), better("storycloze")),
    Claim("summary", "Better on question answering (RACE)", _before("race"), better("race")),
    Claim("summary", "Better on textual entailment (MNLI, matched)", _before("mnli"), better("mnli")),
    Claim("summary", "Better on GLUE", f"in words +5.5, by table 4 {paper.GLUE - paper.PREVIOUS_GLUE:+.1f}", _glue),
    Claim(
        "3.2",
        "The auxiliary LM speeds up convergence (logarithm of how many times as many updates it takes without)",
        "no figure",
        _faster_with_lm,
        False,
    ),
    Claim(
        "4.1",
        "A perplexity of 18.4 on BooksCorpus",
        "18.4",
        _not_here("BooksCorpus is not given out, and perplexities of other text or tokens are others"),
        False,
    ),
    Claim(
        "4.1",
        "Contiguous text teaches more than the same sentences shuffled (Story Cloze, RACE)",
        "no figure",
        pair_gain(CONTIGUOUS, SHUFFLED, *LONG),
    ),
    Claim("4.1", "Three epochs of fine-tuning suffice", "no figure", _not_here("no other number was trained"), False),
    Claim("4.2", "Better on SNLI", _before("snli"), better("snli")),
    Claim("4.2", "Better on SciTail", _before("scitail"), better("scitail")),
    Claim("4.2", "Better on QNLI", _before("qnli"), better("qnli")),
    Claim("4.2", "Worse on RTE", _before("rte", sign=-1), better("rte", sign=-1)),
    Claim(
        "4.2",
        "RTE is likely to gain from multi-task training (with MNLI)",
        "not tried",
        pair_gain(MULTI_TASK, FULL, "rte"),
    ),
    Claim("4.2", "Better on STS-B", _before("stsb"), better("stsb")),
    Claim("4.2", "Better on QQP", _before("qqp"), better("qqp")),
    Claim("4.2", "Worse on MRPC", _before("mrpc", sign=-1), better("mrpc", sign=-1)),
    Claim("4.2", "Better on CoLA", _before("cola"), better("cola")),
    Claim("4.2", "Worse on SST-2, though near", _before("sst2", sign=-1), better("sst2", sign=-1)),
    Claim(
        "4.2", "Works on small data (STS-B, 5.7 k) and on large (SNLI, 550 k)", "1.0 and 0.6", better("stsb", "snli")
    ),
    Claim("5", "All blocks are worth more than the embeddings alone (MNLI)", "up to +9", most_over_none("mnli")),
    Claim("5", "All blocks are worth more than the embeddings alone (RACE)", "a curve", most_over_none("race")),
    Claim("5", "Each block that is taken over adds something (MNLI, RACE)", "a curve", _each_block_adds),
    Claim("5", "Embeddings alone help (MNLI)", "a curve", pair_gain(EMBEDDINGS, SCRATCH, OF_EMBEDDINGS)),
    Claim("5", "Zero-shot scores rise steadily with updates", "a curve", _rises, False),
    Claim("5", "The LSTM's zero-shot scores vary more", "a curve", _lstm_varies_more, False),
    Claim("5", "The auxiliary LM helps larger data sets (QQP, MNLI, QNLI)", "+0.8", mean_gain(NO_LM, LARGER)),
    Claim("5", "and does not help smaller ones: better without it", "+1.1", mean_gain(NO_LM, SMALLER, sign=-1)),
    Claim("5", "It helps the more, the more labels there are (SNLI, QQP, MNLI)", "no figure", _more_with_more_labels),
    Claim("5", "Better than the LSTM on average", _gap(LSTM), mean_gain(LSTM, ABLATED)),
    Claim("5", "The LSTM is better on MRPC alone", "+0.9", _lstm_wins_on_mrpc_alone),
    Claim("5", "Better than without pre-training on average", _gap(SCRATCH), mean_gain(SCRATCH, ABLATED)),
    Claim("5", "and on each of the eight tasks", _range(SCRATCH), each_gain(SCRATCH, ABLATED)),
)
