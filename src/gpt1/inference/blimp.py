"""What a language model knows of grammar: BLiMP's minimal pairs (Warstadt et al. 2020), `gpt1 blimp`.

A pair is a good sentence and one that differs from it in little and is not English. A model is right where it finds the
good one likelier; both are read as the beginning of a document. Pairs belong to paradigms (a rule of grammar each), and
these to fields; the score is the mean over paradigms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import InputError, RuinedWeights
from gpt1.base.files import missing
from gpt1.base.tables import file_format, read_rows
from gpt1.inference.run import Run
from gpt1.inference.scoring import Scored, total_log_probabilities
from gpt1.records.evaluation import Prediction
from gpt1.tasks.assessment import Interval, wilson
from gpt1.tasks.unknowns import Unknown, count_unknown

BLIMP = "blimp"  # what it is called where tasks are named, and its folder beside theirs

# By what our files and the official ones call the good and the bad sentence, the paradigm and the field.
COLUMNS = (("good", "bad", "paradigm", "field"), ("sentence_good", "sentence_bad", "UID", "field"))

CHANCE = 0.5  # of two sentences one is right

# Left-to-right models of BabyLM on its filtered pairs, x 100, after 10 and 100 million words of text.
PUBLISHED = {
    "GPT-2, 98 M parameters": (65.1, 74.5),
    "BabyLlama, 58 M, distilled": (69.8, 73.1),
    "GPT-BERT, 31 M, as a decoder": (71.7, 79.3),
}


@dataclass(frozen=True)
class MinimalPair:
    """A sentence, one that is no English, and the rule that tells them apart."""

    good: str
    bad: str
    paradigm: str
    field: str


@dataclass(frozen=True, eq=False)
class PairQuestions:
    """All that a model is asked: the pairs, and of each both sentences as token sequences."""

    pairs: Sequence[MinimalPair]
    sequences: list[Scored]
    unknown: Unknown


@dataclass(frozen=True, eq=False)
class Blimp:
    """How often the good sentence was the likelier one: by paradigm, by field, and in the mean over paradigms."""

    step: int
    pairs: int
    accuracy: float
    fields: dict[str, float]
    paradigms: dict[str, float]
    unknown: Unknown
    lines: list[Prediction]  # of each pair, with the log-probabilities of the good sentence and the bad one

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the mean, over pairs, as if all paradigms had as many of them; BLiMP's have."""
        return wilson(round(self.accuracy * self.pairs), self.pairs)

    def as_json(self) -> dict[str, Any]:
        """Return all of it as a JSON object, but for the answers to single pairs."""
        facts = {name: value for name, value in vars(self).items() if name != "lines"}
        return {**facts, "unknown": self.unknown.as_json()}


def read_pairs(path: Path, *, encoding: str = "utf-8") -> list[MinimalPair]:
    """Return the pairs of a file, of all files of a folder, or of the folder `blimp` in it."""
    found = [pair for file in _files(path) for pair in _pairs(file, encoding)]
    if not found:
        raise InputError(f"{path} holds no minimal pairs")
    return found


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise missing(path)
    if path.is_file():
        return [path]
    folder = path / BLIMP if (path / BLIMP).is_dir() else path
    found = sorted(file for file in folder.iterdir() if file.is_file() and ".jsonl" in file.suffixes)
    if not found:
        raise InputError(f"{folder} holds no .jsonl file of minimal pairs; BLiMP has one for each paradigm")
    return found


def _pairs(path: Path, encoding: str) -> Iterator[MinimalPair]:
    file_format(path)
    for number, row in read_rows(path, encoding=encoding):
        names = next((names for names in COLUMNS if set(names) <= row.keys()), None)
        if names is None:
            wanted = " or ".join(", ".join(names) for names in COLUMNS)
            raise InputError(f"{path}, row {number}: a minimal pair has {wanted}; found {', '.join(row)}")
        texts = []
        for name in names:
            value = row[name]
            if not isinstance(value, str) or not value.strip():
                raise InputError(f"{path}, row {number}: '{name}' is {value!r}, expected text")
            texts.append(value)
        good, bad, paradigm, field = texts
        yield MinimalPair(
            good, bad, paradigm, field.replace("/", "_")
        )  # official files write syntax_semantics both ways


def blimp(run: Run, pairs: Sequence[MinimalPair]) -> Blimp:
    """Ask a run which sentence of each pair is likelier."""
    return answer_pairs(run, make_pair_questions(run, pairs))


def make_pair_questions(run: Run, pairs: Sequence[MinimalPair]) -> PairQuestions:
    """Return what the checkpoints of a run are asked."""
    tokenizer = run.tokenizer
    encoded = tokenizer.encode_batch([text for pair in pairs for text in (pair.good, pair.bad)])
    context = run.recipe.shape.context
    if (longest := max(map(len, encoded))) >= context:
        raise InputError(f"a sentence has {longest} tokens, and {run.path} reads {context} with the line end before it")
    unknown = count_unknown(np.array([[tokenizer.unknown_among(ids), len(ids)] for ids in encoded]))
    return PairQuestions(pairs, [([tokenizer.newline_id, *ids], 1) for ids in encoded], unknown)


def answer_pairs(run: Run, questions: PairQuestions) -> Blimp:
    """Return how the model of a run, at its checkpoint, answers."""
    pairs = questions.pairs
    scores = total_log_probabilities(run.network, questions.sequences).reshape(-1, 2)
    if not np.isfinite(scores).all():
        raise RuinedWeights(f"{run.checkpoint.path} gives scores that are no numbers: its weights are ruined")
    good, bad = scores.T
    right = good > bad
    paradigms = _means([pair.paradigm for pair in pairs], right)
    field_of = {pair.paradigm: pair.field for pair in pairs}
    fields = _means([field_of[paradigm] for paradigm in paradigms], np.array(list(paradigms.values())))
    mean = float(np.mean(list(paradigms.values())))
    return Blimp(
        run.checkpoint.step, len(pairs), mean, fields, paradigms, questions.unknown, list(_lines(scores, right))
    )


def _lines(scores: NDArray[np.float64], right: NDArray[np.bool_]) -> Iterator[Prediction]:
    for index, (own, is_right) in enumerate(zip(scores, right, strict=True)):
        answer = "good" if is_right else "bad"
        yield Prediction(index=index, label="good", prediction=answer, scores=own.tolist())


def _means(names: Sequence[str], values: NDArray[Any]) -> dict[str, float]:
    """Return the mean of the values under each name, by name."""
    groups: dict[str, list[float]] = {}
    for name, value in zip(names, values, strict=True):
        groups.setdefault(name, []).append(float(value))
    return {name: float(np.mean(group)) for name, group in sorted(groups.items())}
