"""Examples as a model meets them: token by token, with the special tokens in brackets and cuts marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpt1.base.errors import unknown
from gpt1.base.wording import many
from gpt1.tasks.assessment import answer_name
from gpt1.tasks.catalog import Task
from gpt1.tasks.examples import Example
from gpt1.tasks.preparing import read_task
from gpt1.tasks.shapes import CONTEXT, lay_out, trim
from gpt1.text.specials import SPECIALS, special_ids
from gpt1.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Shown:
    """One example as it is shown: its row, its label in words, its sequences as tokens, and how many it lost."""

    row: int
    label: str | int | float | None
    sequences: list[list[str]]
    cut: int


def show_task(
    name: str,
    data: str,
    count: int,
    *,
    split: str = "train",
    tokenizer: Tokenizer | None = None,
    context: int = CONTEXT,
    encoding: str = "utf-8",
) -> tuple[list[Shown], tuple[str, ...]]:
    """Return the first examples of a split as tokens, and what a person should be told about the rows."""
    found = read_task(name, data=data, encoding=encoding)
    if split not in found.splits:
        raise unknown("split", split, found.splits)
    return show_examples(found.task, found.splits[split][:count], tokenizer, context), found.notices


def show_examples(
    task: Task, examples: Sequence[Example], tokenizer: Tokenizer | None, context: int = CONTEXT
) -> list[Shown]:
    """Return examples as tokens; without a tokenizer words between blanks stand for them."""
    spelling = _Spelling(tokenizer, [text for example in examples for text in example.texts])
    return [_show(task, example, spelling, context) for example in examples]


class _Spelling:
    """Texts to ids, and ids to what is printed for them."""

    def __init__(self, tokenizer: Tokenizer | None, texts: Sequence[str]) -> None:
        if tokenizer is not None:
            self.tokens: Sequence[str] = tokenizer.vocabulary.tokens
            self._ids: Mapping[str, Sequence[int]] = dict(zip(texts, tokenizer.encode_batch(texts), strict=True))
        else:
            self.tokens = sorted({word for text in texts for word in text.split()})
            number = {word: place for place, word in enumerate(self.tokens)}
            self._ids = {text: [number[word] for word in text.split()] for text in texts}
        self.names = {place: f"[{name}]" for name, place in special_ids(len(self.tokens)).items()}

    def ids(self, text: str) -> Sequence[int]:
        return self._ids[text]

    def token(self, place: int) -> str:
        return self.names[place] if place in self.names else _printable(self.tokens[place])


def _show(task: Task, example: Example, spelling: _Spelling, context: int) -> Shown:
    parts = [spelling.ids(text) for text in example.texts]
    kept = trim(task.shape, parts, context)
    # An id that is nobody's stands at the end of each part that was cut, and the layout carries it to its place.
    vocab_size = len(spelling.tokens)
    first = vocab_size + len(SPECIALS)
    lost = {first + place: len(part) - len(kept[place]) for place, part in enumerate(parts)}
    marked = [[*part, *([first + place] if lost[first + place] else [])] for place, part in enumerate(kept)]
    laid_out = lay_out(task.shape, marked, vocab_size=vocab_size, context=context + len(parts))
    return Shown(
        row=example.row,
        label=None if example.label is None else answer_name(task, example.label),
        sequences=[
            [f"[cut {many(lost[id], 'token')}]" if id >= first else spelling.token(id) for id in sequence]
            for sequence in laid_out.sequences
        ],
        cut=sum(lost.values()),
    )


def _printable(token: str) -> str:
    """Return a token on one line: a newline is a token too."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in token)


def in_lines(shown: Shown) -> list[str]:
    """Return the lines that show one example to a person."""
    label = "no label" if shown.label is None else f"label {shown.label}"
    return [f"row {shown.row}, {label}", *(f"  {' '.join(sequence)}" for sequence in shown.sequences)]
