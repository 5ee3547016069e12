"""Who answers the tasks of a fine-tuned run, and why: `ensemble.json`."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpt1.base.record_files import Record
from gpt1.base.records import Count, RecordPart

ENSEMBLE_FILE = "ensemble.json"
NETWORK, WORDS = "network", "words"  # the members
TOGETHER = "together"


@dataclass(frozen=True)
class TaskEnsemble(RecordPart):
    """Who answers one task."""

    weights: dict[str, float]  # by member
    why: str  # in words
    examples: Count = 0  # by whose answers that was decided
    metric: str = ""
    scores: dict[str, float] = field(default_factory=dict)  # of the members and of all together
    words: str | None = None  # the sha256 of the file of counted words
    cross_validated: bool = False  # the examples are those of train, each answered by who had not learned it
    commonest: float | None = None  # the share of their commonest label
    temperature: float | None = None  # that makes cross-validated answers about as sure as they are right
    factors: dict[str, float] = field(default_factory=dict)  # of classes, by cross-validated answers
    words_factors: dict[str, float] = field(default_factory=dict)  # of counted words alone, chosen alike
    blind: float | None = None  # of factors and several labels: what answers that know nothing of the texts score
    interval: tuple[float, float] | None = None  # 95 %, of the score of the best; there too
    folds: Count | None = None  # parts that were held out one after the other, if any; None: it was not kept how many

    @property
    def best(self) -> str:
        """Who answers: a member, or all together."""
        return TOGETHER if len(self.weights) > 1 else next(iter(self.weights))

    @property
    def is_held_out_once(self) -> bool:
        """Whether one part alone was answered by who had not learned it, which is no cross-validation."""
        return self.cross_validated and self.folds == 1


@dataclass(frozen=True)
class EnsembleRecord(Record):
    """Who answers each task of a run."""

    FORMAT, VERSION, NAME, WHAT = "gpt1-ensemble", 1, "ensemble", "who answers the tasks of a run"
    REMEDY = "bring it back from a copy, or `gpt1.finetune(resume=True)` makes it anew"

    step: Count  # of the weights that were held against counted words
    tasks: dict[str, TaskEnsemble]
