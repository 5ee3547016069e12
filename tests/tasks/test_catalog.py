"""The catalogue of tasks, and tasks of one's own."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from gpt1.base.errors import FormatError, InputError, SettingError
from gpt1.tasks.catalog import CATALOGUE, Task, find_task, task_from_json
from gpt1.tasks.shapes import BOTH, CHOICES, PAIR, SINGLE

RTE = CATALOGUE["rte"]

# Tables 1 to 4 of the paper and the makers' files: shape, classes (or range, or number of answers), metrics.
NLI = ("entailment", "neutral", "contradiction")
PAPER = {
    "cola": (SINGLE, ("0", "1"), ("matthews",)),
    "sst2": (SINGLE, ("0", "1"), ("accuracy",)),
    "mrpc": (BOTH, ("0", "1"), ("f1", "accuracy")),
    "stsb": (BOTH, (0.0, 5.0), ("pearson", "spearman")),
    "qqp": (BOTH, ("0", "1"), ("f1", "accuracy")),
    "mnli": (PAIR, NLI, ("accuracy",)),
    "qnli": (PAIR, ("entailment", "not_entailment"), ("accuracy",)),
    "rte": (PAIR, ("entailment", "not_entailment"), ("accuracy",)),
    "wnli": (PAIR, ("0", "1"), ("accuracy",)),
    "snli": (PAIR, NLI, ("accuracy",)),
    "scitail": (PAIR, ("entails", "neutral"), ("accuracy",)),
    "race": (CHOICES, 4, ("accuracy",)),
    "storycloze": (CHOICES, 2, ("accuracy",)),
    "dpr": (CHOICES, 2, ("accuracy",)),
}


def test_the_catalogue_is_the_table_of_the_paper():
    found = {
        name: (task.shape, task.labels or task.score_range or task.choices, task.metrics)
        for name, task in CATALOGUE.items()
    }
    assert found == PAPER


@pytest.mark.parametrize(("name", "sequences"), [("sst2", 1), ("rte", 1), ("mrpc", 2), ("race", 4), ("dpr", 2)])
def test_the_number_of_sequences_follows_from_the_shape(name, sequences):
    assert find_task(name).sequences == sequences


def test_mnli_is_judged_on_two_dev_sets():
    task = find_task("mnli")
    assert task.dev_splits == ("dev_matched", "dev_mismatched")
    assert task.test_splits == ("test_matched", "test_mismatched", "diagnostic")


def test_a_misspelt_task_gets_the_nearest_name():
    with pytest.raises(SettingError, match=r"unknown task 'mrcp'; did you mean 'mrpc'\?.*known: cola, sst2"):
        find_task("mrcp")


@pytest.mark.parametrize("task", CATALOGUE.values(), ids=lambda task: task.name)
def test_a_task_is_the_same_after_a_trip_through_json(task):
    assert task_from_json(json.loads(json.dumps(task.as_json()))) == task


def test_a_task_of_another_version_is_refused():
    with pytest.raises(FormatError, match=r"colour is not known to this version"):
        task_from_json(RTE.as_json() | {"colour": "red"})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "rte 2"}, "names must be of"),
        ({"name": "RTE"}, "names must be of small letters"),
        ({"name": "_rte"}, "names must be of"),
        ({"labels": ("a", "\ud83d")}, "holds half a character"),
        ({"fields": ("a", "\ud83d")}, "holds half a character"),
        ({"title": " "}, "title is empty"),
        ({"shape": "pairs"}, "unknown shape 'pairs'; did you mean 'pair'"),
        ({"labels": ["a", "b"]}, "labels is .* expected a tuple of strings"),
        ({"labels": ("a", "a")}, "labels repeats a name"),
        ({"labels": ("a",)}, "one label leaves nothing to decide"),
        ({"labels": ()}, "exactly one of labels, score_range and choices"),
        ({"score_range": (0.0, 5.0)}, "exactly one of labels, score_range and choices"),
        ({"labels": (), "score_range": (5.0, 0.0), "metrics": ("pearson",)}, "not a lower and a higher number"),
        ({"labels": (), "score_range": (0.0, float("inf")), "metrics": ("pearson",)}, "not a lower and a higher"),
        ({"labels": (), "score_range": 5.0}, "expected two numbers"),
        ({"labels": (), "choices": 2}, "go together"),
        ({"shape": CHOICES, "labels": (), "choices": 1}, "at least 2"),
        ({"choices": "2"}, "expected a whole number"),
        ({"metrics": ()}, "no metric"),
        ({"metrics": ("pearson",)}, "metrics must be of accuracy, f1, matthews"),
        ({"metrics": ("f1",), "labels": ("a", "b", "c")}, "F1 needs exactly two labels"),
        ({"fields": ("a",)}, "does not take 1 text fields"),
        ({"fields": ("a", "label")}, "each column needs one use"),
        ({"title": 3}, "title is 3, expected a string"),
        ({"group_field": "level"}, "group_field and groups go together"),
        ({"test_splits": ("dev",)}, "two splits share a name"),
        ({"dev_splits": ("../dev",)}, "names must be of"),
    ],
)
def test_a_task_that_contradicts_itself_cannot_be_made(changes, message):
    with pytest.raises(SettingError, match=f"task .*: .*{message}"):
        replace(RTE, **changes)


def test_everything_wrong_with_a_task_is_told_at_once():
    with pytest.raises(SettingError, match="title is empty; no metric is named"):
        replace(RTE, title="", metrics=())


@pytest.fixture
def own_modules(tmp_path, monkeypatch):
    """A current folder with modules of a user; what is imported from it is forgotten afterwards."""
    (tmp_path / "own_tasks.py").write_text(
        "from gpt1.tasks.catalog import Task\n"
        "MAIL = Task(name='mail', title='Mail', shape='single', labels=('no', 'yes'),\n"
        "            metrics=('f1',), fields=('body',))\n"
        "COUNT = 3\n"
    )
    (tmp_path / "own_broken.py").write_text("1 / 0\n")
    (tmp_path / "own_needy.py").write_text("import a_library_nobody_has\n")
    (tmp_path / "own_empty.py").write_text("")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]


def test_a_task_of_a_module_in_the_current_folder_is_found(own_modules):
    before = list(sys.path)
    task = find_task("own_tasks:MAIL")
    assert isinstance(task, Task)
    assert task.fields == ("body",)
    assert sys.path == before


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("own_tusks:MAIL", SettingError, "no module 'own_tusks' in .* or among the installed"),
        ("own_tasks.py:MAIL", SettingError, "no module.*without '.py': own_tasks:MAIL"),
        ("own_tasks:MALI", SettingError, "module 'own_tasks' has no 'MALI'; did you mean 'MAIL'.*its tasks: MAIL"),
        ("own_empty:MAIL", SettingError, "has no 'MAIL'; it defines no Task"),
        (
            "own_tasks:COUNT",
            SettingError,
            "'COUNT' of module 'own_tasks' is not a Task but of type int; its tasks: MAIL",
        ),
        ("own_broken:MAIL", InputError, "module 'own_broken' cannot be imported: ZeroDivisionError"),
        ("own_needy:MAIL", InputError, "module 'own_needy' needs a module that is not installed: 'a_library_nobody"),
        ("./own_tasks:MAIL", SettingError, "is not module:NAME"),
        (":MAIL", SettingError, "is not module:NAME"),
    ],
)
def test_what_is_wrong_with_a_module_is_said(own_modules, name, error, message):
    with pytest.raises(error, match=message):
        find_task(name)


TOPICS = replace(RTE, name="topics", labels=("a", "b", "c"), labels_sep="|", metrics=("micro_f1",))


def test_a_task_of_several_labels_says_so_and_others_are_written_as_before():
    assert TOPICS.is_multilabel
    assert task_from_json(json.loads(json.dumps(TOPICS.as_json()))) == TOPICS
    assert "labels_sep" not in RTE.as_json()
    assert "labels label, parted by '|': a, b, c" in TOPICS.in_short()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"labels": ("a|b", "c")}, "which parts them"),
        ({"metrics": ("accuracy",)}, "metrics must be of micro_f1, macro_f1, exact_match"),
        ({"labels": (), "score_range": (0.0, 1.0)}, "labels_sep goes with labels"),
        ({"labels": ("a",)}, "one label leaves nothing to decide"),
        ({"labels_sep": 3}, "labels_sep is 3, expected a string"),
    ],
)
def test_what_does_not_fit_several_labels_is_refused(change, problem):
    with pytest.raises(SettingError, match=problem):
        replace(TOPICS, **change)


def test_a_task_whose_classes_have_factors_says_so_and_all_others_are_written_as_before() -> None:
    assert not any("class_factors" in task.as_json() for task in CATALOGUE.values())
    skewed = replace(RTE, metrics=("macro_f1", "accuracy"), class_factors=True)
    assert task_from_json(json.loads(json.dumps(skewed.as_json()))) == skewed
    for change in ({"metrics": ("accuracy",)}, {"labels": (), "score_range": (0.0, 5.0), "metrics": ("pearson",)}):
        with pytest.raises(SettingError, match="class_factors are for one label a row"):
            replace(skewed, **change)
    with pytest.raises(SettingError, match="macro F1 needs labels"):
        replace(CATALOGUE["race"], metrics=("macro_f1",))
