"""What `run.json` holds: what a run is, what it learned from, and with what it was made."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from gpt1.base.errors import FormatError
from gpt1.base.record_files import Record
from gpt1.base.records import AtLeast, Count, ReadBy, RecordPart, Size
from gpt1.recipes.changes import recipe_as_json, recipe_from_json
from gpt1.recipes.values import Recipe
from gpt1.tasks.catalog import Task
from gpt1.tasks.unknowns import Unknown

PRETRAINING, FINETUNING = "pretraining", "finetuning"  # kinds of runs
_BRING_BACK = "bring it back from a copy"


@dataclass(frozen=True)
class RecordedCorpus(RecordPart):
    """The text that a run was trained on."""

    path: str
    identity: str
    tokens: Count = 0


@dataclass(frozen=True)
class RecordedMix(RecordedCorpus):
    """Old text that was mixed in, and which share of all that was read it had."""

    share: Annotated[float, AtLeast(0)] = field(kw_only=True)


@dataclass(frozen=True)
class RecordedSource(RecordPart):
    """Where the labelled data of a fine-tuned run lay."""

    tasks: list[str]
    data: str | None
    train: str | None
    dev: str | None
    test: str | None
    columns: dict[str, str]
    regression: bool
    symmetric: bool
    encoding: str
    encoded: list[str]
    skip_bad: bool = False
    fold_labels: bool = False
    labels_sep: str | None = None
    metric: str | None = None
    shape: str | None = None
    more: str | None = None


@dataclass(frozen=True)
class Imported(RecordPart):
    """Where weights came from that were trained elsewhere."""

    from_: str
    path: str


@dataclass(frozen=True)
class RecordedTeacher(RecordPart):
    """A run whose answers were learned."""

    run: str
    weights: str  # sha256 of the file that holds them


@dataclass(frozen=True)
class RecordedTexts(RecordPart):
    """Texts that a person named beside the data: such as teachers alone answered, or a list of synonyms."""

    path: str
    identity: str
    rows: Size


@dataclass(frozen=True)
class RecordedTeaching(RecordPart):
    """By whom a run was taught besides its data, and how."""

    teachers: list[RecordedTeacher]
    weight: Annotated[float, AtLeast(0)]  # of the teachers' answers in the loss
    temperature: Annotated[float, AtLeast(0)]  # that makes them softer
    texts: RecordedTexts | None = None


@dataclass(frozen=True)
class RecordedAdaptation(RecordPart):
    """Texts of the domain that a run was adapted to, and how well the domains can be told apart by what it knows.

    That is the accuracy of a linear classifier which is taught for it, on texts that it was not taught.
    """

    texts: RecordedTexts
    apart_before: Annotated[float, AtLeast(0)] | None = None  # the first update
    apart: Annotated[float, AtLeast(0)] | None = None  # at the end


@dataclass(frozen=True)
class RecordedPruning(RecordPart):
    """What a network was made smaller by, and what that cost before any training."""

    layers: list[Size]  # of the whole network's, counted from 1, that are left
    of_layers: Size
    of_feed_forward: Size
    loss_before: float
    loss_after: float
    measured_on: str


@dataclass(frozen=True)
class Hardware(RecordPart):
    """On what a run was trained."""

    device: str
    processes: Size
    at_once: Size | None = None  # sequences that a process worked on at once; None: an earlier version did not say


@dataclass(frozen=True)
class RunRecord(Record):
    """What a run says of itself."""

    FORMAT, VERSION, NAME, WHAT = "gpt1-run", 1, "run", "a run"
    REMEDY = f"{_BRING_BACK}, or remove its entry sha256 if you changed it yourself"
    IF_UNREADABLE = _BRING_BACK

    kind: str
    recipe: Annotated[Recipe, ReadBy(recipe_from_json)]
    seed: int | None = None  # none of its own: it was trained elsewhere
    tokenizer: str | None = None  # its fingerprint
    vocab_size: Size = field(kw_only=True)
    tasks: dict[str, Task] = field(default_factory=dict)
    examples: dict[str, dict[str, Count]] = field(default_factory=dict)  # by task and split
    unknown: dict[str, dict[str, Unknown]] = field(default_factory=dict)
    identity: str | None = None  # of the labelled data
    source: RecordedSource | None = None
    corpus: RecordedCorpus | None = None
    mixed: RecordedMix | None = None
    parent: str | None = None
    taught: RecordedTeaching | None = None
    synonyms: RecordedTexts | None = None
    adapted: RecordedAdaptation | None = None
    pruned: RecordedPruning | None = None
    imported: Imported | None = None
    trained_on: Hardware | None = None
    made_with: dict[str, Any] = field(default_factory=dict)  # programs, the machine, the command

    @classmethod
    def check_version(cls, value: dict[str, Any], path: Path, remedy: str) -> None:
        """Refuse what is no run, or one of another version."""
        if value.get("format") != cls.FORMAT:
            raise FormatError(f"{path} is not a run of gpt1")
        if (version := value.get("version")) != cls.VERSION:
            raise FormatError(f"{path.parent} is a run of version {version}; this program reads version {cls.VERSION}")

    def as_json(self) -> dict[str, Any]:
        """Return what the file holds, but for its checksum."""
        return super().as_json() | {"recipe": recipe_as_json(self.recipe)}

    def _is_left_out(self, field: Any, value: Any) -> bool:
        told = self.kind == PRETRAINING and field.name in ("seed", "corpus", "parent")  # also that there is none
        return not told and super()._is_left_out(field, value)
