"""Labels that look the same to a person: by case, blanks and Unicode's forms, and as numbers."""

from __future__ import annotations

import pytest

from gpt1.tasks.examples import Row
from gpt1.tasks.spellings import commonest_spellings, fold, label_key, variants


@pytest.mark.parametrize(
    "name", ["positive", "Positive", " POSITIVE ", "ｐｏｓｉｔｉｖｅ", "positive\u200b", "\ufeffPositive"]
)
def test_case_blanks_forms_and_what_is_not_seen_make_no_other_label(name: str) -> None:
    assert label_key(name) == label_key("positive")


def test_blanks_inside_and_parted_accents_make_no_other_label() -> None:
    assert label_key("very  good") == label_key("Very\u00a0good")
    assert label_key("cafe\u0301") == label_key("CAFÉ")


def test_numbers_are_one_label_by_their_value_and_words_are_not() -> None:
    assert label_key("1") == label_key("1.0") == label_key(" 1 ")
    assert label_key("7") != label_key("007")  # a code
    assert label_key("9007199254740993") != label_key("9007199254740992")  # which are one as floats
    assert label_key("1") != label_key("one")
    assert label_key("inf") == label_key("INF")


def test_other_letters_make_another_label() -> None:
    assert variants(["good", "goods", "bad", "Bad", "verybad", "very bad"]) == [["bad", "Bad"]]


def test_the_commonest_spelling_is_taken_of_equals_the_first() -> None:
    counts = {"pos": 2, "Pos": 5, "neg": 3, "NEG": 3}
    assert set(commonest_spellings(counts).values()) == {"Pos", "neg"}


def test_labels_of_all_tables_are_written_as_train_writes_them_most() -> None:
    def rows(*labels: object) -> list[Row]:
        return [Row({"text": "x", "label": label}, "t.csv", number) for number, label in enumerate(labels, 1)]

    tables = {"train": rows("Good", "Good", "good ", "bad"), "dev": rows("GOOD", "BAD", "other", None)}
    folded = fold(tables, "label")
    assert [row.cells["label"] for row in folded.rows["train"]] == ["Good", "Good", "Good", "bad"]
    assert [row.cells["label"] for row in folded.rows["dev"]] == ["Good", "bad", "other", None]
    assert folded.notices("t.csv") == [
        "t.csv: labels that look the same are one: 'good' (1 row) and 'GOOD' (1 row) taken for 'Good', "
        "'BAD' (1 row) taken for 'bad'"
    ]
    assert tables["train"][2].cells["label"] == "good "  # what was read stays as it was
    assert fold({"train": rows("a", "b")}, "label").notices("t.csv") == []


def test_what_is_written_as_a_known_label_stays_as_it_is() -> None:
    names = ["Pos", "pos", "POS", "neg"]
    rows = [Row({"label": name}, "table.csv", number) for number, name in enumerate(names, 1)]
    found = fold({"test": rows}, "label", ["Pos", "neg", "pos"])
    assert [row.cells["label"] for row in found.rows["test"]] == ["Pos", "pos", "Pos", "neg"]
