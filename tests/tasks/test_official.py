"""The official files of every task, quirks included: in small files of the same form, and in the first real lines."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sklearn.model_selection import train_test_split

from gpt1.base.errors import InputError
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.examples import Labelled
from gpt1.tasks.official import LAYOUTS, find_layout, read_official
from gpt1.tasks.readers import read_folder


def tsv(path: Path, *lines: str, start: bytes = b"") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(start + "".join(f"{line}\n" for line in lines).encode())


def read(name: str, folder: Path) -> Labelled:
    return read_folder(CATALOGUE[name], folder)


def shown(labelled: Labelled) -> dict[str, list[tuple[Any, ...]]]:
    """Return texts, label in words, and index where there is one, by split."""
    return {
        split: [
            (
                *example.texts,
                _in_words(labelled.task, example.label),
                *([] if example.index is None else [example.index]),
            )
            for example in examples
        ]
        for split, examples in labelled.splits.items()
    }


def _in_words(task: Task, label: int | float | None) -> Any:
    return label if label is None or not task.labels else task.labels[int(label)]


# Small files, one function a task: they write under the official names and return what must be read.

Expected = dict[str, list[tuple[Any, ...]]]


def cola(root: Path) -> Expected:
    lines = [
        "gj04\t1\t\tOur friends won't buy it.",
        'gj04\t0\t*\tThey drank the "pub.',
        "cj99\t1\t??\tThe more, the better.",
    ]
    tsv(root / "CoLA" / "train.tsv", *lines)
    tsv(root / "CoLA" / "dev.tsv", lines[1])
    tsv(root / "CoLA" / "test.tsv", "index\tsentence", "0\tBill whistled past the house.", "1\tWho?")
    rows = [("Our friends won't buy it.", "1"), ('They drank the "pub.', "0"), ("The more, the better.", "1")]
    test = [("Bill whistled past the house.", None, 0), ("Who?", None, 1)]
    return {"train": rows, "dev": rows[1:2], "test": test}


def sst2(root: Path) -> Expected:
    tsv(root / "SST-2" / "train.tsv", "sentence\tlabel", "hide new secretions \t0", 'a "gem \t1', "fine \t1")
    tsv(root / "SST-2" / "dev.tsv", "sentence\tlabel", "it 's a charming journey . \t1")
    tsv(root / "SST-2" / "test.tsv", "index\tsentence", "0\tuneasy mishmash .")
    return {
        "train": [("hide new secretions ", "0"), ('a "gem ', "1"), ("fine ", "1")],
        "dev": [("it 's a charming journey . ", "1")],
        "test": [("uneasy mishmash .", None, 0)],
    }


def mrpc(root: Path) -> Expected:
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
    mark = b"\xef\xbb\xbf"
    tsv(root / "MRPC" / "train.tsv", header, '1\t7\t8\tHe said " so .\tSo he " said .', "0\t9\t10\ta\tb", start=mark)
    tsv(root / "MRPC" / "dev.tsv", header, "1\t11\t12\tc\td", start=mark)
    tsv(root / "MRPC" / "test.tsv", header.replace("Quality", "index"), "0\t13\t14\te\tf")
    return {
        "train": [('He said " so .', 'So he " said .', "1"), ("a", "b", "0")],
        "dev": [("c", "d", "1")],
        "test": [("e", "f", None, 0)],
    }


def stsb(root: Path) -> Expected:
    header = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
    row = "{}\tmain-captions\tMSRvid\t2012test\t0001\tnone\tnone\t{}\t{}"
    tsv(
        root / "STS-B" / "train.tsv",
        f"{header}\tscore",
        row.format(0, 'A "plane.', "b") + "\t5.000",
        row.format(1, "c", "d") + "\t3.8",
    )
    tsv(root / "STS-B" / "dev.tsv", f"{header}\tscore", row.format(0, "e", "f") + "\t0.000")
    tsv(root / "STS-B" / "test.tsv", header, row.format(0, "g", "h"))
    return {
        "train": [('A "plane.', "b", 5.0), ("c", "d", 3.8)],
        "dev": [("e", "f", 0.0)],
        "test": [("g", "h", None, 0)],
    }


def qqp(root: Path) -> Expected:
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
    tsv(
        root / "QQP" / "train.tsv",
        header,
        "9\t1\t2\tWhat?\tWhich?\t1",
        "8\t3\t4\tWho is\t",
        "7\t5\t6\t\tWhy?\t0",
        "6\t7\t8\tHow?\tWhen?\t0",
    )
    tsv(root / "QQP" / "dev.tsv", header, "5\t9\t10\tIs it?\tIsn't it?\t0")
    tsv(root / "QQP" / "test.tsv", "id\tquestion1\tquestion2", "0\tWould it?\tCould it?")
    return {
        "train": [("What?", "Which?", "1"), ("", "Why?", "0"), ("How?", "When?", "0")],
        "dev": [("Is it?", "Isn't it?", "0")],
        "test": [("Would it?", "Could it?", None, 0)],
    }


def mnli(root: Path) -> Expected:
    header = "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse"
    header += "\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2"
    row = "{}\t31193\t31193n\tgovernment\t( a )\t( b )\t(ROOT (S))\t(ROOT (S))\t{}\t{}"
    tsv(
        root / "MNLI" / "train.tsv",
        f"{header}\tlabel1\tgold_label",
        row.format(0, 'a "b', "c") + "\tneutral\tneutral",
        row.format(1, "d", "e") + "\tentailment\tentailment",
    )
    five = "".join(f"\tlabel{n}" for n in range(1, 6))
    for kind in ("matched", "mismatched"):
        votes = "\tneutral" * 3 + "\tentailment" * 2
        tsv(
            root / "MNLI" / f"dev_{kind}.tsv",
            f"{header}{five}\tgold_label",
            row.format(0, kind, "f ") + f"{votes}\tcontradiction",
        )
        tsv(root / "MNLI" / f"test_{kind}.tsv", header, row.format(0, kind, "g"))
    tsv(root / "diagnostic" / "diagnostic.tsv", "index\tsentence1\tsentence2", "0\tThe cat sat.\tIt did not.")
    return {
        "train": [('a "b', "c", "neutral"), ("d", "e", "entailment")],
        "dev_matched": [("matched", "f ", "contradiction")],
        "dev_mismatched": [("mismatched", "f ", "contradiction")],
        "test_matched": [("matched", "g", None, 0)],
        "test_mismatched": [("mismatched", "g", None, 0)],
        "diagnostic": [("The cat sat.", "It did not.", None, 0)],
    }


def qnli(root: Path) -> Expected:
    header = "index\tquestion\tsentence"
    tsv(
        root / "QNLI" / "train.tsv",
        f"{header}\tlabel",
        '0\tWhat "is?\tIt\u2028is so.\tentailment',
        "1\tWhen?\tNo.\tnot_entailment",
    )
    tsv(root / "QNLI" / "dev.tsv", f"{header}\tlabel", "0\tWho?\tNobody\x85.\tnot_entailment")
    tsv(root / "QNLI" / "test.tsv", header, "0\tWhere?\tThere.")
    return {
        "train": [('What "is?', "It\u2028is so.", "entailment"), ("When?", "No.", "not_entailment")],
        "dev": [("Who?", "Nobody\x85.", "not_entailment")],
        "test": [("Where?", "There.", None, 0)],
    }


def rte(root: Path) -> Expected:
    return _sentences(root / "RTE", "entailment", "not_entailment")


def wnli(root: Path) -> Expected:
    return _sentences(root / "WNLI", "1", "0")


def _sentences(folder: Path, one: str, other: str) -> Expected:
    header = "index\tsentence1\tsentence2"
    tsv(folder / "train.tsv", f"{header}\tlabel", f'0\tA "pin.\tA hole.\t{one}', f"1\tb\tc\t{other}")
    tsv(folder / "dev.tsv", f"{header}\tlabel", f"0\td\te\t{other}")
    tsv(folder / "test.tsv", header, "0\tf\tg", "1\th\ti")
    return {
        "train": [('A "pin.', "A hole.", one), ("b", "c", other)],
        "dev": [("d", "e", other)],
        "test": [("f", "g", None, 0), ("h", "i", None, 1)],
    }


def snli(root: Path) -> Expected:
    def line(label: str, a: str, b: str) -> str:
        return json.dumps(
            {"annotator_labels": [label], "captionID": "1.jpg#2", "gold_label": label, "pairID": "1.jpg#2r1n"}
            | {"sentence1": a, "sentence1_binary_parse": "( a )", "sentence1_parse": "(ROOT)", "sentence2": b}
        )

    folder = root / "snli_1.0"
    rows = [("neutral", "Two women.", "Sisters."), ("-", "Nobody", "agreed."), ("entailment", 'Two "men.', "Men.")]
    tsv(folder / "snli_1.0_train.jsonl", *(line(*row) for row in rows))
    tsv(folder / "snli_1.0_dev.jsonl", line("contradiction", "a", "b"), line("-", "c", "d"))
    tsv(folder / "snli_1.0_test.jsonl", line("neutral", "e", "f"), line("-", "g", "h"))
    return {
        "train": [("Two women.", "Sisters.", "neutral"), ('Two "men.', "Men.", "entailment")],
        "dev": [("a", "b", "contradiction")],
        "test": [("e", "f", "neutral")],
    }


def scitail(root: Path) -> Expected:
    folder = root / "SciTailV1.1" / "tsv_format"
    tsv(folder / "scitail_1.0_train.tsv", 'Pluto "rotates;\tEarth rotates.\tneutral', "Once a day.\tOnce.\tentails")
    tsv(folder / "scitail_1.0_dev.tsv", "An atom.\tAtoms.\tneutral")
    tsv(folder / "scitail_1.0_test.tsv", "A wave.\tWaves.\tentails")
    return {
        "train": [('Pluto "rotates;', "Earth rotates.", "neutral"), ("Once a day.", "Once.", "entails")],
        "dev": [("An atom.", "Atoms.", "neutral")],
        "test": [("A wave.", "Waves.", "entails")],
    }


def race(root: Path) -> Expected:
    expected: Expected = {}
    for split in ("train", "dev", "test"):
        for level in ("middle", "high"):
            for number in (10, 9):
                article = f"{split} {level} {number}\nsecond line"
                questions = ["It is _ .", "Why?"]
                options = [["a", "b", "c", "d"], ["e", "f", "", "h"]]
                value = {"answers": ["A", "D"], "options": options, "questions": questions, "article": article}
                tsv(root / "RACE" / split / level / f"{number}.txt", json.dumps(value | {"id": f"{level}{number}.txt"}))
        expected[split] = [
            (f"{split} {level} {number}\nsecond line", question, *options, label)
            for level in ("middle", "high")
            for number in (9, 10)
            for question, options, label in (("It is _ .", "abcd", 0), ("Why?", ("e", "f", "", "h"), 3))
        ]
    return expected


STORY_HEADER = (
    "InputStoryid,InputSentence1,InputSentence2,InputSentence3,InputSentence4,"
    "RandomFifthSentenceQuiz1,RandomFifthSentenceQuiz2,AnswerRightEnding"
)


def held_out(rows: int, dev: int) -> list[int]:
    """Return the places that the released code holds out, which it asks of scikit-learn."""
    return train_test_split(range(rows), test_size=dev, random_state=3535999445)[1]


def storycloze(root: Path) -> Expected:
    folder = root / "storycloze"
    rows = [
        f'138d5bfb-{n},Rick grew up.,"He, too, did ""it"".",Then {n}.,So.,Good end.,Bad end.,{n % 2 + 1}'
        for n in range(10)
    ]
    tsv(folder / "cloze_test_val__spring2016 - cloze_test_ALL_val.csv", STORY_HEADER, *rows)
    tsv(folder / "cloze_test_test__spring2016 - cloze_test_ALL_test.csv", STORY_HEADER, rows[0])
    stories = [
        (f'Rick grew up. He, too, did "it". Then {n}. So.', "", "Good end.", "Bad end.", n % 2) for n in range(10)
    ]
    dev = held_out(10, 2)
    return {
        "train": [story for place, story in enumerate(stories) if place not in dev],
        "dev": [stories[place] for place in sorted(dev)],
        "test": stories[:1],
    }


def dpr(root: Path) -> Expected:
    problems, twins = [], []
    for n in range(4):
        for place, (verb, answer) in enumerate((("had", f"the flower{n}"), ("wanted", f"The bee{n}"))):
            text = f"The bee{n} landed on the flower{n} because it {verb} pollen."
            problems += [text, "it", f"The bee{n},the flower{n}", answer, ""]
            twins.append((text, "it", f"The bee{n}", f"the flower{n}", 1 - place))
    tsv(root / "dpr" / "train.c.txt", *problems)
    tsv(root / "dpr" / "test.c.txt", *problems[:5])
    dev = (0, 1)
    return {
        "train": [twin for place, twin in enumerate(twins) if place not in dev],
        "dev": [twins[place] for place in dev],
        "test": twins[:1],
    }


WRITERS: dict[str, Callable[[Path], Expected]] = {
    writer.__name__: writer
    for writer in (cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte, wnli, snli, scitail, race, storycloze, dpr)
}


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_official_files_of_every_task_are_read_byte_for_byte(name, tmp_path):
    expected = WRITERS[name](tmp_path)
    assert shown(read(name, tmp_path)) == expected


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_official_folder_itself_may_be_named(name, tmp_path):
    expected = WRITERS[name](tmp_path)
    folder = tmp_path / LAYOUTS[name][0].folders[0]
    assert shown(read(name, folder)) == expected


def test_all_tasks_may_lie_in_one_folder(tmp_path):
    expected = {name: writer(tmp_path) for name, writer in WRITERS.items()}
    assert {name: shown(read(name, tmp_path)) for name in CATALOGUE} == expected


@pytest.mark.parametrize("name", CATALOGUE)
def test_rows_that_are_left_out_or_odd_are_told_and_nothing_else(name, tmp_path):
    WRITERS[name](tmp_path)
    said = " ".join(notice for notice in read(name, tmp_path).notices if "seen once" not in notice)
    expected = {
        "qqp": "1 row with too few cells left out (2) .*1 row with an empty text kept as they are (3)",
        "snli": "1 row whose label is '-' (nobody agreed on one) left out (2)",
        "race": "4 rows with an empty text kept as they are (2, 4, 6, 8)",
        "storycloze": "2 rows kept for dev, a fifth, drawn as the paper's released code does",
        "dpr": "2 rows kept for dev, twins together, always the same",
    }
    if name not in expected:
        assert said == ""
    for part in expected.get(name, "").split(" .*"):
        assert part in said


# Other layouts of the same tasks


def test_the_public_cola_has_two_dev_files(tmp_path):
    tsv(tmp_path / "cola_public" / "raw" / "in_domain_train.tsv", "gj04\t1\t\tYes.", "gj04\t0\t*\tNo.")
    tsv(tmp_path / "cola_public" / "raw" / "in_domain_dev.tsv", "gj04\t1\t\tIn.")
    tsv(tmp_path / "cola_public" / "raw" / "out_of_domain_dev.tsv", "clc95\t0\t*\tOut.")
    found = read("cola", tmp_path)
    assert shown(found) == {"train": [("Yes.", "1"), ("No.", "0")], "dev": [("In.", "1"), ("Out.", "0")]}
    assert [example.row for example in found.splits["dev"]] == [1, 2]


def test_the_sts_benchmark_is_tab_separated_whatever_its_name(tmp_path):
    row = 'main-captions\tMSRvid\t2012test\t0001\t{}\tA "plane, taking off.\tAn air plane.{}'
    tsv(tmp_path / "stsbenchmark" / "sts-train.csv", row.format("5.000", ""), row.format("2.4", "\tlink one\tlink two"))
    tsv(tmp_path / "stsbenchmark" / "sts-test.csv", row.format("1.0", ""))
    found = shown(read("stsb", tmp_path))
    assert found["train"] == [('A "plane, taking off.', "An air plane.", score) for score in (5.0, 2.4)]
    assert found["test"] == [('A "plane, taking off.', "An air plane.", 1.0)]


@pytest.mark.parametrize("with_ids", [True, False])
def test_the_original_mrpc_is_parted_as_glue_does_it(tmp_path, with_ids):
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
    folder = tmp_path / "MRPC"
    tsv(
        folder / "msr_paraphrase_train.txt",
        header,
        "1\t7\t8\ta\tb",
        "0\t9\t10\tc\td",
        "1\t8\t7\te\tf",
        start=b"\xef\xbb\xbf",
    )
    tsv(folder / "msr_paraphrase_test.txt", header, "0\t11\t12\tg\th", start=b"\xef\xbb\xbf")
    if with_ids:
        tsv(folder / "dev_ids.tsv", "7\t8", "1\t2")
    found = read("mrpc", tmp_path)
    rows = [("a", "b", "1"), ("c", "d", "0"), ("e", "f", "1")]
    assert shown(found) == ({"train": rows[1:], "dev": rows[:1]} if with_ids else {"train": rows}) | {
        "test": [("g", "h", "0")]
    }
    assert any("those in dev_ids.tsv" in notice for notice in found.notices) == with_ids


def test_the_original_mnli_is_json_with_undecided_rows(tmp_path):
    for file in ("train", "dev_matched", "dev_mismatched"):
        rows = [
            {"gold_label": label, "sentence1": file, "sentence2": "b", "genre": "fiction"}
            for label in ("neutral", "-", "entailment")
        ]
        tsv(tmp_path / "multinli_1.0" / f"multinli_1.0_{file}.jsonl", *map(json.dumps, rows))
    found = read("mnli", tmp_path)
    assert shown(found) == {
        split: [(split, "b", "neutral"), (split, "b", "entailment")]
        for split in ("train", "dev_matched", "dev_mismatched")
    }
    assert sum("whose label is '-'" in notice for notice in found.notices) == 3


def test_a_later_story_cloze_keeps_its_test_answers_back(tmp_path):
    header = STORY_HEADER.removesuffix(",AnswerRightEnding")
    row = "id,One.,Two.,Three.,Four.,Good.,Bad."
    tsv(tmp_path / "cloze_test_test__winter2018-cloze_test_ALL_test - 1.csv", header, row)
    assert shown(read("storycloze", tmp_path)) == {"test": [("One. Two. Three. Four.", "", "Good.", "Bad.", None)]}


def test_the_rows_held_out_of_story_cloze_are_those_of_the_released_code(tmp_path):
    rows = [f"{n},Story {n}.,Two.,Three.,Four.,Good.,Bad.,{n % 2 + 1}" for n in range(1871)]
    tsv(tmp_path / "cloze_test_val__spring2016 - cloze_test_ALL_val.csv", STORY_HEADER, *rows)
    found = read("storycloze", tmp_path).splits
    assert {split: len(examples) for split, examples in found.items()} == {"train": 1497, "dev": 374}
    assert [example.row - 2 for example in found["dev"]] == sorted(held_out(1871, 374))


def test_levels_of_race_are_its_folders(tmp_path):
    race(tmp_path)
    found = read("race", tmp_path)
    assert [example.group for example in found.splits["train"]] == [0] * 4 + [1] * 4
    assert [example.row for example in found.splits["train"]] == list(range(1, 9))


def test_files_may_be_compressed(tmp_path):
    tsv(tmp_path / "SST-2" / "train.tsv", "sentence\tlabel", "good\t1", "bad\t0")
    plain = tmp_path / "SST-2" / "train.tsv"
    (tmp_path / "SST-2" / "train.tsv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert len(read("sst2", tmp_path).splits["train"]) == 2


def test_two_files_for_one_are_refused(tmp_path):
    tsv(tmp_path / "SST-2" / "train.tsv", "sentence\tlabel", "good\t1", "bad\t0")
    (tmp_path / "SST-2" / "train.tsv.gz").touch()
    with pytest.raises(InputError, match=r"SST-2 has two files for one, train\.tsv and train\.tsv\.gz; keep one"):
        read("sst2", tmp_path)


def test_windows_line_ends_are_no_part_of_a_text_and_other_returns_are(tmp_path):
    (tmp_path / "train.tsv").write_bytes(b"sentence\tlabel\r\none\rline\t1\r\nbad\t0\r\n\r\n")
    assert shown(read("sst2", tmp_path))["train"] == [("one\rline", "1"), ("bad", "0")]


# What cannot be read


@pytest.mark.parametrize(
    ("name", "file", "lines", "message"),
    [
        ("rte", "train.tsv", ["sentence\tlabel", "good\t1"], r"has no column 'sentence1' \(columns: sentence, label\)"),
        ("cola", "train.tsv", ["sentence\tlabel", "good\t1"], "row 1: the line has too few cells, 'text' is missing"),
        ("sst2", "train.tsv", ["sentence\tlabel", "good\t2"], "row 1: label '2' is none of 0, 1"),
        ("sst2", "test.tsv", ["index\tsentence", "x\tgood"], "row 1: the index 'x' is not a whole number"),
        ("sst2", "dev.tsv", ["sentence\tlabel"], r"dev\.tsv has no rows of task 'sst2'"),
        ("snli", "snli_1.0_dev.jsonl", ['{"sentence1": "a", "sentence2": "b"}'], "row 1: no column 'gold_label'"),
        ("race", "dev/high/1.txt", ["{}"], "is not a passage of RACE.*'article'"),
        ("race", "dev/high/1.txt", ["[]"], "is not a passage of RACE"),
        ("race", "dev/high/1.txt", ["{"], "is not a passage of RACE"),
        (
            "race",
            "dev/high/1.txt",
            ['{"article": "a", "questions": ["b"], "options": [["c", "d", "e", "f"]], "answers": ["E"]}'],
            "is not a passage of RACE",
        ),
        (
            "race",
            "dev/high/1.txt",
            ['{"article": "a", "questions": ["b"], "options": [["c", "d"]], "answers": ["A"]}'],
            r"1\.txt, row 1: 'choices' has 2 answers, task 'race' has 4",
        ),
        ("storycloze", "cloze_test_val__spring2016.csv", ["a,b", "c,d"], "row 2: no column 'InputSentence1'"),
        (
            "storycloze",
            "cloze_test_val__spring2016.csv",
            [STORY_HEADER, "1,a,b,c,d,e,f,3"],
            "row 2: AnswerRightEnding is '3', expected 1 or 2",
        ),
        ("dpr", "train.c.txt", ["He ran.", "he", "A,B"], "row 1: a problem has 3 lines"),
        ("dpr", "train.c.txt", ["He ran.", "he", "A,B", "C"], "row 1: 'C' is not one of two candidates in 'A,B'"),
    ],
)
def test_a_file_that_is_not_as_its_makers_published_it_is_refused(name, file, lines, message, tmp_path):
    tsv(tmp_path / file, *lines)
    with pytest.raises(InputError, match=message):
        read(name, tmp_path)


def test_a_folder_with_neither_layout_says_what_was_looked_for(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(InputError) as raised:
        read("sst2", tmp_path)
    assert str(raised.value) == (
        f"{tmp_path} has no rows of task 'sst2': expected train.jsonl, dev.jsonl, test.jsonl (also compressed), "
        "in it or in sst2/, or official files such as SST-2/train.tsv, SST-2/dev.tsv, SST-2/test.tsv; found notes.txt"
    )


def test_the_jsonl_layout_comes_before_official_files(tmp_path):
    sst2(tmp_path)
    tsv(tmp_path / "sst2" / "dev.jsonl", '{"text": "fine", "label": "1"}')
    assert shown(read("sst2", tmp_path)) == {"dev": [("fine", "1")]}


def test_a_task_of_ones_own_has_no_official_files_though_it_may_share_a_name(tmp_path):
    rte(tmp_path)
    assert find_layout(CATALOGUE["rte"], tmp_path) is not None
    assert find_layout(replace(CATALOGUE["rte"], title="Mine"), tmp_path) is None


# Real lines


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_first_official_lines_are_read(name, data):
    found = read(name, data / "official")
    assert found.splits
    for examples in found.splits.values():
        assert all(example.label is not None and all(example.texts[:1]) for example in examples)


@pytest.mark.parametrize(
    ("name", "split"),
    [(name, "train") for name in ("cola", "sst2", "mrpc", "stsb", "rte", "wnli")] + [("stsb", "dev"), ("snli", "dev")],
)
def test_the_first_official_lines_are_the_first_rows_of_the_other_layout(name, split, data):
    official = read(name, data / "official").splits[split]
    ours = read(name, data / "tasks").splits[split]
    assert len(official) >= 39
    assert [(e.texts, e.label) for e in official] == [(e.texts, e.label) for e in ours[: len(official)]]


@pytest.mark.parametrize("name", ["storycloze", "dpr"])
def test_official_rows_parted_for_dev_are_rows_of_the_other_layout(name, data):
    def rows(labelled: Labelled) -> set[tuple[Any, ...]]:
        return {(e.texts, e.label) for examples in labelled.splits.values() for e in examples}

    assert rows(read(name, data / "official")) <= rows(read(name, data / "tasks"))


@pytest.mark.parametrize("name", ["cola", "mrpc", "stsb"])
def test_the_first_lines_of_the_original_files_are_those_of_glue(name, data):
    _, original = LAYOUTS[name]
    found = read_official(CATALOGUE[name], original, data / "official" / original.folders[0]).splits["train"]
    glue = {(example.texts, example.label) for example in read(name, data / "official").splits["train"]}
    both = [example for example in found if (example.texts, example.label) in glue]
    # GLUE holds some rows of MRPC out, so that its first lines reach further.
    assert len(both) == len(glue) or (name == "mrpc" and len(both) > 30)


def test_a_line_without_an_end_is_refused_before_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpt1.tasks.formats.LONGEST_RECORD", 1 << 20)
    tsv(tmp_path / "SST-2" / "train.tsv", "sentence\tlabel", "fine \t1", "bad " * 1_000_000 + "\t0")
    with pytest.raises(InputError, match=r"train\.tsv, line 3: more than"):
        read("sst2", tmp_path)
