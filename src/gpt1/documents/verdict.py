"""Is a run any good? Its score held against counting words and against always giving the commonest answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpt1.base.wording import hundred, many, some
from gpt1.documents.figures import LONGEST_NAME, metric_name, shown_text
from gpt1.documents.figures import score as written
from gpt1.records.ensemble import WORDS, TaskEnsemble
from gpt1.records.evaluation import Evaluation, InTrain
from gpt1.tasks.assessment import ClassRates, wilson
from gpt1.tasks.data_warnings import COMMON_SHARE
from gpt1.tasks.metrics import blind_score, commonest_score, constant_micro_f1

_AVOID = "do not use it"

FEWEST_MISSED = 5  # rows of other labels that all got one answer: it is known by so many that no other is ever given
LEAST_CHANCE = 0.05  # of missing all of fewer rows, below which it is known too
FLATTERY = 0.01  # by how much a score may fall without rows that were learned

Decided = Mapping[str, TaskEnsemble]  # by what it was decided who answers each task


@dataclass(frozen=True)
class Verdict:
    """What a score is worth."""

    sentence: str
    is_of_use: bool | None  # None: there is nothing to hold it against
    is_flattered: bool = False  # by rows that stand in train too
    is_as_words: bool = False  # as good as counting words, and no better
    may_be_chance: bool = False  # by so few rows it cannot be told from always giving the commonest answer


def verdict(evaluation: Evaluation, decided: TaskEnsemble | None = None) -> Verdict | None:
    """Return what the score on a split is worth; None where there is nothing to hold it against, nor else to say.

    Where it was decided by cross-validation who answers, and by more rows than the split has, these tell it.
    """
    by = better_known_by(evaluation, decided)
    if by is None:
        found = _on_the_split(evaluation)
    else:
        found = _with_only_answer(_cross_validated(by, evaluation.examples), evaluation)
    found = _with_lopsided(found, evaluation)
    return found if evaluation.in_train is None else _with_learned(found, evaluation, evaluation.in_train)


def is_lopsided(evaluation: Evaluation) -> bool:
    """Whether accuracy decides, which says little where nearly all rows have one label."""
    common = commonest(evaluation.classes)
    return common is not None and common[1] >= COMMON_SHARE and next(iter(evaluation.metrics), "") == "accuracy"


def _with_lopsided(found: Verdict | None, evaluation: Evaluation) -> Verdict | None:
    """Return a verdict that tells where accuracy says little; one that a run is of no use says enough."""
    common = commonest(evaluation.classes)
    if found is None or common is None or not is_lopsided(evaluation):
        return found
    if found.is_of_use is False and not found.is_as_words:
        return found
    told = f"accuracy says little where {hundred(common[1])} % of the rows are '{common[0]}', macro F1 says more"
    return replace(found, sentence=f"{found.sentence}; {told}")


def better_known_by(evaluation: Evaluation, decided: TaskEnsemble | None) -> TaskEnsemble | None:
    """Return the cross-validation that tells more than a split does, for having more rows; None where there is none.

    It is of other trainings: that this very one always answers the same is told by the split, if by enough rows.
    """
    if decided is None or not decided.cross_validated or decided.examples <= evaluation.examples:
        return None
    if (answer := _only_answer(evaluation)) is None:
        return decided
    missed = sum(one.support for one in evaluation.classes if str(one.label) != answer)
    return decided if missed < FEWEST_MISSED and _may_miss(decided, missed) else None


def _may_miss(decided: TaskEnsemble, rows: int) -> bool:
    """Whether one that is as good as was cross-validated may well miss all of so many rows of rarer labels."""
    if decided.metric != "accuracy":
        return True
    # Rare labels are missed more often than the score tells, at worst wrong / rare: all that is wrong is theirs.
    wrong, rare = 1 - decided.scores[decided.best], 1 - (decided.commonest or 0.0)
    return wrong**rows >= LEAST_CHANCE * rare**rows


def _with_only_answer(found: Verdict, evaluation: Evaluation) -> Verdict:
    """Return a verdict of other trainings that tells where this one gave one answer to all rows of the split."""
    if (answer := _only_answer(evaluation)) is None:
        return found
    rows = f"all {many(evaluation.examples, 'row')} for {evaluation.split}"
    told = f"this training answered '{shown_text(answer, LONGEST_NAME)}' to {rows}"
    return replace(found, sentence=f"{found.sentence}; {told}")


def _with_learned(found: Verdict | None, evaluation: Evaluation, shared: InTrain) -> Verdict:
    """Return a verdict that tells of rows that were learned; a score that falls without them is flattered by them."""
    metric, score = next(iter(shared.metrics.items()), ("", 0.0))
    without = f"without them {metric_name(metric)} is {written(score)}" if metric else "and there are no others"
    rows = f"{shared.examples:,} of its {many(evaluation.examples, 'row')} stand in train too, {without}"
    flattered = not metric or evaluation.metrics[metric] - score > FLATTERY
    told = f"the score on {evaluation.split} is flattered: {rows}" if flattered else f"of {evaluation.split}, {rows}"
    if found is None:
        return Verdict(told, is_of_use=None, is_flattered=flattered)
    return replace(found, sentence=f"{found.sentence}; {told}", is_flattered=flattered)


def verdict_without_rows(decided: TaskEnsemble) -> Verdict | None:
    """Return what a run is worth that was measured on no split; None where there was no cross-validation either."""
    return _cross_validated(decided, 0) if decided.cross_validated else None


def _cross_validated(decided: TaskEnsemble, rows: int) -> Verdict:
    """Return what cross-validation says, which has more rows than those of a split."""
    score, words, metric = decided.scores[decided.best], decided.scores[WORDS], metric_name(decided.metric)
    told = many(decided.examples, "row")
    by = f"by {f'{told} that were held out once' if decided.is_held_out_once else f'cross-validation of {told}'}"
    by += f", as {rows:,} are few" if rows else ""
    always = commonest_by_folds(decided)
    if always is not None and score <= always:
        common = f"always giving the commonest answer ({written(always)})"
        return Verdict(f"{metric} {written(score)} is no better than {common}, {by}; {_AVOID}", is_of_use=False)
    if decided.metric == "micro_f1" and score == 0:
        return Verdict(f"no label that it gives is right, {by}; {_AVOID}", is_of_use=False)
    if decided.blind is not None and score <= decided.blind:
        return Verdict(f"{metric} {written(score)} is no better than {_blind(decided.blind)}, {by}; {_AVOID}", False)
    held = f"{metric} {written(score)}, counting words {written(words)}"
    if score <= words:  # never behind: they answer themselves then
        found = Verdict(f"no better than counting words ({held}), {by}", is_of_use=False, is_as_words=True)
    else:
        found = Verdict(f"{written(score - words)} points ahead of counting words ({held}), {by}", is_of_use=True)
    if decided.blind is not None and decided.interval is not None:
        return _held_against_chance(found, decided.examples, decided.interval[0], decided.blind, _blind(decided.blind))
    if decided.metric != "accuracy":
        return found
    low, _ = wilson(round(score * decided.examples), decided.examples)
    return _held_against_chance(found, decided.examples, low, decided.commonest)


def _held_against_chance(found: Verdict, rows: int, low: float, chance: float | None, what: str = "") -> Verdict:
    """Return a verdict that says where the interval of its score reaches down to what needs no text.

    That is the share of the commonest answer, unless it is said what.
    """
    if chance is None or low > chance:
        return found
    named = what or f"always giving the commonest answer ({written(chance)})"
    told = f"{many(rows, 'row')} are too few to tell it from {named}"
    return replace(found, sentence=f"{found.sentence}; {told}", may_be_chance=True)


def _blind(score: float) -> str:
    return f"answers that know nothing of the texts ({written(score)})"


def _on_the_split(evaluation: Evaluation) -> Verdict | None:
    metric, score = next(iter(evaluation.metrics.items()), ("", 0.0))  # a damaged record may have none
    if (answer := _only_answer(evaluation)) is not None:
        return Verdict(f"it always answers '{shown_text(answer, LONGEST_NAME)}'; {_AVOID}", is_of_use=False)
    if metric in ("micro_f1", "span_f1") and score == 0:
        what = "span" if metric == "span_f1" else "label"
        return Verdict(f"no {what} that it gives is right; {_AVOID}", is_of_use=False)
    common = by_commonest(evaluation)
    if common is not None and score <= common[1]:
        return Verdict(
            f"{written(score)} is no better than always answering '{common[0]}' ({written(common[1])}); {_AVOID}",
            is_of_use=False,
        )
    blind = _blind_score(evaluation, metric)
    if blind is not None and score <= blind:
        return Verdict(f"{metric_name(metric)} {written(score)} is no better than {_blind(blind)}; {_AVOID}", False)
    words = (evaluation.words or {}).get(metric)
    if words is None:
        return None
    yardstick = evaluation.yardstick
    held = f"{metric_name(metric)} {written(score)}, {yardstick} {written(words)}"
    points = written(abs(score - words))
    if score < words:
        return Verdict(f"{points} points behind {yardstick} ({held}); {_AVOID}", is_of_use=False)
    low, _ = evaluation.intervals.get(metric, (score, score))
    if score == words:
        found = Verdict(f"no better than {yardstick} ({held})", is_of_use=False, is_as_words=True)
    else:
        chance = f"; {evaluation.examples:,} rows are too few to be sure of that" if words >= low else ""
        found = Verdict(f"{points} points ahead of {yardstick} ({held}){chance}", is_of_use=True)
    if blind is not None:
        return _held_against_chance(found, evaluation.examples, low, blind, _blind(blind))
    return _held_against_chance(found, evaluation.examples, low, None if common is None else common[1])


def _blind_score(evaluation: Evaluation, metric: str) -> float | None:
    """Return what answers that know nothing of the texts score, by another metric of classes than accuracy."""
    rows = [one.support for one in evaluation.classes if one.support]
    if metric not in ("macro_f1", "matthews") or evaluation.confusion is None or not rows:
        return None
    return blind_score(metric, [count / sum(rows) for count in rows])


def commonest(classes: Sequence[ClassRates]) -> tuple[str, float] | None:
    """Return the commonest label and its share."""
    if not classes:
        return None
    most = max(classes, key=lambda one: one.support)
    return shown_text(str(most.label), LONGEST_NAME), most.support / sum(one.support for one in classes)


def by_commonest(evaluation: Evaluation) -> tuple[str, float] | None:
    """Return the commonest label, or labels, and what always answering so scores; None where that is not known."""
    metric, common = next(iter(evaluation.metrics), ""), commonest(evaluation.classes)
    if metric == "micro_f1" and common is not None:
        return _by_same_labels(evaluation)
    if common is None or evaluation.confusion is None:
        return None
    name, share = common
    there = sum(1 for one in evaluation.classes if one.support)
    reached = commonest_score(metric, share, there)
    return None if reached is None else (name, reached)


def commonest_by_folds(decided: TaskEnsemble) -> float | None:
    """Return what always giving the commonest label scores on the rows that were cross-validated, where it is known."""
    if decided.commonest is None or (decided.metric == "macro_f1" and not decided.blind):
        return None
    # Macro F1 of answers that know nothing of the texts is the share of a class among all classes.
    classes = round(1 / decided.blind) if decided.blind else 1
    return commonest_score(decided.metric, decided.commonest, classes)


def _by_same_labels(evaluation: Evaluation) -> tuple[str, float]:
    """Return the labels that are best given to every row, and what that scores."""
    classes = sorted(evaluation.classes, key=lambda one: -one.support)
    score, count = constant_micro_f1([one.support / evaluation.examples for one in classes])
    return some([shown_text(str(one.label), LONGEST_NAME) for one in classes[:count]]), score


def _only_answer(evaluation: Evaluation) -> str | None:
    """Return the answer, where it is always the same though labels are not."""
    table = evaluation.confusion
    if table is None or table.pairs is not None or sum(1 for one in evaluation.classes if one.support) < 2:
        return None
    given = [label for label, column in zip(table.labels, zip(*table.counts, strict=True), strict=True) if sum(column)]
    return str(given[0]) if len(given) == 1 else None
