from pathlib import Path

import pytest

from gpt1.base.errors import FileError, InputError
from gpt1.tasks.preparing import read_table
from gpt1.tasks.readers import read_further


def write(path: Path, *sentences: str) -> Path:
    """Write sentences such as `Jo/B-PER left/O` as a column file."""
    texts = ("".join(f"{word.replace('/', ' ')}\n" for word in one.split()) for one in sentences)
    path.write_text("\n".join(texts))
    return path


def test_a_file_of_spans_is_a_task_judged_by_spans(tmp_path: Path) -> None:
    train = write(tmp_path / "Some names.conll", "Jo/B-PER left/O", "Ed/B-PER Hill/I-PER is/O", "Rome/B-LOC fell/O")
    dev = write(tmp_path / "dev.conll", "Al/B-PER left/O")
    found = read_table(train, dev=dev)
    task = found.task
    assert (task.name, task.shape, task.fields, task.metrics[0]) == ("some-names", "tokens", ("text",), "span_f1")
    assert task.labels == ("B-LOC", "B-PER", "I-PER", "O")
    assert [(one.words, one.label, one.row) for one in found.splits["train"]] == [
        (("Jo", "left"), (1, 3), 1),
        (("Ed", "Hill", "is"), (1, 2, 3), 4),
        (("Rome", "fell"), (0, 3), 8),
    ]
    assert f"{train}: labels of spans (BIO) of 2 kinds, LOC, PER, judged as a whole" in found.notices


def test_labels_that_follow_nothing_are_told_with_their_lines(tmp_path: Path) -> None:
    train = write(tmp_path / "a.conll", "Jo/I-PER left/O", "Ed/B-PER Hill/I-LOC", "the/O Rome/B-LOC")
    told = read_table(train).notices
    said = "2 labels that BIO does not allow there, taken as conlleval takes them"
    assert f"{train}: {said} (an I that follows nothing begins a span): lines 1, 5" in told
    other = write(tmp_path / "b.conll", "Jo/I-PER left/O", "Ed/I-PER Hill/B-PER", "the/O Rome/I-LOC")
    told = read_table(other).notices
    assert f"{other}: labels of spans (IOB1) of 2 kinds, LOC, PER, judged as a whole" in told
    assert not [line for line in told if "does not allow" in line]


def test_parts_of_speech_are_judged_word_by_word(tmp_path: Path) -> None:
    train = write(tmp_path / "tags.conll", "Jo/NOUN left/VERB", "Ed/NOUN slept/VERB")
    found = read_table(train)
    assert found.task.metrics == ("accuracy",)
    assert f"{train}: 2 labels of words, each judged by itself" in found.notices


def test_a_label_that_train_lacks_counts_all_the_same_and_is_told(tmp_path: Path) -> None:
    train = write(tmp_path / "a.conll", "Jo/B-PER left/O", "Ed/B-PER left/O")
    dev = write(tmp_path / "b.conll", "Rome/B-LOC fell/O")
    found = read_table(train, dev=dev)
    assert found.task.labels == ("B-LOC", "B-PER", "O")
    assert f"{train}: labels that it does not have, so that none is ever given: B-LOC" in found.notices


def test_rows_for_dev_are_drawn_by_whole_sentences_with_all_kinds(tmp_path: Path) -> None:
    rows = [f"{name}{place}/B-{kind} is/O" for place in range(30) for name, kind in (("P", "PER"), ("L", "LOC"))]
    found = read_table(write(tmp_path / "a.conll", *rows))
    dev = found.splits["dev"]
    assert 4 <= len(dev) <= 8
    assert {found.task.labels[one.label[0]] for one in dev} == {"B-PER", "B-LOC"}  # type: ignore[index]
    assert not {one.words for one in dev} & {one.words for one in found.splits["train"]}


def test_sentences_that_cannot_be_used_are_refused_or_left_out_and_told(tmp_path: Path) -> None:
    train = write(tmp_path / "a.conll", "Jo/B-PER left/O", "Ed/B-PER/X left/O", "a/O b/O", "c/B-PER")
    with pytest.raises(FileError, match=r"a.conll, line 4: 3 columns, and the first word has 2"):
        read_table(train)
    found = read_table(train, skip_bad=True)
    assert sum(map(len, found.splits.values())) == 3
    assert f"{train}: 1 of 4 rows left out: 1 row that cannot be read (row 4)" in found.notices


def test_words_without_labels_are_for_test_alone(tmp_path: Path) -> None:
    train = write(tmp_path / "a.conll", "Jo/B-PER left/O", "Ed/B-PER left/O")
    bare = write(tmp_path / "b.conll", "Al left")
    assert read_table(train, test=bare).splits["test"][0].label is None
    with pytest.raises(FileError, match=r"b.conll, line 1: the words have no labels"):
        read_table(train, dev=bare)


def test_one_label_leaves_nothing_to_learn(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a.conll: every row has the label 'O'"):
        read_table(write(tmp_path / "a.conll", "Jo/O", "Ed/O"))


def test_further_files_are_of_the_labels_that_were_learned(tmp_path: Path) -> None:
    task = read_table(write(tmp_path / "a.conll", "Jo/B-PER left/O", "Ed/B-PER left/O")).task
    examples, _ = read_further(task, write(tmp_path / "b.conll", "Al/O left/O"), "dev")
    assert examples[0].label == (1, 1)
    with pytest.raises(FileError, match=r"c.conll, line 2: label 'B-PERS' is none of B-PER, O; did you mean 'B-PER'"):
        read_further(task, write(tmp_path / "c.conll", "Al/O left/B-PERS"), "dev")
