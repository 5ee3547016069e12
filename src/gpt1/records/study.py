"""What a study keeps: of each cell `cell.json`, of all together `study.json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NotRequired, TypedDict

from gpt1.base.record_files import Record
from gpt1.base.records import Count, RecordPart, Seconds
from gpt1.records.run import RecordedSource

_ARM_NAMES = {
    "full": "pre-trained",
    "scratch": "from scratch",
    "no-lm": "without auxiliary LM",
    "lstm": "LSTM",
    "layers-0": "embeddings alone",
    "multi-task": "with MNLI",
    "contiguous": "contiguous text",
    "shuffled": "shuffled sentences",
    "causal": "left to right",
    "mixed": "mixed, fine-tuned left to right",
    "both-ways": "mixed, fine-tuned both ways",
    "tf-idf": "TF-IDF",
    "chosen": "what fine-tuning chooses",
    "none": "no augmentation",
    "swaps": "word swaps",
    "mixup": "mix-up",
    "r-drop": "R-Drop",
    "unread": "without reading",
    "share-0": "new text alone",
}


def arm_name(arm: str) -> str:
    """Return what a person reads for an arm, wherever; study.json keeps the names of its first version."""
    return _ARM_NAMES.get(arm, arm.replace("-", " "))


# ---- cell.json ----


class CellFigures(TypedDict):
    """What a cell found; each kind of study has further figures of its own."""

    score: float
    scores: NotRequired[dict[str, dict[str, float]]]  # by split and metric
    train: NotRequired[float]  # the first metric on rows that were learned
    metrics: NotRequired[dict[str, float]]
    text: NotRequired[dict[str, dict[str, float]]]  # nats and targets of texts that were not learned
    split: NotRequired[str]
    examples: NotRequired[Count]
    curve: NotRequired[list[dict[str, float]]]
    losses: NotRequired[list[dict[str, float]]]  # the task's own, along the updates
    device: NotRequired[str]
    notes: NotRequired[list[str]]
    earlier_seconds: NotRequired[Seconds]  # spent before a kill on what this sitting went on with; counted, not kept


@dataclass(frozen=True)
class CellRecord(Record):
    """A cell that is done: what decided the result, the result, and how long it took."""

    FORMAT, VERSION, NAME, WHAT = "gpt1-cell", 1, "cell", "a cell of a study"

    name: str
    inputs: dict[str, object]
    result: CellFigures
    seconds: Seconds


# ---- study.json: figures ----


class Summary(TypedDict):
    """Several results as one."""

    median: float
    mean: float
    sd: float
    worst: float
    best: float


class SeedFigures(Summary):
    """What several seeds gave, on how many examples."""

    metric: str
    examples: Count
    seeds: dict[str, float]


class ArmFigures(SeedFigures):
    """The headline of an arm."""

    splits: list[str]


class PublishedFigures(SeedFigures):
    """A row of tables 2 to 4: ours, the paper's, and what was best before it."""

    task: str
    split: str
    paper_percent: float
    previous_percent: float
    remark: str
    low: NotRequired[float]  # the 95 % interval of ours, over other examples; parts of a task have none
    high: NotRequired[float]


class ArmAverage(TypedDict):
    """The mean of an arm over tasks, and the paper's over the same ones."""

    median: float
    paper_percent: float | None
    tasks: Count


class PairedDifference(TypedDict):
    """By how much one arm is better than another, with the 95 % interval."""

    split: str
    metric: str
    difference: float
    low: float
    high: float
    examples: Count


class ArmDifference(PairedDifference):
    """The same with the names of both arms."""

    arm: str
    over: str


class TaskDifference(ArmDifference):
    """The same of a task."""

    task: str


class LabelDifference(ArmDifference):
    """The same with so many labels."""

    labels: Count


class AugmentationDifference(LabelDifference):
    """The same of an augmentation over none, and how many draws and seeds it was better and worse in."""

    better: Count
    worse: Count


class CurvePoint(Summary):
    """The score on dev at an update."""

    step: Count


class LabelPoint(ArmFigures):
    """What so many labels gave."""

    labels: Count


class LayerPoint(ArmFigures):
    """What so many pre-trained blocks gave, on rows that were learned too, and how far that is behind the most."""

    layers: Count
    train: NotRequired[Summary]
    behind_most: NotRequired[PairedDifference]


class CheckpointPoint(TypedDict):
    """What a checkpoint knew of a task that it was never taught."""

    step: Count
    split: str
    examples: Count
    metric: str
    score: float
    normalised: float | None


class ScaleFacts(TypedDict):
    """What 0 and 1 mean on figure 2's scale."""

    chance: float
    best: float
    remark: str
    best_is: NotRequired[str]  # where it is no model of the time


# ---- study.json: sections ----


class TablesSection(TypedDict):
    """Tables 2 to 4."""

    titles: dict[str, str]
    tables: dict[str, list[PublishedFigures]]
    better: NotRequired[dict[str, bool | None]]  # than the best before, by task; None: not comparable


class GlueSection(TypedDict):
    """GLUE's score; None while a task of the nine is missing."""

    tasks: dict[str, float]  # medians over seeds, of the means of each task's metrics
    missing: list[str]
    score: SeedFigures | None
    paper_percent: float
    previous_percent: float


Verdict = Literal["holds", "does not hold", "cannot be told here"]
HOLDS: Verdict = "holds"
DOES_NOT_HOLD: Verdict = "does not hold"
CANNOT_BE_TOLD: Verdict = "cannot be told here"


class ClaimFigures(TypedDict):
    """A claim of the paper, and what was found about it: above zero is for it."""

    section: str  # of the paper
    claim: str
    paper: str
    value: float | None
    low: float | None
    high: float | None
    is_score: bool  # of 0 to 1
    told: str  # in place of the value, where that is no number for people
    examples: Count
    seeds: Count | None
    verdict: Verdict
    why: str  # it cannot be told


class ClaimsSection(TypedDict):
    """What the paper claims."""

    claims: list[ClaimFigures]
    least_seeds: Count


class AblationsSection(TypedDict):
    """Table 5; figures by task and arm."""

    arms: dict[str, str]
    tasks: dict[str, dict[str, ArmFigures]]
    average: dict[str, ArmAverage | None]
    paper_percent: dict[str, dict[str, float]]


class DifferencesSection(TypedDict):
    """The full model against each of its ablations."""

    pairs: list[TaskDifference]


class TaskCurves(TypedDict):
    """The curves of arms."""

    metric: str
    arms: dict[str, list[CurvePoint]]


class CurvesSection(TypedDict):
    """The score on dev along the updates."""

    tasks: dict[str, TaskCurves]


class TaskConvergence(TypedDict):
    """After how many updates the task's own training loss was as low as it became in every run of two arms."""

    level: float
    updates: dict[str, dict[str, Count]]  # by arm and seed


class ConvergenceSection(TypedDict):
    """How fast arms learn."""

    tasks: dict[str, TaskConvergence]


class FurtherSection(TypedDict):
    """What the paper says in words: arms of its own, by task, and which is held against which."""

    tasks: dict[str, dict[str, ArmFigures]]
    pairs: list[TaskDifference]


class ObjectivesSection(TypedDict):
    """Networks that have read for one objective or for two, and learned tasks one way or both."""

    arms: dict[str, str]
    networks: dict[str, dict[str, float]]  # what they know of validation text
    tasks: dict[str, dict[str, ArmFigures]]
    average: dict[str, float | None]
    pairs: list[TaskDifference]


class AskedTask(TypedDict):
    """What runs knew of a task."""

    metric: str
    scale: ScaleFacts | None
    runs: dict[str, list[CheckpointPoint]]
    groups: NotRequired[dict[str, list[CheckpointPoint]]]  # of parts of the examples: RACE's levels, BLiMP's fields


class ZeroshotSection(TypedDict):
    """Figure 2 right."""

    tasks: dict[str, AskedTask]
    kinds: dict[str, str]  # of the runs


class TransferredTask(TypedDict):
    """What blocks are worth to a task."""

    metric: str
    points: list[LayerPoint]


class TransferSection(TypedDict):
    """Figure 2 left."""

    tasks: dict[str, TransferredTask]


class LabelledTask(TypedDict):
    """What labels are worth to a task, by arm."""

    metric: str
    arms: dict[str, list[LabelPoint]]
    differences: list[LabelDifference]


class LabelsSection(TypedDict):
    """Few labels."""

    arms: dict[str, str]
    tasks: dict[str, LabelledTask]


class AugmentedTask(TypedDict):
    """What augmentations are worth to a task, by arm."""

    metric: str
    arms: dict[str, list[LabelPoint]]
    differences: list[AugmentationDifference]


class AugmentationSection(TypedDict):
    """Ways to augment, each with how strong it was."""

    arms: dict[str, str]
    tasks: dict[str, AugmentedTask]


class DomainText(TypedDict):
    """What an arm knows of a text: the median over seeds, of bits per byte also its 95 % interval and each seed's."""

    loss: float  # nats a token
    perplexity: float
    bits_per_byte: float
    low: float
    high: float
    windows: Count
    seeds: dict[str, float]


class DomainArm(TypedDict):
    """What an arm knows of both domains; its share of old text, None where nothing was read."""

    share: float | None
    new: DomainText
    old: DomainText
    task: ArmFigures


class TextDifference(TypedDict):
    """By how many bits per byte of a text one arm is above another, with the 95 % interval."""

    text: str
    arm: str
    over: str
    difference: float
    low: float
    high: float
    windows: Count


class DomainSection(TypedDict):
    """Text of a new domain, with more or less old text among it."""

    task: str
    metric: str
    arms: dict[str, DomainArm]
    texts: list[TextDifference]
    scores: list[TaskDifference]


class StudySections(TypedDict):
    """What was found."""

    tables: NotRequired[TablesSection]
    claims: NotRequired[ClaimsSection]
    glue: NotRequired[GlueSection]
    ablations: NotRequired[AblationsSection]
    differences: NotRequired[DifferencesSection]
    curves: NotRequired[CurvesSection]
    convergence: NotRequired[ConvergenceSection]
    further: NotRequired[FurtherSection]
    zeroshot: NotRequired[ZeroshotSection]
    transfer: NotRequired[TransferSection]
    labels: NotRequired[LabelsSection]
    objectives: NotRequired[ObjectivesSection]
    augmentation: NotRequired[AugmentationSection]
    domain: NotRequired[DomainSection]


class AskedOfStudy(TypedDict):
    """What a study was asked; each kind has some of it."""

    init: NotRequired[str]
    lstm: NotRequired[str | None]
    runs: NotRequired[dict[str, str]]
    source: NotRequired[RecordedSource]
    tasks: NotRequired[list[str]]
    data: NotRequired[str]
    shots: NotRequired[Count]
    changes: NotRequired[list[str]]
    counts: NotRequired[list[Count | Literal["all"]]]  # of labels
    rates: NotRequired[dict[str, float]]  # of arms that have their own
    strengths: NotRequired[dict[str, float]]  # of augmentations
    synonyms: NotRequired[str | None]
    texts: NotRequired[dict[str, str]]  # runs by how they read the same text; or corpora by what they are
    shares: NotRequired[list[float]]  # of old text
    reading: NotRequired[list[str]]  # changed settings of pre-training
    seeds: NotRequired[list[Count]]


@dataclass(frozen=True)
class CellCounts(RecordPart):
    """How many cells are done, of how many."""

    done: Count
    planned: Count


@dataclass(frozen=True)
class Cost(RecordPart):
    """What the cells that are done took."""

    seconds: Seconds
    devices: list[str]


@dataclass(frozen=True)
class StudyRecord(Record):
    """What was asked, what a person was told, and what was found: sections by name, as a report draws them."""

    FORMAT, VERSION, NAME, WHAT = "gpt1-study", 2, "study", "a study"
    REMEDY = "the study's command writes it anew"

    kind: str
    about: AskedOfStudy
    cells: CellCounts
    cost: Cost
    notes: list[str]
    sections: StudySections
