"""From files to examples: the JSONL layout, labelled tables, and what is said of rows that cannot be used."""

from __future__ import annotations

import ast
import csv
import gzip
import json
import re
import unicodedata
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from gpt1.base.errors import InputError, SettingError
from gpt1.tasks.catalog import CATALOGUE
from gpt1.tasks.checking import check_table
from gpt1.tasks.columns import with_columns
from gpt1.tasks.examples import Example
from gpt1.tasks.readers import find_splits, read_folder, read_further, read_split, read_tables, tasks_in
from gpt1.tasks.shapes import BOTH, CHOICES, PAIR, SINGLE


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_csv(path: Path, header: str, *rows: tuple[object, ...]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header.split(","), *rows])
    return path


def read_one(task: str, row: dict[str, Any], tmp_path: Path, split: str = "dev") -> Example:
    (example,) = read_split(CATALOGUE[task], write_jsonl(tmp_path / "rows.jsonl", [row]), split)
    return example


# The JSONL layout


def test_a_class_becomes_the_index_of_its_name(tmp_path):
    row = {"a": "It rains.", "b": "It is wet.", "label": "neutral"}
    assert read_one("snli", row, tmp_path) == Example(("It rains.", "It is wet."), 1, 1)


@pytest.mark.parametrize("label", ["1", 1, 1.0, " 1 "])
def test_a_class_that_is_a_number_may_be_written_as_one(tmp_path, label):
    assert read_one("sst2", {"text": "fine", "label": label}, tmp_path).label == 1


@pytest.mark.parametrize("label", [4.75, "4.75"])
def test_a_score_stays_a_number(tmp_path, label):
    assert read_one("stsb", {"a": "x", "b": "y", "label": label}, tmp_path).label == 4.75


def test_texts_keep_their_blanks(tmp_path):
    assert read_one("sst2", {"text": " a trailing blank ", "label": "0"}, tmp_path).texts == (" a trailing blank ",)


def test_race_rows_carry_question_answers_and_level(tmp_path):
    row = {"context": "c", "question": "q _ ?", "choices": ["w", "x", "y", "z"], "label": 3, "level": "high"}
    assert read_one("race", row, tmp_path) == Example(("c", "q _ ?", "w", "x", "y", "z"), 3, 1, group=1)


def test_story_cloze_has_an_empty_question(tmp_path):
    row = {"context": "Once.", "choices": ["Good end.", "Bad end."], "label": 0}
    assert read_one("storycloze", row, tmp_path) == Example(("Once.", "", "Good end.", "Bad end."), 0, 1)


def test_the_question_of_dpr_is_its_pronoun(tmp_path):
    row = {"text": "Ann met Sue and she left.", "pronoun": "she", "choices": ["Ann", "Sue"], "label": 1}
    assert read_one("dpr", row, tmp_path).texts == ("Ann met Sue and she left.", "she", "Ann", "Sue")


def test_only_test_rows_may_lack_a_label(tmp_path):
    assert read_one("sst2", {"text": "fine"}, tmp_path, "test").label is None
    with pytest.raises(InputError, match=r"rows\.jsonl, row 1: no column 'label'"):
        read_one("sst2", {"text": "fine"}, tmp_path, "dev")


@pytest.mark.parametrize(
    ("task", "row", "message"),
    [
        (
            "sst2",
            {"texte": "fine", "label": "1"},
            r"no column 'text'; did you mean 'texte'\? \(columns: texte, label\)",
        ),
        ("sst2", {"text": "  \n", "label": "1"}, "'text' is empty"),
        ("sst2", {"text": None, "label": "1"}, "'text' is empty"),
        ("sst2", {"text": 7, "label": "1"}, "'text' holds 7, expected text"),
        ("sst2", {"text": "half \ud83d", "label": "1"}, "'text': character 5 is a lone surrogate"),
        ("sst2", {"text": "fine", "label": "half \ud83d"}, "'label': character 5 is a lone surrogate"),
        ("sst2", {"text": "fine", "label": None}, "the label in 'label' is empty"),
        ("sst2", {"text": "fine", "label": ""}, "the label in 'label' is empty"),
        ("sst2", {"text": "fine", "label": "2"}, "label '2' is none of 0, 1"),
        (
            "sst2",
            {"text": "fine", "label": ["0", "1"]},
            "several labels; write one, or `labels_sep='|'` reads them all",
        ),
        ("rte", {"a": "x", "b": "y", "label": "entailmnt"}, r"did you mean 'entailment'\?"),
        ("stsb", {"a": "x", "b": "y", "label": 5.1}, "score 5.1 is outside 0.0 to 5.0"),
        ("stsb", {"a": "x", "b": "y", "label": float("nan")}, "the label in 'label' is empty"),
        ("stsb", {"a": "x", "b": "y", "label": "much"}, "label 'much' is not a number"),
        ("stsb", {"a": "x", "b": "y", "label": True}, "label True is not a number"),
        ("storycloze", {"context": "c", "choices": ["x"], "label": 0}, "'choices' has 1 answers.*has 2"),
        ("storycloze", {"context": "c", "choices": "xy", "label": 0}, "expected a list of 2 answers"),
        ("storycloze", {"context": "c", "choices": ["x", ""], "label": 0}, r"'choices\[1\]' is empty"),
        ("storycloze", {"context": "c", "choices": ["x", "y"], "label": 2}, r"label 2 is not the index.*\(0 to 1\)"),
        ("storycloze", {"context": "c", "choices": ["x", "y"], "label": -1}, "label -1 is not the index"),
        ("dpr", {"text": "t", "choices": ["x", "y"], "label": 0}, "no column 'pronoun'"),
        (
            "race",
            {"context": "c", "question": "q", "choices": list("wxyz"), "label": 0, "level": "low"},
            "'level' is 'low', expected one of middle, high",
        ),
    ],
)
def test_a_row_that_cannot_be_used_is_named_with_its_fault(tmp_path, task, row, message):
    with pytest.raises(InputError, match=rf"rows\.jsonl, row 1: .*{message}"):
        read_one(task, row, tmp_path)


def test_the_row_number_is_that_of_the_file(tmp_path):
    rows = [{"text": "fine", "label": "1"}, {"text": "", "label": "1"}]
    with pytest.raises(InputError, match="row 2: 'text' is empty"):
        read_split(CATALOGUE["sst2"], write_jsonl(tmp_path / "dev.jsonl", rows), "dev")


def test_a_file_without_rows_is_refused(tmp_path):
    with pytest.raises(InputError, match="has no rows"):
        read_split(CATALOGUE["sst2"], write_jsonl(tmp_path / "dev.jsonl", []), "dev")


def test_a_split_the_task_does_not_have_is_refused(tmp_path):
    with pytest.raises(SettingError, match=r"unknown split 'dev'.*known: train, dev_matched"):
        read_split(CATALOGUE["mnli"], tmp_path / "dev.jsonl", "dev")


# Folders

GOOD, BAD = {"text": "good", "label": "1"}, {"text": "bad", "label": "0"}


def test_a_folder_gives_every_split_it_has(tmp_path):
    write_jsonl(tmp_path / "train.jsonl", [GOOD, GOOD, BAD, BAD])
    (tmp_path / "dev.jsonl.gz").write_bytes(gzip.compress(json.dumps(GOOD).encode()))
    write_jsonl(tmp_path / "test.jsonl", [{"text": "who knows"}])
    found = read_folder(CATALOGUE["sst2"], tmp_path)
    assert {split: [e.label for e in examples] for split, examples in found.splits.items()} == {
        "train": [1, 1, 0, 0],
        "dev": [1],
        "test": [None],
    }
    assert found.notices == ()


def test_a_folder_is_read_in_the_encoding_asked_for(tmp_path):
    rows = '{"text": "café", "label": "1"}\n{"text": "bad", "label": "0"}\n'
    (tmp_path / "train.jsonl").write_bytes(rows.encode("cp1252"))
    train = read_folder(CATALOGUE["sst2"], tmp_path, encoding="cp1252").splits["train"]
    assert train[0].texts == ("café",)
    with pytest.raises(InputError, match="0xe9 is not utf-8"):
        read_folder(CATALOGUE["sst2"], tmp_path)


def test_the_folder_of_all_tasks_leads_to_the_folder_of_the_task(tmp_path):
    (tmp_path / "sst2").mkdir()
    write_jsonl(tmp_path / "sst2" / "train.jsonl", [GOOD, BAD])
    assert len(read_folder(CATALOGUE["sst2"], tmp_path).splits["train"]) == 2


def test_a_folder_without_training_rows_says_so(tmp_path):
    write_jsonl(tmp_path / "dev.jsonl", [GOOD])
    (notice,) = read_folder(CATALOGUE["sst2"], tmp_path).notices
    assert "nothing to train on" in notice


def test_a_folder_without_any_split_says_what_was_expected_and_what_is_there(tmp_path):
    (tmp_path / "notes.txt").touch()
    assert find_splits(CATALOGUE["sst2"], tmp_path) == {}
    with pytest.raises(InputError, match=r"expected train\.jsonl, dev\.jsonl, test\.jsonl.* found notes\.txt"):
        read_folder(CATALOGUE["sst2"], tmp_path)


def test_two_files_for_one_split_are_refused(tmp_path):
    write_jsonl(tmp_path / "train.jsonl", [GOOD])
    (tmp_path / "train.jsonl.xz").touch()
    with pytest.raises(InputError, match=r"two files for 'train', train\.jsonl and train\.jsonl\.xz"):
        find_splits(CATALOGUE["sst2"], tmp_path)


def test_training_rows_of_one_label_are_refused(tmp_path):
    write_jsonl(tmp_path / "train.jsonl", [GOOD, GOOD])
    with pytest.raises(InputError, match="every row has the label '1'"):
        read_folder(CATALOGUE["sst2"], tmp_path)


def test_the_right_answer_may_stand_first_in_every_row(tmp_path):
    row = {"context": "c", "choices": ["right", "wrong"], "label": 0}
    write_jsonl(tmp_path / "train.jsonl", [row, row])
    assert [e.label for e in read_folder(CATALOGUE["storycloze"], tmp_path).splits["train"]] == [0, 0]


# Tables


@pytest.mark.parametrize(
    ("header", "shape", "fields", "label"),
    [
        ("text,label", SINGLE, ("text",), "label"),
        ("Id,Sentence,Class", SINGLE, ("Sentence",), "Class"),
        ("id,text,review,label,score", SINGLE, ("text",), "label"),
        ("anything,stars", SINGLE, ("anything",), "stars"),
        ("review,anything", SINGLE, ("review",), "anything"),
        ("id,a,b,label", PAIR, ("a", "b"), "label"),
        ("sentence2,sentence1,gold_label", PAIR, ("sentence1", "sentence2"), "gold_label"),
        ("premise,hypothesis,label", PAIR, ("premise", "hypothesis"), "label"),
        ("index,question,sentence,label", PAIR, ("question", "sentence"), "label"),
    ],
)
def test_columns_are_known_by_their_names(tmp_path, header, shape, fields, label):
    width = header.count(",") + 1
    path = write_csv(tmp_path / "table.csv", header, ["x"] * width, ["y"] * width)
    task = read_tables({"train": path}).task
    assert (task.shape, task.fields, task.label_field) == (shape, fields, label)


def test_a_table_says_the_same_in_every_format(tmp_path):
    rows = [{"a": "x, y", "b": "z", "label": 10}, {"a": "u", "b": "v", "label": 9}]
    write_csv(tmp_path / "rows.csv", "a,b,label", *(row.values() for row in rows))
    (tmp_path / "rows.tsv").write_text("a\tb\tlabel\nx, y\tz\t10\nu\tv\t9\n")
    write_jsonl(tmp_path / "rows.jsonl", rows)
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    found = [read_tables({"train": tmp_path / f"rows.{kind}"}) for kind in ("csv", "tsv", "jsonl", "parquet")]
    assert [labelled.task.labels for labelled in found] == [("9", "10")] * 4
    assert [labelled.splits["train"] for labelled in found] == [
        [Example(("x, y", "z"), 1, first), Example(("u", "v"), 0, first + 1)] for first in (2, 2, 1, 1)
    ]


@pytest.mark.parametrize(
    ("header", "question", "pair"),
    [
        ("review,comment,label", "which column is the text, review or comment?", ("review", "comment")),
        ("text,stars,rating", "which column is the label, stars or rating?", ("text", "stars")),
        ("foo,bar,baz", "which columns are the text and the label?", ("foo", "bar")),
        ("text,foo,bar", "which column is the label?", ()),
        ("foo,bar,label", "which column is the text?", ("foo", "bar")),
    ],
)
def test_columns_that_could_be_either_are_asked_for_at_once_with_an_example_of_each(tmp_path, header, question, pair):
    names = header.split(",")
    rows = [[f"a long text of {n}", f"text {n}", str(n % 2)] for n in range(6)]
    path = write_csv(tmp_path / "table.csv", header, *rows)
    with pytest.raises(InputError) as asked:
        read_tables({"train": path})
    told = str(asked.value)
    examples = ", ".join(f"{name} ('{cell}')" for name, cell in zip(names, rows[0], strict=True))
    assert told.startswith(f"{path}: {question} Columns: {examples}; name them, such as `columns=")
    ways = [ast.literal_eval(way) for way in re.findall("`columns=({.*?})`", told)]
    assert ways[0] == {"text": names[0], "label": names[2]}
    assert ways[1:] == ([{"a": pair[0], "b": pair[1], "label": names[2]}] if pair else [])
    for way in ways:
        assert read_tables({"train": path}, columns=way).task.label_field == names[2]


def test_a_column_whose_name_would_break_the_advice_is_shown_and_not_proposed(tmp_path):
    path = write_csv(tmp_path / "table.csv", "what `they` said,foo", *[[f"text {n}", str(n % 2)] for n in range(6)])
    with pytest.raises(InputError) as asked:
        read_tables({"train": path})
    assert "they" in str(asked.value)
    assert "`columns=" not in str(asked.value)


def test_examples_of_columns_do_not_break_the_message(tmp_path):
    path = write_csv(tmp_path / "table.csv", "one,two,three", ["x `y`; z" + "long " * 20, "a", "b"], ["x", "c", "d"])
    examples = r"one \(\"x 'y'; zlong (long )+(lo)?…\"\), two \('a'\), three \('b'\); name them"
    with pytest.raises(InputError, match=examples):
        read_tables({"train": path})


@pytest.mark.parametrize(
    ("first", "second"),
    [(("good", "pos"), ("dull", "pos")), (("a film that goes on for longer than any name would", "pos"), ("x", "neg"))],
)
def test_a_table_without_a_header_is_told_that_it_may_lack_one(tmp_path, first, second):
    path = write_csv(tmp_path / "table.csv", ",".join(first), second)
    with pytest.raises(
        InputError, match=r"which columns are .* is the header missing\? Write one, such as text,label$"
    ):
        read_tables({"train": path})


SENTENCES = [f"a sentence of several words and number {n}" for n in range(20)]
GOOD_OR_BAD = [("good", "bad")[n % 2] for n in range(20)]
ONE_OR_NOUGHT = [str(n % 2) for n in range(20)]
COUNTED = [str(n) for n in range(20)]


@pytest.mark.parametrize(
    ("header", "cells", "columns", "is_doubted"),
    [
        ("Unnamed: 0,Beschwerde,Art", (COUNTED, SENTENCES, GOOD_OR_BAD), ("Beschwerde", "Art"), False),
        (",Beschwerde,Art", (COUNTED, SENTENCES, GOOD_OR_BAD), ("Beschwerde", "Art"), False),
        ("0,1", (SENTENCES, ONE_OR_NOUGHT), ("0", "1"), True),
        (",0,1", (COUNTED, SENTENCES, ONE_OR_NOUGHT), ("0", "1"), True),
        (",", (SENTENCES, ONE_OR_NOUGHT), ("column 1", "column 2"), False),
        ("mail,good", (SENTENCES, GOOD_OR_BAD), ("mail", "good"), True),
        ("text,good", (["ok", *SENTENCES[1:]], GOOD_OR_BAD), ("text", "good"), False),
        (f"{'What did you think of it? ' * 2},Is it good?", (SENTENCES, GOOD_OR_BAD), None, True),
        ("What did you think?,Is it good?", (SENTENCES, GOOD_OR_BAD), None, True),
        ("all was quite fine,rare", (SENTENCES, GOOD_OR_BAD), None, True),
        ("comment,q1", (SENTENCES, ["q2", "q3"] * 10), None, False),
    ],
)
def test_a_header_of_odd_names_is_one_and_told_where_it_could_be_a_row(tmp_path, header, cells, columns, is_doubted):
    path = write_csv(tmp_path / "table.csv", header, *zip(*cells, strict=True))
    found = read_tables({"train": path})
    assert (*found.task.fields, found.task.label_field) == (columns or tuple(header.split(",")))
    assert [len(examples) for examples in found.splits.values()] == [20]
    told = [notice for notice in found.notices if "the first line is taken for the header" in notice]
    assert len(told) == is_doubted
    assert [one.key for one in check_table(path).findings if one.key == "header"] == ["header"] * is_doubted


@pytest.mark.parametrize(
    "cells",
    [
        (SENTENCES, ONE_OR_NOUGHT),
        (SENTENCES, [str(n / 4) for n in range(20)]),
        (SENTENCES, ["", *(str(n / 4) for n in range(19))][::-1]),
        (COUNTED, SENTENCES, GOOD_OR_BAD),
        (SENTENCES, ["review", "label"] * 10),  # labels that are called as columns are
        (
            SENTENCES,
            ["intent_0", *(f"intent_{1 + n % 3}" for n in range(19))],
        ),  # a label of its own, numbered as others
    ],
)
def test_a_first_line_like_all_others_is_a_row(tmp_path, cells):
    first, *rest = zip(*cells, strict=True)
    path = write_csv(tmp_path / "table.csv", ",".join(first), *rest)
    with pytest.raises(InputError, match=r"The first line looks like a row; is the header missing\?"):
        read_tables({"train": path})


def test_a_first_line_with_a_decimal_comma_over_others_is_no_header_for_sure(tmp_path):
    rows = [f"{sentence};{n % 4},25" for n, sentence in enumerate(SENTENCES)]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["kommentar;0,5", *rows]))
    assert "the first line is taken for the header: 'kommentar', '0,5'" in read_tables({"train": path}).notices[0]
    path.write_text("\n".join(rows))
    with pytest.raises(InputError, match="The first line looks like a row"):
        read_tables({"train": path})


def test_a_further_column_of_texts_is_told_with_how_to_read_it(tmp_path):
    subjects = [f"all about the sentence with number {n}" for n in range(20)]
    dates = [f"Mon Nov {n:02} 2026 10:00:00 GMT" for n in range(20)]
    homes = [f"{n} Main Street, Springfield, IL 6270{n}" for n in range(20)]
    cells = zip(dates, subjects, SENTENCES, homes, GOOD_OR_BAD, strict=True)
    path = write_csv(tmp_path / "table.csv", "sent at,subject,text,home,label", *cells)
    (notice,) = read_tables({"train": path}).notices
    assert notice == (
        f"{path}: 'subject' holds text too, and is not read; `columns={{'text': 'subject', 'label': 'label'}}` reads "
        "that one, or `columns={'a': 'text', 'b': 'subject', 'label': 'label'}` reads both"
    )
    (finding,) = [one for one in check_table(path).findings if one.key == "unread-text"]
    assert f"{path}: {finding.what}; {finding.advice}" == notice
    for way in re.findall("`columns=({.*?})`", notice):  # and who follows it is not told so again
        assert read_tables({"train": path}, columns=ast.literal_eval(way)).notices == ()


CLERKS = [("AB", "CD", "EF")[n % 3] for n in range(20)]


def test_other_columns_that_could_be_the_label_are_told_with_what_they_hold(tmp_path):
    days = [f"2026-01-{n + 1:02}" for n in range(20)]
    cells = zip(days, SENTENCES, CLERKS, GOOD_OR_BAD, strict=True)
    path = write_csv(tmp_path / "table.csv", "day,text,clerk,label", *cells)
    (notice,) = read_tables({"train": path}).notices
    kinds = ", ".join(repr(kind) for kind in dict.fromkeys(GOOD_OR_BAD))
    assert notice == (
        f"{path}: 'label' is taken for the label (2 different: {kinds}); by its values 'clerk' (3 different: 'AB', "
        "'CD', 'EF') could be it too; `columns={'text': 'text', 'label': 'clerk'}` takes that one"
    )
    (finding,) = [one for one in check_table(path).findings if one.key == "other-labels"]
    assert not finding.stops
    assert f"{path}: {finding.what}; {finding.advice}" == notice
    (way,) = re.findall("`columns=({.*?})`", notice)
    chosen = read_tables({"train": path}, columns=ast.literal_eval(way))
    assert (chosen.task.label_field, chosen.notices) == ("clerk", ())


def test_where_the_label_is_asked_for_all_columns_that_could_be_it_say_what_they_hold(tmp_path):
    cells = zip(CLERKS, SENTENCES, GOOD_OR_BAD, strict=True)
    path = write_csv(tmp_path / "table.csv", "clerk,remark,mood", *cells)
    with pytest.raises(
        InputError, match=r"clerk \(3 different: 'AB', 'CD', 'EF'\), remark \('.*'\), mood \(2 different: "
    ):
        read_tables({"train": path})


def test_a_further_text_of_a_pair_is_told_without_giving_the_pair_up(tmp_path):
    cells = zip(SENTENCES, SENTENCES[::-1], SENTENCES, GOOD_OR_BAD, strict=True)
    path = write_csv(tmp_path / "table.csv", "premise,hypothesis,why; in your own words,label", *cells)
    (notice,) = read_tables({"train": path}).notices
    assert notice == f"{path}: 'why; in your own words' holds text too, and is not read"
    (finding,) = [one for one in check_table(path).findings if one.key == "unread-text"]
    assert (finding.what, finding.advice) == (notice.removeprefix(f"{path}: "), "")


def test_a_label_column_of_any_name_is_told_whole_where_a_label_is_empty(tmp_path):
    rows = (["x", "a|b"], ["y", "a"], ["z", "b"], ["v", ""])
    path = write_csv(tmp_path / "table.csv", "text,kind; of it", *rows)
    with pytest.raises(InputError, match=r"'kind; of it' is empty; `labels_sep='\|'` reads .* them, or label the row"):
        read_tables({"train": path}, columns={"label": "kind; of it"})


def test_keys_of_jsonl_are_not_taken_for_a_missing_header(tmp_path):
    with pytest.raises(InputError, match=r"which columns are .* Columns: one \('one'\), two \('two'\); name them"):
        read_tables({"train": write_jsonl(tmp_path / "rows.jsonl", [{"one": "one", "two": "two"}])})


def test_the_caller_may_name_the_columns(tmp_path):
    path = write_csv(tmp_path / "table.csv", "text,review,stars", ["-", "fine", 5], ["-", "dull", 1])
    found = read_tables({"train": path}, columns={"text": "review", "label": "stars"})
    assert [(e.texts, e.label) for e in found.splits["train"]] == [(("fine",), 1), (("dull",), 0)]


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"text": "reviews"}, InputError, r"no column 'reviews'; did you mean 'review'\?"),
        ({"label": "starz"}, InputError, r"no column 'starz'; did you mean 'stars'\?"),
        ({"words": "review"}, SettingError, "unknown role of a column 'words'"),
        ({"review": "text"}, SettingError, r"'text' is a role; the role comes first: `columns=\{'text': 'review'\}`"),
        ({"a": "review"}, SettingError, "columns for a make no task"),
        ({"text": "review", "label": "review"}, SettingError, "each column needs one use"),
    ],
)
def test_columns_named_wrongly_are_refused(tmp_path, columns, error, message):
    path = write_csv(tmp_path / "table.csv", "review,stars", ["fine", 5], ["dull", 1])
    with pytest.raises(error, match=message):
        read_tables({"train": path}, columns=columns)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["10", "9", "-1", "2.5"], ("-1", "2.5", "9", "10")),
        (["b", "10", "9"], ("10", "9", "b")),
        (["yes", "no"], ("no", "yes")),
        (["inf", "-1", "-2"], ("-1", "-2", "inf")),
    ],
)
def test_labels_are_sorted_as_numbers_where_all_are_numbers(tmp_path, labels, expected):
    path = write_csv(tmp_path / "table.csv", "text,label", *(["x", label] for label in labels))
    assert read_tables({"train": path}).task.labels == expected


def test_labels_come_from_the_training_rows_and_others_are_refused(tmp_path):
    train = write_csv(tmp_path / "train.csv", "text,label", ["x", "no"], ["y", "yes"])
    dev = write_csv(tmp_path / "dev.csv", "text,label", ["x", "no"], ["y", "maybe"])
    with pytest.raises(InputError, match=r"dev\.csv, row 3: label 'maybe' is none of no, yes"):
        read_tables({"train": train, "dev": dev})


def test_a_label_seen_once_is_told_and_not_refused(tmp_path):
    rows = [["x", "no"], ["y", "yes"], ["z", "no"]]
    found = read_tables({"train": write_csv(tmp_path / "train.csv", "text,label", *rows)})
    (notice,) = found.notices
    assert "labels seen once, too rare to learn: 'yes' (row 3)" in notice
    assert len(found.splits["train"]) == 3


@pytest.mark.parametrize(
    ("labels", "notice"),
    [
        (["Pos", "pos", "neg"], "though they look the same: 'Pos' and 'pos'"),
        (["1", "1.0", "2"], "though they look the same: '1' and '1.0'"),
        (range(21), "the labels are 21 numbers; if they are scores to predict, say `regression=True`"),
    ],
)
def test_labels_that_may_be_meant_otherwise_are_told_and_not_refused(tmp_path, labels, notice):
    path = write_csv(tmp_path / "train.csv", "text,label", *(["x", label] for label in [*labels, *labels]))
    found = read_tables({"train": path})
    assert [notice in said for said in found.notices] == [True]
    assert len(found.task.labels) == len(labels)


@pytest.mark.parametrize("labels", [["pos", "neg"], ["1", "2", "3"], range(20), [f"class {n}" for n in range(30)]])
def test_labels_without_a_doubt_are_passed_in_silence(tmp_path, labels):
    path = write_csv(tmp_path / "train.csv", "text,label", *(["x", label] for label in [*labels, *labels]))
    assert read_tables({"train": path}).notices == ()


def test_a_test_table_needs_no_label_column(tmp_path):
    train = write_csv(tmp_path / "train.csv", "text,label", ["x", "no"], ["y", "yes"])
    test = write_csv(tmp_path / "test.csv", "text", ["z"])
    found = read_tables({"train": train, "test": test})
    assert found.splits["test"] == [Example(("z",), None, 2)]


def test_number_labels_are_scores_when_asked_for(tmp_path):
    train = write_csv(tmp_path / "train.csv", "text,score", ["x", "1.5"], ["y", "3"])
    dev = write_csv(tmp_path / "dev.csv", "text,score", ["z", "3.5"])
    found = read_tables({"train": train, "dev": dev}, regression=True)
    assert (found.task.labels, found.task.score_range) == ((), (1.5, 3.5))
    assert [e.label for e in found.splits["train"]] == [1.5, 3.0]
    assert found.task.metrics == ("pearson", "spearman")


@pytest.mark.parametrize(
    ("rows", "regression", "message"),
    [
        ([("x", "no"), ("y", "no")], False, "every row has the label 'no'"),
        ([("x", "2"), ("y", "2.0")], True, "every row has the label '2.0'"),
        ([("x", ""), ("y", "")], False, "no row has a label"),
        ([("x", "no"), ("y", "yes"), ("z", "NaN")], False, "row 4: the label in 'label' is empty"),
        ([("x", "NaN"), ("y", "1"), ("z", "1")], False, "row 2: the label in 'label' is empty"),
        ([("x", "2"), ("y", ""), ("z", "2")], True, "row 3: the label in 'label' is empty"),
        ([("x", "1"), ("y", "two")], True, "row 3: label 'two' is not a number"),
        ([("x", "1"), ("", "2")], True, "row 3: 'text' is empty"),
        ([("x", "no"), ("y", "z" * 2_000)], False, "row 3: 'label' holds 2,000 characters; a label is short"),
    ],
)
def test_a_table_that_cannot_be_learnt_from_is_refused(tmp_path, rows, regression, message):
    with pytest.raises(InputError, match=message):
        read_tables({"train": write_csv(tmp_path / "table.csv", "text,label", *rows)}, regression=regression)


def test_a_cell_of_parquet_that_is_not_a_number_is_an_empty_one(tmp_path):
    columns = {"text": ["x", "y", "z"], "label": [1.0, float("nan"), 2.0]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "rows.parquet")
    with pytest.raises(InputError, match=r"rows\.parquet, row 2: the label in 'label' is empty"):
        read_tables({"train": tmp_path / "rows.parquet"}, regression=True)


def test_a_column_that_only_the_dev_table_lacks_is_named_with_the_row(tmp_path):
    train = write_csv(tmp_path / "train.csv", "text,label", ["x", "no"], ["y", "yes"])
    dev = write_csv(tmp_path / "dev.csv", "txt,label", ["x", "no"])
    with pytest.raises(
        InputError, match=r"dev\.csv has no column 'text'; did you mean 'txt'\? \(columns: txt, label\)"
    ):
        read_tables({"train": train, "dev": dev})


def test_a_message_shows_only_the_beginning_of_a_huge_cell(tmp_path):
    path = write_jsonl(tmp_path / "rows.jsonl", [{"text": "x", "label": 1}, {"text": ["y" * 10**6], "label": 0}])
    with pytest.raises(InputError, match=r"row 2: 'text' holds .*expected text") as raised:
        read_tables({"train": path})
    assert len(str(raised.value)) < 300


def test_a_symmetric_table_is_a_task_of_both_orders(tmp_path):
    path = write_csv(tmp_path / "train.csv", "sentence1,sentence2,score", ["x", "y", 1], ["u", "v", 3])
    task = read_tables({"train": path}, symmetric=True, regression=True).task
    assert (task.shape, task.fields, task.score_range) == (BOTH, ("sentence1", "sentence2"), (1.0, 3.0))


def test_a_table_of_choices_takes_the_number_of_answers_from_its_first_row(tmp_path):
    row = {"context": "c", "choices": ["x", "y", "z"], "label": 2}
    found = read_tables({"train": write_jsonl(tmp_path / "quiz.jsonl", [row])})
    assert (found.task.name, found.task.shape, found.task.choices) == ("quiz", CHOICES, 3)
    assert found.splits["train"] == [Example(("c", "", "x", "y", "z"), 2, 1)]


def test_a_table_whose_choices_are_no_list_is_refused(tmp_path):
    path = write_csv(tmp_path / "quiz.csv", "context,choices,label", ["c", "x;y", 0])
    with pytest.raises(InputError, match="row 2: 'choices' holds 'x;y', expected a list"):
        read_tables({"train": path})


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("My Reviews (2).csv", "my-reviews-2"),
        ("отзывы.csv", "отзывы"),
        ("Käufe_1.csv.gz", "käufe-1"),
        (unicodedata.normalize("NFD", "Käufe 1.csv"), "käufe-1"),
        ("(!).csv", "table"),
    ],
)
def test_the_task_of_a_table_is_named_after_its_file(tmp_path, file, name):
    path = write_csv(tmp_path / file, "text,label", ["x", "no"], ["y", "yes"])
    if file.endswith(".gz"):
        path.write_bytes(gzip.compress(path.read_bytes()))
    assert read_tables({"train": path}).task.name == name


def test_tables_without_training_rows_are_refused(tmp_path):
    with pytest.raises(SettingError, match="'train' is needed"):
        read_tables({"dev": tmp_path / "dev.csv"})


def test_a_table_for_an_unknown_split_is_refused(tmp_path):
    path = write_csv(tmp_path / "table.csv", "text,label", ["x", "no"], ["y", "yes"])
    with pytest.raises(SettingError, match="unknown split 'valid'"):
        read_tables({"train": path, "valid": path})


# Real rows


@pytest.mark.parametrize("name", CATALOGUE)
def test_real_rows_are_as_many_and_labelled_as_counted(name, data):
    task = CATALOGUE[name]
    with (data / "tasks" / "COUNTS.tsv").open(newline="") as file:
        counted = {r["split"]: r for r in csv.DictReader(file, delimiter="\t") if r["task"] == name}
    splits = read_folder(task, data / "tasks").splits
    assert {split: len(examples) for split, examples in splits.items()} == {
        split: int(row["rows"]) for split, row in counted.items()
    }
    for split, examples in splits.items():
        labels = [example.label for example in examples]
        if task.score_range:
            assert (
                f"mean {sum(labels) / len(labels):.3f}, min {min(labels)}, max {max(labels)}"
                == counted[split]["labels"]
            )
            continue
        tally = Counter(task.labels[label] if task.labels else str(label) for label in labels)
        said = ", ".join(f"{label}: {count}" for label, count in sorted(tally.items()))
        if task.groups:
            levels = Counter(task.groups[example.group] for example in examples)
            said += "; " + ", ".join(f"{level}: {count}" for level, count in sorted(levels.items()))
        assert said == counted[split]["labels"]


def test_two_columns_of_any_name_are_told_apart_by_what_they_repeat(tmp_path: Path) -> None:
    rows = [f"Ein Satz von vielen, der {number}.;{'gut' if number % 2 else 'schlecht'}" for number in range(12)]
    (tmp_path / "a.csv").write_text("\n".join(["Bewertung;Urteil", *rows]))
    task = read_tables({"train": tmp_path / "a.csv"}).task
    assert (task.shape, task.fields, task.label_field) == ("single", ("Bewertung",), "Urteil")
    (tmp_path / "b.csv").write_text("\n".join(["x;y", *(f"{number};{number}" for number in range(12))]))
    with pytest.raises(InputError, match="which columns are the text and the label"):
        read_tables({"train": tmp_path / "b.csv"})


def test_scores_with_a_decimal_comma_are_read_as_numbers_and_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text;label\ngood;3,5\nbad;-1,0\nfair;2\nlow; 0,125\n")
    found = read_tables({"train": tmp_path / "a.csv"}, regression=True)
    assert [example.label for example in found.splits["train"]] == [3.5, -1.0, 2.0, 0.125]
    (notice,) = found.notices
    assert notice.endswith("a.csv: 3 scores with a decimal comma, read as with a point: '3,5' is 3.5 (rows 2, 3, 5)")
    (finding,) = [one for one in check_table(tmp_path / "a.csv", regression=True).findings if one.rows == [2, 3, 5]]
    assert (finding.key, finding.stops) == ("decimal-commas", False)
    (tmp_path / "b.csv").write_text('text,label\nfine,"1,5"\n')
    rows, told = read_further(found.task, tmp_path / "b.csv", "dev")
    assert [example.label for example in rows] == [1.5]
    assert len(told) == 1


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("1,234", "label '1,234' may be 1.234 or 1234; write it with a point, or without the comma"),
        ("1.234,5", "label '1.234,5' is not a number; write digits and one point alone, such as 1234.5"),
        ("0,0 %", "label '0,0 %' is not a number; write digits and one point alone, such as 1234.5"),
        ("1,234,567", "label '1,234,567' is not a number; write digits and one point alone, such as 1234.5"),
    ],
)
def test_a_number_with_a_comma_that_may_be_two_is_refused(tmp_path: Path, label: str, said: str) -> None:
    (tmp_path / "a.csv").write_text(f"text;label\ngood;1,5\nbad;{label}\n")
    with pytest.raises(InputError, match=re.escape(f"a.csv, row 3: {said}")):
        read_tables({"train": tmp_path / "a.csv"}, regression=True)


def test_classes_that_are_numbers_with_decimal_commas_are_told_to_be_scores_perhaps(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text;label\ngood;3,5\nbad;1,0\nfair;2\nfine;3,5\ndull;1,0\nso;2\n")
    (notice,) = read_tables({"train": tmp_path / "a.csv"}).notices
    assert notice.endswith("the labels are 3 numbers; if they are scores to predict, say `regression=True`")
    assert "number-labels" in [one.key for one in check_table(tmp_path / "a.csv").findings]


def test_tasks_are_found_in_folders_of_their_own_or_official_names(tmp_path):
    for name in ("rte", "SST-2", "mine", "race"):
        (tmp_path / name).mkdir()
    write_jsonl(tmp_path / "rte" / "dev.jsonl", [{"a": "x", "b": "y", "label": "entailment"}])
    (tmp_path / "SST-2" / "train.tsv").write_text("sentence\tlabel\nfine\t1\n")
    write_jsonl(tmp_path / "train.jsonl", [{"text": "in no folder of its own", "label": "1"}])
    assert tasks_in(tmp_path) == ["sst2", "rte"]
    assert tasks_in(tmp_path / "absent") == []


def test_a_column_that_numbers_the_rows_is_neither_text_nor_label(tmp_path: Path) -> None:
    rows = [f"{7000 + row},the parcel {row} was late,{('shipping', 'billing', 'login')[row % 3]}" for row in range(30)]
    path = tmp_path / "mails.csv"
    for header in ("ticket_id,message,topic", "nr,words,what"):
        path.write_text("\n".join([header, *rows]) + "\n")
        task = read_tables({"train": path}).task
        assert (*task.fields, task.label_field) == tuple(header.split(",")[1:])


def test_a_number_that_comes_once_may_still_be_the_label_where_nothing_else_comes_again(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("text,result\n" + "".join(f"run {row} was long,{row}\n" for row in range(30)))
    assert read_tables({"train": path}, regression=True).task.label_field == "result"


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("2026-01-{0:02}", "'when' holds dates"),
        ("{0}.3.26 14:0{0}", "'when' holds dates"),
        ("March {0}, 2026", "'when' holds dates"),
        ("2026-03-0{0}T10:00:0{0}.5Z", "'when' holds dates"),
        ("", "'when' is empty"),
        ("{1}", "'when' numbers the rows"),
        ("T-{1}", "'when' has a value of its own in nearly every row"),
    ],
)
def test_dates_and_names_of_rows_are_no_labels_and_that_is_said_with_what_helps(
    cell: str, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "mails.csv"
    lines = [f'"{cell.format(1 + row % 5, row + 40)}",the parcel {row} was late' for row in range(30)]
    for header in ("when,text", "when,told"):  # by the name of the text, and by neither
        path.write_text("\n".join([header, *lines]) + "\n")
        with pytest.raises(InputError, match="no column looks like labels") as refused:
            read_tables({"train": path})
        said = str(refused.value)
        assert said.startswith(f"{path}: no column looks like labels: {why}")
        assert "; add a column 'label' with the right answer for each row, or name the one that is meant with `" in said
        with suppress(InputError):  # a table of one label
            assert (
                read_tables({"train": path}, columns={"text": header[5:], "label": "when"}).task.label_field == "when"
            )


@pytest.mark.parametrize(
    ("cells", "settings"),
    [
        ([f"{row % 5}|{5 + row // 5}" for row in range(25)], {"labels_sep": "|"}),  # no two rows are labelled alike
        ([("09:00", "14:00", "18:30")[row % 3] for row in range(25)], {}),
        ([str(3 * row + 7 * row % 3) for row in range(25)], {}),
    ],
)
def test_several_labels_hours_that_come_again_and_scores_that_do_not_may_be_the_label(
    cells: list[str], settings: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "mails.csv"
    path.write_text("text,wanted\n" + "".join(f"parcel {row} was late,{cell}\n" for row, cell in enumerate(cells)))
    assert read_tables({"train": path}, **settings).task.label_field == "wanted"
    assert "wanted" in check_table(path, **settings).columns


def test_hours_and_minutes_that_come_once_each_are_no_labels(tmp_path: Path) -> None:
    path = tmp_path / "mails.csv"
    path.write_text("text,sent\n" + "".join(f"parcel {row} was late,10:{10 + row}\n" for row in range(25)))
    with pytest.raises(InputError, match="no column looks like labels: 'sent' holds times of day"):
        read_tables({"train": path})


def test_all_columns_that_are_not_there_are_told_at_once_before_what_is_wrong_with_rows(tmp_path: Path) -> None:
    train, dev = tmp_path / "train.csv", tmp_path / "dev.csv"
    train.write_text("premise,hypothesis,label\n,b,x\nc,d,y\n")  # the first row lacks a text
    dev.write_text("one,two,label\na,b,x\n")
    with pytest.raises(InputError) as refused:
        read_tables({"train": train, "dev": dev})
    assert str(refused.value) == (
        f"{dev} has none of the columns 'premise', 'hypothesis' (columns: one, two, label); name those that are meant "
        "with `columns={'a': 'COLUMN', 'b': 'COLUMN'}`"
    )
    with pytest.raises(InputError, match=r"has none of the columns 'body', 'stars' \(columns: premise, hypothesis, la"):
        read_tables({"train": train}, columns={"text": "body", "label": "stars"})
    dev.write_text("premise\na\n")
    task = CATALOGUE["rte"]
    with pytest.raises(InputError, match=r"has none of the columns 'a', 'b', 'label' \(columns: premise\); name those"):
        read_further(task, dev, "dev", skip_bad=True)
    with pytest.raises(InputError, match=r"has none of the columns 'a', 'b' \(columns: premise\); name those"):
        read_further(task, dev, "test")


def test_a_line_of_json_may_lack_what_others_have(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"body": "a"}\n{"text": "b", "label": "0"}\n')
    with pytest.raises(InputError, match=r"row 1: no column 'text'"):
        read_further(CATALOGUE["sst2"], path, "dev")
    assert len(read_further(CATALOGUE["sst2"], path, "dev", skip_bad=True)[0]) == 1


def test_texts_alone_have_no_label(tmp_path: Path) -> None:
    path = tmp_path / "mails.csv"
    path.write_text("text\n" + "".join(f"the parcel {row} was late\n" for row in range(5)))
    with pytest.raises(InputError, match=r"no column looks like labels; add a column 'label' with the right answer"):
        read_tables({"train": path})


def test_versions_few_rows_and_decimal_numbers_may_be_labels(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for cell, rows in (("1.{0}", 30), ("v{0}", 12), ("{0}.25", 30), ("2.1.{0}", 12)):
        path.write_text(
            "text,what\n" + "".join(f"the parcel {row} was late,{cell.format(row)}\n" for row in range(rows))
        )
        assert read_tables({"train": path}).task.label_field == "what"


def test_dates_are_not_said_to_be_a_label_too(tmp_path: Path) -> None:
    path, told = tmp_path / "t.csv", list[str]()
    lines = [f"the parcel {row} was late,{'ab'[row % 2]},2026-01-0{1 + row % 3}" for row in range(30)]
    path.write_text("\n".join(["text,label,sent", *lines]) + "\n")
    told = list(read_tables({"train": path}).notices)
    assert not any("sent" in one for one in told)


def test_columns_that_differ_in_case_or_blanks_alone_are_asked_about(tmp_path: Path) -> None:
    for header in ("text,Text,label", "text,label,Label ", "premise,Premise,hypothesis,label"):
        path = tmp_path / "t.csv"
        path.write_text(f"{header}\n" + "".join(f"{','.join('abcd'[: header.count(',') + 1])}{n}\n" for n in range(4)))
        with pytest.raises(InputError, match=r"t\.csv: which column is the \w+, \w+ or \w+"):
            read_tables({"train": path})


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("number", ["1e999", "-1e999", "Infinity"])
def test_a_number_beyond_all_numbers_is_no_label(tmp_path: Path, number: str, regression: bool) -> None:
    rows = ['{"text": "x", "label": 1}', '{"text": "y", "label": 2}', f'{{"text": "z", "label": {number}}}']
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    with pytest.raises(InputError, match=r"row 3: label -?inf is not a number"):
        read_tables({"train": tmp_path / "rows.jsonl"}, regression=regression)


def test_a_class_may_be_called_inf(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text,label\nx,inf\ny,fin\n")
    assert read_tables({"train": tmp_path / "rows.csv"}).task.labels == ("fin", "inf")


def test_a_first_row_of_json_lines_that_lacks_a_column_is_left_out_as_any_other(tmp_path: Path) -> None:
    good = [{"text": f"good {number}", "label": "ab"[number % 2]} for number in range(30)]
    path = write_jsonl(tmp_path / "rows.jsonl", [{"text": "only a text"}, *good])
    found = read_tables({"train": path}, skip_bad=True)
    assert (len(found.splits["train"]), found.task.label_field) == (30, "label")
    with pytest.raises(InputError, match=r"rows\.jsonl, row 1: "):
        read_tables({"train": path})


# ---- several labels a row ----


def topics(tmp_path: Path, *labels: object) -> Path:
    return write_csv(tmp_path / "topics.csv", "text,label", *((f"text {n}", label) for n, label in enumerate(labels)))


def test_several_labels_a_row_are_read_in_one_order_whatever_stands_round_them(tmp_path: Path) -> None:
    table = topics(tmp_path, "login|billing", " billing |  login ", "", "login||", "billing")
    found = read_tables({"train": table}, labels_sep="|")
    assert found.task.labels == ("billing", "login")
    assert [example.label for example in found.splits["train"]] == [(0, 1), (0, 1), (), (1,), (0,)]
    assert found.notices == (f"{table}: 1 of 5 rows without any label, which is learned as such (rows 4)",)


def test_lists_of_a_jsonl_file_are_several_labels(tmp_path: Path) -> None:
    rows = [{"text": "a", "label": ["x", 2]}, {"text": "b", "label": []}, {"text": "c", "label": "x;y"}]
    found = read_tables({"train": write_jsonl(tmp_path / "a.jsonl", rows)}, labels_sep=";")
    assert found.task.labels == ("2", "x", "y")
    assert [example.label for example in found.splits["train"]] == [(0, 1), (), (1, 2)]
    held = write_jsonl(tmp_path / "b.jsonl", [*rows, {"text": "d", "label": ["p;q"]}])
    with pytest.raises(InputError, match=r"row 4: the label 'p;q' holds ';', which parts labels"):
        read_tables({"train": held}, labels_sep=";")


def test_pairs_may_have_several_labels_too(tmp_path: Path) -> None:
    rows = (("p", "q", "x|y"), ("r", "s", "y"), ("t", "u", ""))
    found = read_tables({"train": write_csv(tmp_path / "a.csv", "a,b,label", *rows)}, labels_sep="|", symmetric=True)
    assert (found.task.shape, found.task.is_multilabel) == ("both", True)


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (("a", "b", "a"), r"no row has several labels parted by '\|' in 'label'; is another sign between them"),
        (("a", "", "a"), "there is one label alone, 'a'; `labels_sep` is for two labels or more"),
        (("a|a", "a", ""), "there is one label alone, 'a'"),
        (("", "", ""), "no row has a label"),
        (("a|b", "b|a", "a|b"), "all rows have the same labels"),
    ],
)
def test_labels_of_which_nothing_can_be_learned_are_refused_among_several(
    tmp_path: Path, labels: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        read_tables({"train": topics(tmp_path, *labels)}, labels_sep="|")


def test_a_label_that_stands_twice_counts_once_and_is_told(tmp_path: Path) -> None:
    found = read_tables({"train": topics(tmp_path, "a|a", "b|a", "b")}, labels_sep="|")
    assert found.splits["train"][0].label == (0,)
    assert "1 row with a label that stands there twice, and counts once (rows 2)" in found.notices[0]


def test_labels_that_differ_by_case_are_told_and_can_be_folded_among_several(tmp_path: Path) -> None:
    table = topics(tmp_path, "Login|billing", "login|billing", "login", "billing")
    found = read_tables({"train": table}, labels_sep="|")
    assert found.task.labels == ("Login", "billing", "login")
    assert "`fold_labels=True` takes them for one" in found.notices[-1]
    folded = read_tables({"train": table}, labels_sep="|", fold_labels=True)
    assert folded.task.labels == ("billing", "login")
    assert "'Login' (1 row) taken for 'login'" in folded.notices[0]


@pytest.mark.parametrize(
    ("header", "row", "settings", "problem"),
    [
        ("text,label", ("a", "1"), {"regression": True}, "`regression` has one number a row"),
        ("text,label", ("a", "1"), {"labels_sep": ""}, "`labels_sep` is empty"),
        ("context,choices,label", ("a", "b", "0"), {}, "has choices, of which one is right"),
    ],
)
def test_several_labels_do_not_go_with_numbers_or_choices(
    tmp_path: Path, header: str, row: tuple[str, ...], settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SettingError, match=problem):
        read_tables({"train": write_csv(tmp_path / "a.csv", header, row)}, **{"labels_sep": "|", **settings})


def test_cells_that_seem_to_hold_several_labels_are_told_with_what_helps(tmp_path: Path) -> None:
    found = read_tables({"train": topics(tmp_path, "a|b", "a", "b", "a|b")})
    assert any("`labels_sep='|'` learns each as a label of its own" in text for text in found.notices)


def test_an_empty_cell_beside_several_labels_is_told_as_none_of_them_first(tmp_path: Path) -> None:
    path = topics(tmp_path, "a|b", "a", "", "b", "a|b")
    with pytest.raises(InputError) as refused:
        read_tables({"train": path})
    assert str(refused.value).startswith(
        f"{path}, row 4: the label in 'label' is empty; `labels_sep='|'` reads 'a|b' as several labels, and an "
        "empty cell as none of them, or label the row or take it out; `skip_bad=True`"
    )
    assert len(read_tables({"train": path}, labels_sep="|").splits["train"]) == 5
    report = check_table(path)
    first, second, *_ = [one for one in report.findings if one.stops]
    assert (first.key, second.key) == ("several-labels-in-a-cell", "empty-label")
    assert first.advice.endswith("and an empty cell says that none applies")
    assert report.verdict().startswith("cannot be trained on yet: 2 rows seem to have several labels, parted by '|'")
    assert "skip_bad" not in report.verdict()
    left_out = check_table(path, skip_bad=True)
    assert left_out.is_fit
    assert left_out.findings[0].key == "several-labels-in-a-cell"


def test_a_test_row_without_the_column_has_unknown_labels_and_an_empty_cell_none(tmp_path: Path) -> None:
    train = topics(tmp_path, "a|b", "a")
    test = write_jsonl(tmp_path / "test.jsonl", [{"text": "x"}, {"text": "y", "label": ""}])
    found = read_tables({"train": train, "test": test}, labels_sep="|")
    assert [example.label for example in found.splits["test"]] == [None, ()]


def test_bad_rows_among_several_labels_can_be_left_out(tmp_path: Path) -> None:
    found = read_tables({"train": topics(tmp_path, "a|b", "x" * 1001, "a", "b")}, labels_sep="|", skip_bad=True)
    assert [example.row for example in found.splits["train"]] == [2, 4, 5]


SKEWED = [("it broke", "fault"), *((f"it runs {number}", "ok") for number in range(9))]


@pytest.mark.parametrize(
    ("metric", "found"), [("macro-f1", "macro_f1"), ("macro_f1", "macro_f1"), ("matthews", "matthews")]
)
def test_a_table_may_be_judged_by_another_metric_than_accuracy(tmp_path: Path, metric: str, found: str) -> None:
    path = write_csv(tmp_path / "parts.csv", "text,label", *SKEWED)
    task = read_tables({"train": path}, metric=metric).task
    assert (task.metrics, task.class_factors) == ((found, "accuracy"), True)
    assert read_tables({"train": path}, metric="accuracy").task == read_tables({"train": path}).task


def test_a_table_of_which_nearly_all_rows_have_one_label_is_told_of_a_metric(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "parts.csv", "text,label", *SKEWED)
    told = "90.0 % of the rows have the label 'ok', so accuracy says little; `metric='macro-f1'`"
    assert any(told in notice for notice in read_tables({"train": path}).notices)
    assert not any("accuracy" in notice for notice in read_tables({"train": path}, metric="macro-f1").notices)


@pytest.mark.parametrize(
    ("metric", "reading", "problem"),
    [
        ("macrof1", {}, r"unknown metric 'macrof1'; did you mean 'macro-f1'\?"),
        ("macro-f1", {"regression": True}, "`metric` is chosen where each row has one label"),
        ("macro-f1", {"labels_sep": "|"}, "`metric` is chosen where each row has one label"),
    ],
)
def test_a_metric_that_answers_cannot_be_judged_by_is_refused(
    tmp_path: Path, metric: str, reading: dict[str, Any], problem: str
) -> None:
    path = (
        write_csv(tmp_path / "marks.csv", "text,label", ("a", "1|2"), ("b", "2")) if "labels_sep" in reading else None
    )
    path = path or write_csv(tmp_path / "marks.csv", "text,label", ("a", "1"), ("b", "2"))
    with pytest.raises(SettingError, match=problem):
        read_tables({"train": path}, metric=metric, **reading)


def test_a_column_that_was_learned_from_is_told_by_its_role(tmp_path):
    path = write_csv(tmp_path / "table.csv", "review,stars", ["fine", 5], ["dull", 1])
    task = read_tables({"train": path}).task
    with pytest.raises(SettingError, match=r"its role is 'text'; the role comes first: `columns=\{'text': 'body'\}`"):
        with_columns(task, {"review": "body"})
    with pytest.raises(SettingError, match=r"its role is 'label'; .*: `columns=\{'label': 'mark'\}`"):
        with_columns(task, {"stars": "mark"})
    assert with_columns(task, {"text": "body"}).fields == ("body",)
