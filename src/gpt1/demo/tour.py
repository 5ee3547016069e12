"""`gpt1 demo`: the paper's idea from end to end. A small network is pre-trained on stories, then learns four tasks
from few labels; the same network learns them from scratch too, as far as it can.

Every stage leaves its result in the folder, and is passed over when it is there: stopped, the tour goes on. Everything
runs on one thread, so that the figures are the same on any number of cores: while the network is pre-trained, other
processes learn from scratch, which needs nothing of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpt1.base.errors import Gpt1Error, InputError
from gpt1.base.files import read_sealed, write_record
from gpt1.base.progress import Progress
from gpt1.base.stages import alone, once, or_begin_anew, own_folder, read_result
from gpt1.base.wording import hundred, x100
from gpt1.corpus.documents import find_sources
from gpt1.corpus.manifest import read_corpus, shards_of
from gpt1.corpus.prepare import cutting_for, prepare
from gpt1.corpus.shards import verify_shard
from gpt1.corpus.vocabularies import train_tokenizer
from gpt1.demo.learning import Crew, Job, one_thread
from gpt1.demo.recipe import MERGES, PRETRAINED, RATES, SCRATCH, Plan
from gpt1.demo.tasks import LEARNED
from gpt1.demo.writing import CORPUS, LABELLED, MANIFEST, write_world
from gpt1.demo.zeroshot import make_questions, share_right
from gpt1.finetuning.results import results
from gpt1.inference.run import load_run
from gpt1.inference.zeroshot import Questions
from gpt1.linear.words import answer_by_words
from gpt1.pretraining.pretrain import pretrain
from gpt1.runs.checkpoints import list_checkpoints
from gpt1.runs.events import Event, Listener, Saved
from gpt1.tasks.readers import read_folder

SEED = 3  # settings were chosen on the world of seed 0, and those of 1 and 2 were looked at on the way
FOLDER, OWN_TEXT_FOLDER = "gpt1-demo", "gpt1-demo-text"
WORLD, TOKENIZER, TOKENS, READER, RUNS = "world", "tokenizer.json", "tokens", "reader", "runs"
LABELLED_DATA = f"{WORLD}/{LABELLED}"
BASELINE, ZERO_SHOT, RESULT, REPORT = "bag-of-words.json", "zero-shot.json", "result.json", "report.html"
LITTLE_TEXT = 100_000  # bytes
CHANCE = 0.5  # of each task
Shares = dict[str, dict[str, float]]  # of right answers, by task and set, or by step and task
_OURS = (WORLD, TOKENIZER, TOKENS, READER, RUNS, BASELINE, ZERO_SHOT, RESULT, REPORT)


@dataclass(frozen=True)
class TaskResult:
    """What was reached on a task: the accuracy on each set of words alone, from scratch, and pre-trained."""

    task: str
    title: str
    shape: str
    chance: float
    words: dict[str, float]
    scratch: dict[str, float]
    pretrained: dict[str, float]


@dataclass(frozen=True)
class TourResult:
    """What the demo found."""

    seeds: int
    rows: dict[str, int]  # of each set
    tasks: list[TaskResult]
    zero_shot: Shares  # by step and task

    @property
    def gain(self) -> float:
        """By how many points pre-training beats scratch on the test sets, on average over the tasks."""
        return x100(statistics.fmean(row.pretrained["test"] - row.scratch["test"] for row in self.tasks))


def tour(
    out: str | Path, *, seeds: int = 1, plan: Plan, progress: Progress, listeners: Iterable[Listener] = ()
) -> TourResult:
    """Run the demo in a folder, or go on with it, and return what it found."""
    out = own_folder(out, _OURS)
    if (out / TOKENIZER).is_file() and not any((out / name).exists() for name in (WORLD, BASELINE)):
        raise InputError(f"{out} holds a demo with text of yours; choose another folder for the stories with `out`")
    with or_begin_anew(out), alone(out), one_thread(), Crew(progress) as crew:
        make_text(out, plan, SEED, progress)
        words = once(out / BASELINE, Shares, lambda: _count_words(out), progress)
        asking = Asking(out, plan.pretraining.logging.save_every, progress)
        from_scratch = Beginning(lambda: crew.begin(_jobs(out, plan, SCRATCH, seeds)))
        make_reader(out, plan, progress, [*listeners, from_scratch, asking])
        from_scratch.begin()
        growth = asking.all_checkpoints()
        crew.begin(_jobs(out, plan, PRETRAINED, seeds))
        crew.finish()
        found = TourResult(seeds, dict(plan.counts), _collect(out, seeds, words), growth)
        write_record(out / RESULT, asdict(found))
    return found


def read_own_text(
    out: str | Path, text: Sequence[str], *, plan: Plan, progress: Progress, listeners: Iterable[Listener] = ()
) -> Path:
    """Pre-train the demo's network on texts of the user's instead of stories, and return the run."""
    out = own_folder(out, _OURS)
    if (out / WORLD).is_dir():
        raise InputError(f"{out} holds a demo with stories; choose another folder for your text with `out`")
    with one_thread():
        cutting = cutting_for(
            find_sources(text).sources
        )  # what is wrong with the text is told before that of the folder
        with alone(out):
            if not (out / TOKENIZER).is_file():
                train_tokenizer(text, merges=MERGES, out=out / TOKENIZER, progress=progress)
            with or_begin_anew(out):
                corpus = prepare(text, out / TOKENIZER, out / TOKENS, progress=progress, **cutting)
                _warn_of_little_text(corpus, progress)
                pretrain(plan.pretraining, out / TOKENS, out / READER, resume=True, device="cpu", listeners=listeners)
    return out / READER


def _warn_of_little_text(corpus: dict[str, Any], progress: Progress) -> None:
    size = sum(split["bytes"] for split in corpus["splits"].values())
    if size < LITTLE_TEXT:
        progress.say(
            f"warning: {size / 1000:,.1f} kB is very little text; the network will learn it by heart. Take "
            f"{LITTLE_TEXT / 1000:.0f} kB or more, better some MB"
        )


def make_text(out: Path, plan: Plan, seed: int, progress: Progress) -> None:
    """Write the world to read and the tasks about it, where they are not there yet."""
    manifest = out / WORLD / MANIFEST
    if manifest.is_file():
        made = read_sealed(manifest, "the manifest of a world")
        if (made.get("seed"), made.get("stories")) != (seed, plan.stories):
            raise InputError(f"{out} holds a demo of another version; choose another folder with `out`")
    else:
        progress.say(f"writing a world: {plan.stories:,} stories to read, and tasks about others")
        write_world(out / WORLD, stories=plan.stories, seed=seed, counts=plan.counts)


def make_reader(out: Path, plan: Plan, progress: Progress, listeners: Iterable[Listener]) -> None:
    """Learn a vocabulary and pre-train on the stories."""
    stories = out / WORLD / CORPUS
    if not (out / TOKENIZER).is_file():
        train_tokenizer(stories, merges=MERGES, out=out / TOKENIZER, progress=progress)
    if not _is_whole(out / TOKENS):
        prepare(stories, out / TOKENIZER, out / TOKENS, duplicates="keep", restart=True, progress=progress)
    pretrain(plan.pretraining, out / TOKENS, out / READER, resume=True, device="cpu", listeners=listeners)


def _is_whole(corpus: Path) -> bool:
    """Whether a folder holds a whole corpus; wherever the stories lay when it was made, they are the same."""
    try:
        for path in shards_of(corpus, read_corpus(corpus)):
            verify_shard(path)
    except Gpt1Error:
        return False
    return True


class Beginning:
    """Does something once: at a training's first checkpoint, or when it is told to."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin: Callable[[], None] | None = begin

    def __call__(self, event: Event) -> None:
        """Begin at the first checkpoint: from there on the run says what its network is."""
        if isinstance(event, Saved):
            self.begin()

    def begin(self) -> None:
        """Begin, if that is still to be done."""
        begin, self._begin = self._begin, None
        if begin is not None:
            begin()


class Asking:
    """Asks every planned checkpoint of the reader, not those of interruptions, what it knows without a single label."""

    def __init__(self, out: Path, every: int | None, progress: Progress) -> None:
        self._out, self._every, self._progress = out, every, progress
        self._questions: dict[str, Questions] = {}
        self._found = read_result(out / ZERO_SHOT, Shares, progress) or {}

    def __call__(self, event: Event) -> None:
        """Ask a checkpoint as soon as it is saved."""
        if isinstance(event, Saved):
            self._ask(event.step)

    def all_checkpoints(self) -> Shares:
        """Return what each checkpoint knew, asked now where it was not asked before."""
        for step, _ in list_checkpoints(self._out / READER):
            self._ask(step)
        return self._found

    def _ask(self, step: int) -> None:
        if str(step) in self._found or (self._every and step % self._every):
            return
        run = load_run(self._out / READER, step=step, device="cpu")
        self._questions = self._questions or make_questions(run, self._out / LABELLED_DATA)
        self._found[str(step)] = {task: share_right(run, asked) for task, asked in self._questions.items()}
        write_record(self._out / ZERO_SHOT, self._found)
        shown = ", ".join(f"{task} {hundred(share)}" for task, share in self._found[str(step)].items())
        self._progress.say(f"update {step}: without a single label: {shown} (chance: {hundred(CHANCE)})")


def _jobs(out: Path, plan: Plan, arm: str, seeds: int) -> list[Job]:
    """Return an arm's fine-tunings, the long ones (of two texts an example) first and last."""
    longest_outside = (LEARNED[2], LEARNED[0], LEARNED[1], LEARNED[3])
    return [
        Job(
            out / READER,
            out / LABELLED_DATA,
            _folder(out, task.name, arm, seeds),
            *(f"gpt1.demo.tasks:{task.name.upper()}", arm, RATES[arm], plan.learning, seeds),
        )
        for task in longest_outside
    ]


def _folder(out: Path, task: str, arm: str, seeds: int) -> Path:
    return out / RUNS / (f"{task}-{arm}" if seeds == 1 else f"{task}-{arm}-{seeds}-seeds")


def _collect(out: Path, seeds: int, words: Shares) -> list[TaskResult]:
    found = []
    for task in LEARNED:
        scratch, pretrained = (_scores(_folder(out, task.name, arm, seeds), task.name) for arm in (SCRATCH, PRETRAINED))
        found.append(TaskResult(task.name, task.title, task.shape, CHANCE, words[task.name], scratch, pretrained))
    return found


def _scores(folder: Path, task: str) -> dict[str, float]:
    """Return the accuracy on each set; of several seeds the median."""
    found = results(load_run(folder, device="cpu"))
    if "seeds" in found:
        return {name.split()[1]: figures["median"] for name, figures in found["seeds"].items()}
    return {split: facts["metrics"]["accuracy"] for split, facts in found["tasks"][task].items()}


def runs_of(out: str | Path, seeds: int) -> list[Path]:
    """Return the folders of all runs of the tour, that of the reader first."""
    arms = (PRETRAINED, SCRATCH)
    return [Path(out, READER), *(_folder(Path(out), task.name, arm, seeds) for task in LEARNED for arm in arms)]


def _count_words(out: Path) -> Shares:
    """Return the accuracy on every set of what counting words is worth."""
    found = {}
    for task in LEARNED:
        splits = read_folder(task, out / LABELLED_DATA).splits
        found[task.name] = {
            split: float((answer_by_words(task, splits["train"], asked) == [one.label for one in asked]).mean())
            for split, asked in splits.items()
            if split != "train"
        }
    return found
