"""Each thing that can be wrong with a labelled table is found, with its rows; good tables are fit."""

from __future__ import annotations

import csv
import gzip
import json
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpt1.base.errors import InputError, SettingError
from gpt1.tasks import checking
from gpt1.tasks.assessment import wilson
from gpt1.tasks.checking import RARE, Learner, TableFinding, TableReport, check_table
from gpt1.tasks.data_warnings import LONG_TEXT
from gpt1.tasks.readers import read_tables
from gpt1.text.tokenizer import Tokenizer
from tests.properties import examples

Rows = Sequence[Sequence[object]]


@pytest.fixture(autouse=True)
def short_tables_are_enough(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the short tables of these tests not be few, but where that is what is tested."""
    if "few" not in request.node.name:
        monkeypatch.setattr(checking, "LEAST_GAIN", 0.5)


def rows(count: int = 20, labels: Sequence[str] = ("good", "bad")) -> list[list[str]]:
    """Return good rows, so many of each label."""
    return [[f"This was film {n} and that is {label}", label] for n in range(count) for label in labels]


def write(path: Path, found: Rows, header: str = "text,label") -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header.split(","), *found])
    return path


def check(tmp_path: Path, found: Rows, header: str = "text,label", **settings: Any) -> TableReport:
    return check_table(write(tmp_path / "table.csv", found, header), **settings)


def finding(report: TableReport, key: str) -> TableFinding:
    (found,) = [one for one in report.findings if one.key == key]
    return found


def keys(report: TableReport) -> list[str]:
    return [one.key for one in report.findings]


# ---- characters ----


def test_rows_with_characters_in_parts_are_named(tmp_path: Path) -> None:
    found = [*rows(), ["정말 재미있는 영화", "good"], [unicodedata.normalize("NFD", "지루한 영화"), "bad"]]
    told = finding(check(tmp_path, found), "in-parts")
    assert (told.what, told.rows, told.stops) == ("1 row with characters in parts (Unicode's NFD)", [43], False)
    assert "NFC" in told.advice
    assert "in-parts" not in keys(check(tmp_path, found[:-1]))


# ---- how many rows ----


def test_few_rows_are_told_with_what_a_score_by_them_would_be_worth(tmp_path: Path) -> None:
    report = check(tmp_path, rows(15))
    assert report.is_fit
    assert report.verdict() == "can be trained on, but has too few rows to tell what comes of it; 1 thing to look at"
    (found,) = report.findings
    low, high = wilson(14, 27)
    assert found.what == "30 rows are few: a score that they give is known to about ±18 points"
    assert round(50 * (high - low)) == 18
    assert found.advice == (
        "label more; from 101 rows on they can show what is 10 points better than the commonest label"
    )
    assert "few-rows" not in keys(check(tmp_path, rows(51)))
    assert keys(check(tmp_path, rows(50))) == ["few-rows"]


def test_nothing_is_promised_that_is_better_than_always_right(tmp_path: Path) -> None:
    lopsided = [*rows(1), *([text, "bad"] for text, _ in rows(15)[2:])]
    found = finding(check(tmp_path, lopsided), "few-rows")
    assert found.advice.endswith("on they can show what is always right")


def test_how_few_is_few_depends_on_the_commonest_label(tmp_path: Path) -> None:
    def is_few(good: int, bad: int) -> bool:
        labelled = [[f"film number {n} of them", "good" if n < good else "bad"] for n in range(good + bad)]
        return "few-rows" in keys(check(tmp_path, labelled))

    assert is_few(30, 30)
    assert not is_few(48, 12)


def test_few_scores_and_few_several_labels_are_told_too(tmp_path: Path) -> None:
    scored = [[f"film number {n}", n % 7] for n in range(30)]
    (found,) = check(tmp_path, scored, regression=True).findings
    assert (found.key, found.advice[-len("than chance") :]) == ("few-rows", "than chance")
    several = [[f"film number {n}", "a|b" if n % 2 else "b|c"] for n in range(30)]
    assert keys(check(tmp_path, several, labels_sep="|")) == ["few-rows"]


# ---- good tables ----


def test_a_good_table_is_fit_and_told_as_it_was_understood(tmp_path: Path) -> None:
    report = check(tmp_path, rows())
    assert (report.is_fit, report.findings, report.rows, report.usable) == (True, [], 40, 40)
    assert report.verdict() == "fit to train on; nothing was found that is to be looked at"
    assert (report.shape, report.columns) == ("single", {"text": "text", "label": "label"})
    assert report.labels == {"good": 20, "bad": 20}
    assert report.tokens is None


def test_pairs_are_understood_and_repeat_only_whole(tmp_path: Path) -> None:
    pairs = [["It rains.", f"It is wet {n}.", "yes" if n % 2 else "no"] for n in range(30)]
    report = check(tmp_path, pairs, "sentence1,sentence2,label")
    assert (report.shape, report.findings) == ("pair", [])
    assert report.columns == {"sentence1": "text", "sentence2": "text", "label": "label"}
    report = check(tmp_path, [*pairs, pairs[0], ["It rains.", "", "no"]], "sentence1,sentence2,label")
    assert keys(report) == ["empty-text", "duplicates"]


def test_scores_have_a_range_and_no_names(tmp_path: Path) -> None:
    scored = [[f"film {n}", n % 7 / 2] for n in range(40)]
    report = check(tmp_path, [*scored, ["film 3", 3.5], ["a film", "high"]], "text,score", regression=True)
    assert (report.scores, report.labels) == ((0.0, 3.5), {})
    assert keys(report) == ["unusable", "two-labels"]
    assert finding(report, "unusable").rows == [43]
    assert finding(report, "two-labels").in_words() == "1 text with more than one score (rows 5 and 42)"
    same = check(tmp_path, [[f"film {n}", 2] for n in range(5)], "text,score", regression=True)
    assert finding(same, "one-label").what == "every row has the score '2.0'"


def test_choices_have_no_labels_to_look_at(tmp_path: Path) -> None:
    path = tmp_path / "ends.jsonl"
    lines = [{"context": f"Ann met Sue {n}.", "choices": ["She left.", "She fell."], "label": 0} for n in range(5)]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"context": "c", "choices": ["x"]}]))
    report = check_table(path)
    assert (report.shape, report.usable, keys(report)) == ("choices", 5, ["unusable"])


# ---- rows that cannot be used ----


def test_every_fault_of_rows_is_found_in_one_go_and_stops_a_training(tmp_path: Path) -> None:
    path = write(tmp_path / "table.csv", [*rows(), ["", ""], [" ", "good"], ["x", ""], ["x", "nan"], ["a", "b", "c"]])
    path.write_bytes(path.read_bytes() + b"caf\xe9,good\r\n")
    report = check_table(path)
    assert {one.key: one.rows for one in report.findings} == {
        "undecodable": [47],
        "bad-row": [46],
        "empty-row": [42],
        "empty-text": [43],
        "empty-label": [44, 45],
    }
    assert all(one.stops for one in report.findings)
    assert not report.is_fit
    assert report.verdict() == (
        "cannot be trained on yet: 1 row in another encoding, 1 row that cannot be read, 1 empty row, 1 row without a "
        "text, 2 rows without a label"
    )
    assert "say which encoding it has" in finding(report, "undecodable").advice
    assert "skip_bad" not in finding(report, "undecodable").advice  # that would leave out what has an accent
    assert finding(report, "bad-row").advice.startswith("row 46: 3 cells where the header has 2; ")
    with pytest.raises(InputError):
        read_tables({"train": path})
    assert check_table(path, skip_bad=True).is_fit
    assert len(read_tables({"train": path}, skip_bad=True).splits["train"]) == 40


def test_where_all_faults_can_be_skipped_the_verdict_says_so(tmp_path: Path) -> None:
    report = check(tmp_path, [*rows(), ["", "good"]])
    assert report.verdict() == (
        "cannot be trained on yet: 1 row without a text; `gpt1.finetune(skip_bad=True)` leaves such rows out"
    )


def test_lists_of_labels_and_what_is_no_text_are_found(tmp_path: Path) -> None:
    path = tmp_path / "table.jsonl"
    lines = [{"text": text, "label": label} for text, label in rows()]
    more = [{"text": "x", "label": ["a", "b"]}, {"text": 7, "label": "good"}, {"text": "half \ud800", "label": "good"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, *more]) + "{broken\n")
    report = check_table(path)
    assert {one.key: one.rows for one in report.findings} == {
        "bad-row": [44],
        "several-labels": [41],
        "unusable": [42, 43],
    }
    advice = finding(report, "unusable").advice
    assert "row 42: 'text' holds 7, expected text" in advice
    assert "row 43: " in advice


def test_what_is_found_before_damage_is_told_with_it(tmp_path: Path) -> None:
    path = tmp_path / "table.csv.gz"
    whole = "".join(f"{text},{label}\n" for text, label in [["", "good"], *rows(2000)])
    path.write_bytes(gzip.compress(f"text,label\n{whole}".encode())[:-2000])
    report = check_table(path)
    assert keys(report) == ["empty-text", "damaged"]
    assert 1000 < report.usable < 4000
    assert finding(report, "damaged").what.startswith("the file cannot be read from ")
    assert not check_table(path, skip_bad=True).is_fit


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("text,label\n", "no-rows", "it has no rows"),
        ("", "no-rows", "it has no rows"),
        ("x,y,z\na,b,c\n", "columns", "which columns are text and label cannot be told"),
        ("text,label\na,1\nb,1\n", "one-label", "every row has the label '1'"),
        ("text,text\na,1\n", "bad-row", "the header cannot be read"),
    ],
)
def test_what_stops_a_table_as_a_whole_is_a_finding_too(tmp_path: Path, text: str, key: str, said: str) -> None:
    (tmp_path / "table.csv").write_text(text)
    report = check_table(tmp_path / "table.csv")
    assert finding(report, key).what == said
    assert not report.is_fit


def test_bad_rows_are_told_though_columns_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("x,y,z\na,b,c\n,,\na,b\n")
    assert keys(check_table(tmp_path / "table.csv")) == ["bad-row", "empty-row", "columns"]


def test_rows_without_any_label_stop_it(tmp_path: Path) -> None:
    report = check(tmp_path, [["a", ""], ["b", ""]])
    assert (report.usable, keys(report), report.is_fit) == (0, ["empty-label", "no-rows"], False)


# ---- labels ----


def test_labels_written_in_several_ways_are_found_and_can_be_folded(tmp_path: Path) -> None:
    other = [["a film", "Good"], ["b film", "good "], ["c film", "ＢＡＤ"]]
    report = check(tmp_path, [*rows(), *other])
    found = finding(report, "label-variants")
    assert found.what == "2 labels written in several ways: 'good' (21) and 'Good' (1), 'bad' (20) and 'ＢＡＤ' (1)"
    assert found.rows == [42, 44]
    assert "`gpt1.finetune(fold_labels=True)`" in found.advice
    assert report.is_fit
    assert keys(report) == ["label-variants"]  # not rare: they are counted together
    folded = check(tmp_path, [*rows(), *other], fold_labels=True)
    assert (folded.findings, folded.labels) == ([], {"good": 22, "bad": 21})


def test_rare_labels_are_named_with_how_many_rows_they_have(tmp_path: Path) -> None:
    report = check(tmp_path, [*rows(), *rows(RARE - 1, ["odd"]), *rows(RARE, ["fair"]), ["x", "once"]])
    found = finding(report, "rare-labels")
    assert found.what == "2 labels with fewer than 10 rows: 'once' (1), 'odd' (9)"
    assert found.rows == [*range(42, 51), 61]


def test_one_label_that_most_rows_have_is_told_with_its_share(tmp_path: Path) -> None:
    many = rows(90, ["good"]) + rows(10, ["bad"])
    found = finding(check(tmp_path, many), "imbalance")
    assert found.what == "90.0 % of the rows have the label 'good'"
    assert "`gpt1.finetune(metric='macro-f1')`" in found.advice
    assert keys(check(tmp_path, many, metric="macro-f1")) == []
    assert keys(check(tmp_path, rows(75, ["good"]) + rows(25, ["bad"]))) == []


@pytest.mark.parametrize("separator", ["|", ";", ",", " ; "])
def test_several_labels_in_a_cell_are_found(tmp_path: Path, separator: str) -> None:
    several = rows(10, ["billing", "login", f"billing{separator}login", f"login{separator}password"])
    report = check(tmp_path, [*several, *rows(10, ["password"])])
    found = finding(report, "several-labels-in-a-cell")
    assert found.what.startswith(f"20 rows seem to have several labels, parted by '{separator.strip()}': 'billing")
    assert found.rows[:2] == [4, 5]


@pytest.mark.parametrize(
    "labels",
    [
        ["yes, please", "no, thanks", "maybe"],
        ["Paris, France", "Lyon, France", "Rome, Italy"],
        ["and/or", "either"],
    ],
)
def test_signs_that_part_no_labels_are_passed_in_silence(tmp_path: Path, labels: list[str]) -> None:
    assert keys(check(tmp_path, rows(20, labels))) == []


def test_many_numbers_may_be_scores_though_some_are_mistyped(tmp_path: Path) -> None:
    report = check(tmp_path, [[f"film {n}", str(n / 4)] for n in range(60)] + [["a film", "high"]])
    found = finding(report, "number-labels")
    assert (found.what, found.advice) == (
        "the labels are 60 different numbers",
        "if they are scores to predict, say `regression=True`",
    )
    assert keys(report) == ["number-labels"]


def test_a_column_whose_values_do_not_repeat_is_hardly_the_label(tmp_path: Path) -> None:
    report = check(tmp_path, [[f"film {n}", f"name {n}"] for n in range(60)])
    assert keys(report) == ["own-labels"]
    assert "is 'label' the label?" in finding(report, "own-labels").advice


# ---- texts ----


def test_repeated_texts_and_texts_with_two_labels_are_found_with_both_rows(tmp_path: Path) -> None:
    good = rows()
    report = check(tmp_path, [*good, good[0], [f" {good[1][0].upper()} ", "bad"], [good[2][0], "bad"]])
    assert finding(report, "duplicates").in_words() == (
        "2 rows with text and label of an earlier one (row 42 is row 2, row 43 is row 3)"
    )
    assert finding(report, "two-labels").in_words() == "1 text with more than one label (rows 4 and 44)"


def test_one_text_under_two_spellings_of_a_label_is_a_repeat(tmp_path: Path) -> None:
    good = rows()
    assert keys(check(tmp_path, [*good, [good[0][0], "Good"]])) == ["label-variants", "duplicates"]


def test_very_long_texts_are_found_without_a_tokenizer(tmp_path: Path) -> None:
    found = finding(check(tmp_path, [*rows(), ["word " * (LONG_TEXT // 4), "good"]]), "very-long")
    assert found.where == "row 42 with 1,250,000"


def test_texts_over_the_context_and_unknown_characters_are_counted(tmp_path: Path, words_tokenizer: Tokenizer) -> None:
    learner = Learner("a run", words_tokenizer, 64)
    more = [["Ann sold a hat " * 40, "good"], ["영화가 정말 재미있었다", "bad"]]
    report = check(tmp_path, [*rows(), *more], learner=learner)
    assert report.tokens is not None
    assert report.tokens.context == 64
    assert report.tokens.longest > 160
    found = finding(report, "too-long")
    assert (found.what, found.rows) == ("1 row longer than the 64 tokens that a run reads", [42])
    found = finding(report, "unknown-tokens")
    assert "tokens are not in the vocabulary (the commonest: " in found.what
    assert found.rows == [43]
    assert "one of bytes" in found.advice


def test_rows_that_a_training_would_read_in_windows_are_counted_and_nothing_is_said_to_be_lost(
    tmp_path: Path, words_tokenizer: Tokenizer
) -> None:
    long = [[f"Ann sold a hat {n} " * 40, "good" if n % 2 else "bad"] for n in range(6)]
    for windows, more, expected in ((True, long, 6), (True, long[:3], 0), (False, long, 0)):
        learner = Learner("a run", words_tokenizer, 64, windows=windows)
        report = check(tmp_path, [*rows(20), *more], learner=learner)
        assert report.tokens is not None
        assert (report.tokens.windows > 1, report.tokens.long_rows) == (expected > 0, expected)
        assert ("too-long" in keys(report)) == (expected == 0)
    endless = check(
        tmp_path, [*rows(20), *long, ["Ann sold a hat " * 2000, "good"]], learner=replace(learner, windows=True)
    )
    found = finding(endless, "too-long")
    assert found.what == "1 row longer than the 32 windows that a run reads"
    assert "finetuning.windows" not in found.advice


def test_bytes_know_all_and_a_pair_is_read_together(tmp_path: Path, bytes_tokenizer: Tokenizer) -> None:
    pairs = [["영화가 정말", f"재미있었다 {n}", "yes" if n % 2 else "no"] for n in range(30)]
    report = check(tmp_path, pairs, "a,b,label", learner=Learner("a run", bytes_tokenizer, 512))
    assert report.tokens is not None
    assert (report.tokens.unknown, report.tokens.cut_rows) == (0, 0)
    assert report.findings == []  # what its own base has read is not known, and its tokens are


def test_another_language_is_told_to_whoever_has_no_base_or_an_english_one(
    tmp_path: Path, bytes_tokenizer: Tokenizer
) -> None:
    korean = [[f"영화가 정말 재미있었다 {n}", "yes" if n % 2 else "no"] for n in range(30)]
    assert keys(check(tmp_path, korean)) == ["language"]
    english = Learner("the base 'small'", bytes_tokenizer, 512, "English")
    assert (
        "the base 'small', which has read English,"
        in finding(check(tmp_path, korean, learner=english), "language").advice
    )
    assert keys(check(tmp_path, korean, learner=Learner("a run", bytes_tokenizer, 512))) == []


def test_rows_in_other_letters_than_most_are_named(tmp_path: Path) -> None:
    found = finding(check(tmp_path, [*rows(), ["очень хороший фильм", "good"]]), "scripts")
    assert found.in_words() == "1 row in other letters than Latin, in which most is written (row 42)"


# ---- the verdict, options, and work ----

CELLS = st.sampled_from(
    ["good", "Good", "bad", " ", "", "1", "1.0", "2", "nan", "x|y", "a;b", "é", "영화", '"', "\x00", "one film", "text"]
)
HEADERS = ["text,label", "a,b,label", "x,y", "text,score", "review,stars,id", "text", "text,text", ""]
WAYS: list[dict[str, bool]] = [
    {},
    {"skip_bad": True},
    {"fold_labels": True},
    {"skip_bad": True, "fold_labels": True},
    {"regression": True},
    {"regression": True, "skip_bad": True},
]


@examples(150)
@given(st.sampled_from(HEADERS), st.lists(st.lists(CELLS, min_size=1, max_size=3), max_size=9), st.sampled_from(WAYS))
def test_a_table_of_any_cells_is_fit_exactly_where_a_training_can_read_it(
    tmp_path: Path, header: str, cells: list[list[str]], way: dict[str, bool]
) -> None:
    path = tmp_path / "table.csv"
    path.write_text("\n".join([header, *(",".join(row) for row in cells)]))
    assert_fit_where_it_can_be_read(path, way)


VALUES = st.sampled_from(
    ["good", "Bad", 1, 1.0, True, None, float("nan"), float("inf"), ["a", "b"], ["x"], {"a": 1}, "", "half \ud800", "0"]
)
SHAPES = [["text", "label"], ["a", "b", "label"], ["context", "choices", "label"], ["x", "y"]]


@examples(150)
@given(st.sampled_from(SHAPES), st.lists(st.lists(VALUES, min_size=2, max_size=3), max_size=7), st.sampled_from(WAYS))
def test_a_table_of_any_values_is_fit_exactly_where_a_training_can_read_it(
    tmp_path: Path, names: list[str], values: list[list[object]], way: dict[str, bool]
) -> None:
    path = tmp_path / "table.jsonl"
    path.write_text("".join(json.dumps(dict(zip(names, row, strict=False))) + "\n" for row in values))
    assert_fit_where_it_can_be_read(path, way)


def assert_fit_where_it_can_be_read(path: Path, way: dict[str, bool]) -> None:
    try:
        is_fit = check_table(path, **way).is_fit
    except SettingError:  # labels that are numbers cannot be folded
        assert way.get("fold_labels")
        is_fit = False
    try:
        read_tables({"train": path}, **way)
    except (InputError, SettingError):
        assert not is_fit
    else:
        assert is_fit


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"columns": {"txt": "text"}}, SettingError, "did you mean 'text'"),
        ({"encoding": "utf-9"}, SettingError, "unknown encoding"),
        ({"fold_labels": True, "regression": True}, SettingError, "`fold_labels` is for labels that are names"),
    ],
)
def test_a_wrong_option_is_an_error_not_a_finding(
    tmp_path: Path, settings: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        check(tmp_path, rows(), **settings)


def test_a_table_without_labels_is_said_to_have_none(tmp_path: Path) -> None:
    dates = [[f"the parcel {row} was late", f"2026-01-{1 + row % 9:02}"] for row in range(40)]
    report = check(tmp_path, dates, "text,sent")
    found = finding(report, "no-label")
    assert (report.is_fit, found.what) == (False, "no column looks like labels: 'sent' holds dates")
    assert found.advice.startswith("add a column 'label'")


def test_a_column_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    report = check(tmp_path, rows(), columns={"text": "txet"})
    assert "has no column 'txet'; did you mean 'text'?" in finding(report, "columns").advice


def test_work_grows_with_the_rows_and_not_with_their_pairs(tmp_path: Path) -> None:
    """Rows that all repeat, all differ in label, or all have labels of their own are what pairs would be made of."""

    def calls(count: int) -> int:
        same = [["one film", f"label {n % 2}"] for n in range(count)]
        own = [[f"film {n}", f"a|b{n}|Label {n // 2}"] for n in range(count)]
        path = write(tmp_path / "table.csv", [*same, *own])
        made = 0

        def count_call(frame: object, event: str, value: object) -> None:
            nonlocal made
            made += event in ("call", "c_call")

        sys.setprofile(count_call)
        try:
            check_table(path)
        finally:
            sys.setprofile(None)
        return made

    calls(10)  # what is done once
    few, many = calls(200), calls(800)
    assert many < 4.4 * few


def test_the_json_of_a_report_has_plain_values(tmp_path: Path) -> None:
    found = json.loads(json.dumps(check(tmp_path, [*rows(), ["", "good"]]).as_json()))
    assert (found["fit"], found["language"]["english"]) == (False, True)
    assert found["findings"][0]["rows"] == [42]


# ---- several labels a row ----

TOPICS = [
    [f"text {n} of film and that", label] for n in range(10) for label in ("a", "b", "a|b", "b | c", "c|a", "c", "")
]


def test_a_table_of_several_labels_is_judged_label_by_label(tmp_path: Path) -> None:
    report = check(tmp_path, TOPICS, labels_sep="|")
    assert report.is_fit
    assert report.labels == {"a": 30, "b": 30, "c": 30}
    assert keys(report) == ["no-labels", "two-labels"]
    assert finding(report, "two-labels").what == "10 texts with more than one set of labels"
    assert finding(report, "no-labels").what == "10 rows without any label"


def test_what_is_found_of_several_labels_tells_which_sign_parts_them(tmp_path: Path) -> None:
    found = finding(check(tmp_path, [row for row in TOPICS if row[1]]), "several-labels-in-a-cell")
    assert "`gpt1.finetune(labels_sep='|')` learns each label by itself" in found.advice


def test_where_an_empty_label_may_mean_none_it_is_not_told_to_be_a_fault(tmp_path: Path) -> None:
    report = check(tmp_path, TOPICS)
    assert finding(report, "several-labels-in-a-cell").advice.endswith("and an empty cell says that none applies")
    empty = finding(report, "empty-label")
    assert empty.what == "10 rows with an empty label"
    assert empty.advice.startswith("right where none of several labels applies; where each row has one, label the row,")


@pytest.mark.parametrize(
    ("labels", "key", "what"),
    [
        (["a", "b"], "separator", "no row has several labels parted by '|' in 'label'"),
        (["a", ""], "one-label", "there is one label alone, 'a'"),
        (["a|b", "b|a"], "one-label", "all rows have the same labels"),
    ],
)
def test_labels_of_which_nothing_can_be_learned_stop_a_training_of_several(
    tmp_path: Path, labels: list[str], key: str, what: str
) -> None:
    report = check(tmp_path, rows(20, labels), labels_sep="|")
    assert not report.is_fit
    assert finding(report, key).what == what
    with pytest.raises(InputError):
        read_tables({"train": tmp_path / "table.csv"}, labels_sep="|")


def test_labels_that_stand_twice_or_are_written_otherwise_are_found_among_several(tmp_path: Path) -> None:
    report = check(tmp_path, [*TOPICS, ["x film", "a|a"], ["y film", "A|b"]], labels_sep="|")
    assert finding(report, "repeated-labels").rows == [72]
    assert finding(report, "label-variants").rows == [73]
    folded = check(tmp_path, [*TOPICS, ["y film", "A|b"]], labels_sep="|", fold_labels=True)
    assert set(folded.labels) == {"a", "b", "c"}


def test_scores_with_decimal_commas_that_may_be_several_labels_are_not_decided(tmp_path):
    for labels, either in ((("1,2", "1,3", "3"), "1,3"), (("1,2", "1,3", "2,3"), "1,2")):
        found = finding(check(tmp_path, rows(labels=labels)), "number-labels")
        assert (
            found.what
            == f"the labels are 3 different numbers, or several labels in a cell: '{either}' may be one or two"
        )
        assert "`regression=True`" in found.advice
        assert f"if '{either}' is two labels, `labels_sep=','` parts them" in found.advice


def test_codes_parted_by_commas_are_told_as_several_labels_before_scores(tmp_path):
    rows = [f"text number {n} of some;{('2,3', '1', '3', '2')[n % 4]}" for n in range(40)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["text;label", *rows, ""]))
    keys = [one.key for one in check_table(path).findings]
    assert keys.index("several-labels-in-a-cell") < keys.index("number-labels")
