"""The formats of official files: one file in, rows under the catalogue's own names of fields out.

A row has only the cells that its line has; whether that is enough is for others to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpt1.base.errors import InputError
from gpt1.base.records import parse_json
from gpt1.base.tables import LONGEST_RECORD, read_rows, read_text_blocks, too_long
from gpt1.base.wording import some
from gpt1.tasks.examples import SHOWN, Row

INDEX = "index"  # under which a reader gives the official number of a test row

Reader = Callable[[Path, str], Iterator[Row]]


def tsv(**places: str | int) -> Reader:
    """Return a reader of tab-separated lines without quoting, which takes cells by their column's name or number."""
    named = {name: place for name, place in places.items() if isinstance(place, str)}

    def read(path: Path, encoding: str) -> Iterator[Row]:
        lines = text_lines(path, encoding)
        header = next(lines, "").split("\t") if named else []
        if unknown := [name for name in named.values() if name not in header]:
            raise InputError(f"{path} has no column '{unknown[0]}' (columns: {some(header, SHOWN)}): another task's?")
        cell_of = {name: header.index(p) if isinstance(p, str) else p for name, p in places.items()}
        for number, line in enumerate(lines, 1):
            cells = line.split("\t")
            if line:
                yield Row({name: cells[at] for name, at in cell_of.items() if at < len(cells)}, str(path), number)

    return read


def text_lines(path: Path, encoding: str) -> Iterator[str]:
    """Yield the lines of a file, which end at a newline and nowhere else: other line ends are part of a text."""
    held: list[str] = []  # a line that has not ended
    size, number = 0, 1
    for block in read_text_blocks(path, encoding):
        first, *rest = block.split("\n")
        held.append(first)
        size += len(first)
        if size > LONGEST_RECORD:
            raise too_long(path, f"line {number}")
        if rest:
            number += len(rest)
            yield from (line.removesuffix("\r") for line in ("".join(held), *rest[:-1]))
            held, size = rest[-1:], len(rest[-1])
    if size:
        yield "".join(held).removesuffix("\r")


def nli_jsonl(path: Path, encoding: str) -> Iterator[Row]:
    """Yield the pairs of SNLI and MNLI as their makers publish them; an undecided label is `-`."""
    columns = {"a": "sentence1", "b": "sentence2", "label": "gold_label"}
    for number, value in read_rows(path, encoding=encoding):
        row = Row(value, str(path), number)
        yield replace(row, cells={name: row.cell(column) for name, column in columns.items()})


def story_cloze(path: Path, encoding: str) -> Iterator[Row]:
    """Yield the stories of a quoted csv: four sentences are the context, two endings the choices."""
    for number, value in read_rows(path, encoding=encoding):
        row = Row(value, str(path), number)
        cells: dict[str, Any] = {
            "context": " ".join(row.cell(f"InputSentence{place}") for place in range(1, 5)),
            "choices": [row.cell(f"RandomFifthSentenceQuiz{place}") for place in (1, 2)],
        }
        if "AnswerRightEnding" in value:  # later test files keep it back
            answer = value["AnswerRightEnding"]
            if answer not in ("1", "2"):
                raise row.error(f"AnswerRightEnding is {answer!r}, expected 1 or 2")
            cells["label"] = int(answer) - 1
        yield replace(row, cells=cells)


def _whole_text(path: Path, encoding: str) -> str:
    held, size = [], 0
    for block in read_text_blocks(path, encoding):
        held.append(block)
        size += len(block)
        if size > LONGEST_RECORD:
            raise too_long(path, "line 1")
    return "".join(held)


def race(path: Path, encoding: str) -> Iterator[Row]:
    """Yield the questions about one passage: the file is a JSON object, its folder is the level."""
    text = _whole_text(path, encoding)
    try:
        found = parse_json(text)
        article, level = found["article"], path.parent.name
        asked = list(zip(found["questions"], found["options"], found["answers"], strict=True))
        for number, (question, options, answer) in enumerate(asked, 1):
            cells = {"context": article, "question": question, "choices": options, "label": list("ABCD").index(answer)}
            yield Row(cells | {"level": level}, str(path), number)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is not a passage of RACE, a JSON object with article, questions, options and answers A to D "
            f"({error}); fetch it again"
        ) from None


def dpr(path: Path, encoding: str) -> Iterator[Row]:
    """Yield the problems of a file: four lines each (text, pronoun, two candidates, the right one) and a blank one."""
    blocks: list[list[str]] = [[]]
    for line in text_lines(path, encoding):
        if line.strip():
            blocks[-1].append(line.strip())
        elif blocks[-1]:
            blocks.append([])
    for number, block in enumerate((block for block in blocks if block), 1):
        row = Row({}, str(path), number)
        if len(block) != 4:
            raise row.error(f"a problem has {len(block)} lines, expected text, pronoun, candidates and answer")
        text, pronoun, candidates, answer = block
        choices = [candidate.strip() for candidate in candidates.split(",")]
        matching = [place for place, choice in enumerate(choices) if choice.lower() == answer.lower()]
        if len(choices) != 2 or len(matching) != 1:
            raise row.error(f"'{answer}' is not one of two candidates in '{candidates}'")
        yield replace(row, cells={"text": text, "pronoun": pronoun, "choices": choices, "label": matching[0]})
