"""Sentences of which each word has a label: column files as the CoNLL tasks have them, and lists in jsonl or parquet.

    U.N.      NNP  I-NP  I-ORG        a line a word, an empty line between sentences; columns parted by tabs, or
    official  NN   I-NP  O            where a line has none by blanks. The word is in the first, its label in the last

    {"tokens": ["U.N.", "official"], "labels": ["B-ORG", "O"]}

Lines that begin with -DOCSTART- are left out, and so are comments: lines before the first word of a sentence that begin
with # and have another number of columns than words. A CoNLL-U file (.conllu) has ten columns: the word is FORM and the
label UPOS; lines of several words at once (1-2) and of words that are not there (1.1) are left out. All that is counted
and told. A word may hold blanks, as some have in CoNLL-U; a label may not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpt1.base.archives import COMPRESSIONS
from gpt1.base.errors import FileError, InputError, SettingError, did_you_mean, unknown
from gpt1.base.tables import COLUMN_FILES, ENCODING, BadRow, file_format, lines_of, read_rows_or_faults
from gpt1.base.wording import many, some
from gpt1.tasks.examples import brief
from gpt1.tasks.shapes import TOKENS, WORD_SHAPES
from gpt1.tasks.tagging import LONGEST_SENTENCE, WORDS_FIELDS
from gpt1.text.cleaning import to_utf8

UNIVERSAL = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")  # columns of CoNLL-U
LABELS_FIELDS = ("labels", "tags", "ner_tags", "pos_tags")
ROLES = ("tokens", "label")
DOCSTART, COMMENTS, RANGES, EMPTY_NODES = "-DOCSTART-", "comments", "ranges", "empty nodes"

_LEFT_OUT = {
    DOCSTART: "line that begins with -DOCSTART-",
    COMMENTS: "comment",
    RANGES: "line of several words at once (such as 1-2)",
    EMPTY_NODES: "line of a word that is not there (such as 1.1)",
}
_MARK = "\ufeff"


@dataclass(frozen=True)
class Sentence:
    """The words of a sentence with their labels, and the lines of the file where they stand."""

    words: tuple[str, ...]
    labels: tuple[str, ...] | None  # None: the file has none
    lines: tuple[int, ...]


@dataclass
class WordFile:
    """A file of sentences as it is read: what of it was left out, and what was understood, is known at its end."""

    path: Path
    encoding: str = ENCODING
    columns: Mapping[str, str] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    understood: str = ""  # which columns are read, in words

    def sentences(self) -> Iterator[Sentence | FileError]:
        """Yield the sentences, and in the place of each that cannot be used why."""
        if others := [role for role in self.columns if role not in ROLES]:
            raise unknown("role of a column", others[0], ROLES, of="sentences with labelled words")
        return self._lines() if is_column_file(self.path) else self._rows()

    def notices(self) -> list[str]:
        """Return what to tell of what was read, and of what was left out."""
        told = [many(count, _LEFT_OUT[what]) for what, count in self.left_out.items()]
        found = [f"{self.path}: {self.understood}"] if self.understood else []
        return [*found, *([f"{self.path}: left out: {some(told)}"] if told else [])]

    # ---- a line a word ----

    def _lines(self) -> Iterator[Sentence | FileError]:
        layout: _Layout | None = None
        words: list[tuple[str, str | None, int]] = []
        fault: FileError | None = None
        number = 0
        for number, raw in enumerate(lines_of(self.path, self.encoding), 1):
            line = raw.rstrip("\r\n").removeprefix(_MARK if number == 1 else "")
            if not line.strip():
                yield from _ended(words, fault)
                words, fault = [], None
                continue
            if fault is not None:  # the rest of a sentence that cannot be used
                continue
            cells = line.split("\t") if "\t" in line else line.split()
            if (skipped := self._skipped(line, cells, layout, bool(words))) is not None:
                self.left_out[skipped] += 1
                continue
            if layout is None:
                layout = self._layout(cells, number)
                self.understood = layout.in_words()
            try:
                words.append((*layout.word_and_label(cells, self.path, number), number))
                if len(words) > LONGEST_SENTENCE:
                    raise BadRow(
                        self.path,
                        f"line {number}",
                        f"a sentence of more than {LONGEST_SENTENCE:,} words; an empty line ends a sentence",
                    )
            except BadRow as found:
                fault = found
        yield from _ended(words, fault)

    def _skipped(self, line: str, cells: Sequence[str], layout: _Layout | None, inside: bool) -> str | None:
        """Return as what a line is left out, None where it is a word's."""
        if line.startswith(DOCSTART):
            return DOCSTART
        is_universal = _is_universal(self.path) or (layout is not None and layout.is_universal)
        if line.startswith("#") and not inside and (is_universal or self._is_other(len(cells), layout)):
            return COMMENTS
        if is_universal and len(cells) == len(UNIVERSAL):
            return RANGES if "-" in cells[0] else EMPTY_NODES if "." in cells[0] else None
        return None

    def _is_other(self, count: int, layout: _Layout | None) -> bool:
        """Whether a line has not as many columns as words: as the first line that can be no comment."""
        if layout is not None:
            return count != layout.count
        for raw in lines_of(self.path, self.encoding):
            line = raw.rstrip("\r\n").removeprefix(_MARK)
            if line.strip() and not line.startswith(("#", DOCSTART)):
                return len(line.split("\t") if "\t" in line else line.split()) != count
        return False

    def _layout(self, cells: Sequence[str], number: int) -> _Layout:
        """Return what the columns of a file are, told by its first word."""
        is_universal = _is_universal(self.path)
        count = len(cells)
        if is_universal and count != len(UNIVERSAL):
            raise BadRow(self.path, f"line {number}", f"{many(count, 'column')}, and CoNLL-U has ten, parted by tabs")
        named = {role: self._place(name, count, is_universal) for role, name in self.columns.items()}
        word = named.get("tokens", 1 if is_universal else 0)
        label: int | None = named.get("label", UNIVERSAL.index("upos") if is_universal else count - 1)
        if count == 1:
            label = None
        elif label == word:
            raise SettingError(f"{self.path}: column {word + 1} cannot be the word and its label; name another")
        return _Layout(count, word, label, is_universal)

    def _place(self, name: str, count: int, is_universal: bool) -> int:
        if is_universal and name.lower() in UNIVERSAL:
            return UNIVERSAL.index(name.lower())
        if name.isascii() and name.isdigit() and 1 <= int(name) <= count:
            return int(name) - 1
        known = f"1 to {count}" + (f", or {', '.join(UNIVERSAL)}" if is_universal else "")
        raise SettingError(f"{self.path} has no column '{name}'; a column is named by its number ({known})")

    # ---- lists ----

    def _rows(self) -> Iterator[Sentence | FileError]:
        names: tuple[str, str | None] | None = None
        for found in read_rows_or_faults(self.path, encoding=self.encoding):
            if isinstance(found, FileError):
                yield found
                continue
            number, cells = found
            try:
                if names is None:
                    names = self._names(cells, number)
                    told = f", '{names[1]}' their labels" if names[1] else ""
                    self.understood = f"'{names[0]}' are the words{told}"
                yield self._sentence(cells, names, number)
            except BadRow as fault:
                yield fault

    def _names(self, cells: Mapping[str, object], number: int) -> tuple[str, str | None]:
        """Return in which columns words and labels stand."""
        tokens = self._name("tokens", WORDS_FIELDS, cells, number)
        if tokens is None:
            columns = some(list(cells), 10)
            raise BadRow(
                self.path,
                f"line {number}",
                f"no list of words (columns: {columns}); name it with `columns={{'tokens': 'COLUMN'}}`",
            )
        return tokens, self._name("label", LABELS_FIELDS, cells, number)

    def _name(self, role: str, known: Sequence[str], cells: Mapping[str, object], number: int) -> str | None:
        if (chosen := self.columns.get(role)) is not None:
            if chosen not in cells:
                raise BadRow(self.path, f"line {number}", f"no column '{chosen}'{did_you_mean(chosen, cells)}")
            return chosen
        there = [name for name in known if name in cells]
        if len(there) > 1:
            way = {role: "COLUMN"}
            raise SettingError(
                f"{self.path}: which column has the {role}{'s' if role == 'label' else ''}, {' or '.join(there)}? "
                f"Name it with `columns={way!r}`"
            )
        return there[0] if there else None

    def _sentence(self, cells: Mapping[str, object], names: tuple[str, str | None], number: int) -> Sentence:
        place = f"line {number}"
        words = self._list(cells, names[0], place)
        for word in words:
            if not isinstance(word, str) or not word.strip():
                raise BadRow(self.path, place, f"'{names[0]}' holds {brief(word)}, expected words")
            _check_characters(word, self.path, place)
        if not words:
            raise BadRow(self.path, place, f"'{names[0]}' is empty; fill it or take the line out")
        if len(words) > LONGEST_SENTENCE:
            raise BadRow(self.path, place, f"more than {LONGEST_SENTENCE:,} words; part it into sentences")
        if names[1] is None or cells.get(names[1]) is None:
            return Sentence(tuple(words), None, (number,) * len(words))
        labels = self._list(cells, names[1], place)
        if len(labels) != len(words):
            raise BadRow(self.path, place, f"{many(len(words), 'word')} and {many(len(labels), 'label')}")
        for label in labels:
            if isinstance(label, bool) or not isinstance(label, str | int):
                raise BadRow(self.path, place, f"'{names[1]}' holds {brief(label)}, expected labels")
        named = tuple(_checked_label(str(label), self.path, place) for label in labels)
        return Sentence(tuple(words), named, (number,) * len(words))

    def _list(self, cells: Mapping[str, object], name: str, place: str) -> list[Any]:
        value = cells.get(name)
        if not isinstance(value, list):
            raise BadRow(self.path, place, f"'{name}' holds {brief(value)}, expected a list, a word an entry")
        return value


@dataclass(frozen=True)
class _Layout:
    """What the columns of a file are."""

    count: int
    word: int
    label: int | None
    is_universal: bool

    def in_words(self) -> str:
        if self.label is None:
            return "one column, words without labels"
        if self.is_universal:
            return f"CoNLL-U: {UNIVERSAL[self.word].upper()} is the word, {UNIVERSAL[self.label].upper()} its label"
        return f"column {self.word + 1} of {self.count} is the word, {self.label + 1} its label"

    def word_and_label(self, cells: Sequence[str], path: Path, number: int) -> tuple[str, str | None]:
        """Return what a line says of its word."""
        place = f"line {number}"
        if len(cells) != self.count:
            raise BadRow(path, place, f"{many(len(cells), 'column')}, and the first word has {self.count}")
        word = cells[self.word].strip()
        if not word:
            raise BadRow(path, place, f"column {self.word + 1}, the word, is empty")
        _check_characters(word, path, place)
        if self.label is None:
            return word, None
        label = cells[self.label].strip()
        if self.is_universal and label == "_":
            raise BadRow(path, place, f"the word '{word}' has no {UNIVERSAL[self.label].upper()}")
        return word, _checked_label(label, path, place)


def _ended(words: Sequence[tuple[str, str | None, int]], fault: FileError | None) -> Iterator[Sentence | FileError]:
    if fault is not None:
        yield fault
    elif words:
        named = tuple(label for _, label, _ in words if label is not None)
        yield Sentence(tuple(word for word, _, _ in words), named or None, tuple(number for *_, number in words))


def _checked_label(label: str, path: Path, place: str) -> str:
    if not label:
        raise BadRow(path, place, "the label is empty; label the word, or take its sentence out")
    if label.split() != [label]:
        raise BadRow(path, place, f"the label {brief(label)} has a blank in it")
    _check_characters(label, path, place)
    return label


def _check_characters(text: str, path: Path, place: str) -> None:
    """Refuse half a character, which neither a tokenizer nor a file can hold."""
    try:
        to_utf8(text)
    except InputError as error:
        raise BadRow(path, place, str(error)) from None


def is_column_file(path: str | Path) -> bool:
    """Whether a file has a line a word, by its name."""
    return _suffix(path) in COLUMN_FILES


def _is_universal(path: Path) -> bool:
    return _suffix(path) == ".conllu"


def _suffix(path: str | Path) -> str:
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def words_shape(path: str | Path, shape: str | None) -> str | None:
    """Return in which shape the words of a file are labelled; None where it is a table of another shape.

    The name of a column file says it; lists are read so where that is asked for.
    """
    if shape is None:
        return TOKENS if is_column_file(path) else None
    if shape not in WORD_SHAPES:
        others = "other shapes are told by the columns of a table"
        raise SettingError(
            f"unknown shape '{shape}'{did_you_mean(shape, WORD_SHAPES)}; known are "
            f"{' and '.join(WORD_SHAPES)}, {others}"
        )
    if not is_column_file(path) and file_format(path) not in ("jsonl", "parquet"):
        raise InputError(
            f"{path} cannot hold a label for each word; such files are {', '.join(COLUMN_FILES)}, jsonl and parquet"
        )
    return shape


def labelled_only(found: Iterable[Sentence | FileError], path: Path) -> Iterator[Sentence | FileError]:
    """Yield the sentences, and in the place of each that has no labels why it cannot be learned from."""
    for one in found:
        if isinstance(one, Sentence) and one.labels is None:
            yield BadRow(path, f"line {one.lines[0]}", "the words have no labels; each word needs one")
        else:
            yield one
