"""Five ways to make labelled examples of passages, each in the shape of a task that people label.

- similar: how alike are two sentences? One is an edit of the other, its neighbour, the likest of its document, or any;
  the score is the cosine of their words, weighted by how rare they are.
- damaged: is a sentence as it was written, or were its words moved, lost, repeated or bent?
- follows: which of two sentences comes after four others?
- continues: does half a page go on after another, or does it stand elsewhere in the document?
- mood: a word of praise or of blame was taken out of a sentence; which was it?

In `follows` and `continues` all text is as it was written, and the language model goes on learning from it; what the
others make of sentences nobody wrote, and it would learn to repeat and to garble. Only `continues` has paragraphs, talk
and texts as long as those of the pre-training, so that it is what keeps the language model.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from gpt1.lessons.passages import Passage, has_no_capitals
from gpt1.tasks.catalog import Task
from gpt1.tasks.examples import Example
from gpt1.tasks.shapes import BOTH, CHOICES, PAIR, SINGLE

HIGHEST = 5.0  # of the scores of `similar`, as STS-B has them
STEM, SIGNS = 5, 2  # letters of a word that count when sentences are compared, and of one in a script without capitals
LIKELY = 40  # sentences of a document among which the likest is looked for
RELATED = 4  # letters that bent forms of a word share
MOST_TURNS = 4  # examples of one lesson from one passage


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


PRAISE = _listed("""
    admirable agreeable beautiful brave bright charming cheerful clever delicious delightful excellent fortunate gentle
    glad graceful gracious happy joyful lovely merry noble perfect pleasant splendid sweet tender wonderful
""")
BLAME = _listed("""
    angry awful bad bitter cruel dismal disgusting dreadful dull evil foolish frightful gloomy hateful horrible
    melancholy miserable painful sad stupid terrible ugly unhappy vile weary wicked worthless wretched
""")
_TURNING = _listed("no not never nor neither without hardly scarcely less too so how")  # before such a word
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")

Texts = tuple[str, ...]
Made = tuple[Texts, int | float]

SIMILAR = Task(
    name="similar",
    title="how alike are two sentences of a book, 0 to 5?",
    shape=BOTH,
    score_range=(0.0, HIGHEST),
    metrics=("pearson",),
    fields=("a", "b"),
    auxiliary_lm=False,
)
DAMAGED = Task(
    name="damaged",
    title="is a sentence as it was written?",
    shape=SINGLE,
    labels=("damaged", "whole"),
    metrics=("matthews", "accuracy"),
    fields=("text",),
    auxiliary_lm=False,
)
FOLLOWS = Task(
    name="follows",
    title="which of two sentences comes next?",
    shape=CHOICES,
    choices=2,
    metrics=("accuracy",),
    fields=("context", "choices"),
)
CONTINUES = Task(
    name="continues",
    title="does a stretch of text go on after another?",
    shape=PAIR,
    labels=("elsewhere", "continues"),
    metrics=("accuracy",),
    fields=("a", "b"),
)
MOOD = Task(
    name="mood",
    title="was it a word of praise or of blame that is left out?",
    shape=SINGLE,
    labels=("blame", "praise"),
    metrics=("accuracy",),
    fields=("text",),
    auxiliary_lm=False,
)


class Material:
    """Passages to make examples of, and what is known of their words."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages = passages
        self.documents: dict[int, list[str]] = defaultdict(list)
        self.by_document: dict[int, list[Passage]] = defaultdict(list)
        for passage in passages:
            self.documents[passage.document] += passage.sentences
            self.by_document[passage.document].append(passage)

    @cached_property
    def rarity(self) -> Mapping[str, float]:
        """The weight of each stem: the logarithm of how many sentences there are to one that has it (idf)."""
        counts = Counter(stem for sentences in self.documents.values() for one in sentences for stem in set(stems(one)))
        total = sum(map(len, self.documents.values()))
        return {stem: math.log(total / count) for stem, count in counts.items()}

    @cached_property
    def forms(self) -> Mapping[str, list[str]]:
        """Words in small letters that begin alike, such as "walk", "walks", "walked"; those seen once are left out."""
        words = Counter(
            word
            for sentences in self.documents.values()
            for one in sentences
            for word in _WORD.findall(one)
            if word.islower() and len(word) >= RELATED
        )
        found = defaultdict(list)
        for word in sorted(word for word, count in words.items() if count > 1):
            found[word[:RELATED]].append(word)
        return found

    def likeness(self, one: str, other: str) -> float:
        """Return the cosine of the stems of two sentences, weighted by their rarity."""
        counts = [Counter(stems(text)) for text in (one, other)]
        weighted = [{stem: count * self.rarity.get(stem, 0.0) for stem, count in several.items()} for several in counts]
        norms = [math.sqrt(sum(weight**2 for weight in weights.values())) for weights in weighted]
        product = sum(weight * weighted[1].get(stem, 0.0) for stem, weight in weighted[0].items())
        return min(1.0, product / (norms[0] * norms[1])) if min(norms) > 0 else 0.0


def stems(sentence: str) -> list[str]:
    """Return the beginnings of a sentence's words."""
    return [word[: SIGNS if has_no_capitals(word[0]) else STEM].lower() for word in _WORD.findall(sentence)]


Random = np.random.Generator


def _pick(items: Sequence[str], random: Random) -> str:
    return items[int(random.integers(len(items)))]


# ---- similar ----


def similar(passage: Passage, material: Material, random: Random) -> Made:
    """Make a pair of sentences, and how alike they are."""
    at = int(random.integers(len(passage.sentences)))
    one, kind = passage.sentences[at], random.random()
    own = material.documents[passage.document]
    if kind < 0.45:
        other = _edited(one, own, random)
    elif kind < 0.60:
        other = passage.sentences[at - 1 if at else 1]
    elif kind < 0.85:
        among = [_pick(own, random) for _ in range(LIKELY)]
        other = max((text for text in among if text != one), key=lambda text: material.likeness(one, text), default=one)
    else:
        elsewhere = material.passages[int(random.integers(len(material.passages)))]
        other = _pick(elsewhere.sentences, random)
    pair = (one, other) if random.random() < 0.5 else (other, one)
    return pair, round(HIGHEST * material.likeness(one, other), 3)


def _edited(sentence: str, own: Sequence[str], random: Random) -> str:
    """Return a sentence with some of its words lost, replaced or moved."""
    words = sentence.split()
    for _ in range(int(random.integers(1, 4))):
        start = int(random.integers(len(words)))
        span = 1 + int(random.integers(max(1, len(words) // 3)))
        kind = random.random()
        if kind < 0.35 and len(words) > span + 2:
            del words[start : start + span]
        elif kind < 0.75:
            others = _pick(own, random).split()
            words[start : start + span] = others[:span]
        else:
            words = words[start:] + words[:start]
    return " ".join(words)


# ---- damaged ----


def damaged(passage: Passage, material: Material, random: Random) -> Made:
    """Make a sentence that is as it was written (1), or not (0)."""
    sentence = _pick(passage.sentences, random)
    if random.random() < 0.5:
        return (sentence,), 1
    words = sentence.split()
    ways = [_moved, _lost, _repeated, _bent]
    for way in (ways[int(random.integers(len(ways)))], _moved, _lost):
        other = " ".join(way(words, material, random))
        if other != sentence:
            return (other,), 0
    return (sentence,), 1  # of one word twice, say


def _moved(words: list[str], material: Material, random: Random) -> list[str]:
    at, to = (int(place) for place in random.integers(len(words) - 1, size=2))
    to = min(len(words) - 2, at + 1 + to % 3)  # not far, and not behind the full stop
    rest = words[:at] + words[at + 1 :]
    return [*rest[:to], words[at], *rest[to:]]


def _lost(words: list[str], material: Material, random: Random) -> list[str]:
    at = int(random.integers(len(words) - 1))
    return words[:at] + words[at + 1 :]


def _repeated(words: list[str], material: Material, random: Random) -> list[str]:
    at, to = (int(place) for place in random.integers(len(words) - 1, size=2))
    return [*words[:to], words[at], *words[to:]]


def _bent(words: list[str], material: Material, random: Random) -> list[str]:
    """Put another form of a word in its place, such as "walks" for "walked"."""
    for at in random.permutation(len(words) - 1):
        others = [form for form in material.forms.get(words[at][:RELATED], ()) if form != words[at]]
        if words[at].islower() and others:
            return [*words[:at], _pick(others, random), *words[at + 1 :]]
    return words


# ---- follows ----


def follows(passage: Passage, material: Material, random: Random) -> Made | None:
    """Make four sentences and two that may come next; the label is the place of the one that does."""
    start = int(random.integers(len(passage.sentences) - 4))
    context, right = " ".join(passage.sentences[start : start + 4]), passage.sentences[start + 4]
    others = (_pick(material.documents[passage.document], random) for _ in range(8))
    wrong = next((text for text in others if text not in passage.sentences), None)
    if wrong is None:  # a document of one passage
        return None
    place = int(random.integers(2))
    return (context, "", *((right, wrong) if place == 0 else (wrong, right))), place


# ---- continues ----


def continues(passage: Passage, material: Material, random: Random) -> Made | None:
    """Make both halves of a stretch (1), or the first one and the second of another stretch of the document (0)."""
    first, second = passage.sentences
    label = int(random.integers(2))
    if not label:
        own = material.by_document[passage.document]
        if len(own) == 1:
            return None
        other = own[int(random.integers(len(own) - 1))]
        _, second = (own[-1] if other == passage else other).sentences
    return (first, second), label


# ---- mood ----


def mood(passage: Passage, material: Material, random: Random) -> Made | None:
    """Make a sentence without a word of praise (1) or of blame (0) that it had; None where no sentence has one."""
    for at in random.permutation(len(passage.sentences)):
        words = passage.sentences[at].split()
        for place, word in enumerate(words):
            bare = word.strip(".,;:!?\"'“”‘’()—-").lower()
            before = {other.strip(",;").lower() for other in words[max(0, place - 3) : place]}
            if bare in PRAISE | BLAME and not before & _TURNING:
                text = " ".join(words[:place] + words[place + 1 :])
                return (text,), int(bare in PRAISE)
    return None


MAKERS: dict[str, tuple[Task, Callable[[Passage, Material, Random], Made | None]]] = {
    task.name: (task, make)
    for task, make in (
        (SIMILAR, similar),
        (DAMAGED, damaged),
        (FOLLOWS, follows),
        (CONTINUES, continues),
        (MOOD, mood),
    )
}


LONG = frozenset({CONTINUES.name})  # lessons that are made of stretches, the others of sentences


def make_examples(name: str, passages: Sequence[Passage], material: Material, count: int, seed: int) -> list[Example]:
    """Return so many different examples of a lesson, from the passages in turn; fewer where they give no more."""
    _, make = MAKERS[name]
    made: dict[Texts, Example] = {}
    for turn in range(MOST_TURNS):
        for index, passage in enumerate(passages):
            if len(made) == count:
                return list(made.values())
            found = make(passage, material, np.random.default_rng([seed, turn, index]))
            if found is not None:
                made.setdefault(found[0], Example(found[0], found[1], len(made)))
    return list(made.values())
