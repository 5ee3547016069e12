"""What the doctor reports, and from its figures what a person should know and do: few sentences, each with advice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, NotRequired, TypedDict

from gpt1.base.wording import many
from gpt1.text.normal_form import TO_WHOLE

PAPER_WORDS = 1_000_000_000  # the paper's BooksCorpus, about
LITTLE = 0.01  # of the paper's words
SHORT_WORDS = 64  # a median document under this teaches little beyond single sentences
UNKNOWN = 0.001  # share of tokens
MARKUP = 1e-4  # entities and tags a word
UNSEEN = 1e-5  # invisible characters a character


class Finding(NamedTuple):
    """Something a person should know: a stable key, what is so, and what to do."""

    key: str
    finding: str
    advice: str


# --- what is reported, as JSON has it -----------------------------------------------------------------------


class TextPlace(TypedDict):
    """A file, and where in it, if that is not the whole of it."""

    source: str
    position: NotRequired[str]


class MendedLine(TextPlace):
    """A damaged line as it is and as it should be."""

    before: str
    after: str


class LeftOut(TypedDict):
    """A file that is not read."""

    source: str
    reason: str


class SourceFigures(TypedDict):
    """The files."""

    files: int
    folder: str
    bytes_on_disk: int
    left_out: int
    left_out_first: list[LeftOut]


class TextFigures(TypedDict):
    """How much text there is."""

    documents: int
    empty_documents: int
    left_out_documents: dict[str, int]
    bytes: int
    characters: int
    lines: int
    words: int


class CharacterCount(TypedDict):
    """A character, and how often it stands there."""

    character: str
    code_point: str
    name: str
    count: int


class TokenizerFacts(TypedDict):
    """With what tokens were counted."""

    kind: str
    vocab_size: int
    fingerprint: str


class TokenFigures(TypedDict):
    """The text as tokens."""

    tokenizer: TokenizerFacts
    tokens: int
    bytes_per_token: float
    unknown_tokens: int
    unknown_share: float
    unknown_characters: list[CharacterCount]
    paper_batches_per_epoch: float


class LengthBin(TypedDict):
    """How many documents have so many words."""

    from_words: int
    to_words: int
    documents: int


class LengthFigures(TypedDict):
    """The spread of document lengths."""

    shortest_words: int
    shortest: TextPlace
    median_words: int
    longest_words: int
    longest: TextPlace
    histogram: list[LengthBin]


class Repeat(TypedDict):
    """A document, and the earlier one that it repeats."""

    kind: str
    document: TextPlace
    repeats: TextPlace


class DuplicateFigures(TypedDict):
    """What repeats."""

    exact_documents: int
    near_documents: int
    share_of_bytes: float
    examples: list[Repeat]


class UnreadableCharacters(TypedDict):
    """Characters that no reader sees, or that stand where another was lost."""

    replacement_characters: int
    control_characters: int
    byte_order_marks: int
    invisible_characters: int
    private_characters: int


class DamageFigures(UnreadableCharacters):
    """What is damaged."""

    mojibake_lines: int
    mojibake_first: list[MendedLine]
    lines_in_parts: int
    html_entities: int
    html_entities_most: dict[str, int]
    html_tags: int


class FaultFacts(TypedDict):
    """Something that could not be read."""

    source: str
    position: str
    reason: str
    message: str


class FaultFigures(TypedDict):
    """What could not be read."""

    count: int
    by_reason: dict[str, int]
    first: list[FaultFacts]


class SharedWords(TypedDict):
    """What an example of a task shares with the text."""

    position: str
    runs: int
    shared_runs: int
    words_in_a_row: int
    words: str
    corpus: TextPlace


class LeakedFile(TypedDict):
    """How many examples of a task's file stand in the text."""

    file: str
    examples: int
    examples_too_short: int
    examples_sharing_run: int
    examples_sharing_quote: int
    examples_contained: int
    shown: list[SharedWords]


class LeakageFigures(TypedDict):
    """What of tasks stands in the text."""

    run_words: int
    quote_words: int
    folder: str
    files: list[LeakedFile]


class Report(TypedDict):
    """All that the doctor found."""

    sources: SourceFigures
    text: TextFigures
    tokens: TokenFigures | None
    lengths: LengthFigures
    wrapped_documents: int
    duplicates: DuplicateFigures
    damage: DamageFigures
    odd_characters: list[CharacterCount]
    faults: FaultFigures
    leakage: LeakageFigures | None
    findings: list[dict[str, str]]


# --- what it means ------------------------------------------------------------------------------------------


def find_findings(report: Report) -> list[dict[str, str]]:
    """Return the findings, weightiest first: a stable key, what is so in words, and what to do about it."""
    rules: tuple[Callable[[Report], Iterator[Finding]], ...] = (
        _unreadable,
        _little,
        _wrapped,
        _leaked,
        _repeated,
        _mojibake,
        _in_parts,
        _lost,
        _markup,
        _unseen,
        _unknown,
        _short,
    )
    return [finding._asdict() for rule in rules for finding in rule(report)]


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
        yield Finding("unreadable", f"{many(faults['count'], 'fault')} in reading ({reasons})", advice)


def _little(report: Report) -> Iterator[Finding]:
    words = report["text"]["words"]
    if words < LITTLE * PAPER_WORDS:
        finding = f"{words:,} words is little to begin from nothing: the paper's model read about 1,000 million"
        advice = "add text, or start from a trained model and continue on this text"
        yield Finding("little", finding, advice)


def _wrapped(report: Report) -> Iterator[Finding]:
    wrapped, documents = report["wrapped_documents"], report["text"]["documents"]
    if wrapped:
        finding = (
            f"{wrapped:,} of {documents:,} documents are hard-wrapped: line breaks in mid-sentence, as no task has"
        )
        yield Finding(
            "wrapped",
            finding,
            "join the lines with `gpt1.train_tokenizer(unwrap=True)` and `gpt1.prepare(unwrap=True)` alike",
        )


def _leaked(report: Report) -> Iterator[Finding]:
    if (leakage := report["leakage"]) is None:
        return
    quoted = sum(file["examples_sharing_quote"] for file in leakage["files"])
    contained = sum(file["examples_contained"] for file in leakage["files"])
    if quoted or contained:
        words = leakage["quote_words"]
        if not quoted:  # those that stand in the text wholly have no stretch so long
            finding = f"{many(contained, 'short task example')} (under {words} words) found word for word in this text"
        else:
            finding = f"{many(quoted, 'task example')} found in this text with {words} words in a row or more"
            if contained:
                finding += f"; {contained:,} of these or of shorter ones stand in it wholly, word for word"
        advice = "leave those documents out, or say so beside the task's scores; fewer words are often turns of phrase"
        yield Finding("leaked", finding, advice)


def _repeated(report: Report) -> Iterator[Finding]:
    duplicates = report["duplicates"]
    exact, near = duplicates["exact_documents"], duplicates["near_documents"]
    if exact or near:
        finding = f"{many(exact, 'document')} repeated exactly and {near:,} nearly, "
        finding += f"{percent(duplicates['share_of_bytes'])} of the text"
        yield Finding(
            "repeated",
            finding,
            "'gpt1 prepare' drops repeats unless told to keep them (`gpt1.prepare(duplicates='keep')`)",
        )


def _mojibake(report: Report) -> Iterator[Finding]:
    lines = report["damage"]["mojibake_lines"]
    if lines:
        finding = f"mojibake in {many(lines, 'line')} ({percent(lines / max(1, report['text']['lines']))})"
        yield Finding(
            "mojibake",
            finding,
            "a 'words' tokenizer repairs it as it encodes; for a 'bytes' one mend the files first",
        )


def _in_parts(report: Report) -> Iterator[Finding]:
    if lines := report["damage"]["lines_in_parts"]:
        share = percent(lines / max(1, report["text"]["lines"]))
        finding = f"characters in parts (Unicode's NFD) in {many(lines, 'line')} ({share})"
        yield Finding("in-parts", finding, TO_WHOLE)


def _lost(report: Report) -> Iterator[Finding]:
    lost = report["damage"]["replacement_characters"]
    if lost:
        finding = f"{many(lost, 'character')} lost before this text came here (U+FFFD stands there instead)"
        yield Finding("lost", finding, "get the text again from its origin and read it with the right encoding")


def _markup(report: Report) -> Iterator[Finding]:
    entities, tags = report["damage"]["html_entities"], report["damage"]["html_tags"]
    if entities + tags > MARKUP * report["text"]["words"]:
        finding = f"HTML left in the text: {tags:,} tags, {entities:,} entities"
        advice = "extract the text from its pages anew; tags would be learnt as if they were words"
        yield Finding("markup", finding, advice)


def _unseen(report: Report) -> Iterator[Finding]:
    damage = report["damage"]
    unseen = damage["control_characters"] + damage["byte_order_marks"]
    unseen += damage["invisible_characters"] + damage["private_characters"]
    if unseen > UNSEEN * report["text"]["characters"]:
        finding = f"{many(unseen, 'character')} that cannot be seen or mean nothing (control, zero-width, private use)"
        yield Finding("unseen", finding, "remove them; often they come from PDF or word processor files")


def _unknown(report: Report) -> Iterator[Finding]:
    tokens = report["tokens"]
    if tokens and tokens["unknown_share"] > UNKNOWN:
        finding = f"{percent(tokens['unknown_share'])} of the tokens are unknown to the tokenizer"
        yield Finding("unknown", finding, "train a tokenizer on this text: gpt1 tokenizer train")


def _short(report: Report) -> Iterator[Finding]:
    median = report["lengths"]["median_words"]
    if median < SHORT_WORDS:
        finding = f"half of the documents have {median:,} words or fewer; the paper wanted long stretches of text"
        yield Finding("short", finding, "if lines or rows belong together, join them, or choose another `document`")
