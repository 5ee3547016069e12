"""`gpt1 demo --books`: the base of the package and real text. It learns two tasks about novels that it has not read,
from few labels; the same network learns them from scratch too, and TF-IDF answers the same rows.

As in the tour of the stories every stage leaves its result in the folder, and every fine-tuning has one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from gpt1.base.errors import InputError, SettingError
from gpt1.base.files import file_hash, read_sealed, write_record
from gpt1.base.progress import Progress
from gpt1.base.stages import alone, once, or_begin_anew, own_folder
from gpt1.bases.catalog import BASE_FILE, Base, bases, default_base
from gpt1.demo.books import BOOK_TASKS, EXCHANGE, FINISH, write_rows
from gpt1.demo.learning import Crew, Job, one_thread
from gpt1.demo.recipe import PRETRAINED, SCRATCH, BooksPlan
from gpt1.finetuning.measure import predictions_file
from gpt1.finetuning.seeds import found_seeds
from gpt1.linear.words import answer_by_words
from gpt1.runs.events import Listener
from gpt1.runs.folder import read_run, run_folder
from gpt1.studies.comparison import Sheet, paired_difference, read_sheet, resampled_interval
from gpt1.tasks.catalog import Task
from gpt1.tasks.readers import read_folder

BOOKS_FOLDER = "gpt1-demo-books"
ROWS, RUNS, WORDS, RESULT, REPORT = "tasks", "runs", "tf-idf.json", "result.json", "report.html"
MADE_FOR = "made-for.json"  # in the folder of the rows: how many there are, and the base that learns them
CHANCE = 0.5  # of each task
METRIC = "accuracy"
Answers = dict[str, list[int]]  # to the rows of the test, by task
_OURS = (ROWS, RUNS, WORDS, RESULT, REPORT)
# The long ones (of two texts an example) first and last: of two processes each does one of them.
_LONGEST_OUTSIDE = ((FINISH, PRETRAINED), (EXCHANGE, PRETRAINED), (EXCHANGE, SCRATCH), (FINISH, SCRATCH))


@dataclass(frozen=True)
class Measured:
    """An accuracy, or by how much one is ahead of another, and the 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class BookTaskResult:
    """What was reached on the test of a task: by words alone, from scratch, pre-trained; and how far that is ahead."""

    task: str
    title: str
    shape: str
    chance: float
    words: Measured
    scratch: Measured
    pretrained: Measured
    over_words: Measured
    over_scratch: Measured


@dataclass(frozen=True)
class BooksResult:
    """What the demo with books found."""

    base: str
    about: str  # the base, in a line: its size, and what it has read
    precision: str  # in which the networks computed
    seeds: int
    rows: dict[str, int]  # of each split
    tasks: list[BookTaskResult]


def tour_books(
    out: str | Path, *, seeds: int = 1, plan: BooksPlan, progress: Progress, listeners: Iterable[Listener] = ()
) -> BooksResult:
    """Run the demo with books in a folder, or go on with it, and return what it found."""
    if not bases():
        raise SettingError(
            "this package has no base of its own, and the tasks about books are learned by one; the demo without "
            "`books` pre-trains its own network"
        )
    base = default_base()
    out = own_folder(out, _OURS)
    with or_begin_anew(out), alone(out), one_thread(), Crew(progress, listeners) as crew:
        _make_rows(out / ROWS, base, plan)
        words = once(out / WORDS, Answers, lambda: _answer_by_words(out), progress)
        crew.begin(_jobs(out, base, plan, seeds))
        crew.finish()
        tasks = [_judge(out, task, seeds, np.array(words[task.name])) for task in BOOK_TASKS]
        found = BooksResult(base.name, base.in_short(), _precision(out, seeds), seeds, dict(plan.counts), tasks)
        write_record(out / RESULT, asdict(found))
    return found


def _make_rows(folder: Path, base: Base, plan: BooksPlan) -> None:
    """Write the rows to learn and to be asked, where they are not there yet; those of another demo are refused."""
    made_for = {"base": base.name, "described_by": file_hash(base.path / BASE_FILE), "rows": dict(plan.counts)}
    if not (folder / MADE_FOR).is_file():
        write_rows(folder, plan.counts)
        write_record(folder / MADE_FOR, made_for)
    elif (found := read_sealed(folder / MADE_FOR, "what the rows of a demo are for")) != made_for:
        raise InputError(
            f"{folder.parent} holds a demo of another version, or with another base ({found.get('base')}); choose "
            "another folder with `out`"
        )


def _answer_by_words(out: Path) -> Answers:
    """Return what TF-IDF answers to the test of each task."""
    found = {}
    for task in BOOK_TASKS:
        splits = read_folder(task, out / ROWS).splits
        found[task.name] = answer_by_words(task, splits["train"], splits["test"]).tolist()
    return found


def _jobs(out: Path, base: Base, plan: BooksPlan, seeds: int) -> list[Job]:
    return [
        Job(
            base.path,
            out / ROWS,
            _folder(out, task.name, arm, seeds),
            *(f"gpt1.demo.books:{task.name.upper()}", arm, plan.rates[arm], plan.learning, seeds),
        )
        for task, arm in _LONGEST_OUTSIDE
    ]


def _folder(out: Path, task: str, arm: str, seeds: int) -> Path:
    return out / RUNS / (f"{task}-{arm}" if seeds == 1 else f"{task}-{arm}-{seeds}-seeds")


def _judge(out: Path, task: Task, seeds: int, words: np.ndarray) -> BookTaskResult:
    """Hold the answers of all three against the labels, and against each other in pairs."""
    scratch, pretrained = (_sheet(_folder(out, task.name, arm, seeds), task) for arm in (SCRATCH, PRETRAINED))
    by_words = Sheet(pretrained.labels, [words])
    return BookTaskResult(
        task.name,
        task.title,
        task.shape,
        CHANCE,
        *(_accuracy(task, sheet) for sheet in (by_words, scratch, pretrained)),
        *(Measured(*paired_difference(task, METRIC, [pretrained], [other])) for other in (by_words, scratch)),
    )


def _sheet(folder: Path, task: Task) -> Sheet:
    """Return the answers to the test of each seed that was trained in a folder."""
    runs = list(found_seeds(folder).values()) or [folder]
    files = [predictions_file(run, task.name, "test") for run in runs]
    found = read_sheet(files, task)
    if found is None:
        raise InputError(f"{folder} lacks answers to the test that are to be there ({files[0].name})")
    return found


def _accuracy(task: Task, sheet: Sheet) -> Measured:
    values = [float((answers == sheet.labels).mean()) for answers in sheet.answers]
    return Measured(float(np.median(values)), *resampled_interval(task, METRIC, sheet))


def _precision(out: Path, seeds: int) -> str:
    """Return in which precision the networks computed: a CPU without products in bf16 takes another."""
    return read_run(run_folder(_folder(out, FINISH.name, PRETRAINED, seeds))).recipe.training.precision


def runs_of_books(out: str | Path, seeds: int) -> Sequence[Path]:
    """Return the folders of all fine-tunings of the tour."""
    return [_folder(Path(out), task.name, arm, seeds) for task in BOOK_TASKS for arm in (PRETRAINED, SCRATCH)]
