"""Is this text fit to train on? `gpt1 doctor`.

The text is read once. All cores survey it in batches (see `survey`); what they find is put together in order, so the
report is the same whatever their number. While it runs, about a kilobyte a document lies in a temporary folder and a
few hundred bytes in memory; the size of the text does not matter.
"""

from __future__ import annotations

import os
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gpt1.base.errors import InputError
from gpt1.base.parallel import cores, ordered_map
from gpt1.base.progress import Progress, Silent, stage
from gpt1.base.stores import is_stored
from gpt1.base.wording import many
from gpt1.corpus.batches import Meter, in_batches
from gpt1.corpus.documents import DocumentPart, Fault, Found, find_sources, read_parts
from gpt1.corpus.pages import LeftOutCounts, by_reason
from gpt1.inspection.leakage import QUOTE, RUN, Leaks, TaskTexts, read_task_texts
from gpt1.inspection.survey import (
    Census,
    Mended,
    Places,
    Sighting,
    begin_worker,
    describe_lengths,
    find_duplicates,
    survey_batch,
)
from gpt1.inspection.verdict import (
    CharacterCount,
    DamageFigures,
    FaultFigures,
    LeakageFigures,
    Report,
    SourceFigures,
    TextFigures,
    TokenFigures,
    UnreadableCharacters,
    find_findings,
)
from gpt1.text.tokenizer import Tokenizer, load_tokenizer

PAPER_BATCH_TOKENS = 64 * 512  # sequences by positions (section 4.1 of the paper)
SHOWN = 5
SHOWN_CHARACTERS = 12
# Of ASCII, what English prose is made of; everything else is counted as odd.
ORDINARY = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 \t\r\n.,;:!?'\"()-")


@dataclass
class _Tally:
    """What the batches and faults seen so far come to."""

    leaks: Leaks
    files: list[Path] = field(default_factory=list)
    characters: Counter[str] = field(default_factory=Counter)
    entities: Counter[str] = field(default_factory=Counter)
    tags: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    mojibake_lines: int = 0
    in_parts: int = 0
    mended: list[tuple[int, Mended]] = field(default_factory=list)
    fault_reasons: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    left_out: LeftOutCounts = field(default_factory=Counter)

    def add(self, batch: int, sighting: Sighting) -> None:
        """Take in what was seen in a batch; batches come in order."""
        self.characters.update(sighting.characters)
        self.entities.update(sighting.entities)
        self.tags += sighting.tags
        self.unknown.update(sighting.unknown)
        self.mojibake_lines += sighting.mojibake_lines
        self.in_parts += sighting.in_parts
        for mended in sighting.mended:
            if len(self.mended) < SHOWN and all(mended.before != shown.before for _, shown in self.mended):
                self.mended.append((batch, mended))
        self.leaks.add(batch, sighting.hits)

    def without_faults(self, parts: Iterable[DocumentPart | Fault]) -> Iterator[DocumentPart]:
        """Pass on the parts, count the faults and keep the first of each reason."""
        for part in parts:
            if isinstance(part, DocumentPart):
                yield part
                continue
            self.fault_reasons[part.reason] += 1
            if self.fault_reasons[part.reason] <= SHOWN:
                self.faults.append(part)


def examine(
    paths: Sequence[str | Path],
    *,
    tokenizer: Tokenizer | str | Path | None = None,
    against: Sequence[str | Path] = (),
    document: str | None = None,
    field: str | None = None,
    encoding: str = "utf-8",
    workers: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Read text files as `prepare` does and report, as JSON-able values, what is in them and what is wrong.

    With a `tokenizer` tokens are counted too; `against` names files or folders of tasks whose texts are looked for.
    """
    progress = progress or Silent()
    if isinstance(tokenizer, str | Path):
        tokenizer = load_tokenizer(tokenizer)
    found = find_sources([str(path) for path in paths], field=field)
    workers = workers or cores()
    left_out: LeftOutCounts = Counter()
    parts = read_parts(
        found.sources, document=document, field=field, encoding=encoding, workers=workers, left_out=left_out
    )
    with stage(progress, "reading the tasks"):
        tasks = read_task_texts([str(path) for path in against], encoding)
    with tempfile.TemporaryDirectory(prefix="gpt1-doctor-") as folder:
        tally = _Tally(Leaks(tasks), left_out=left_out)
        with stage(progress, "reading") as bar:
            meter = Meter(found.sources, bar)
            _survey(parts, tally, tokenizer, tasks, Path(folder), workers, meter)
        return _report(found, tally, tokenizer, bool(against))


def _survey(
    parts: Iterable[DocumentPart | Fault],
    tally: _Tally,
    tokenizer: Tokenizer | None,
    tasks: TaskTexts,
    folder: Path,
    workers: int,
    meter: Meter,
) -> None:
    runs_file = folder / "task-runs.npy"
    np.save(runs_file, tasks.distinct)

    def batches() -> Iterator[tuple[Path, list[DocumentPart]]]:
        for batch in in_batches(tally.without_faults(parts)):
            meter.read(batch)
            tally.files.append(folder / f"{len(tally.files):06}.npz")
            yield tally.files[-1], batch

    vocabulary = tokenizer.vocabulary if tokenizer else None
    sightings = ordered_map(
        survey_batch, batches(), workers=workers, initializer=begin_worker, initargs=(vocabulary, runs_file)
    )
    for number, sighting in enumerate(sightings):
        tally.add(number, sighting)
        meter.done(sighting.raw_bytes)


# --- the report ---------------------------------------------------------------------------------------------


def _report(found: Found, tally: _Tally, tokenizer: Tokenizer | None, compared: bool) -> Report:
    census = Census.read(tally.files) if tally.files else None
    if census is None or not census.good.any():
        raise _no_text(found, tally)
    places = Places(census, tally.files, found.sources)
    report: Report = {
        "sources": _describe_sources(found),
        "text": _describe_text(census, tally),
        "tokens": _describe_tokens(census, tally, tokenizer) if tokenizer else None,
        "lengths": describe_lengths(census, places),
        "wrapped_documents": int((census.wrapped & census.good).sum()),
        "duplicates": find_duplicates(census, tally.files, places),
        "damage": _describe_damage(tally, places),
        "odd_characters": _describe_characters(
            {character: count for character, count in tally.characters.items() if character not in ORDINARY}
        ),
        "faults": _describe_faults(found, tally),
        "leakage": _describe_leakage(tally, places) if compared else None,
        "findings": [],
    }
    report["findings"] = find_findings(report)
    return report


def _no_text(found: Found, tally: _Tally) -> InputError:
    what = f"there is no text to examine in what was read ({many(len(found.sources), 'file')})"
    if not tally.faults:
        return InputError(f"{what}: all of it is empty. Check the paths")
    return InputError(f"{what}; {many(tally.fault_reasons.total(), 'fault')}, first:\n{tally.faults[0].message}")


def _describe_sources(found: Found) -> SourceFigures:
    return {
        "files": len(found.sources),
        "folder": _common_folder([source.name for source in found.sources]),
        "bytes_on_disk": sum(source.bytes for source in found.sources),
        "left_out": len(found.skipped),
        "left_out_first": [{"source": skipped.name, "reason": skipped.reason} for skipped in found.skipped[:SHOWN]],
    }


def _describe_text(census: Census, tally: _Tally) -> TextFigures:
    good = census.good
    return {
        "documents": int(good.sum()),
        "empty_documents": int((~good & ~census.documents.broken).sum()),
        "left_out_documents": dict(sorted(by_reason(tally.left_out).items())),
        "bytes": int(census.documents.raw_bytes[good].sum()),
        "characters": int(census.characters[good].sum()),
        "lines": int(census.lines[good].sum()),
        "words": int(census.words[good].sum()),
    }


def _describe_tokens(census: Census, tally: _Tally, tokenizer: Tokenizer) -> TokenFigures:
    good = census.good
    tokens = int((census.documents.tokens[good] + 1).sum())  # `prepare` ends each document with a newline
    unknown = int(census.documents.unknown[good].sum())
    return {
        "tokenizer": {"kind": tokenizer.kind, "vocab_size": tokenizer.vocab_size, "fingerprint": tokenizer.fingerprint},
        "tokens": tokens,
        "bytes_per_token": int(census.documents.raw_bytes[good].sum()) / tokens,
        "unknown_tokens": unknown,
        "unknown_share": unknown / tokens,
        "unknown_characters": _describe_characters(tally.unknown),
        "paper_batches_per_epoch": tokens / PAPER_BATCH_TOKENS,
    }


def _describe_characters(counts: Mapping[str, int]) -> list[CharacterCount]:
    return [
        {
            "character": character,
            "code_point": f"U+{ord(character):04X}",
            "name": unicodedata.name(character, "(no name)"),
            "count": count,
        }
        for character, count in _most(counts, SHOWN_CHARACTERS)
    ]


def _most(counts: Mapping[str, int], number: int) -> list[tuple[str, int]]:
    """Return the most frequent, ties by name, so that the order hangs on nothing else."""
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:number]


def _describe_damage(tally: _Tally, places: Places) -> DamageFigures:
    return {
        "mojibake_lines": tally.mojibake_lines,
        "mojibake_first": [
            {**places.of_line(batch, mended.part, mended.line), "before": mended.before, "after": mended.after}
            for batch, mended in tally.mended
        ],
        **_count_kinds(tally.characters),
        "lines_in_parts": tally.in_parts,
        "html_entities": tally.entities.total(),
        "html_entities_most": dict(_most(tally.entities, SHOWN)),
        "html_tags": tally.tags,
    }


def _count_kinds(characters: Mapping[str, int]) -> UnreadableCharacters:
    """Count the characters that no reader sees, or that stand where another was lost."""
    kinds: UnreadableCharacters = {
        "replacement_characters": 0,
        "control_characters": 0,
        "byte_order_marks": 0,
        "invisible_characters": 0,
        "private_characters": 0,
    }
    for character, count in characters.items():
        category = unicodedata.category(character)
        if character == "\ufffd":
            kinds["replacement_characters"] += count
        elif character == "\ufeff":
            kinds["byte_order_marks"] += count
        elif category == "Cc" and character not in "\t\n\r":
            kinds["control_characters"] += count
        elif category == "Cf":
            kinds["invisible_characters"] += count
        elif category in ("Co", "Cn"):
            kinds["private_characters"] += count
    return kinds


def _describe_leakage(tally: _Tally, places: Places) -> LeakageFigures:
    files = tally.leaks.report(places.of_line)
    return {
        "run_words": RUN,
        "quote_words": QUOTE,
        "folder": _common_folder([file["file"] for file in files]),
        "files": files,
    }


def _common_folder(names: Sequence[str]) -> str:
    """Return the folder that all of the files lie in or below, or an empty string."""
    if any(map(is_stored, names)):
        return ""
    try:
        return os.path.commonpath([Path(name).parent for name in names])
    except ValueError:  # files given by full and by relative paths
        return ""


def _describe_faults(found: Found, tally: _Tally) -> FaultFigures:
    return {
        "count": tally.fault_reasons.total(),
        "by_reason": dict(sorted(tally.fault_reasons.items())),
        "first": [
            {
                "source": found.sources[fault.source].name,
                "position": fault.position,
                "reason": fault.reason,
                "message": fault.message,
            }
            for fault in tally.faults
        ],
    }
