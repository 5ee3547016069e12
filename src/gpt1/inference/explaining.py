"""Why a run gives an answer: which words of a text speak for it, and how far.

Leave-one-out asks the very thing that answers, be it a network, counted words or both: a word's weight is how much the
answer's log-odds fall when the word is taken out (of a score: how much the score falls). Beside it stand the integrated
gradients of the network (`gradients.py`), which count a word beside all others, not in their absence. What the context
has no room for is not read, so it has no weight, and nothing of it moves into the room that a word leaves; a long text
is taken by stretches of words. Of a text that is read in windows each word has one weight, taken out of all of them,
and they stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import SettingError, unknown
from gpt1.base.wording import shortened
from gpt1.inference.answering import Predictions, answer_split, network_temperature
from gpt1.inference.gradients import MOST_READINGS, integrated_gradients
from gpt1.inference.run import Run
from gpt1.linear.ensemble import ALONE
from gpt1.records.ensemble import NETWORK
from gpt1.tasks.answers import LEAST, Floats
from gpt1.tasks.catalog import Task, refuse_words
from gpt1.tasks.encoded import EncodedSplit
from gpt1.tasks.examples import Example
from gpt1.tasks.shapes import CHOICES, LaidOut, lay_out, trim
from gpt1.tasks.windows import LaidOutWindows, Window, lay_out_windows, windows_of, without_stretch
from gpt1.text.spans import Span, owners, without, word_spans
from gpt1.text.tokenizer import Tokenizer

Explain = bool | str  # the answer that was given, or the one of this name
MOST_WORDS = 128  # of a text, beyond which neighbours are taken out together
MOST_LABELS = 5  # of a row, the likeliest
DIGITS = 4  # of a weight
STRONGEST = 5  # words that are told in a line
LONGEST = 40  # characters of a word there


class Word(TypedDict):
    """A word, or a stretch of them, in a text of a row, and how far it speaks for an answer; below 0 against it."""

    field: str
    word: str
    start: int
    end: int
    weight: float
    gradient: NotRequired[float]  # by integrated gradients, where they were asked for and a network answers


class Explanation(TypedDict):
    """What speaks for an answer."""

    label: str | None  # None: the score
    words: list[Word]
    unread: int  # words of which the context had room for nothing
    gap: NotRequired[float]  # by how much all gradients miss what they should add up to


def check_explain(task: Task, explain: Explain) -> None:
    """Refuse to explain an answer that there is not."""
    if explain is not False:
        refuse_words(task, "explaining an answer")
    if isinstance(explain, bool):
        return
    if task.score_range is not None:
        raise SettingError(f"'{task.name}' is answered with scores, and has no label to explain; give `explain=True`")
    if explain not in _names(task):
        raise unknown("label", explain, _names(task), of=f"'{task.name}' to explain")


def explain_answer(
    run: Run,
    task: Task,
    example: Example,
    found: Predictions,
    place: int,
    explain: Explain,
    *,
    with_gradients: bool = False,
) -> list[Explanation]:
    """Return what speaks for each answer that a run gave to the example at this place, or for the one that is named."""
    targets = _targets(task, found, place, explain)
    if not targets:
        return []
    reading = _read(run, task, example)
    weights = _leave_one_out(run, reading, targets)
    ensemble = run.ensembles.get(task.name)
    has_network = NETWORK in (ALONE if ensemble is None else ensemble.weights)
    made = []
    for target, own in zip(targets, weights.T, strict=True):
        name = None if target is None else _names(task)[target]
        plain: Explanation = {"label": name, "words": reading.words(own), "unread": reading.unread}
        made.append(_with_gradients(run, reading, target, plain) if with_gradients and has_network else plain)
    return made


def explaining_tokens(run: Run, task: Task, example: Example, explain: Explain, *, with_gradients: bool = False) -> int:
    """Return how many tokens a run reads at most to explain its answer to an example: nothing is asked for that."""
    reading = _read(run, task, example)
    tokens = sum(map(len, reading.sequences()))
    over = sum(text.over for text in reading.texts)  # encoded each time, if not read
    labels = min(MOST_LABELS, len(task.labels)) if task.is_multilabel and explain is True else 1
    gradients = labels * MOST_READINGS * tokens if with_gradients else 0
    return (1 + len(reading.places)) * (tokens + over) + gradients


def in_a_line(explanations: Sequence[Explanation]) -> str:
    """Return the strongest words with their weights, as `good (+1.92); not (-0.71)`; of several labels behind each."""
    named = len(explanations) > 1
    return " ".join(f"[{one['label']}] {strongest(one)}" if named else strongest(one) for one in explanations)


def strongest(explanation: Explanation) -> str:
    """Return the words of the greatest weights, the greatest first."""
    several = len({word["field"] for word in explanation["words"]}) > 1
    ordered = sorted(explanation["words"], key=lambda word: -abs(word["weight"]))[:STRONGEST]
    told = [(word, f"{word['weight']:+z.2f}") for word in ordered]
    return "; ".join(f"{_shown(word, several)} ({weight})" for word, weight in told if float(weight) != 0)


def _shown(word: Word, several: bool) -> str:
    text = " ".join(word["word"].split())
    short = shortened(text, LONGEST, "...")
    return f"{word['field']}: {short}" if several else short


def _names(task: Task) -> Sequence[str]:
    return task.labels or [str(place) for place in range(task.choices)]


def _targets(task: Task, found: Predictions, place: int, explain: Explain) -> Sequence[int | None]:
    """Return which answers are to be explained, by their places; None is the score."""
    if task.score_range is not None:
        return [None]
    if isinstance(explain, str):
        return [_names(task).index(explain)]
    given = found.answers[place]
    if not task.is_multilabel:
        return [int(given)]
    likeliest = np.argsort(-found.probabilities[place], kind="stable")
    return [int(label) for label in likeliest if given[label]][:MOST_LABELS]


def _explained(task: Task) -> int:
    """Return of how many of an example's texts words are told: of choices all but the answers to choose from."""
    return len(task.fields) - (task.shape == CHOICES)


@dataclass(frozen=True)
class _ReadText:
    """A text as far as it is read, which of its last word may be the beginning alone."""

    text: str  # to the end of the last word of which anything is read
    end: int  # where reading ended
    ids: Sequence[int]  # that are read
    spans: list[Span]  # words, or stretches of them
    whose: list[int]  # of each token which of them; behind the last one: len(spans)
    unread: int = 0  # words of which nothing is read
    over: int = 0  # tokens of the text that are not read

    def word(self, field: str, span: Span, weight: float) -> Word:
        """Return a word as far as it is read, with this weight."""
        end = min(span.end, max(self.end, span.start + 1))  # of a sign that is read in part, the sign
        word = self.text[span.start : end]
        return {"field": field, "word": word, "start": span.start, "end": end, "weight": round(float(weight), DIGITS)}

    def without(self, tokenizer: Tokenizer, span: Span) -> Sequence[int]:
        """Return what is read, without a word: nothing else moves into the room that it leaves."""
        ids = tokenizer.encode(without(self.text, span))
        return ids[: len(ids) - self.over] if span.end <= self.end else ids


@dataclass(frozen=True)
class _Reading:
    """An example as far as it is read."""

    task: Task
    tokenizer: Tokenizer
    context: int
    texts: list[_ReadText]
    windows: list[Window]  # none, where all is one sequence

    @property
    def places(self) -> list[tuple[int, Span]]:
        """In which text each word stands, and where there."""
        return [(place, span) for place, text in enumerate(self.texts) for span in text.spans]

    @property
    def unread(self) -> int:
        """How many words have no weight because nothing of them was read."""
        return sum(text.unread for text in self.texts)

    def words(self, weights: Floats) -> list[Word]:
        """Return the words with these weights."""
        placed = zip(self.places, weights, strict=True)
        return [self.texts[place].word(self.task.fields[place], span, weight) for (place, span), weight in placed]

    def laid_out(self, lacking: tuple[int, Span] | None = None) -> LaidOut | LaidOutWindows:
        """Return what the network reads, without a word of one of the texts where one is to be lacking."""
        parts, windows = [text.ids for text in self.texts], self.windows
        if lacking is not None:
            place, span = lacking
            whole, rest = parts[place], self.texts[place].without(self.tokenizer, span)
            parts[place] = rest
            first = next(
                (at for at, pair in enumerate(zip(whole, rest, strict=False)) if pair[0] != pair[1]), len(rest)
            )
            windows = without_stretch(windows, place, first, max(0, len(whole) - len(rest)))
        return self._laid_out(parts, self.tokenizer.vocab_size, windows)

    def sequences(self) -> list[list[int]]:
        """Return what the network reads."""
        return self.laid_out().sequences

    def token_places(self) -> list[list[int]]:
        """Return the sequences with the place of each token among all that are read in the place of its id.

        Special tokens have places behind all others.
        """
        ends = np.cumsum([0, *(len(text.ids) for text in self.texts)]).tolist()
        return self._laid_out([range(start, end) for start, end in pairwise(ends)], ends[-1], self.windows).sequences

    def _laid_out(
        self, parts: Sequence[Sequence[int]], vocab_size: int, windows: Sequence[Window]
    ) -> LaidOut | LaidOutWindows:
        if windows:
            return lay_out_windows(self.task.shape, parts, windows, vocab_size=vocab_size)
        return lay_out(self.task.shape, parts, vocab_size=vocab_size, context=self.context)


def _read(run: Run, task: Task, example: Example) -> _Reading:
    """Return an example as it is read to be answered."""
    tokenizer, context = run.tokenizer, run.recipe.shape.context
    ids = tokenizer.encode_batch(list(example.texts))
    windows = windows_of(task.shape, list(map(len, ids)), context) if run.has_windows else []
    if windows:
        kept = [part[:end] for part, (_, end) in zip(ids, windows[-1], strict=True)]
    else:
        kept = [list(part) for part in trim(task.shape, ids, context)]
    words = [word_spans(text) if place < _explained(task) else [] for place, text in enumerate(example.texts)]
    given = zip(example.texts, words, kept, ids, strict=True)
    texts = [_read_text(tokenizer, text, own, part, len(part) < len(every)) for text, own, part, every in given]
    return _Reading(task, tokenizer, context, texts, windows)


def _read_text(tokenizer: Tokenizer, text: str, words: list[Span], ids: list[int], is_cut: bool) -> _ReadText:
    """Return a text as far as it is read, of which these ids are."""
    whose = owners(tokenizer, text, words, len(ids) + 1)  # and of the first token that is not read
    last = len(words) if not is_cut else whose[len(ids) - 1] if ids else -1
    read = words[: last + 1]
    size = -(-len(read) // MOST_WORDS) or 1
    spans = [Span(read[at].start, read[at : at + size][-1].end) for at in range(0, len(read), size)]
    own = [word // size if word < len(read) else len(spans) for word in whose[: len(ids)]]
    if last == len(words):
        return _ReadText(text, len(text), ids, spans, own)
    head = text[: read[-1].end] if read else ""
    end, over = len(head), max(0, len(tokenizer.encode(head)) - len(ids))
    if read and whose[len(ids)] == last:  # the word goes on where reading ends
        begun = tokenizer.decode([id for id, word in zip(ids, whose, strict=False) if word == last]).strip()
        end = min(read[-1].start + len(begun), end - 1)
    return _ReadText(head, end, ids, spans, own, len(words) - len(read), over)


def _leave_one_out(run: Run, reading: _Reading, targets: Sequence[int | None]) -> Floats:
    """Return how far each answer falls without each word [words, answers]."""
    asked = [reading.laid_out(), *map(reading.laid_out, reading.places)]
    probabilities, given = answer_split(run, reading.task, _split(asked))
    speaks = np.stack([_speaks_for(reading.task, probabilities, given, target) for target in targets], 1)
    return np.asarray(speaks[0] - speaks[1:])


def _split(examples: Sequence[LaidOut | LaidOutWindows]) -> EncodedSplit:
    """Return examples without labels, each of these sequences."""
    sequences = [np.array(ids, np.uint32) for example in examples for ids in example.sequences]
    none = np.full(len(examples), -1, np.int64)
    offsets = np.cumsum([0, *map(len, sequences)])
    found = EncodedSplit(np.concatenate(sequences), offsets, labels=none, groups=none, cut=np.zeros_like(none))
    in_windows = [example for example in examples if isinstance(example, LaidOutWindows)]
    if not in_windows:
        return found
    again = np.concatenate([np.array(example.again, np.int64) for example in in_windows])
    return replace(found, windows=np.array([example.windows for example in in_windows]), again=again)


def _speaks_for(task: Task, probabilities: Floats, given: NDArray[Any], target: int | None) -> Floats:
    """Return the log-odds of an answer to each example, or the score."""
    if target is None:
        return np.asarray(given, np.float64)
    own = probabilities[:, target]
    others = 1 - own if task.is_multilabel else np.delete(probabilities, target, 1).sum(1)
    return np.asarray(np.log(np.maximum(own, LEAST)) - np.log(np.maximum(others, LEAST)))


def _with_gradients(run: Run, reading: _Reading, target: int | None, plain: Explanation) -> Explanation:
    """Return an explanation with what the network's gradients say of each word."""
    found = integrated_gradients(
        run.classifier,
        reading.task,
        [np.array(ids) for ids in reading.sequences()],
        target,
        specials=run.tokenizer.vocab_size,
        windows=max(1, len(reading.windows)),
        temperature=network_temperature(run, reading.task),
        pause=run.pause,
    )
    ends = np.cumsum([len(text.ids) for text in reading.texts])
    by_token = np.bincount(np.concatenate(reading.token_places()), found.tokens, ends[-1])[: ends[-1]]
    by_word = [
        np.bincount(np.array(text.whose, np.int64), part, len(text.spans) + 1)[: len(text.spans)]
        for text, part in zip(reading.texts, np.split(by_token, ends[:-1]), strict=True)
    ]
    moved = zip(plain["words"], np.concatenate(by_word), strict=True)
    words: list[Word] = [{**word, "gradient": round(float(own), DIGITS)} for word, own in moved]
    return {**plain, "words": words, "gap": round(found.gap, DIGITS)}
