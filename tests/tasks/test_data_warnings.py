"""What a person is told about labelled rows: shared ones, texts with two labels, very long ones."""

from __future__ import annotations

import pytest

from gpt1.tasks.catalog import CATALOGUE
from gpt1.tasks.data_warnings import LONG_TEXT, look_at_rows, scores_advice, seem_scores, seem_several
from gpt1.tasks.examples import Example, Labelled
from gpt1.tasks.preparing import complete
from gpt1.tasks.readers import read_folder

SST2, MRPC, STSB = CATALOGUE["sst2"], CATALOGUE["mrpc"], CATALOGUE["stsb"]


def single(*rows: tuple[str, int | None]) -> list[Example]:
    return [Example((text,), label, number) for number, (text, label) in enumerate(rows, 1)]


def test_rows_that_stand_in_train_too_are_counted_and_named():
    train = single(("good", 1), ("bad", 0), ("fine", 1))
    dev = single(("new", 1), ("  Fine ", 0), ("bad", 0))
    test = single(("unheard of", None), ("good", None))
    assert look_at_rows(Labelled(SST2, {"train": train, "dev": dev, "test": test})) == (
        "dev: the texts of 2 rows stand in train too, which flatters the score "
        "(row 2 is 3 of train, row 3 is 2 of train)",
        "test: the texts of 1 row stand in train too, which flatters the score (row 2 is 1 of train)",
    )


def test_a_similar_pair_is_the_same_in_either_order_and_another_pair_is_not():
    train, dev = [Example(("x", "y"), 1, 1)], [Example(("y", "x"), 1, 1)]
    assert len(look_at_rows(Labelled(MRPC, {"train": train, "dev": dev}))) == 1
    assert look_at_rows(Labelled(CATALOGUE["rte"], {"train": train, "dev": dev})) == ()


def test_texts_with_two_labels_are_counted_and_named():
    train = single(("good", 1), ("bad", 0), ("good", 0), ("bad", 0), ("odd", 1), ("Odd", 0))
    (notice,) = look_at_rows(Labelled(SST2, {"train": train}))
    assert notice == "train: 2 texts with more than one label (rows 1 and 3, 5 and 6)"


def test_two_scores_of_one_pair_and_rows_without_a_label_are_passed_in_silence():
    assert look_at_rows(Labelled(STSB, {"train": [Example(("x", "y"), s, 1) for s in (1.0, 2.0)]})) == ()
    assert look_at_rows(Labelled(SST2, {"test": single(("good", None), ("good", 1))})) == ()


def test_very_long_texts_are_named_with_their_size():
    rows = single(("short", 1), ("x" * (LONG_TEXT + 1), 0))
    (notice,) = look_at_rows(Labelled(SST2, {"train": rows}))
    assert notice == "train: very long texts, all but their beginning will be cut: row 2 with 1,000,001 characters"


@pytest.mark.parametrize(
    ("names", "several", "numbers"),
    [
        (["2,3", "1", "3", "2"], ["2,3"], 4),
        (["1,2", "1", "2"], ["1,2"], 3),
        (["1,2,3", "1,2", "3"], ["1,2,3", "1,2"], 0),
        (["1", "1,3", "1,7", "2", "2,3", "3"], [], 6),  # marks of German schools: no 7 stands alone
        (["0", "0,5", "1", "1,5", "5"], [], 5),  # halves
        (["0,25", "1,50", "n/a"], [], 0),
    ],
)
def test_commas_part_codes_that_all_stand_alone_too_and_are_decimal_elsewhere(names, several, numbers):
    assert seem_several(names) == ((",", several) if several else None)
    assert seem_scores(names) == numbers


def test_scores_whose_commas_may_part_labels_are_told_with_both_ways():
    scores = "if they are scores to predict, say `regression=True`"
    assert scores_advice(["1,2", "1,3", "3"]) == f"{scores}; if '1,3' is two labels, `labels_sep=','` parts them"
    assert scores_advice(["1,2", "1,3", "2,3"]) == f"{scores}; if '1,2' is two labels, `labels_sep=','` parts them"
    assert scores_advice(["3,47", "2,18", "1,93"]) == scores  # as many parts as there could be
    assert scores_advice(["0,25", "0,5", "1"]) == scores


def test_a_row_split_off_for_dev_is_not_taken_for_a_shared_one():
    train = single(*((f"text {number // 2}", number // 2 % 2) for number in range(80)))
    found = complete(Labelled(SST2, {"train": train}))
    assert len(found.splits["dev"]) == 8
    assert len(found.notices) == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cola", ["11 texts with more than one label", "texts of 9 rows", "3 texts with more than one label"]),
        ("sst2", ["5 texts with more than one label"]),
        ("stsb", ["texts of 7 rows"]),
        ("qqp", ["texts of 1 row "]),
        ("rte", []),
    ],
)
def test_what_is_doubtful_in_real_rows_is_told(name, said, data):
    notices = complete(read_folder(CATALOGUE[name], data / "tasks")).notices
    assert [expected in notice for expected, notice in zip(said, notices, strict=True)] == [True] * len(said)
