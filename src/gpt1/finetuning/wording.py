"""An evaluation in lines for a person: scores, what is mixed up, how far confidence can be trusted, and mistakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpt1.base.wording import many
from gpt1.tasks.unknowns import Unknown

MISTAKES = 5  # shown; the file has more
_WIDE = 12  # classes, beyond which a table is no longer readable and the commonest mistakes are listed instead
_MANY = 50  # classes, beyond which only the most frequent are listed
_LONG = 24  # characters of a class's name in a table


def describe(evaluation: dict[str, Any]) -> list[str]:
    """Return an evaluation, as `measure_split` gives it, in lines."""
    parts = [_scores(evaluation)]
    if "confusion" in evaluation:
        parts.append(_confusion(evaluation))
    if "calibration" in evaluation:
        parts.append(_calibration(evaluation["calibration"]))
    if evaluation["mistakes"]:
        parts.append(_mistakes(evaluation))
    return [line for index, part in enumerate(parts) for line in ([""] if index else []) + part]


def _scores(evaluation: dict[str, Any]) -> list[str]:
    where = f"{evaluation['task']} {evaluation['split']}, step {evaluation['step']}"
    title = f"{where}: {many(evaluation['examples'], 'example')}"
    if evaluation["unlabelled"]:
        title += f" ({evaluation['unlabelled']:,} more have no label)"
    lines = [title]
    if cut := evaluation["cut"]["examples"]:
        lines.append(f"{many(cut, 'example')} had more text than {evaluation['context']} tokens and lost the rest")
    if "unknown" in evaluation:  # kept since there is such a count
        everything = evaluation["examples"] + evaluation["unlabelled"]
        lines += Unknown(**evaluation["unknown"]).notice(everything)
    scores = dict(evaluation["metrics"])
    if "right" in evaluation:
        scores.setdefault("accuracy", evaluation["right"] / evaluation["examples"])
    for name, value in scores.items():
        low_high = evaluation["intervals"].get(name)
        certain = f"  (95 %: {low_high[0]:.4f} to {low_high[1]:.4f})" if low_high else ""
        lines.append(f"  {name:16} {value:7.4f}{certain}")
    for name, value in evaluation.get("residuals", {}).items():
        lines.append(f"  {name.replace('_', ' '):24} {value:.4f}")
    return lines


def _confusion(evaluation: dict[str, Any]) -> list[str]:
    confusion, classes = evaluation["confusion"], evaluation["classes"]
    if len(classes) > _WIDE:
        common = [[f"{count:,}", label, answer] for count, label, answer in confused_pairs(confusion)[:_WIDE]]
        mixed = ["What is mixed up most:", *_table(["times", "label", "answered"], common, left=(1, 2))]
    else:
        labels, counts = confusion["labels"], confusion["counts"]
        rows = [[label, *(f"{count:,}" for count in row)] for label, row in zip(labels, counts, strict=True)]
        mixed = ["Labels (rows) and answers (columns):", *_table(["", *labels], rows)]
    rates = [
        [one["label"], f"{one['precision']:.3f}", f"{one['recall']:.3f}", f"{one['f1']:.3f}", f"{one['support']:,}"]
        for one in sorted(classes, key=lambda one: -one["support"] if len(classes) > _MANY else 0)[:_MANY]
    ]
    rest = [f"  and {len(classes) - _MANY:,} labels with fewer examples"] if len(classes) > _MANY else []
    return [*mixed, "", *_table(["label", "precision", "recall", "f1", "examples"], rates), *rest]


def confused_pairs(confusion: Mapping[str, Any]) -> list[tuple[int, str, str]]:
    """Return how often each label got a wrong answer that was told of, with the two, the commonest first."""
    if "pairs" in confusion:
        return [(one["count"], one["label"], one["answer"]) for one in confusion["pairs"]]
    pairs = [
        (count, label, answer)
        for row, (label, counts) in enumerate(zip(confusion["labels"], confusion["counts"], strict=True))
        for column, (answer, count) in enumerate(zip(confusion["labels"], counts, strict=True))
        if count and row != column
    ]
    return sorted(pairs, key=lambda pair: -pair[0])


def _calibration(calibration: dict[str, Any]) -> list[str]:
    rows = [
        [
            f"{one['from']:.2f} to {one['to']:.2f}",
            f"{one['count']:,}",
            f"{one['confidence']:.3f}",
            f"{one['accuracy']:.3f}",
        ]
        for one in calibration["bins"]
    ]
    return [
        f"Calibration: expected error (ECE) {calibration['ece']:.4f}, Brier score {calibration['brier']:.4f}, "
        f"negative log-likelihood {calibration['nll']:.4f}",
        *_table(["confidence", "examples", "its mean", "accuracy"], rows),
    ]


def _mistakes(evaluation: dict[str, Any]) -> list[str]:
    surest = "calibration" in evaluation
    lines = ["The surest mistakes:" if surest else "The largest errors:"]
    for one in evaluation["mistakes"][:MISTAKES]:
        if surest:
            lines.append(f"  {one['probability']:.3f} for '{one['prediction']}', label '{one['label']}'")
        else:
            lines.append(f"  {one['error']:+.3f}: answered {one['prediction']:.3f}, label {one['label']:.3f}")
        lines[-1] += f" (example {one['index'] + 1})"
        lines.append(f"    {_one_line(one['text'])}")
        if "right_text" in one:
            lines.append(f"    right: {_one_line(one['right_text'])}")
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
