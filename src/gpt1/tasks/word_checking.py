"""All that is wrong with a file of labelled words, found in one go and with its lines: `gpt1 check names.conll`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import median

import numpy as np

from gpt1.base.errors import FileError
from gpt1.base.wording import many, some
from gpt1.tasks.catalog import Task
from gpt1.tasks.checking import ENGLISH, FEW_ROWS, Learner, TableFinding, TableReport, Tokens
from gpt1.tasks.encoded import encode_examples
from gpt1.tasks.examples import Example
from gpt1.tasks.sentences import Sentence, WordFile, labelled_only
from gpt1.tasks.sifting import Sifted, SkippedRow, unreadable
from gpt1.tasks.tagging import BIOES, PLAIN_METRICS, loose, scheme_of, spans_of, spell_spans
from gpt1.tasks.unknowns import MOSTLY, count_unknown, unknown_by_example
from gpt1.tasks.word_tables import WordReading
from gpt1.text.language import look_at_language

FEWEST_SENTENCES = 200  # of which a tenth is for dev, where a score is known to about ten points
RARE = 5  # spans or words of a label, of which next to nothing is learned

_SHOWN = 3  # faults that are told whole
_SKIPPING = "`skip_bad=True` leaves such sentences out"


def check_words(path: Path, shape: str, how: WordReading, learner: Learner | None) -> TableReport:
    """Return all that is wrong with a file of labelled words, and what it was understood as."""
    file = WordFile(path, how.encoding, how.columns)
    sifted, findings = _read(file)
    found = [*_bad_sentences(sifted.left_out, how.skip_bad), *findings]
    total = len(sifted.rows) + len(sifted.left_out)
    report = TableReport(str(path), total, len(sifted.rows), shape, findings=found, told=file.notices())
    if not sifted.rows:
        what, advice = "no sentence can be used", "a line a word with its label, and an empty line between sentences"
        return replace(report, findings=[*found, TableFinding("no-rows", what, advice, stops=True)])
    return _look_at_all(report, sifted.rows, learner)


def _read(file: WordFile) -> tuple[Sifted[Sentence], list[TableFinding]]:
    """Return the sentences, up to where the file is damaged, and that damage."""
    found: Sifted[Sentence] = Sifted([])
    try:
        for one in labelled_only(file.sentences(), file.path):
            if isinstance(one, FileError):
                found.left_out.append(unreadable(one))
            else:
                found.rows.append(one)
    except FileError as fault:
        what = f"the file cannot be read from {fault.position} on"
        return found, [TableFinding(fault.reason, what, fault.message, stops=True)]
    return found, []


def _bad_sentences(left_out: Sequence[SkippedRow], skip_bad: bool) -> list[TableFinding]:
    if not left_out:
        return []
    whys = some([f"line {one.row}: {one.why}" for one in left_out], _SHOWN)
    advice = "such sentences are left out" if skip_bad else f"{whys}; {_SKIPPING}"
    what = f"{many(len(left_out), 'sentence')} that cannot be used"
    lines = [one.row for one in left_out]
    return [_finding("bad-sentences", what, advice, lines, stops=not skip_bad, may_be_skipped=True)]


def _finding(
    key: str, what: str, advice: str, lines: Sequence[int], *, stops: bool = False, may_be_skipped: bool = False
) -> TableFinding:
    where = f"line{'' if len(lines) == 1 else 's'} {some([str(line) for line in lines])}"
    return TableFinding(key, what, advice, list(lines), where, stops, may_be_skipped)


def _look_at_all(report: TableReport, rows: Sequence[Sentence], learner: Learner | None) -> TableReport:
    labels = [one.labels or () for one in rows]
    names = sorted(set(chain.from_iterable(labels)))
    has_spans = spell_spans(names)
    scheme = scheme_of(labels) if has_spans else ""
    spans = [kind for own in labels for kind, _, _ in spans_of(own)]
    counts = Counter(spans) if has_spans else Counter(chain.from_iterable(labels))
    found = _one_label(names)
    if has_spans:
        found += _loose(rows, scheme)
    found += [*_rare(counts, "span" if has_spans else "word"), *_few(rows), *_repeats(rows)]
    tokens: Tokens | None = None
    if learner is not None:
        tokens, said = _tokens(report.shape or "", rows, learner)
        found += said
    texts = [" ".join(one.words) for one in rows]
    language = look_at_language(texts)
    if language.is_english is False and learner is not None and learner.language == ENGLISH:
        advice = f"{learner.name}, which has read English, knows little of it; pre-train one on text of that language"
        found.append(TableFinding("language", "the sentences do not read like English", advice))
    lengths = [len(one.words) for one in rows]
    return replace(
        report,
        labels=dict(counts.most_common()),
        words=(sum(lengths), int(median(lengths)), max(lengths)),
        scheme=scheme,
        language=language,
        tokens=tokens,
        findings=[*report.findings, *found],
    )


def _one_label(names: Sequence[str]) -> list[TableFinding]:
    if len(names) > 1:
        return []
    what = f"every word has the label '{names[0]}'"
    return [TableFinding("one-label", what, "training needs at least two different ones", stops=True)]


def _loose(rows: Sequence[Sentence], scheme: str) -> list[TableFinding]:
    """Tell of labels that the scheme does not allow where they stand."""
    lines = [one.lines[word] for one in rows for word in loose(one.labels or (), scheme)]
    if not lines:
        return []
    what = f"{many(len(lines), 'label')} that {scheme} does not allow there"
    ends = ", and each span has an end of its own (E, or S of one word)" if scheme == BIOES else ""
    advice = f"an I follows a B or an I of its kind{ends}; read as conlleval does, a span begins there"
    return [_finding("loose-labels", what, advice, lines)]


def _rare(counts: Counter[str], what: str) -> list[TableFinding]:
    rare = [f"'{label}' ({count})" for label, count in counts.most_common() if count < RARE]
    if not rare or len(counts) < 2:
        return []
    said = f"{many(len(rare), 'label')} of fewer than {RARE} {what}s: {some(rare)}"
    return [
        TableFinding("rare-labels", said, "of so few next to nothing is learned; label more, or leave the label out")
    ]


def _few(rows: Sequence[Sentence]) -> list[TableFinding]:
    if len(rows) >= FEWEST_SENTENCES:
        return []
    what = f"{many(len(rows), 'sentence')} are few: a tenth of them tell what comes of it"
    return [TableFinding(FEW_ROWS, what, f"label more; from {FEWEST_SENTENCES} on a score says something")]


def _repeats(rows: Sequence[Sentence]) -> list[TableFinding]:
    """Tell of sentences that stand there twice, with the same labels or with others."""
    first: dict[tuple[str, ...], Sentence] = {}
    same: list[int] = []
    torn: list[int] = []
    for one in rows:
        before = first.setdefault(one.words, one)
        if before is not one:
            (same if before.labels == one.labels else torn).append(one.lines[0])
    found = []
    if same:
        what = f"{many(len(same), 'sentence')} with words and labels of an earlier one"
        found.append(
            _finding("duplicates", what, "such sentences count twice; take them out unless they are meant", same)
        )
    if torn:
        what = f"{many(len(torn), 'sentence')} with words of an earlier one, and other labels"
        advice = "one of them is wrong, or the sentence alone does not tell; decide which labels are right"
        found.append(_finding("two-labels", what, advice, torn))
    return found


def _tokens(shape: str, rows: Sequence[Sentence], learner: Learner) -> tuple[Tokens, list[TableFinding]]:
    """Return how long sentences are in tokens, and tell of those that are spelt with what is not known."""
    task = Task(name="words", title="words", shape=shape, metrics=PLAIN_METRICS, fields=("text",), labels=("0", "1"))
    tokenizer = learner.tokenizer
    asked = [Example((" ".join(one.words),), None, one.lines[0], words=one.words) for one in rows]
    split = encode_examples(task, asked, tokenizer, learner.context)
    by_example = unknown_by_example(task, split, tokenizer.unknown_id, tokenizer.vocab_size)
    unknown = count_unknown(by_example)
    assert split.windows is not None, "those of words are always counted"
    windows = int(split.windows.max())
    tokens = Tokens(
        learner.name,
        learner.context,
        int(np.median(by_example[:, 1])),
        int(by_example[:, 1].max()),
        int((split.cut > 0).sum()),
        unknown.tokens,
        unknown.of,
        windows=windows if windows > 1 else 0,
        long_rows=int((split.windows > 1).sum()),
    )
    signs = Counter(chain.from_iterable(one.texts[0] for one in asked)) if unknown.tokens else Counter()
    told = unknown.told(len(split), characters=tokenizer.unknown_characters(signs) if unknown.tokens else [])
    if told is None:
        return tokens, []
    mostly = (by_example[:, 0] > 0) & (by_example[:, 0] >= MOSTLY * by_example[:, 1])
    lines = [asked[place].row for place in np.flatnonzero(mostly)]
    what, advice = told
    return tokens, [TableFinding("unknown-tokens", what, advice, lines, stops=unknown.is_too_much)]
