"""A model card says what a run is and is not, from what lies in its folder, and nothing of the machine."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpt1 import finetune
from gpt1.base.errors import FormatError, InputError
from gpt1.finetuning.data import Source
from gpt1.records.calibration import CALIBRATION_FILE, CalibrationRecord, TaskCalibration
from gpt1.records.evaluation import Evaluation
from gpt1.records.run import RecordedMix
from gpt1.report.card import make_card, write_card
from gpt1.runs.folder import update_run
from gpt1.tasks.promises import Surenesses
from tests.report.tools import MOODS, write_finetuned, write_pretrained, write_seeds


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    return write_finetuned(tmp_path / "reviews", {"dev": [0, 1, 0, 1, 0, 1, 1, 0]})


def test_a_fine_tuned_run_tells_all_a_stranger_asks(reviews: Path) -> None:
    card = make_card(reviews)
    titles = [line for line in card.splitlines() if line.startswith("#")]
    assert titles == [
        "# reviews",
        "## What it is",
        "## What it starts from",
        "## What it learned from",
        "## How it was trained",
        "## How good it is",
        "## How sure it is",
        "## What it cannot do",
        "## How to use it",
        "## Licences",
    ]
    assert card.startswith("---\nlibrary_name: gpt1\npipeline_tag: text-classification\n")
    for part in ("30 for train, 8 for dev", "bad, good", "The run 'books'", "gpt1 predict reviews new.csv", "75.0"):
        assert part in card


def test_the_verdict_comes_first(reviews: Path) -> None:
    path = reviews / "evaluation-moods-dev.json"
    replace(Evaluation.read(path), words={"accuracy": 0.9}).write(path)
    card = make_card(reviews)
    assert card.index("Not of use yet: 15.0 points behind counting words") < card.index("## What it is")
    assert "| counting words (TF-IDF) | **90.0** |" in card


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        (
            Surenesses([0.99] * 70 + [0.7] * 20, [0.6] * 10),
            "it can abstain with a promise of how many answers are wrong: at the least 5 % of those that are given "
            "(abstain=0.05), which are 90 of the 100 rows for dev that chose nothing.",
        ),
        (
            Surenesses([0.6] * 45, [0.9] * 55),
            "It cannot abstain with a promise on moods: even its surest answers to the 100 rows for dev that chose "
            "nothing are wrong too often.",
        ),
        (None, "It cannot abstain with a promise on moods: too few rows for dev were kept apart."),
    ],
)
def test_what_can_be_promised_at_the_least_is_told(reviews: Path, kept: Surenesses | None, told: str) -> None:
    found = TaskCalibration("temperature 1.10", 1.1, 100, seen=kept, kept=kept)
    step = Evaluation.read(reviews / "evaluation-moods-dev.json").step
    CalibrationRecord(step, {"moods": found}).write(reviews / CALIBRATION_FILE)
    assert told in make_card(reviews)


def test_a_pre_trained_run_and_one_of_several_seeds_have_cards_too(tmp_path: Path) -> None:
    card = make_card(write_pretrained(tmp_path / "books"))
    assert "Loss 4.500 nats a token of its own validation text, at update 20, 1.500 bits per byte" in card
    assert "pipeline_tag: text-generation" in card
    assert "# moods" in make_card(write_seeds(tmp_path / "moods", [[0, 1] * 4, [1, 0] * 4]))


def test_what_was_mixed_in_how_it_reads_and_rows_made_of_others_are_told(tmp_path: Path) -> None:
    books = write_pretrained(tmp_path / "books")
    mix = RecordedMix("/home/ann/letters", "two", 500, share=0.25)
    update_run(books, mixed=mix)
    told = "10,000 tokens, and 'letters' as a share of 0.25 of what was read"
    assert told in make_card(books)
    changes = ["finetuning.bidirectional=true", "finetuning.lm_weight=0"]
    reviews = write_finetuned(tmp_path / "reviews", {"dev": [0, 1] * 4}, changes=changes)
    source = replace(Source(train=Path("rows.csv"), more=Path("others.csv")).recorded(), dev="held.csv")
    update_run(reviews, parent=str(books), source=source)
    card = make_card(reviews)
    assert told in card
    assert "| reads | each token with those before it and those after it |" in card
    assert "| from | rows.csv, others.csv, held.csv |" in card
    assert "A text of more than 512 tokens is cut." in card


def test_texts_of_labelled_words_are_not_said_to_be_cut(tmp_path: Path) -> None:
    task = replace(MOODS, shape="tokens")
    card = make_card(write_finetuned(tmp_path / "names", {}, task=task))
    assert "A text of more than 512 tokens is read in windows of whole words." in card


def test_a_run_made_of_a_base_tells_what_the_base_has_read(small: Path, tmp_path: Path) -> None:
    card_of_base = small / "card.md"
    assert make_card("small") == card_of_base.read_text()
    (tmp_path / "films.csv").write_text("text,label\n" + "so good,good\nso bad,bad\n" * 12)
    run = finetune(
        "small", tmp_path / "films", train=tmp_path / "films.csv", changes=["training.epochs=1"], device="cpu"
    )
    card = make_card(run.path)
    assert "The base 'small' of gpt1: a network of a test" in card
    assert "it has read tales of a small world (English)" in card
    assert "The base: MIT; the text that it has read: public domain" in card
    assert "language:" not in card  # of the base: what its own rows are in, is not known
    assert "films.csv" in card
    assert str(tmp_path) not in card
    card_of_base.write_text("# another's\n")
    for named in (run.path, "small", small):
        with pytest.raises(FormatError, match=r"small is damaged: card\.md does not match its checksum; install gpt1"):
            make_card(named)


def test_a_base_in_a_folder_of_ones_own_is_known_under_any_name(stand_in: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(stand_in / "small", tmp_path / "from a friend"))
    assert make_card(own) == (own / "card.md").read_text()
    (tmp_path / "films.csv").write_text("text,label\n" + "so good,good\nso bad,bad\n" * 12)
    told: dict[str, Any] = {"train": tmp_path / "films.csv", "changes": ["training.epochs=1"], "device": "cpu"}
    run = finetune(own, tmp_path / "films", **told)
    card = make_card(run.path)
    assert "The base 'small': a network of a test" in card
    assert "it has read tales of a small world (English)" in card
    assert "The base: MIT; the text that it has read: public domain" in card
    assert str(tmp_path) not in card
    further = finetune(run.path, tmp_path / "further", **told)
    assert "The base 'small', by way of the run 'films': a network of a test" in make_card(further.path)
    (own / "card.md").unlink()
    with pytest.raises(FormatError, match=r"card\.md is missing; copy the base there again, or take base\.json away"):
        make_card(run.path)


def test_a_run_that_was_not_measured_says_so(tmp_path: Path) -> None:
    assert "nobody knows what it is worth" in make_card(write_finetuned(tmp_path / "new", {}))


def test_labels_do_nothing_to_the_card(tmp_path: Path) -> None:
    task = replace(MOODS, labels=("a|b", "<img src=x>"))
    card = make_card(write_finetuned(tmp_path / "odd", {"dev": [0, 1] * 4}, task=task))
    assert "<img" not in card.replace("\\<img", "")


def test_a_file_that_is_there_is_replaced_only_when_asked(reviews: Path, tmp_path: Path) -> None:
    out = write_card(reviews, tmp_path / "cards" / "README.md")
    assert out.read_text() == make_card(reviews)
    with pytest.raises(InputError, match=r"README\.md"):
        write_card(reviews, out)
    assert write_card(reviews, out, overwrite=True) == out
    with pytest.raises(InputError, match="is a folder; name the card in it"):
        write_card(reviews, tmp_path)
