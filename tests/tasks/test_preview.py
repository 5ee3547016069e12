"""Examples as tokens: special tokens in their places, cuts marked."""

from __future__ import annotations

import pytest

from gpt1.base.errors import SettingError
from gpt1.tasks.catalog import CATALOGUE
from gpt1.tasks.encoded import encode_task
from gpt1.tasks.examples import Example
from gpt1.tasks.preview import in_lines, show_examples, show_task


def lines(task: str, *texts: str, label: int | float | None = 0, context: int = 512) -> list[str]:
    (shown,) = show_examples(CATALOGUE[task], [Example(texts, label, 7)], None, context)
    return in_lines(shown)


@pytest.mark.parametrize(
    ("task", "texts", "label", "expected"),
    [
        ("sst2", ("a fine film",), 1, ["row 7, label 1", "  [start] a fine film [extract]"]),
        (
            "rte",
            ("It rains.", "It is wet."),
            1,
            ["row 7, label not_entailment", "  [start] It rains. [delimiter] It is wet. [extract]"],
        ),
        (
            "stsb",
            ("one", "two"),
            2.5,
            ["row 7, label 2.5", "  [start] one [delimiter] two [extract]", "  [start] two [delimiter] one [extract]"],
        ),
        (
            "storycloze",
            ("Once.", "", "Good.", "Bad."),
            1,
            [
                "row 7, label 1",
                "  [start] Once. [delimiter] Good. [extract]",
                "  [start] Once. [delimiter] Bad. [extract]",
            ],
        ),
        ("sst2", ("who knows",), None, ["row 7, no label", "  [start] who knows [extract]"]),
    ],
)
def test_every_shape_is_shown_with_its_special_tokens(task, texts, label, expected):
    assert lines(task, *texts, label=label) == expected


def test_cuts_are_marked_where_they_were_made():
    assert lines("sst2", "a b c d e", context=5)[1:] == ["  [start] a b c [cut 2 tokens] [extract]"]
    assert lines("rte", "a b c d", "e f", context=8)[1:] == ["  [start] a b c [cut 1 token] [delimiter] e f [extract]"]
    assert lines("dpr", "a b c", "it", "x", "y z", context=7)[1:] == [
        "  [start] a [cut 2 tokens] it [delimiter] x [extract]",
        "  [start] a [cut 2 tokens] it [delimiter] y z [extract]",
    ]
    assert lines("dpr", "a b c", "it", "x", "y", context=5)[1] == "  [start] [cut 3 tokens] it [delimiter] x [extract]"


@pytest.mark.parametrize("context", [8, 20, 512])
def test_what_is_shown_is_what_is_encoded(words_tokenizer, context):
    task = CATALOGUE["mrpc"]
    example = Example(("Ann sold\n3 apples, so they say.", "Somebody lost the well-known map."), 1, 1)
    (shown,) = show_examples(task, [example], words_tokenizer, context)
    split = encode_task(task, {"train": [example]}, words_tokenizer, context).splits["train"]
    ids = {f"[{name}]": id for name, id in words_tokenizer.specials.items()}
    ids |= {token.replace("\n", r"\n"): id for id, token in enumerate(words_tokenizer.vocabulary.tokens)}
    for tokens, sequence in zip(shown.sequences, split.sequences(0), strict=True):
        assert [ids[token] for token in tokens if not token.startswith("[cut")] == sequence.tolist()
    assert shown.cut == split.cut[0]
    assert all("\n" not in token for tokens in shown.sequences for token in tokens)


def test_the_first_examples_of_a_split_are_shown_and_other_splits_refused(tmp_path):
    rows = [f'{{"text": "row {n}", "label": "{n % 2}"}}\n' for n in range(4)]
    for split in ("train", "dev"):
        (tmp_path / f"{split}.jsonl").write_text("".join(rows))
    shown, notices = show_task("sst2", str(tmp_path), 2)
    assert [example.row for example in shown] == [1, 2]
    assert "4 rows stand in train too" in notices[0]
    with pytest.raises(SettingError, match=r"unknown split 'test'.*known: train, dev"):
        show_task("sst2", str(tmp_path), 2, split="test")
