"""A report of `examine` as one page of plain text, for a terminal or a file: no colours, no line over 80 columns."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterator

from gpt1.inspection.verdict import (
    PAPER_WORDS,
    CharacterCount,
    FaultFigures,
    LeakedFile,
    Report,
    SharedWords,
    TextPlace,
    TokenFigures,
    percent,
)

WIDTH = 80
BAR = 36
SHOWN_LEAKS = 5
SHOWN_UNKNOWN = 5


def draw_page(report: Report) -> str:
    """Return the page: what there is, what is odd about it, and at the end what to do."""
    sections = (
        ("Text", _text(report)),
        ("Tokens", _tokens(report["tokens"])),
        ("Words a document", _lengths(report)),
        ("Duplicates", _duplicates(report)),
        ("Damage", _damage(report)),
        ("Could not be read", _faults(report["faults"])),
        ("Characters beyond plain English text", _characters(report["odd_characters"])),
        ("Task texts in this text", _leakage(report)),
        ("Verdict", _verdict(report["findings"])),
    )
    lines = []
    for title, body in sections:
        lines += ["", title, "-" * len(title), *body]
    return "\n".join(_fit(line) for line in lines[1:])


def _row(label: str, value: str, note: str = "") -> str:
    return f"  {label:<23}{value:>15}  {note}".rstrip()


def _count(label: str, value: int, note: str = "") -> str:
    return _row(label, f"{value:,}", note)


def _fit(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 3] + "..."


def _wrapped(text: str, first: str, following: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=following)


def _name(path: str, folder: str, width: int) -> str:
    """Return the path of a file below `folder`, cut to fit: its end says more than its beginning."""
    name = path.removeprefix(folder).lstrip("/\\") if folder else path
    return name if len(name) <= width else "..." + name[3 - width :]


def _place(place: TextPlace, report: Report, width: int) -> str:
    position = f", {place['position']}" if "position" in place else ""
    return _name(place["source"], report["sources"]["folder"], width - len(position)) + position


def _visible(text: str) -> str:
    """Return `text` with every character that would not print, or would move the cursor, spelt out."""
    return "".join(character if character.isprintable() else f"<U+{ord(character):04X}>" for character in text)


def _size(count: int) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"


# --- sections -----------------------------------------------------------------------------------------------


def _text(report: Report) -> Iterator[str]:
    sources, text = report["sources"], report["text"]
    yield _count("files", sources["files"], f"{_size(sources['bytes_on_disk'])} on disk")
    if sources["folder"]:
        yield f"    in {_name(sources['folder'], '', WIDTH - 7)}"
    if sources["left_out"]:
        yield _count("files left out", sources["left_out"])
        for skipped in sources["left_out_first"]:
            yield f"    {_name(skipped['source'], sources['folder'], 46)} ({skipped['reason']})"
    empty = text["empty_documents"]
    yield _count("documents", text["documents"], f"and {empty:,} empty ones" if empty else "")
    for reason, count in text["left_out_documents"].items():
        yield _count("left out", count, reason)
    yield _count("bytes", text["bytes"], _size(text["bytes"]))
    yield _count("characters", text["characters"])
    yield _count("lines", text["lines"])
    yield _count("words", text["words"], f"{percent(text['words'] / PAPER_WORDS)} of the paper's corpus")


def _tokens(tokens: TokenFigures | None) -> Iterator[str]:
    if tokens is None:
        yield "  not counted; give a `tokenizer` (`gpt1.train_tokenizer()` makes one)"
        return
    tokenizer = tokens["tokenizer"]
    yield _row("tokenizer", tokenizer["kind"], f"{tokenizer['vocab_size']:,} tokens, {tokenizer['fingerprint'][:12]}")
    yield _count("tokens", tokens["tokens"])
    yield _row("bytes a token", f"{tokens['bytes_per_token']:.2f}")
    yield _row("batches an epoch", f"{tokens['paper_batches_per_epoch']:,.1f}", "of 64 x 512 tokens, the paper's")
    yield _count("unknown tokens", tokens["unknown_tokens"], percent(tokens["unknown_share"]))
    if tokens["unknown_characters"]:
        yield from _characters(tokens["unknown_characters"][:SHOWN_UNKNOWN])


def _lengths(report: Report) -> Iterator[str]:
    lengths = report["lengths"]
    most = max(bin["documents"] for bin in lengths["histogram"])
    for bin in lengths["histogram"]:
        bar = "#" * -(-BAR * bin["documents"] // most)
        yield f"  {bin['from_words']:>11,} - {bin['to_words']:>11,} {bin['documents']:>13,}  {bar}".rstrip()
    yield _count("shortest", lengths["shortest_words"], _place(lengths["shortest"], report, 37))
    yield _count("median", lengths["median_words"])
    yield _count("longest", lengths["longest_words"], _place(lengths["longest"], report, 37))


def _duplicates(report: Report) -> Iterator[str]:
    duplicates = report["duplicates"]
    if not duplicates["examples"]:
        yield "  none, exact or near"
        return
    yield _count("exact", duplicates["exact_documents"])
    yield _count("near", duplicates["near_documents"])
    yield _row("share of the text", percent(duplicates["share_of_bytes"]))
    for example in duplicates["examples"]:
        yield f"    {_place(example['document'], report, 76)}"
        verb = "repeats" if example["kind"] == "exact" else "nearly repeats"
        yield f"      {verb} {_place(example['repeats'], report, 59)}"


def _damage(report: Report) -> Iterator[str]:
    damage, text = report["damage"], report["text"]
    share = percent(damage["mojibake_lines"] / max(1, text["lines"]))
    entities = ", ".join(f"{entity} {count:,}" for entity, count in damage["html_entities_most"].items())
    rows = [
        ("hard-wrapped documents", report["wrapped_documents"], f"of {text['documents']:,}"),
        ("lines of mojibake", damage["mojibake_lines"], share),
        ("characters in parts", damage["lines_in_parts"], "lines with them, in Unicode's NFD"),
        ("lost characters", damage["replacement_characters"], "U+FFFD stands in their place"),
        ("control characters", damage["control_characters"], ""),
        ("byte order marks", damage["byte_order_marks"], "inside the text"),
        ("invisible characters", damage["invisible_characters"], "zero-width, soft hyphens, directions"),
        ("private characters", damage["private_characters"], "code points without a meaning"),
        ("HTML entities", damage["html_entities"], entities),
        ("HTML tags", damage["html_tags"], ""),
    ]
    for label, count, note in rows:
        if count:
            yield _count(label, count, note)
        for line in damage["mojibake_first"] if label == "lines of mojibake" else ():
            yield f"    {_place(line, report, 76)}"
            yield f"      {_visible(line['before'])}"
            yield f"   -> {_visible(line['after'])}"
    absent = ", ".join(label for label, count, _ in rows if not count)
    if absent:
        yield from _wrapped(f"none: {absent}", "  ", "        ")


def _faults(faults: FaultFigures) -> Iterator[str]:
    if not faults["count"]:
        yield "  nothing: every file was read to its end"
    for reason, count in faults["by_reason"].items():
        yield _count(reason, count)
        for fault in faults["first"]:
            if fault["reason"] == reason:
                yield from _wrapped(fault["message"], "    ", "      ")


def _characters(characters: list[CharacterCount]) -> Iterator[str]:
    if not characters:
        yield "  none"
    for row in characters:
        character = row["character"]
        shown = character if character.isprintable() else " "
        if unicodedata.category(character).startswith("M"):
            shown = "\u25cc" + character  # a mark needs something to stand on
        blank = "" if unicodedata.east_asian_width(character) in "WF" else " "
        yield f"  {row['count']:>12,}  {shown}{blank} {row['code_point']:<8} {row['name'].lower()}"


def _leakage(report: Report) -> Iterator[str]:
    leakage = report["leakage"]
    if leakage is None:
        yield "  not looked for; give a file or folder with `against`, once for each task"
        return
    run, quote, folder = leakage["run_words"], leakage["quote_words"], leakage["folder"]
    intro = (
        f"Examples of tasks with {run} words in a row that stand here too, with {quote}, and with every {run} in a row "
    )
    yield from _wrapped(f"{intro}they have. A text under {run} words is not looked for.", "  ", "  ")
    if folder:
        yield f"  Tasks in {_name(folder, '', WIDTH - 11)}"
    sharing = [file for file in leakage["files"] if file["examples_sharing_run"]]
    if sharing:
        yield f"  {'':<33}{'examples':>9}{'too short':>10}{f'{run} words':>8}{f'{quote} words':>9}{'every':>7}"
    for file in sharing:
        counts = f"{file['examples']:>9,}{file['examples_too_short']:>10,}{file['examples_sharing_run']:>8,}"
        counts += f"{file['examples_sharing_quote']:>9,}{file['examples_contained']:>7,}"
        yield f"  {_name(file['file'], folder, 32):<33}{counts}"
    clean = ", ".join(_name(file["file"], folder, 40) for file in leakage["files"] if file not in sharing)
    if clean:
        yield from _wrapped(f"none: {clean}", "  ", "        ")
    for file, example in _longest(sharing):
        count = f"{example['words_in_a_row']:,} words in a row"
        yield f"  {_name(file['file'], folder, 40)}, {example['position']}: {count}"
        yield from _wrapped(f'"{example["words"]}"', "    ", "     ")
        yield f"    {_place(example['corpus'], report, 76)}"


def _longest(files: list[LeakedFile]) -> list[tuple[LeakedFile, SharedWords]]:
    """Return the longest things shared with any task file, each once."""
    shown = {example["words"]: (file, example) for file in reversed(files) for example in file["shown"]}
    return sorted(shown.values(), key=lambda pair: -pair[1]["words_in_a_row"])[:SHOWN_LEAKS]


def _verdict(findings: list[dict[str, str]]) -> Iterator[str]:
    if not findings:
        yield "  nothing wrong found"
    for finding in findings:
        yield from _wrapped(finding["finding"], "  * ", "    ")
        yield from _wrapped(finding["advice"], "    -> ", "       ")
