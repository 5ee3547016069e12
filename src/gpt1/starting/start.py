"""`gpt1 start`: from a table of labels to a verdict, by the functions that the verbs of each step call.

The table is checked; the base reads text of the same kind first, where there is any and it pays; the labels are
learned, and held against counted words; all of it is shown on a page. Each stage leaves its result in the folder and
is passed over when it is there: stopped at any moment, the same call goes on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from gpt1.base.errors import InputError, SettingError
from gpt1.base.files import file_hash, read_record, write_record
from gpt1.base.progress import Progress, Silent
from gpt1.base.stages import alone, or_begin_anew, own_folder
from gpt1.base.wording import many
from gpt1.bases.catalog import default_base, lasting_name
from gpt1.corpus.documents import TextSource, find_sources
from gpt1.corpus.manifest import read_corpus
from gpt1.corpus.prepare import cutting_for, prepare
from gpt1.documents.html import require_libraries
from gpt1.finetuning.counting import CountedWords
from gpt1.finetuning.finetune import chosen_recipe, counted_words, finetune, is_cross_validated
from gpt1.finetuning.results import decisions, evaluations
from gpt1.finetuning.seeds import is_done
from gpt1.finetuning.update_time import encode_table, seconds_an_update
from gpt1.inference.run import load_run
from gpt1.inspection.plan import plan, training_speed
from gpt1.inspection.table import examine_table
from gpt1.model.costs import count_parameters
from gpt1.pretraining.measure import measure_corpus
from gpt1.pretraining.pretrain import pretrain
from gpt1.recipes.changes import change
from gpt1.recipes.derived import recipe_for_text, settled
from gpt1.recipes.values import Recipe
from gpt1.records.ensemble import TaskEnsemble
from gpt1.records.evaluation import Evaluation
from gpt1.records.run import PRETRAINING
from gpt1.report import report
from gpt1.runs.checkpoints import has_moments, list_checkpoints
from gpt1.runs.events import Event, Listener, Noticed
from gpt1.runs.folder import CLASSIFIER, STARTED, is_run, read_run, run_folder, run_tokenizer
from gpt1.starting.planning import (
    TEXT_SHARE,
    TRIAL_SHARE,
    LearningPlan,
    ReadingPlan,
    plan_learning,
    plan_reading,
    reading_changes,
)
from gpt1.tasks.checking import TableReport
from gpt1.tasks.encoded import EncodedTask
from gpt1.tasks.sentences import words_shape

TOKENS, READER, REPORT = "tokens", "reader", "report.html"
TRIAL = "trial"  # a folder that is gone when the plan is made
VALID_SHARE, VALID_BYTES = 0.05, 200_000  # of a text, kept to tell whether reading it helped
WHAT = "what a start has decided"
_OURS = (STARTED, TOKENS, READER, CLASSIFIER, REPORT, TRIAL)
SPARED = ("training.steps=1",)  # of a network that can win nothing; it is there, as a run has one
_STAYS = "stays as it was decided; with more time, begin anew in another folder (`out`)"
_ONLY_TRAINING = ("symmetric",)  # what is said of a table that changes nothing about whether it is fit


@dataclass(frozen=True)
class Step:
    """A step that was made, as anybody can make it again: the verb, and what it was told."""

    verb: str
    arguments: Mapping[str, object]


@dataclass(frozen=True)
class StartResult:
    """What a start found, decided and made."""

    table: TableReport
    steps: Sequence[Step]
    decisions: Sequence[str] = ()  # in sentences
    run: Path | None = None  # None: the table cannot be learned from as it is
    page: Path | None = None
    evaluations: Sequence[Evaluation] = field(default_factory=list)
    decided: Mapping[str, TaskEnsemble] = field(default_factory=dict)  # who answers each task, and by what


class _Reading(TypedDict):
    """What was decided of a text."""

    before: NotRequired[float]  # bits per byte of text that is not learned from
    changes: NotRequired[list[str]]  # settings by which it is read
    minutes: NotRequired[float]
    after: NotRequired[float]
    why_not: NotRequired[str]


class _Started(TypedDict):
    """What `start.json` holds."""

    made_for: dict[str, str]
    minutes: NotRequired[float]  # for which it was planned
    epochs: NotRequired[float | None]  # what was decided of labels before there were `changes`
    changes: NotRequired[list[str]]  # settings by which labels are learned
    why: NotRequired[str]
    ended: NotRequired[list[str]]  # settings by which it came to its end when the time was up
    why_ended: NotRequired[str]
    minutes_ended: NotRequired[float]  # that there were
    text: NotRequired[_Reading]
    spared: NotRequired[str]  # why the network is not trained


def start(
    table: str | Path,
    out: str | Path | None = None,
    *,
    text: Sequence[str | Path] = (),
    init: str | Path | None = None,
    minutes: float = 60,
    device: str | None = None,
    progress: Progress | None = None,
    listeners: Iterable[Listener] = (),
    **reading: Any,
) -> StartResult:
    """Make a classifier of a labelled table within `minutes`, or go on with it, and return what it is worth.

    `out` is the folder for all of it (None: `gpt1-NAME`, by the name of the table). `text` is read first, where it is
    enough and helps. `init` is the run or base to start from (None: the package's base). How the table is read is said
    as to `gpt1.finetune`: `columns`, `regression`, `symmetric`, `encoding`, `skip_bad`, `fold_labels`, `labels_sep`,
    `metric`. A table that is not fit is not learned from; what is wrong with it is in the result.
    """
    if minutes <= 0:
        raise SettingError(f"a start needs some time, not {minutes:g} minutes")
    if words_shape(table, None) is not None:
        raise SettingError(
            f"{table} has a label for each word, which `gpt1.finetune` learns; a start is for one answer a row"
        )
    base = default_base().name if init is None else str(init)
    checked = {name: value for name, value in reading.items() if name not in _ONLY_TRAINING}
    found = examine_table(table, init=base, **checked)
    steps = [Step("check", {"table": str(table), "init": base, **checked})]
    if not found.is_fit:
        return StartResult(found, steps)
    require_libraries()  # of the page at the end: before the work, not after it
    sources = find_sources([str(path) for path in text]).sources if text else ()
    folder = own_folder(folder_for(table) if out is None else out, _OURS)
    once = tuple(_once(listener) for listener in listeners)
    asked = _Asked(Path(table), folder, list(map(str, text)), base, device, reading, once)
    with or_begin_anew(folder), alone(folder):
        start = _Start(asked, found, 60 * minutes, progress or Silent())
        return start.go(steps, sources)


def _once(listener: Listener) -> Listener:
    """Return a listener that hears once what several stages say."""
    said: set[str] = set()

    def hear(event: Event) -> None:
        if not isinstance(event, Noticed) or event.text not in said:
            listener(event)
        if isinstance(event, Noticed):
            said.add(event.text)

    return hear


def folder_for(table: str | Path) -> str:
    """Return the folder for what is made of a table, unless one is named."""
    name = re.sub(r"[\W_]+", "-", Path(table).name.split(".")[0].lower()).strip("-")
    return f"gpt1-{name or 'start'}"


@dataclass(frozen=True)
class _Asked:
    table: Path
    out: Path
    text: Sequence[str]
    base: str
    device: str | None
    reading: Mapping[str, Any]
    listeners: tuple[Listener, ...]

    def made_for(self) -> dict[str, str]:
        """Return what tells this start from another in the same folder."""
        return {
            "table": file_hash(self.table),
            "base": lasting_name(run_folder(self.base)),
            "text": ", ".join(self.text),
            "columns": repr(sorted((name, str(value)) for name, value in self.reading.items())),
        }


class _Start:
    """A start at work in its folder."""

    def __init__(self, asked: _Asked, table: TableReport, seconds: float, progress: Progress) -> None:
        self._asked, self._table, self._progress = asked, table, progress
        self._end, self._seconds = time.monotonic() + seconds, seconds
        self._record = _open(asked)
        self._on_device = {} if asked.device is None else {"device": asked.device}

    def go(self, steps: list[Step], sources: Sequence[TextSource]) -> StartResult:
        """Do what is not done yet."""
        asked, told = self._asked, []
        self._tell_what_stays()
        words = None if is_run(asked.out / CLASSIFIER) else self._count()
        spared = self._record.get("spared")
        corpus = self._prepare(sources, steps) if asked.text and not spared else None
        self._plan(corpus)
        if words is not None:
            self._tell(words)
        told += [spared] if spared else []
        init, readers = asked.base, []
        if corpus is not None:
            why, kept = self._read(corpus, steps)
            told.append(why)
            if kept:
                init, readers = str(asked.out / READER), [asked.out / READER]
        run = self._learn(init, steps)
        told += self._cut_down()
        shown = [run, *readers]
        page = report(shown, asked.out / REPORT, overwrite=True)
        steps.append(Step("report", {"runs": list(map(str, shown)), "out": str(page)}))
        opened = load_run(run, device="cpu")
        return StartResult(self._table, steps, told, run, page, evaluations(opened), decisions(opened))

    def _tell_what_stays(self) -> None:
        """Tell, before anything is done, where more time changes nothing any more."""
        had = self._too_short()
        if had and any(is_run(self._asked.out / name) for name in (READER, CLASSIFIER)):
            self._say(f"{self._asked.out} was cut down to the time that there was ({'; '.join(had)}), and {_STAYS}")

    def _say(self, text: str) -> None:
        for listener in self._asked.listeners:
            listener(Noticed(text))

    def _left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def _cut_down(self) -> list[str]:
        """Return what there was no time for, and what helps where there is more of it now."""
        told = self._cuts()
        return [*told, *([f"this {_STAYS}"] if self._too_short() else [])]

    def _cuts(self) -> dict[str, float]:
        """Return what there was no time for, each with the minutes that there were."""
        record = self._record
        minutes = record.get("minutes", 0.0)
        cut = {record.get("why"): minutes, record.get("why_ended"): record.get("minutes_ended", minutes)}
        return {why: had for why, had in cut.items() if why}

    def _too_short(self) -> list[str]:
        """Return what there was no time for, where there is more of it now."""
        return [why for why, had in self._cuts().items() if self._seconds / 60 > had]

    def _keep(self) -> None:
        write_record(self._asked.out / STARTED, self._record)

    # ---- counted words, before all that takes minutes ----

    @cached_property
    def _tasks(self) -> dict[str, EncodedTask]:
        return encode_table(self._asked.base, self._asked.table, **self._asked.reading)

    def _count(self) -> CountedWords:
        """Return the words of the table; where nothing can do better than these, the network makes but one update."""
        recipe = change(self._recipe(), self._yardstick())
        words = counted_words(self._tasks, recipe, run_tokenizer(run_folder(self._asked.base)))
        found = words.reached(recipe.finetuning.folds)
        is_planned = "changes" in self._record or "epochs" in self._record
        if found and all(one.leaves_nothing for one in found) and not is_planned:
            self._record["changes"], self._record["minutes"] = [*self._yardstick(), *SPARED], self._seconds / 60
            self._record["spared"] = (
                f"counting words answers all {many(found[0].rows, 'row')} rightly, so the network makes but one update"
                f"{', and the text is not read' if self._asked.text else ''}; "
                f"`gpt1.finetune(train={str(self._asked.table)!r})` teaches it all the same"
            )
            self._keep()
        return words

    def _tell(self, words: CountedWords) -> None:
        """Tell what words reach on the rows that decide, as it was planned."""
        folds = change(self._recipe(), self._record["changes"]).finetuning.folds
        for one in words.reached(folds):
            self._say(one.in_words(trains="spared" not in self._record))

    # ---- what fits ----

    def _plan(self, corpus: Path | None) -> None:
        """Decide how much is read of text and labels: once, or anew while nothing is begun and there is more time."""
        begun = [name for name in (READER, CLASSIFIER) if is_run(self._asked.out / name)]
        if "epochs" in self._record and "changes" not in self._record:
            older = LearningPlan(0.0, self._record["epochs"])
            self._record["changes"] = [*self._yardstick(), *older.changes()]
        no_more = self._seconds / 60 <= self._record.get("minutes", 0.0)
        if "changes" in self._record and (begun or no_more or "spared" in self._record):
            return
        if begun:
            path, run = self._asked.out / STARTED, self._asked.out / begun[0]
            raise InputError(f"{path} does not say how {run} was planned; choose another folder with `out`")
        base = read_run(run_folder(self._asked.base))
        parameters = count_parameters(base.recipe.shape, base.vocab_size).total
        recipe = settled(change(self._recipe(), self._yardstick()), parameters, self._table.usable)
        an_update, again = self._seconds_an_update(), is_cross_validated(self._tasks, recipe)
        learning = plan_learning(recipe, self._table.usable, an_update, self._left(), again=again)
        self._record["minutes"] = self._seconds / 60
        self._record["changes"], self._record["why"] = [*self._yardstick(), *learning.changes()], learning.why
        if corpus is not None:
            spare = min(TEXT_SHARE * self._seconds, self._left() - learning.seconds)
            self._record["text"] = self._plan_text(corpus, spare)
        self._keep()
        if learning.why:
            self._say(f"{learning.why}; what is begun {_STAYS}")

    def _seconds_an_update(self) -> float:
        asked, minutes = self._asked, TRIAL_SHARE * self._left() / 60
        return seconds_an_update(asked.base, asked.out / TRIAL, tasks=self._tasks, device=asked.device, minutes=minutes)

    def _recipe(self) -> Recipe:
        return chosen_recipe(None, read_run(run_folder(self._asked.base)).recipe.shape, ())

    def _yardstick(self) -> list[str]:
        """Return what a recipe lacks that does not count words."""
        return [] if self._recipe().finetuning.ensemble else ["finetuning.ensemble=true"]

    def _text_recipe(self) -> Recipe:
        base = read_run(run_folder(self._asked.base))
        found = base.recipe if base.kind == PRETRAINING else recipe_for_text(base.recipe.shape)
        return replace(found, shape=base.recipe.shape)

    def _plan_text(self, corpus: Path, seconds: float) -> _Reading:
        kept, recipe = read_corpus(corpus), self._text_recipe()
        if kept.splits["valid"].tokens < 2:
            return {"why_not": "it has no two documents, so that nothing could be kept to tell whether it helped"}
        train, speed = kept.splits["train"], training_speed(recipe, kept.tokenizer.vocab_size, self._asked.device)
        found = plan_reading(recipe, tokens=train.tokens, text_bytes=train.bytes, speed=speed, seconds=seconds)
        if not isinstance(found, ReadingPlan):
            return {"why_not": found}
        changes = list(reading_changes(recipe, found))
        memory = plan(change(recipe, changes), corpus, device=self._asked.device).figures.memory
        if not memory.largest_micro_batch:
            return {"why_not": "this device has too little memory for it"}
        if memory.largest_micro_batch < found.batch:
            changes.append(f"training.micro_batch={memory.largest_micro_batch}")
        before = self._bits(self._asked.base, corpus)
        return {"before": before, "changes": changes, "minutes": seconds / 60}

    # ---- text ----

    def _prepare(self, sources: Sequence[TextSource], steps: list[Step]) -> Path:
        asked, corpus = self._asked, self._asked.out / TOKENS
        size = sum(source.bytes for source in sources)
        share = min(VALID_SHARE, VALID_BYTES / size) if size else VALID_SHARE
        how = {"valid": float(f"{share:.2g}"), **cutting_for(sources)}
        prepare(asked.text, run_folder(asked.base), corpus, progress=self._progress, **how)
        steps.append(Step("prepare", {"paths": asked.text, "tokenizer": asked.base, "out": str(corpus), **how}))
        return corpus

    def _read(self, corpus: Path, steps: list[Step]) -> tuple[str, bool]:
        """Read the text as planned; return in a sentence what came of it, and whether it is kept."""
        asked, text, out = self._asked, self._record["text"], self._asked.out / READER
        if "why_not" in text:
            return f"the text is not read: {text['why_not']}", False
        measured = Step("evaluate", {"run": asked.base, "corpus": str(corpus), **self._on_device})
        told: dict[str, object] = {"init": asked.base, "corpus": str(corpus), "out": str(out)}
        recipe = None if read_run(run_folder(asked.base)).kind == PRETRAINING else self._text_recipe().name
        told |= {} if recipe is None else {"recipe": recipe}
        steps += [
            measured,
            Step("pretrain", {**told, "changes": text["changes"], **self._on_device}),
            replace(measured, arguments={**measured.arguments, "run": str(out)}),
        ]
        if "after" not in text:
            pretrain(
                recipe,
                corpus,
                out,
                init=asked.base,
                resume=is_run(out),
                changes=text["changes"],
                device=asked.device,
                minutes=min(text["minutes"], self._left() / 60),
                listeners=asked.listeners,
            )
            text["after"] = self._bits(out, corpus)
            self._keep()
        before, after = text["before"], text["after"]
        fell = f"bits per byte of text that it did not learn from: {before:.3f} before, {after:.3f} after"
        if after < before:
            return f"the text is read first ({fell})", True
        return f"the text was read and is left out, as it did not help ({fell})", False

    def _bits(self, run: str | Path, corpus: Path) -> float:
        return measure_corpus(load_run(run, device=self._asked.device), corpus)["bits_per_byte"]

    # ---- labels ----

    def _learn(self, init: str, steps: list[Step]) -> Path:
        out, changes = self._asked.out / CLASSIFIER, self._record["changes"]
        if not is_done(out):
            ended = "ended" in self._record
            self._finetune(init, self._every_change(), None if ended else self._left() / 60)
        if not is_done(out):
            self._end_now(out)
            self._finetune(init, self._every_change(), None)
        told = {"init": init, "train": str(self._asked.table), "out": str(out), **self._asked.reading}
        steps.append(Step("finetune", {**told, **({"changes": changes} if changes else {}), **self._on_device}))
        if "ended" in self._record:
            every = self._every_change()
            steps.append(Step("finetune", {**told, "resume": True, "changes": every, **self._on_device}))
        return out

    def _every_change(self) -> list[str]:
        """Return the settings by which labels are learned, each once, as it came to be."""
        every = [*self._record["changes"], *self._record.get("ended", ())]
        return list({setting.split("=")[0]: setting for setting in every}.values())

    def _finetune(self, init: str, changes: Sequence[str], minutes: float | None) -> None:
        asked, out = self._asked, self._asked.out / CLASSIFIER
        finetune(
            init,
            out,
            train=asked.table,
            **asked.reading,
            changes=changes,
            resume=is_run(out),
            device=asked.device,
            minutes=minutes,
            listeners=asked.listeners,
        )

    def _end_now(self, run: Path) -> None:
        """Decide how a training that the time has stopped comes to a verdict all the same."""
        step, newest = list_checkpoints(run)[-1]
        self._record["minutes_ended"] = self._seconds / 60
        self._record["ended"], rest = ["finetuning.folds=0"], "the rows for dev alone tell what it is worth"
        if has_moments(newest):  # else it has made all its updates
            self._record["ended"].insert(0, f"training.steps={step}")
            self._record["why_ended"] = f"the time was up after {many(step, 'update')}, with which it ends; {rest}"
        else:
            once = "finetuning.folds=1" in self._record["changes"]
            what = "the rows that are held out once were answered" if once else "the cross-validation was done"
            self._record["why_ended"] = f"the time was up before {what}; {rest}"
        self._keep()


def _open(asked: _Asked) -> _Started:
    """Return what was decided in a folder, which is this start's own."""
    path, made_for = asked.out / STARTED, asked.made_for()
    if not path.exists():
        record: _Started = {"made_for": made_for}
        write_record(path, record)
        return record
    found = read_record(path, WHAT, _Started)
    other = [name for name, value in made_for.items() if found["made_for"].get(name) != value]
    if other:
        raise InputError(
            f"{asked.out} holds a start with another {' and another '.join(other)}; choose another folder with `out`"
        )
    return found
