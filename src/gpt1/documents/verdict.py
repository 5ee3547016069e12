"""Is a run any good? Its score held against counting words and against always giving the commonest answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpt1.documents.figures import LONGEST_NAME, metric_name, shown_text
from gpt1.documents.figures import score as written
from gpt1.records.evaluation import Evaluation
from gpt1.tasks.assessment import ClassRates

_AVOID = "do not use it"


@dataclass(frozen=True)
class Verdict:
    """What a score is worth."""

    sentence: str
    is_of_use: bool


def verdict(evaluation: Evaluation) -> Verdict | None:
    """Return what the score on a split is worth; None where there is nothing to hold it against."""
    metric, score = next(iter(evaluation.metrics.items()), ("", 0.0))  # a damaged record may have none
    if answer := _only_answer(evaluation):
        return Verdict(f"it always answers '{answer}'; {_AVOID}", is_of_use=False)
    if (common := commonest(evaluation.classes)) and metric == "accuracy" and score <= (share := common[1]):
        return Verdict(
            f"{written(score)} is no better than always answering '{common[0]}' ({written(share)}); {_AVOID}",
            is_of_use=False,
        )
    words = (evaluation.words or {}).get(metric)
    if words is None:
        return None
    held = f"{metric_name(metric)} {written(score)}, counting words {written(words)}"
    points = written(abs(score - words))
    if score < words:
        return Verdict(f"{points} points behind counting words ({held}); {_AVOID}", is_of_use=False)
    if score == words:
        return Verdict(f"as good as counting words ({held})", is_of_use=True)
    low, _ = evaluation.intervals.get(metric, (score, score))
    chance = f"; {evaluation.examples:,} rows are too few to be sure of that" if words >= low else ""
    return Verdict(f"{points} points ahead of counting words ({held}){chance}", is_of_use=True)


def commonest(classes: Sequence[ClassRates]) -> tuple[str, float] | None:
    """Return the commonest label and its share."""
    if not classes:
        return None
    most = max(classes, key=lambda one: one.support)
    return shown_text(str(most.label), LONGEST_NAME), most.support / sum(one.support for one in classes)


def _only_answer(evaluation: Evaluation) -> str | None:
    """Return the answer, where it is always the same though labels are not."""
    table = evaluation.confusion
    if table is None or table.pairs is not None or sum(1 for one in evaluation.classes if one.support) < 2:
        return None
    given = [label for label, column in zip(table.labels, zip(*table.counts, strict=True), strict=True) if sum(column)]
    return shown_text(str(given[0]), LONGEST_NAME) if len(given) == 1 else None
