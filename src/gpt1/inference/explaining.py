"""Why a run gives an answer: which words of a text speak for it, and how far.

Leave-one-out asks the very thing that answers, be it a network, counted words or both: a word's weight is how much the
answer's log-odds fall when the word is taken out (of a score: how much the score falls). Beside it stand the integrated
gradients of the network (`gradients.py`), which count a word beside all others, not in their absence. What the context
has no room for is not read, so it has no weight; a long text is taken by stretches of words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NotRequired, TypedDict

import numpy as np

from gpt1.base.errors import SettingError, unknown
from gpt1.inference.answering import Predictions, answer, network_temperature
from gpt1.inference.gradients import integrated_gradients
from gpt1.inference.run import Run
from gpt1.linear.ensemble import ALONE
from gpt1.records.ensemble import NETWORK
from gpt1.tasks.answers import LEAST, Floats
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import encode_examples
from gpt1.tasks.examples import Example
from gpt1.tasks.shapes import CHOICES, lay_out
from gpt1.text.spans import Span, owners, without, word_spans

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
    unread: int  # words that the context had no room for
    gap: NotRequired[float]  # by how much all gradients miss what they should add up to


def check_explain(task: Task, explain: Explain) -> None:
    """Refuse to explain an answer that there is not."""
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
    weights = _leave_one_out(run, task, reading, targets)
    ensemble = run.ensembles.get(task.name)
    has_network = NETWORK in (ALONE if ensemble is None else ensemble.weights)
    made = []
    for target, own in zip(targets, weights.T, strict=True):
        name = None if target is None else _names(task)[target]
        plain: Explanation = {"label": name, "words": reading.words(own), "unread": reading.unread}
        made.append(_with_gradients(run, task, reading, target, plain) if with_gradients and has_network else plain)
    return made


def count_words(task: Task, texts: Sequence[str]) -> int:
    """Return how many times a run is asked to explain its answer to a row of these texts."""
    return sum(min(MOST_WORDS, len(word_spans(text))) for text in texts[: _explained(task)])


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
    short = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
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
class _Reading:
    """An example as far as it is read, and the words of its texts."""

    task: Task
    example: Example
    spans: list[list[Span]]  # by text
    unread: int

    @property
    def places(self) -> list[tuple[int, Span]]:
        """In which text each word stands, and where there."""
        return [(text, span) for text, spans in enumerate(self.spans) for span in spans]

    def words(self, weights: Floats) -> list[Word]:
        """Return the words with these weights."""
        texts, fields = self.example.texts, self.task.fields
        return [
            {
                "field": fields[text],
                "word": texts[text][start:end],
                "start": start,
                "end": end,
                "weight": round(float(weight), DIGITS),
            }
            for (text, (start, end)), weight in zip(self.places, weights, strict=True)
        ]

    def without(self, text: int, span: Span) -> Example:
        """Return the example without a word of one of its texts."""
        texts = list(self.example.texts)
        texts[text] = without(texts[text], span)
        return replace(self.example, texts=tuple(texts))


def _read(run: Run, task: Task, example: Example) -> _Reading:
    """Return an example that ends where reading ends: what is taken out of it makes no room for what was not read."""
    texts = list(example.texts)
    every = [word_spans(text) if place < _explained(task) else [] for place, text in enumerate(texts)]
    whose = _whose(run, texts, every)
    read = [0, *np.cumsum(list(map(len, whose)))]
    seen = {token for sequence in _token_places(run, task, whose) for token in sequence}
    kept = []
    for text, spans in enumerate(every):
        cut = [word for token, word in enumerate(whose[text], read[text]) if token not in seen]
        kept.append(words := spans[: cut[0]] if cut else spans)
        if len(words) < len(spans):
            texts[text] = texts[text][: words[-1].end] if words else ""
    unread = sum(map(len, every)) - sum(map(len, kept))
    return _Reading(task, replace(example, texts=tuple(texts)), list(map(_stretches, kept)), unread)


def _whose(run: Run, texts: Sequence[str], spans: Sequence[Sequence[Span]]) -> list[list[int]]:
    """Return for each token of each text, as many as there may be room for, of which word it is."""
    context = run.recipe.shape.context
    return [owners(run.tokenizer, text, own, context) for text, own in zip(texts, spans, strict=True)]


def _token_places(run: Run, task: Task, parts: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the sequences of an example with the place of each token among all its parts' in the place of its id.

    Special tokens have places behind all others.
    """
    ends = np.cumsum([0, *map(len, parts)]).tolist()
    places = [range(start, end) for start, end in pairwise(ends)]
    return lay_out(task.shape, places, vocab_size=ends[-1], context=run.recipe.shape.context).sequences


def _stretches(spans: Sequence[Span]) -> list[Span]:
    """Return the spans, of too many as few stretches of neighbours as there may be."""
    size = -(-len(spans) // MOST_WORDS) or 1
    return [Span(spans[at].start, spans[at : at + size][-1].end) for at in range(0, len(spans), size)]


def _leave_one_out(run: Run, task: Task, reading: _Reading, targets: Sequence[int | None]) -> Floats:
    """Return how far each answer falls without each word [words, answers]."""
    found = answer(run, task, [reading.example, *(reading.without(*place) for place in reading.places)])
    speaks = np.stack([_speaks_for(found, target) for target in targets], 1)
    return np.asarray(speaks[0] - speaks[1:])


def _speaks_for(found: Predictions, target: int | None) -> Floats:
    """Return the log-odds of an answer to each example, or the score."""
    if target is None:
        return np.asarray(found.answers, np.float64)
    own = found.probabilities[:, target]
    others = 1 - own if found.task.is_multilabel else np.delete(found.probabilities, target, 1).sum(1)
    return np.asarray(np.log(np.maximum(own, LEAST)) - np.log(np.maximum(others, LEAST)))


def _with_gradients(run: Run, task: Task, reading: _Reading, target: int | None, plain: Explanation) -> Explanation:
    """Return an explanation with what the network's gradients say of each word."""
    whose = _whose(run, reading.example.texts, reading.spans)
    places = np.concatenate(_token_places(run, task, whose))
    split = encode_examples(task, [reading.example], run.tokenizer, run.recipe.shape.context)
    found = integrated_gradients(
        run.classifier,
        task,
        split.sequences(0),
        target,
        specials=run.tokenizer.vocab_size,
        temperature=network_temperature(run, task),
        pause=run.pause,
    )
    total = sum(map(len, whose))
    by_token = np.bincount(places, found.tokens, total)[:total]
    parts = np.split(by_token, np.cumsum(list(map(len, whose)))[:-1])
    by_word = [
        np.bincount(np.array(own, np.int64), part, len(spans) + 1)[: len(spans)]  # behind the last word is none
        for own, part, spans in zip(whose, parts, reading.spans, strict=True)
    ]
    moved = zip(plain["words"], np.concatenate(by_word), strict=True)
    words: list[Word] = [{**word, "gradient": round(float(own), DIGITS)} for word, own in moved]
    return {**plain, "words": words, "gap": round(found.gap, DIGITS)}
