"""An evaluation in lines for a person: scores, what is mixed up, how far confidence can be trusted, and mistakes."""

from __future__ import annotations

from collections.abc import Sequence

from gpt1.base.wording import many
from gpt1.records.evaluation import Evaluation
from gpt1.tasks.assessment import Calibration, ClassRates, Confusion, Mistake

MISTAKES = 5  # shown; the file has more
_WIDE = 12  # classes, beyond which a table is no longer readable and the commonest mistakes are listed instead
_MANY = 50  # classes, beyond which only the most frequent are listed
_LONG = 24  # characters of a class's name in a table


def describe(evaluation: Evaluation) -> list[str]:
    """Return an evaluation in lines."""
    parts = [_scores(evaluation)]
    if evaluation.confusion is not None:
        parts.append(_confusion(evaluation.confusion, evaluation.classes))
    if evaluation.calibration is not None:
        parts.append(_calibration(evaluation.calibration))
    if evaluation.mistakes:
        parts.append(_mistakes(evaluation.mistakes))
    return [line for index, part in enumerate(parts) for line in ([""] if index else []) + part]


def _scores(evaluation: Evaluation) -> list[str]:
    where = f"{evaluation.task} {evaluation.split}, step {evaluation.step}"
    title = f"{where}: {many(evaluation.examples, 'example')}"
    if evaluation.unlabelled:
        title += f" ({evaluation.unlabelled:,} more have no label)"
    lines = [title]
    if cut := evaluation.cut.examples:
        lines.append(f"{many(cut, 'example')} had more text than {evaluation.context} tokens and lost the rest")
    lines += evaluation.unknown_notices()
    scores = dict(evaluation.metrics)
    if evaluation.right is not None:
        scores.setdefault("accuracy", evaluation.right / evaluation.examples)
    for name, value in scores.items():
        low_high = evaluation.intervals.get(name)
        certain = f"  (95 %: {low_high[0]:.4f} to {low_high[1]:.4f})" if low_high else ""
        lines.append(f"  {name:16} {value:7.4f}{certain}")
    for name, value in evaluation.residuals.items():
        lines.append(f"  {name.replace('_', ' '):24} {value:.4f}")
    return lines


def _confusion(confusion: Confusion, classes: Sequence[ClassRates]) -> list[str]:
    if len(classes) > _WIDE:
        common = [[f"{one.count:,}", str(one.label), str(one.answer)] for one in confusion.commonest()[:_WIDE]]
        mixed = ["What is mixed up most:", *_table(["times", "label", "answered"], common, left=(1, 2))]
    else:
        labels = [str(label) for label in confusion.labels]
        rows = [[label, *(f"{count:,}" for count in row)] for label, row in zip(labels, confusion.counts, strict=True)]
        mixed = ["Labels (rows) and answers (columns):", *_table(["", *labels], rows)]
    rates = [
        [str(one.label), f"{one.precision:.3f}", f"{one.recall:.3f}", f"{one.f1:.3f}", f"{one.support:,}"]
        for one in sorted(classes, key=lambda one: -one.support if len(classes) > _MANY else 0)[:_MANY]
    ]
    rest = [f"  and {len(classes) - _MANY:,} labels with fewer examples"] if len(classes) > _MANY else []
    return [*mixed, "", *_table(["label", "precision", "recall", "f1", "examples"], rates), *rest]


def _calibration(calibration: Calibration) -> list[str]:
    rows = [
        [f"{one.from_:.2f} to {one.to:.2f}", f"{one.count:,}", f"{one.confidence:.3f}", f"{one.accuracy:.3f}"]
        for one in calibration.bins
    ]
    return [
        f"Calibration: expected error (ECE) {calibration.ece:.4f}, Brier score {calibration.brier:.4f}, "
        f"negative log-likelihood {calibration.nll:.4f}",
        *_table(["confidence", "examples", "its mean", "accuracy"], rows),
    ]


def _mistakes(mistakes: Sequence[Mistake]) -> list[str]:
    lines = ["The surest mistakes:" if mistakes[0].error is None else "The largest errors:"]
    for one in mistakes[:MISTAKES]:
        if one.error is None:
            lines.append(f"  {one.probability:.3f} for '{one.prediction}', label '{one.label}'")
        else:
            lines.append(f"  {one.error:+.3f}: answered {one.prediction:.3f}, label {one.label:.3f}")
        lines[-1] += f" (example {one.index + 1})"
        lines.append(f"    {_one_line(one.text)}")
        if one.right_text:
            lines.append(f"    right: {_one_line(one.right_text)}")
    return lines


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    """Return rows of cells under each other; the columns in `left` begin together, the others end together."""
    cells = [[_short(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def _short(text: str) -> str:
    text = _one_line(text)
    return text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"


def _one_line(text: str) -> str:
    return " ".join(text.split())
