import numpy as np
import pytest

from gpt1.linear.tagger import WordTagger, word_features, word_shape
from gpt1.tasks.catalog import Task
from gpt1.tasks.examples import Example
from gpt1.tasks.tagging import NO_WORD

TASK = Task(name="t", title="t", shape="tokens", metrics=("accuracy",), fields=("text",), labels=("N", "V", "X"))


def make(words: str, labels: str = "") -> Example:
    places = tuple(map(TASK.labels.index, labels.split())) or None
    return Example((words,), places, 1, words=tuple(words.split()))


@pytest.mark.parametrize(
    ("word", "shape"),
    [("Paris", "Xx"), ("U.N.", "X.X."), ("3.50", "d.d"), ("iPhone15", "xXxd"), ("...", "."), ("日本", "x")],
)
def test_a_words_shape_tells_its_kinds_of_characters(word: str, shape: str) -> None:
    assert word_shape(word) == shape


def test_features_are_of_the_word_and_of_its_neighbours() -> None:
    first, second = word_features(["Jo", "left"])
    assert {"word=Jo", "small=jo", "shape=Xx", "before=<", "after=left", "two after=>"} <= set(first)
    assert {"begins3=lef", "ends4=left", "before=jo", "shape before=Xx", "after=>", "two before=<"} <= set(second)


def test_unseen_words_are_told_by_their_ends_and_their_neighbours() -> None:
    train = [make(f"the {stem}tion {stem}ed", "X N V") for stem in ("na", "sta", "por", "mo", "fric")]
    answers = WordTagger(TASK, train).answers([make("the faction waited"), make("ration")], 4)
    assert answers.tolist() == [[2, 0, 1, NO_WORD], [0, NO_WORD, NO_WORD, NO_WORD]]


def test_what_it_learns_is_the_same_each_time() -> None:
    draw = np.random.default_rng(0)
    rows = [
        make(" ".join(f"w{n}" for n in draw.integers(9, size=5)), " ".join(draw.choice(TASK.labels, 5)))
        for _ in range(30)
    ]
    one, other = (WordTagger(TASK, rows).answers(rows, 5) for _ in range(2))
    assert (one == other).all()
