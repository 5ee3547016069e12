"""A fine-tuned run measured on labelled examples, and what was found kept in its folder.

    evaluation-TASK-SPLIT.json      metrics with their intervals, confusion, calibration, the worst mistakes with texts
    predictions-TASK-SPLIT.jsonl    label, answer and probabilities (of over a hundred classes those of the likeliest
                                    hundred) of every example, so that runs can be compared

What it is measured on is what it was trained with, or other labelled data that a person names. Encoded examples need no
library but torch, numpy and safetensors: mistakes show their texts decoded from the ids. Where rows are at hand they
show the row of the file and its text as it stands there.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import Gpt1Error, InputError, SettingError, unknown
from gpt1.base.files import file_hash, json_bytes, line_bytes, remove_temporaries, result_file, whole_file
from gpt1.base.records import sealed
from gpt1.bases.catalog import is_packaged
from gpt1.finetuning.data import check_fit, identity, is_cut, read_recorded
from gpt1.inference.answering import answer_by_portion, task_of, temperature_of, thresholds_of, words_thresholds
from gpt1.inference.run import Run
from gpt1.linear.tagger import NAME as TAGGER
from gpt1.linear.tagger import WordTagger
from gpt1.linear.words import encoded_texts
from gpt1.records.evaluation import Cut, Evaluation, InTrain, Prediction, RecordedTable, Tempered
from gpt1.records.run import RecordedSource
from gpt1.tasks.answers import Floats, predictions, right_rows
from gpt1.tasks.assessment import (
    Answered,
    Assessment,
    Mistake,
    answer_name,
    assess,
    expected_error,
    hold_against,
    joined,
    reliability,
    share_names,
)
from gpt1.tasks.catalog import Task
from gpt1.tasks.encoded import EncodedSplit, EncodedTask, choose, encode_task, load
from gpt1.tasks.examples import Example, Labelled
from gpt1.tasks.learned import in_train
from gpt1.tasks.metrics import scores
from gpt1.tasks.preparing import read_data
from gpt1.tasks.readers import read_further
from gpt1.tasks.shapes import CHOICES
from gpt1.tasks.tagging import spans_of, spell_spans
from gpt1.tasks.temperature import tempered
from gpt1.tasks.unknowns import count_unknown, unknown_by_example
from gpt1.tasks.windows import MOST_WINDOWS
from gpt1.text.tokenizer import Tokenizer

Notice = Callable[[str], None]


@dataclass(frozen=True)
class TableReading:
    """How a further table of a run is read: what is not said is as it was in the training."""

    columns: Mapping[str, str] | None = None  # of roles that are called otherwise
    encoding: str = "utf-8"
    skip_bad: bool | None = None
    fold_labels: bool | None = None


def evaluate_run(
    run: Run,
    *,
    task: str | None = None,
    split: str | None = None,
    data: str | Path | None = None,
    table: str | Path | None = None,
    encoded: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    encoding: str = "utf-8",
    skip_bad: bool | None = None,
    fold_labels: bool | None = None,
    overwrite: bool = False,
    notice: Notice = warnings.warn,
) -> list[Evaluation]:
    """Return what there is to say of a run's answers: by default to the dev splits of all it was trained with.

    Other data is the folder of its tasks (`data`), a labelled table with the task's columns (`table`), or what `gpt1
    prepare --task` made (`encoded`). `task` is one of the run's; `split` one of the data's, or the name for a table's.
    `columns` maps roles to columns where a table calls them otherwise; `skip_bad` and `fold_labels` are as they were in
    the training where they are not said. What was measured on another table of the same name is replaced only to
    `overwrite` it. `notice` is told what a person should know of the data.
    """
    if sum(given is not None for given in (data, table, encoded)) > 1:
        raise SettingError("name one of `data`, `table` and `encoded`, not several")
    if table is None and (columns or skip_bad or fold_labels):
        raise SettingError("`columns`, `skip_bad` and `fold_labels` go with a `table`")
    if is_packaged(run.path):
        raise SettingError(
            f"{run.path} is a base of the package, and what is measured is kept in the run's folder; copy it, and "
            "measure the copy"
        )
    if task is not None:
        task_of(run, task)  # refuses what the run has not learned
    if table is not None:
        learned = task_of(run, task)
        name = split or _name_of(Path(table), learned)
        how = TableReading(columns, encoding, skip_bad, fold_labels)
        rows = read_beside_train(run, learned, Path(table), name, how, notice)
        measured_on = RecordedTable(str(Path(table).resolve()), file_hash(Path(table)))

        def may_write() -> None:
            if not overwrite:
                _require_same_table(evaluation_file(run.path, learned.name, name), learned, name, measured_on)

        may_write()  # before minutes of answering, in which another start may end
        return [measure_split(run, rows, name, measured_on, may_write)]
    if data is not None:
        folders = _read_folders(run, [task] if task else list(run.tasks), data, split, encoding, notice)
        found = _beside_train(run, list(folders), notice)
    elif encoded is not None:
        found = [load(Path(encoded))]
    else:
        found = _read_own(run, notice)
    asked = [one for one in found if task in (None, one.task.name)]
    if not asked:
        raise SettingError(f"there are no rows of task '{task}' there, only of {', '.join(o.task.name for o in found)}")
    return [measure_split(run, one, name) for one in asked for name in _wanted(one.task, one.splits, split)]


def _wanted(task: Task, splits: Mapping[str, Any], asked: str | None) -> Sequence[str]:
    """Return the split that was asked for, or those to develop on."""
    if asked is not None:
        if asked not in splits:
            raise unknown("split", asked, splits, of=f"'{task.name}'")
        return [asked]
    found = [name for name in task.dev_splits if name in splits]
    if not found:
        raise SettingError(
            f"'{task.name}' comes without rows for dev; name one of its splits with `split`: {', '.join(splits)}"
        )
    return found


def _read_own(run: Run, notice: Notice) -> list[EncodedTask]:
    """Return what the run was trained with, read again."""
    try:
        found, notices = read_again(run)
    except InputError as error:
        raise InputError(f"{error}; name other data with `data`, `table` or `encoded`") from None
    for text in notices:
        notice(text)
    return list(found.values())


def read_again(run: Run) -> tuple[dict[str, EncodedTask], list[str]]:
    """Return what the run was trained with, and what to tell of it; or say why nobody has it any more."""
    source = run.record.source
    if source is None or not _names_files(source):
        raise InputError(f"{run.path} was trained on examples that no file holds")
    try:
        found, notices = read_recorded(
            source, run.tasks.values(), run.path, run.recipe.shape.context, windows=run.has_windows
        )
    except (InputError, SettingError) as error:  # of which none was set by who asks now
        raise InputError(f"what {run.path} was trained on cannot be read now ({error})") from None
    if identity(found) != run.record.identity:
        raise InputError(
            f"what {run.path} was trained on has changed since: rows that it learned could pass for new ones"
        )
    return found, notices


def _names_files(source: RecordedSource) -> bool:
    return bool(source.tasks or source.train or source.encoded)


def _read_folders(
    run: Run, tasks: Sequence[str], data: str | Path, split: str | None, encoding: str, notice: Notice
) -> Iterator[EncodedTask]:
    for name in tasks:
        task = run.tasks[name]
        labelled = read_data(task, data, encoding)
        for text in labelled.notices:
            notice(text)
        yield _encode(run, labelled, _wanted(task, labelled.splits, split))


def _name_of(table: Path, task: Task) -> str:
    """Return the name for the rows of a table: not that of a split, which is for the run's own."""
    name = re.sub(r"[\W_]+", "-", table.name.split(".")[0].lower()).strip("-") or "table"
    return f"{name}-table" if name in task.splits else name


def _require_same_table(kept: Path, task: Task, name: str, table: RecordedTable) -> None:
    """Refuse to replace what was measured on other rows under the same name."""
    if not kept.is_file():
        return
    before = Evaluation.read(kept, "`overwrite=True` replaces it").table
    if before is None and name not in task.splits:  # made before it was kept which table it was
        return
    if before is None or before.sha256 != table.sha256:
        other = "the run's own rows" if before is None else f"another table, {before.file}"
        raise InputError(
            f"{kept} is of {other}; give this one a name of its own with `split`, or replace it with `overwrite=True`"
        )


def read_beside_train(
    run: Run, task: Task, path: Path, name: str, how: TableReading, notice: Notice, *, labelled: bool = True
) -> EncodedTask:
    """Return the rows of a table as a split of its own, beside those that the run learned from where they can be read.

    All rows need a label, unless they are said not to be `labelled`.
    """
    splits = {"dev_splits": () if name == "train" else (name,), "test_splits": ()}
    task = replace(task, **(splits if labelled else {"dev_splits": (), "test_splits": (name,)}))
    bad = _as_in_training(run, how.skip_bad, how.fold_labels)
    examples, told = read_further(task, path, name, columns=how.columns, encoding=how.encoding, **bad)
    for text in told:
        notice(text)
    (found,) = _beside_train(run, [_encode(run, Labelled(task, {name: examples}), [name])], notice)
    return found


def _as_in_training(run: Run, skip_bad: bool | None, fold_labels: bool | None) -> dict[str, bool]:
    """Return what is done with bad rows and with labels that look the same; what is not said is as it was."""
    source = run.record.source
    return {
        "skip_bad": (source is not None and source.skip_bad) if skip_bad is None else skip_bad,
        "fold_labels": (source is not None and source.fold_labels) if fold_labels is None else fold_labels,
    }


def _beside_train(run: Run, found: Sequence[EncodedTask], notice: Notice) -> list[EncodedTask]:
    """Return rows beside those that the run learned from, which may be the same, where these can still be read.

    Of a run that no file was named for, such as an estimator's, nothing is told: nobody could change that.
    """
    source = run.record.source
    learned: dict[str, EncodedTask] = {}
    if source is not None and _names_files(source) and any("train" not in rows.splits for rows in found):
        try:
            learned, _ = read_again(run)
        except Gpt1Error as error:
            notice(f"whether some of these rows stand in train too is not known: {error}")
    return [_beside(rows, learned.get(rows.task.name)) for rows in found]


def _beside(rows: EncodedTask, learned: EncodedTask | None) -> EncodedTask:
    if learned is None or "train" in rows.splits or "train" not in learned.splits:  # a record is anybody's to write
        return rows
    examples = {name: found for name, found in learned.examples.items() if name == "train"} | rows.examples
    splits = {"train": learned.splits["train"], **rows.splits}
    return replace(rows, splits=splits, examples=examples, train_texts=learned.train_texts)


def _encode(run: Run, labelled: Labelled, splits: Sequence[str]) -> EncodedTask:
    examples = {name: labelled.splits[name] for name in splits}
    return encode_task(labelled.task, examples, run.tokenizer, run.recipe.shape.context, windows=run.has_windows)


TEXT_LENGTH = 300  # characters of a mistake
_HEAD = 200  # of which so many are its beginning; the rest is the end, where answers stand
_GAP = " … "
_JOINED = " | "  # between the texts of a row


def evaluation_file(run: Path, task: str, split: str) -> Path:
    """Return where the evaluation of a task's split is kept."""
    return run / f"evaluation-{task}-{split}.json"


def predictions_file(run: Path, task: str, split: str) -> Path:
    """Return where the answers to a task's split are kept."""
    return run / f"predictions-{task}-{split}.jsonl"


def measure(run: Run, encoded: EncodedTask, splits: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return the run's metrics on each of the splits that has labels, and keep all that was found in its folder."""
    found = [measure_split(run, encoded, split) for split in splits if encoded.splits[split].labelled.any()]
    return {evaluation.split: evaluation.metrics for evaluation in found}


def measure_split(
    run: Run,
    encoded: EncodedTask,
    split: str,
    table: RecordedTable | None = None,
    may_write: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Return all there is to say of a run's answers to a labelled split, which is also kept in the run's folder.

    `table` is the one that the split is of; `may_write` refuses, when nobody else writes there, what is not to be
    replaced.
    """
    task = _known_task(run, encoded)
    if split not in encoded.splits:
        raise unknown("split", split, encoded.splits, of=f"'{task.name}'")
    data = encoded.splits[split]
    known = np.flatnonzero(data.labelled)
    if not len(known):
        raise InputError(f"split '{split}' of '{task.name}' has no labels to measure by; gpt1 predict answers its rows")
    answered, before = _answer(run, task, data)
    found = assess(task, data.labels[known], answered.of(known), groups=data.groups[known] if task.groups else None)
    cut = data.cut[data.cut > 0]
    places = [(int(known[one.index]), one) for one in found.mistakes]
    rows = encoded.examples.get(split)
    rows = rows if rows is not None and len(rows) == len(data) else None  # a part of a split may have been chosen
    mistakes = [
        _with_text(run.tokenizer, task, data, index, one) if rows is None else _with_row(task, rows[index], index, one)
        for index, one in places
    ]
    evaluation = Evaluation(
        task=task.name,
        split=split,
        step=run.checkpoint.step,
        unlabelled=len(data) - len(known),
        context=encoded.context,
        cut=Cut(len(cut), int(cut.sum())),
        windows=0 if data.windows is None else MOST_WINDOWS,
        unknown=count_unknown(unknown_by_example(task, data, run.tokenizer.unknown_id, encoded.vocab_size)),
        table=table,
        words=_by_tagger(encoded, split, known) if task.labels_words else _by_words(run, task, data, known),
        by=TAGGER if task.labels_words else "",
        in_train=_in_train(task, encoded, split, run.tokenizer.unknown_id, known, answered),
        tempered=_tempered(run, task, found, right_rows(answered.answers[known], data.labels[known]), before[known]),
        **{**vars(found), "mistakes": mistakes},
    )
    remove_temporaries(run.path)
    # One lock for both files, so that they belong together; a training holds the folder's own, and may go on beside.
    with result_file(evaluation_file(run.path, task.name, split), overwrite=True) as file:
        may_write()
        with whole_file(predictions_file(run.path, task.name, split)) as sheet:
            sheet.writelines(line_bytes(line.as_json()) for line in _sheet(task, data, answered))
            file.write(json_bytes(sealed(evaluation.as_json())))
    return evaluation


def _in_train(
    task: Task,
    encoded: EncodedTask,
    split: str,
    unknown_id: int | None,
    known: NDArray[np.int64],
    answered: Answered,
) -> InTrain | None:
    """Return how many examples stand in train too, and the metrics without them; None where there are none."""
    if split == "train":
        return None
    data = encoded.splits[split]
    others = known[~in_train(encoded, split, unknown_id)[known]]
    if len(others) == len(known):
        return None
    groups = data.groups[others] if task.groups else None
    metrics = scores(task, data.labels[others], answered.answers[others], groups) if len(others) else {}
    return InTrain(len(known) - len(others), metrics)


def _by_words(run: Run, task: Task, data: EncodedSplit, known: NDArray[np.int64]) -> dict[str, float] | None:
    """Return what counting words gives on the same examples, where the run knows it."""
    if task.name not in run.ensembles or (words := run.ensembles[task.name].words) is None:
        return None
    labelled = choose(data, known.tolist())
    found = words.probabilities(encoded_texts(task, labelled, run.tokenizer))
    answers = predictions(task, found, words_thresholds(run, task))
    return scores(task, labelled.labels, answers)


def _by_tagger(encoded: EncodedTask, split: str, known: NDArray[np.int64]) -> dict[str, float] | None:
    """Return what a linear model of words gives on the same sentences, where those to learn from are at hand."""
    rows, data = encoded.examples.get(split, ()), encoded.splits[split]
    if "train" not in encoded.examples or len(rows) != len(data) or find_spec("sklearn") is None:
        return None
    answers = _tagger(encoded).answers([rows[place] for place in known.tolist()], data.labels.shape[1])
    return scores(encoded.task, data.labels[known], answers)


@lru_cache(maxsize=1)
def _tagger(encoded: EncodedTask) -> WordTagger:
    """Return what has learned the words of a task; several of its splits are measured one after the other."""
    return WordTagger(encoded.task, encoded.examples["train"])


def _tempered(run: Run, task: Task, found: Assessment, right: NDArray[np.bool_], before: Floats) -> Tempered | None:
    """Return what the temperature of a run's answers did, where they have one."""
    temperature = temperature_of(run, task)
    if temperature == 1 or found.calibration is None:
        return None
    return Tempered(temperature, expected_error(reliability(before, right)))


def _answer(run: Run, task: Task, data: EncodedSplit) -> tuple[Answered, Floats]:
    """Return what a run answers to each example, held against its label, in memory that classes hardly add to.

    Besides, how sure the answers would be without a temperature.
    """
    parts, before = [], np.zeros(len(data))
    thresholds, temperature = thresholds_of(run, task), temperature_of(run, task)
    for examples, found in answer_by_portion(run, task, data):
        held = hold_against(task, data.labels[examples], found, thresholds)
        parts.append((examples, held))
        if task.labels_words:  # which have no temperature
            continue
        plain = tempered(task, found, 1 / temperature)
        before[examples] = plain[np.arange(len(plain)), held.answers] if task.class_factors else plain.max(1)
    return joined(parts), before


def _require_same_windows(run: Run, encoded: EncodedTask) -> None:
    """Refuse examples whose long texts are not encoded as the run reads them."""
    name = encoded.task.name
    if encoded.has_windows and not run.has_windows:
        raise InputError(
            f"task '{name}' was encoded with windows, and {run.path} reads none: a long text loses its end; encode it "
            "without"
        )
    if run.has_windows and is_cut(encoded):
        raise InputError(
            f"task '{name}' was encoded without the windows in which {run.path} reads long texts; encode it with "
            "`gpt1.prepare(windows=True)`"
        )


def _known_task(run: Run, encoded: EncodedTask) -> Task:
    """Return the run's task that the examples are of, or say why their labels would not mean the same."""
    name = encoded.task.name
    check_fit({name: encoded}, fingerprint=run.tokenizer.fingerprint, context=run.recipe.shape.context, init=run.path)
    _require_same_windows(run, encoded)
    task = task_of(run, name)
    for fact in ("shape", "labels", "labels_sep", "score_range", "choices"):
        own, theirs = getattr(task, fact), getattr(encoded.task, fact)
        if own != theirs:
            raise InputError(
                f"these examples are not of the task '{name}' that {run.path} has learned: {fact} {theirs}, not {own}"
            )
    return task


def _sheet(task: Task, data: EncodedSplit, answered: Answered) -> Iterator[Prediction]:
    """Yield a line for each example."""
    labelled, has_shares = data.labelled, task.score_range is None and not task.labels_words
    for index, answer in enumerate(answered.answers):
        yield Prediction(
            index=index,
            label=answer_name(task, data.labels[index]) if labelled[index] else None,
            prediction=answer_name(task, answer),
            probabilities=share_names(task, answered.likeliest[index], answered.shares[index]) if has_shares else None,
        )


def _with_row(task: Task, example: Example, index: int, mistake: Mistake) -> Mistake:
    """Return a mistake with its place in the split and in its file, and its text as it stands there."""
    if task.labels_words:
        said = (words_in_short(task, example.words, str(one).split()) for one in (mistake.prediction, mistake.label))
        prediction, label = said
        mistake = replace(mistake, prediction=prediction, label=label)
    if task.shape != CHOICES:
        return replace(mistake, index=index, row=example.row, text=_shortened(_JOINED.join(example.texts)))
    asked, answers = [part for part in example.texts[:2] if part], example.texts[2:]
    given, right = (
        _shortened(_JOINED.join([*asked, answers[int(which)]])) for which in (mistake.prediction, mistake.label)
    )
    return replace(mistake, index=index, row=example.row, text=given, right_text=right)


def words_in_short(task: Task, words: Sequence[str], labels: Sequence[str]) -> str:
    """Return the spans of a sentence with their words, or of labels that spell none each word with its own."""
    if not spell_spans(task.labels):
        return ", ".join(f"{word} {label}" for word, label in zip(words, labels, strict=True))
    spans = (f"{kind} {' '.join(words[first:end])}" for kind, first, end in spans_of(labels))
    return ", ".join(spans) or "nothing"


def _with_text(tokenizer: Tokenizer, task: Task, data: EncodedSplit, index: int, mistake: Mistake) -> Mistake:
    """Return a mistake with its place in the split, and its text; of choices, with the answer that was right too."""
    sequences = data.sequences(index)
    if task.shape != CHOICES:  # the other order of a pair says nothing new
        return replace(mistake, index=index, text=show(tokenizer, sequences[0]))
    given, right = (show(tokenizer, sequences[int(which)]) for which in (mistake.prediction, mistake.label))
    return replace(mistake, index=index, text=given, right_text=right)


def show(tokenizer: Tokenizer, ids: Iterable[int]) -> str:
    """Return the text of a sequence with its special tokens in brackets; of a long one the beginning and the end."""
    names = {special: f"[{name}]" for name, special in tokenizer.specials.items()}
    parts = groupby(map(int, ids), lambda token: names.get(token, ""))
    text = " ".join(name or tokenizer.decode(list(part)).strip() for name, part in parts)
    return _shortened(text)


def _shortened(text: str) -> str:
    """Return a text, of a long one the beginning and the end."""
    return text if len(text) <= TEXT_LENGTH else text[:_HEAD] + _GAP + text[_HEAD + len(_GAP) - TEXT_LENGTH :]
