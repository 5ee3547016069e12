"""Does a network of the paper's kind gain by looking both ways? (GPT-BERT: Charpentier and Samuel 2024.)

Two networks have read the same text for as many updates, one from left to right alone, of the other's batches a share
with masked tokens. The second learns tasks in both ways of reading. No arm has the auxiliary language model, which a
network that sees the next token cannot have: they differ in what they have read for and in how they read alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

from gpt1.base.errors import SettingError
from gpt1.base.parts import Part
from gpt1.finetuning.data import Source
from gpt1.pretraining.pretrain import pretrain
from gpt1.recipes.catalog import MASKING
from gpt1.recipes.changes import change
from gpt1.recipes.changes import differences as setting_differences
from gpt1.records.study import ArmFigures, AskedOfStudy, ObjectivesSection, StudyRecord, TaskDifference
from gpt1.runs.checkpoints import list_checkpoints
from gpt1.runs.events import Evaluated, Event, Noticed
from gpt1.runs.files import last_scores
from gpt1.runs.folder import read_run
from gpt1.studies.cells import Notebook, Watcher
from gpt1.studies.finetuned import (
    Arm,
    FinetuningSettings,
    Plan,
    all_rows,
    differences,
    figures,
    finetuning_cell,
    whole_arms,
)
from gpt1.studies.folder import Done, StudySection, conduct
from gpt1.studies.material import (
    InitRun,
    TaskData,
    check_learnable,
    check_same_words,
    open_start,
    read_tasks,
    tell_start,
)
from gpt1.training.session import as_recipe

NAME = "objectives"
CAUSAL, MIXED, BOTH_WAYS = "causal", "mixed", "both-ways"
ARMS = {
    CAUSAL: "read and fine-tuned from left to right",
    MIXED: "read with masked batches mixed in, fine-tuned from left to right",
    BOTH_WAYS: "read with masked batches mixed in, fine-tuned both ways",
}
PAIRS = ((BOTH_WAYS, CAUSAL), (BOTH_WAYS, MIXED), (MIXED, CAUSAL))
SHARE = 0.5  # of the batches of a network that is made for the study
ALIKE = ("finetuning.lm_weight=0",)  # in all arms
# Of two pre-trainings: what may differ without a word, since neither losses nor what is read depend on it.
_FREE = (
    "logging.",
    "training.micro_batch",
    "training.compile",
    "training.cuda_graphs",
    "training.parallelism",
    *MASKING,
)


@dataclass(frozen=True)
class ToRead:
    """Two networks that are not there yet: of which text they are made, and how."""

    corpus: str | Path
    reading: str = "small"  # the recipe
    changes: Sequence[str] = ()  # of both; `training.masked_share` of the second alone

    def make(self, folder: Path, device: str | None, watcher: Notebook) -> tuple[Path, Path]:
        """Pre-train what is missing of them in a folder, or go on with it, and return both."""
        own = {
            CAUSAL: [*self.changes, "training.masked_share=0"],
            MIXED: [f"training.masked_share={SHARE}", *self.changes],
        }
        asked = {name: change(as_recipe(self.reading), changes) for name, changes in own.items()}
        if not asked[MIXED].training.masked_share:  # or else it would be seen when both have read
            raise SettingError("the second network reads masked batches too: set training.masked_share above 0")
        for name, changes in own.items():
            pretrain(
                self.reading,
                self.corpus,
                folder / name,
                resume=True,
                changes=changes,
                device=device,
                listeners=[partial(_tell, name, watcher)],
            )
        return folder / CAUSAL, folder / MIXED


def _tell(name: str, watcher: Notebook, event: Event) -> None:
    if isinstance(event, Noticed):
        watcher.tell(f"{name}: {event.text}")
    elif isinstance(event, Evaluated):
        masked = f", masked loss {event.scores['masked_loss']:.4f}" if "masked_loss" in event.scores else ""
        watcher.tell(f"{name}: update {event.step:,}, validation loss {event.scores['valid_loss']:.4f}{masked}")


def study_objectives(
    bases: tuple[str | Path, str | Path] | ToRead,
    out: str | Path,
    *,
    source: Source,
    training: FinetuningSettings,
    folder: str | Path | None = None,
    part: Part | None = None,
    watcher: Watcher | None = None,
) -> StudyRecord:
    """Fine-tune two networks on tasks, the second in both ways of reading, and return what was found.

    `bases` are the network that was read from left to right and the one with masked batches; or what they are made of,
    in a `folder` of their own.
    """
    notebook = Notebook(watcher)
    labelled = read_tasks(source, notebook)
    check_learnable(labelled)
    if isinstance(bases, ToRead):
        if folder is None:
            raise SettingError("the two networks want a place: name a `folder` for them")
        bases = bases.make(Path(folder), training.device, notebook)
    causal, mixed = (open_start(base, name) for base, name in zip(bases, (CAUSAL, MIXED), strict=True))
    check_alike(causal, mixed, notebook)
    tell_start(causal, notebook)
    notebook.say("no arm has the auxiliary language model: a network that sees the next token cannot have it")
    training = training.settled_by(causal, Path(out))
    planned = plan(causal, mixed, labelled, training)
    about: AskedOfStudy = {
        "runs": {CAUSAL: str(causal.path), MIXED: str(mixed.path)},
        "source": source.recorded(),
        "changes": list(training.changes),
        "seeds": list(training.seed_numbers),
    }
    return conduct(
        Path(out),
        NAME,
        about,
        list(planned.values()),
        lambda done: [tabulate((causal, mixed), labelled, planned, done)],
        notebook,
        part,
    )


def check_alike(causal: InitRun, mixed: InitRun, watcher: Watcher) -> None:
    """Refuse two networks that do not differ in their objective, or that read other or more text; tell what else is."""
    one, other = (read_run(run.path) for run in (causal, mixed))
    if one.recipe.training.masked_share:
        raise SettingError(f"{causal.path} is to have read from left to right alone, and masked batches were mixed in")
    if not other.recipe.training.masked_share:
        raise SettingError(
            f"{mixed.path} has read from left to right alone; `gpt1.pretrain(changes=['training.masked_share=0.5'])` "
            "mixes masked batches in"
        )
    check_same_words(causal, [mixed], "their arms would differ in more than the objective: train both with one")
    if one.corpus is not None and other.corpus is not None and one.corpus.identity != other.corpus.identity:
        raise SettingError(f"{mixed.path} has read other text than {causal.path}; pre-train both on one corpus")
    for name, (left, right) in setting_differences(one.recipe, other.recipe).items():
        if name.startswith("shape.") or name == "training.batch":
            raise SettingError(f"{name} is {left} in {causal.path} and {right} in {mixed.path}; pre-train both alike")
        if not name.startswith((*_FREE, "finetuning.")):
            watcher.say(f"the two networks differ in more than the objective: {name} is {left} and {right}")
    updates = [list_checkpoints(run.path)[-1][0] for run in (causal, mixed)]
    if updates[0] != updates[1]:
        raise SettingError(
            f"{causal.path} has made {updates[0]:,} updates and {mixed.path} {updates[1]:,}; pre-train both as long"
        )
    steps = [run.identity["step"] for run in (causal, mixed)]
    if steps[0] != steps[1]:
        watcher.say(f"the weights of the lowest validation loss are those of updates {steps[0]} and {steps[1]}")


def plan(causal: InitRun, mixed: InitRun, labelled: Mapping[str, TaskData], training: FinetuningSettings) -> Plan[str]:
    """Return the cells by task, arm and seed."""
    one_way = [*ALIKE, "finetuning.bidirectional=false"]
    arms = [
        Arm(CAUSAL, causal, one_way),
        Arm(MIXED, mixed, one_way),
        Arm(BOTH_WAYS, mixed, [*ALIKE, "finetuning.bidirectional=true"]),
    ]
    return {
        (name, arm.name, seed): finetuning_cell(arm, all_rows(one, arm.start), training, seed)
        for name, one in labelled.items()
        for arm in arms
        for seed in training.seed_numbers
    }


def tabulate(
    bases: tuple[InitRun, InitRun], labelled: Mapping[str, TaskData], planned: Plan[str], done: Done
) -> StudySection:
    """Return what the networks know of text, each arm on each task with its mean over tasks, and how arms compare."""
    found = whole_arms(planned, done)
    tasks = {task: {arm: figures(labelled[task], seeds) for arm, seeds in arms.items()} for task, arms in found.items()}
    pairs: list[TaskDifference] = [
        {"task": task, "arm": arm, "over": over, **one}
        for task, arms in found.items()
        for arm, over in PAIRS
        if arm in arms and over in arms
        for one in differences(labelled[task].task, [*arms[arm].values()], [*arms[over].values()])
    ]
    content: ObjectivesSection = {
        "arms": dict(ARMS),
        "networks": {base.name: _of_text(base) for base in bases},
        "tasks": tasks,
        "average": {arm: _average(arm, tasks) for arm in ARMS},
        "pairs": pairs,
    }
    rows: list[Mapping[str, object]] = [
        {"task": task, "arm": arm, **figure} for task, arms in tasks.items() for arm, figure in arms.items()
    ]
    rows += [{"task": "average", "arm": arm, "median": value} for arm, value in content["average"].items() if value]
    return StudySection(NAME, content, rows)


def _of_text(base: InitRun) -> dict[str, float]:
    """Return what a network's last look at its validation text gave."""
    _, scores = last_scores(base.path)
    return {name: scores[name] for name in ("bits_per_byte", "valid_loss", "masked_loss") if name in scores}


def _average(arm: str, tasks: Mapping[str, Mapping[str, ArmFigures]]) -> float | None:
    """Return the plain mean of an arm's medians; None where a task is missing."""
    if not tasks or not all(arm in arms for arms in tasks.values()):
        return None
    return fmean(arms[arm]["median"] for arms in tasks.values())
