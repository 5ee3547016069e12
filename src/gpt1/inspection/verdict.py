"""From the figures of a report to what a person should know and do: few sentences, each with its advice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gpt1.base.wording import many

PAPER_WORDS = 1_000_000_000  # the paper's BooksCorpus, about
LITTLE = 0.01  # of the paper's words
SHORT_WORDS = 64  # a median document under this teaches little beyond single sentences
UNKNOWN = 0.001  # share of tokens
MARKUP = 1e-4  # entities and tags a word
UNSEEN = 1e-5  # invisible characters a character

Report = dict[str, Any]
Finding = tuple[str, str, str]


def find_findings(report: Report) -> list[dict[str, str]]:
    """Return the findings, weightiest first: a stable key, what is so in words, and what to do about it."""
    rules: tuple[Callable[[Report], Iterator[Finding]], ...] = (
        _unreadable,
        _little,
        _wrapped,
        _leaked,
        _repeated,
        _mojibake,
        _lost,
        _markup,
        _unseen,
        _unknown,
        _short,
    )
    return [
        {"key": key, "finding": finding, "advice": advice} for rule in rules for key, finding, advice in rule(report)
    ]


def percent(share: float) -> str:
    """Return a share in words: `0 %`, `under 0.01 %`, `0.25 %`, `12 %`."""
    if 0 < share < 1e-4:
        return "under 0.01 %"
    return f"{100 * share:.{2 if 0 < share < 0.01 else 1 if 0 < share < 0.1 else 0}f} %"


def _unreadable(report: Report) -> Iterator[Finding]:
    faults = report["faults"]
    if faults["count"]:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in faults["by_reason"].items())
        advice = "mend them (is the `encoding` right?), or leave them out with `gpt1.prepare(on_error='skip')`"
        yield "unreadable", f"{many(faults['count'], 'fault')} in reading ({reasons})", advice


def _little(report: Report) -> Iterator[Finding]:
    words = report["text"]["words"]
    if words < LITTLE * PAPER_WORDS:
        finding = f"{words:,} words is little to begin from nothing: the paper's model read about 1,000 million"
        advice = "add text, or start from a trained model and continue on this text"
        yield "little", finding, advice


def _wrapped(report: Report) -> Iterator[Finding]:
    wrapped, documents = report["wrapped_documents"], report["text"]["documents"]
    if wrapped:
        finding = (
            f"{wrapped:,} of {documents:,} documents are hard-wrapped: line breaks in mid-sentence, as no task has"
        )
        yield (
            "wrapped",
            finding,
            "join the lines with `gpt1.train_tokenizer(unwrap=True)` and `gpt1.prepare(unwrap=True)` alike",
        )


def _leaked(report: Report) -> Iterator[Finding]:
    leakage = report["leakage"] or {"files": []}
    quoted, contained = (
        sum(file[key] for file in leakage["files"]) for key in ("examples_sharing_quote", "examples_contained")
    )
    if quoted or contained:
        words = leakage["quote_words"]
        if not quoted:  # those that stand in the text wholly have no stretch so long
            finding = f"{many(contained, 'short task example')} (under {words} words) found word for word in this text"
        else:
            finding = f"{many(quoted, 'task example')} found in this text with {words} words in a row or more"
            if contained:
                finding += f"; {contained:,} of these or of shorter ones stand in it wholly, word for word"
        advice = "leave those documents out, or say so beside the task's scores; fewer words are often turns of phrase"
        yield "leaked", finding, advice


def _repeated(report: Report) -> Iterator[Finding]:
    duplicates = report["duplicates"]
    exact, near = duplicates["exact_documents"], duplicates["near_documents"]
    if exact or near:
        finding = f"{many(exact, 'document')} repeated exactly and {near:,} nearly, "
        finding += f"{percent(duplicates['share_of_bytes'])} of the text"
        yield (
            "repeated",
            finding,
            "'gpt1 prepare' drops repeats unless told to keep them (`gpt1.prepare(duplicates='keep')`)",
        )


def _mojibake(report: Report) -> Iterator[Finding]:
    lines = report["damage"]["mojibake_lines"]
    if lines:
        finding = f"mojibake in {many(lines, 'line')} ({percent(lines / max(1, report['text']['lines']))})"
        yield (
            "mojibake",
            finding,
            "a 'words' tokenizer repairs it as it encodes; for a 'bytes' one mend the files first",
        )


def _lost(report: Report) -> Iterator[Finding]:
    lost = report["damage"]["replacement_characters"]
    if lost:
        finding = f"{many(lost, 'character')} lost before this text came here (U+FFFD stands there instead)"
        yield "lost", finding, "get the text again from its origin and read it with the right encoding"


def _markup(report: Report) -> Iterator[Finding]:
    entities, tags = report["damage"]["html_entities"], report["damage"]["html_tags"]
    if entities + tags > MARKUP * report["text"]["words"]:
        finding = f"HTML left in the text: {tags:,} tags, {entities:,} entities"
        yield "markup", finding, "extract the text from its pages anew; tags would be learnt as if they were words"


def _unseen(report: Report) -> Iterator[Finding]:
    kinds = ("control_characters", "byte_order_marks", "invisible_characters", "private_characters")
    unseen = sum(report["damage"][kind] for kind in kinds)
    if unseen > UNSEEN * report["text"]["characters"]:
        finding = f"{many(unseen, 'character')} that cannot be seen or mean nothing (control, zero-width, private use)"
        yield "unseen", finding, "remove them; often they come from PDF or word processor files"


def _unknown(report: Report) -> Iterator[Finding]:
    tokens = report["tokens"]
    if tokens and tokens["unknown_share"] > UNKNOWN:
        finding = f"{percent(tokens['unknown_share'])} of the tokens are unknown to the tokenizer"
        yield "unknown", finding, "train a tokenizer on this text: gpt1 tokenizer train"


def _short(report: Report) -> Iterator[Finding]:
    median = report["lengths"]["median_words"]
    if median < SHORT_WORDS:
        finding = f"half of the documents have {median:,} words or fewer; the paper wanted long stretches of text"
        yield "short", finding, "if lines or rows belong together, join them, or choose another `document`"
