"""Examples as texts to be judged: what is read, what is scored, what gives way where it does not fit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpt1.base.errors import InputError, SettingError
from gpt1.inference.prompts import Prompts, find_rule, make_prompts
from gpt1.tasks.catalog import CATALOGUE, Task
from gpt1.tasks.examples import Example, Labelled
from gpt1.text.tokenizer import Tokenizer

STORY = Example(("Ann lost a key.", "", "She looked for it.", "Nothing was sold."), 1, 1)
DEBBIE = Example(("When Ann lost Tom, she cried.", "she", "Ann", "the old Tom"), 0, 1)
NEWLINE = -7


class Letters:
    """A tokenizer whose tokens are words and signs of a text, as numbers that can be read back."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.fingerprint = "letters"
        self.newline_id = NEWLINE
        self.unknown_id = None
        self.vocab_size = 1000

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [[self._id(word) for word in text.replace(".", " .").replace(",", " ,").split()] for text in texts]

    def _id(self, word: str) -> int:
        if word not in self.words:
            self.words.append(word)
        return self.words.index(word)

    def read(self, prompts: Prompts) -> list[str]:
        """Return all sequences, a bar where scoring begins."""
        found = []
        for ids, first in prompts.sequences:
            names = ["/" if id == NEWLINE else self.words[id] for id in ids]
            found.append(" ".join([*names[:first], "|", *names[first:]]))
        return found


def prompts(task: str | Task, *examples: Example, context: int = 100, train: Sequence[Example] = (), shots: int = 0):  # type: ignore[no-untyped-def]
    letters = Letters()
    known = CATALOGUE[task] if isinstance(task, str) else task
    labelled = Labelled(known, {"train": list(train), "dev": list(examples)})
    made = make_prompts(labelled, "dev", letters, context, shots=shots)
    return letters.read(made), made


@pytest.mark.parametrize(
    ("task", "example", "wanted"),
    [
        ("cola", Example(("Ann sold it.",), 1, 1), ["Ann | sold it ."]),
        ("sst2", Example(("so fine ",), 1, 1), ["so fine very | negative", "so fine very | positive"]),
        ("storycloze", STORY, ["Ann lost a key . | She looked for it .", "Ann lost a key . | Nothing was sold ."]),
        (
            "race",
            Example(("It rains.", "Is it wet?", "yes", "no", "maybe", "a bit"), 0, 1),
            [f"It rains . Is it wet? | {answer}" for answer in ("yes", "no", "maybe", "a bit")],
        ),
        ("dpr", DEBBIE, [f"When Ann lost Tom , {name} | cried ." for name in ("Ann", "the old Tom")]),
    ],
)
def test_the_readings_of_a_task(task: str, example: Example, wanted: list[str]) -> None:
    assert prompts(task, example)[0] == wanted


def test_only_a_whole_word_is_the_pronoun_and_the_first_of_them() -> None:
    told = Example(("He fed the hen and it slept; it hid.", "it", "he", "hen"), 0, 1)
    assert prompts("dpr", told)[0][0] == "He fed the hen and he | slept; it hid ."
    with pytest.raises(InputError, match=r"'dpr' dev, row 4: the pronoun 'she' is no word of the text 'They washed.'"):
        prompts("dpr", Example(("They washed.", "she", "a", "b"), 0, 4))


def test_what_does_not_fit_loses_the_beginning_of_what_is_read_alike_in_all_readings() -> None:
    found, made = prompts("dpr", DEBBIE, context=7)
    assert found == ["Tom , Ann | cried .", "Tom , the old Tom | cried ."]
    assert made.cut == 1
    assert made.notices(7) == ["1 of 1 examples are longer than 7 tokens; their beginnings are not read"]
    found, made = prompts("storycloze", STORY, context=6)
    assert found == [". | She looked for it .", ". | Nothing was sold ."]


def test_an_answer_longer_than_the_context_loses_its_end_and_keeps_one_token_before_it() -> None:
    assert prompts("storycloze", STORY, context=3)[0] == [". | She looked", ". | Nothing was"]
    assert prompts("cola", Example(("Ann sold it at last.",), 1, 1), context=3)[0] == ["Ann | sold it"]


def test_solved_examples_stand_before_the_text_as_many_as_fit() -> None:
    train = [Example((f"story {row}", "", f"good {row}", f"bad {row}"), 0, row) for row in range(5)]
    (one, _), made = prompts("storycloze", STORY, train=train, shots=2)
    shots = one.split(" / ")[:-1]
    assert one.endswith(" / Ann lost a key . | She looked for it .")
    assert len(shots) == 2 == len(set(shots))
    assert all(shot in {f"story {row} good {row}" for row in range(5)} for shot in shots)
    assert made.short_of_shots == 0
    assert made.notices(100) == []
    (one, _), made = prompts("storycloze", STORY, train=train, shots=2, context=15)
    assert one == f"{shots[0]} / Ann lost a key . | She looked for it ."
    assert made.notices(15) == ["before 1 of 1 examples fewer than 2 solved examples fit into 15 tokens"]


def test_solved_examples_are_the_same_whenever_the_seed_is() -> None:
    train = [Example((f"text {row}",), row % 2, row) for row in range(40)]
    task, letters = CATALOGUE["sst2"], Letters()
    labelled = Labelled(task, {"train": train, "dev": train[:1]})
    one, same, other = (
        letters.read(make_prompts(labelled, "dev", letters, 100, shots=3, seed=seed))[0] for seed in (1, 1, 2)
    )
    assert one == same != other


def test_only_right_sentences_show_what_is_right() -> None:
    train = [Example((f"text {row}",), int(row < 3), row) for row in range(40)]
    (one,), _ = prompts("cola", Example(("Ann sold it.",), 1, 1), train=train, shots=3)
    assert set(one.split(" / ")[:-1]) == {"text 0", "text 1", "text 2"}
    with pytest.raises(SettingError, match="4 solved examples are asked for, and 'cola' has 3 to show"):
        prompts("cola", Example(("Ann sold it.",), 1, 1), train=train, shots=4)


def test_train_is_not_asked_with_solved_examples_of_its_own() -> None:
    labelled = Labelled(CATALOGUE["sst2"], {"train": [Example(("fine",), 1, 1)]})
    with pytest.raises(SettingError, match="train itself cannot be asked"):
        make_prompts(labelled, "train", Letters(), 100, shots=1)
    with pytest.raises(SettingError, match=r"unknown split 'dev' of 'sst2' \(known: train\)"):
        make_prompts(labelled, "dev", Letters(), 100)


def test_a_text_of_which_nothing_can_be_scored_is_named() -> None:
    with pytest.raises(InputError, match="'cola' dev, row 9: nothing of “Go” can be scored"):
        prompts("cola", Example(("Go",), 1, 9))
    with pytest.raises(InputError, match="row 2: nothing of “Ann likes Tom” can be scored"):
        prompts("dpr", Example(("Ann likes him", "him", "Tom", "Bo"), 0, 2))


def test_blanks_stay_where_they_belong_to_a_word(bytes_tokenizer: Tokenizer) -> None:
    for task, example, wanted in (
        ("storycloze", STORY, "Ann lost a key. Nothing was sold."),
        ("dpr", DEBBIE, "When Ann lost Tom, the old Tom cried."),
        ("sst2", Example(("so fine ",), 1, 1), "so fine very positive"),
    ):
        labelled = Labelled(CATALOGUE[task], {"dev": [example]})
        ids, _ = make_prompts(labelled, "dev", bytes_tokenizer, 512).sequences[1]
        assert bytes_tokenizer.decode(ids) == wanted


@pytest.mark.parametrize(
    ("fields", "rule"),
    [(("context", "choices"), "answer"), (("story", "q", "a"), "answer"), (("text", "pronoun", "choices"), "pronoun")],
)
def test_ones_own_tasks_of_choices_have_rules(fields: tuple[str, ...], rule: str) -> None:
    task = Task(name="mine", title="mine", shape="choices", choices=3, metrics=("accuracy",), fields=fields)
    assert find_rule(task).name == rule


def test_a_task_without_a_rule_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(SettingError, match=r"could answer 'rte' \(pair\) without learning it; .* cola, sst2, and"):
        find_rule(CATALOGUE["rte"])
