"""Several processes make one corpus, each a part of it, and it is the one that a single process makes."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpt1 import prepare
from gpt1.base.errors import Busy, InputError, SettingError
from gpt1.base.files import lock_folder
from gpt1.base.progress import Silent
from gpt1.corpus import batches, lots
from gpt1.corpus.at_work import WHOLE, at_work
from gpt1.corpus.manifest import WORK, read_corpus
from gpt1.corpus.prepare import prepare_part
from gpt1.text.tokenizer import Tokenizer
from tests.corpus.tools import (
    DROPPED,
    DUMP,
    LEFT_OUT,
    SETTINGS,
    SIFTED,
    SMALL_BATCH,
    SMALL_LOT,
    WET,
    Said,
    assert_same_folder,
    write_pages,
    write_texts,
)
from tests.moments import signalled

# Small batches and lots, so that there are many of them.
SCRIPT = f"""
import json, sys
import gpt1.corpus.batches, gpt1.corpus.lots
gpt1.corpus.batches.BATCH_CHARACTERS, gpt1.corpus.lots.LOT_BYTES = {SMALL_BATCH}, {SMALL_LOT}
from gpt1.corpus.prepare import prepare_part
texts, tokenizer, out, number, count, settings = sys.argv[1:]
prepare_part(texts, tokenizer, out, (int(number), int(count)), **json.loads(settings))
"""


needs_any_pages = pytest.mark.parametrize(
    "name",
    [pytest.param(DUMP, marks=pytest.mark.skipif(not find_spec("mwparserfromhell"), reason="extra `wikipedia`")), WET],
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH_CHARACTERS", SMALL_BATCH)
    monkeypatch.setattr(lots, "LOT_BYTES", SMALL_LOT)


@pytest.fixture
def tokenizer(words_tokenizer: Tokenizer, tmp_path: Path) -> Path:
    words_tokenizer.save(tmp_path / "tokenizer.json")
    return tmp_path / "tokenizer.json"


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_texts(tmp_path / "texts")


@pytest.fixture
def alone(small: None, texts: Path, tokenizer: Path, tmp_path: Path) -> Path:
    """What a single process makes."""
    prepare(texts, tokenizer, tmp_path / "alone", **SETTINGS)
    return tmp_path / "alone"


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_parts_in_any_order_make_the_corpus_of_a_single_process(
    alone: Path, texts: Path, tokenizer: Path, tmp_path: Path, count: int
) -> None:
    order = random.Random(count).sample(range(1, count + 1), count)
    made = [prepare_part(texts, tokenizer, tmp_path / "out", (number, count), **SETTINGS) for number in order]
    assert made[-1] == prepare(texts, tokenizer, alone, **SETTINGS)
    assert_same_folder(alone, tmp_path / "out")
    assert read_corpus(alone).documents.dropped == DROPPED


@needs_any_pages
@pytest.mark.parametrize("count", [1, 2, 7])
def test_parts_of_a_dump_or_a_crawl_make_the_corpus_of_a_single_process_and_its_counts(
    small: None, tokenizer: Path, tmp_path: Path, name: str, count: int
) -> None:
    texts = write_pages(tmp_path / "pages", name)
    alone = prepare(texts, tokenizer, tmp_path / "alone", **SIFTED)
    assert alone["documents"] == {"read": {DUMP: 61, WET: 36}[name], "dropped": LEFT_OUT[name]}
    parts = range(1, count + 1)
    assert [prepare_part(texts, tokenizer, tmp_path / "out", (part, count), **SIFTED) for part in parts][-1] == alone
    assert_same_folder(tmp_path / "alone", tmp_path / "out")


@needs_any_pages
def test_of_a_dump_or_a_crawl_each_part_makes_documents_of_its_own_pages_alone(
    small: None, tokenizer: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, made = write_pages(tmp_path / "pages", name), list[str]()
    real = batches.with_texts
    monkeypatch.setattr(batches, "with_texts", lambda items, sieve: (made.append(str(items)), real(items, sieve))[1])
    for part in (1, 2, 3):
        before = len(made)
        prepare_part(texts, tokenizer, tmp_path / "out", (part, 3), **SIFTED)
        assert len(made) > before
    assert len(made) == len(set(made))


def test_parts_of_other_numbers_and_a_plain_preparation_go_on_with_what_is_there(
    alone: Path, texts: Path, tokenizer: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert prepare_part(texts, tokenizer, out, (2, 3), **SETTINGS) is None
    assert prepare_part(texts, tokenizer, out, (1, 7), **SETTINGS) is None
    written = {path: path.stat().st_mtime_ns for path in (out / WORK).glob("*/*.npz")}
    with pytest.raises(KeyboardInterrupt):
        prepare(texts, tokenizer, out, progress=StopsAt("writing train"), **SETTINGS)
    assert written.items() <= {path: path.stat().st_mtime_ns for path in (out / WORK).glob("*/*.npz")}.items()
    prepare(texts, tokenizer, out, **SETTINGS)
    assert_same_folder(alone, out)


class StopsAt(Silent):
    """Stops whoever begins a stage of this name."""

    def __init__(self, label: str) -> None:
        self._label = label

    def bar(self, label: str) -> StopsAt:
        if label == self._label:
            raise KeyboardInterrupt
        return self


@pytest.mark.parametrize(
    ("pages", "workers"), [(None, 1), (WET, 1), pytest.param(None, 2, marks=pytest.mark.slow)], ids=str
)
def test_parts_that_are_killed_and_started_again_side_by_side_make_the_same_bytes(
    texts: Path, tokenizer: Path, tmp_path: Path, pages: str | None, workers: int
) -> None:
    source = texts if pages is None else write_pages(tmp_path / "pages", pages)
    settings = json.dumps({**(SETTINGS if pages is None else SIFTED), "workers": workers})

    def part(out: Path, number: int, count: int, dies_at: int | None = None) -> list[str]:
        run = ["-c", SCRIPT, *map(str, (source, tokenizer, out, number, count)), settings]
        return [sys.executable, *run] if dies_at is None else signalled(dies_at, out, signal.SIGKILL, *run)

    def run(commands: Sequence[list[str]]) -> list[int]:
        return [process.wait() for process in [subprocess.Popen(command) for command in commands]]

    calm, out = tmp_path / "calm", tmp_path / "out"
    assert run([part(calm, 1, 1, None)]) == [0]
    draw = random.Random(3)
    for _ in range(3):
        kills = [part(out, number, 2, draw.randint(1, 25)) for number in (1, 2)]
        assert set(run(kills)) <= {-signal.SIGKILL, 0}
    assert run([part(out, number, 2) for number in (1, 2)]) == [0, 0]
    assert_same_folder(calm, out)
    assert read_corpus(out).documents.dropped == (LEFT_OUT[pages] if pages else DROPPED)


def test_a_part_with_other_settings_texts_or_tokenizer_is_refused_by_what_differs(
    small: None, texts: Path, tokenizer: Path, bytes_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    prepare_part(texts, tokenizer, out, (1, 2), **SETTINGS)
    bytes_tokenizer.save(tmp_path / "other.json")
    with pytest.raises(InputError, match="an unfinished preparation with other settings; choose another folder, or"):
        prepare_part(texts, tokenizer, out, (2, 2), **{**SETTINGS, "valid": 0.2})
    with pytest.raises(InputError, match="an unfinished preparation with other tokenizer;"):
        prepare_part(texts, tmp_path / "other.json", out, (2, 2), **SETTINGS)
    (texts / "9.txt").write_text("One more.")
    with pytest.raises(InputError, match=r"with other files; .* or remove .*\.gpt1-work when nobody is at work$"):
        prepare_part(texts, tokenizer, out, (2, 2), **SETTINGS)


def test_a_corpus_that_is_made_is_returned_to_every_part_and_one_of_other_settings_refused(
    alone: Path, texts: Path, tokenizer: Path
) -> None:
    before = (alone / "corpus.json").read_bytes()
    assert prepare_part(texts, tokenizer, alone, (3, 9), **SETTINGS) == read_corpus(alone).as_json()
    with pytest.raises(InputError, match="holds a corpus with other settings"):
        prepare_part(texts, tokenizer, alone, (3, 9), **{**SETTINGS, "valid": 0.3})
    assert (alone / "corpus.json").read_bytes() == before
    assert not (alone / WORK).exists()


def test_a_part_is_done_by_one_command_at_a_time(small: None, texts: Path, tokenizer: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    prepare_part(texts, tokenizer, out, (1, 3), **SETTINGS)
    with at_work(out / WORK, "2-of-3"):
        with pytest.raises(Busy, match=f"another command is at work on part 2/3 in {out}; wait for it"):
            prepare_part(texts, tokenizer, out, (2, 3), **SETTINGS)
        with pytest.raises(Busy, match="on part 2/3"):  # by which it would be put together
            prepare(texts, tokenizer, out, **SETTINGS)
        with pytest.raises(Busy, match="on part 2/3"):
            prepare(texts, tokenizer, out, restart=True, **SETTINGS)
        prepare_part(texts, tokenizer, out, (3, 3), **SETTINGS)
    with at_work(out / WORK, WHOLE), pytest.raises(Busy, match="at work on this preparation"):
        prepare_part(texts, tokenizer, out, (2, 3), **SETTINGS)
    assert prepare_part(texts, tokenizer, out, (2, 3), **SETTINGS) is not None


def test_a_part_that_is_done_while_another_puts_the_corpus_together_leaves_it_to_that(
    small: None, texts: Path, tokenizer: Path, tmp_path: Path
) -> None:
    out, said = tmp_path / "out", Said()
    with pytest.raises(KeyboardInterrupt):
        prepare(texts, tokenizer, out, progress=StopsAt("writing train"), **SETTINGS)
    with lock_folder(out):
        assert prepare_part(texts, tokenizer, out, (1, 2), progress=said, **SETTINGS) is None
    assert said.lines[-1].startswith(f"part 1/2 is done; another command is at work in {out}")
    assert said.lines[-1].endswith(", which puts the corpus together")


def test_a_part_meets_a_fault_in_its_own_files_and_skipping_goes_on(
    small: None, texts: Path, tokenizer: Path, tmp_path: Path
) -> None:
    (texts / "3.jsonl").write_text('{"text": 5}\n' + (texts / "3.jsonl").read_text())
    out, skip = tmp_path / "out", {**SETTINGS, "on_error": "skip"}
    for _ in range(2):  # at first it is met, then it is known of a batch that is there
        with pytest.raises(InputError, match=r"3\.jsonl, line 1: .*`on_error='skip'`; then remove .*\.gpt1-work when"):
            prepare_part(texts, tokenizer, out, (1, 2), **SETTINGS)
    prepare_part(texts, tokenizer, out, (1, 2), **skip)
    with pytest.raises(InputError, match=r"3\.jsonl, line 1"):
        prepare_part(texts, tokenizer, out, (2, 2), **SETTINGS)
    prepare_part(texts, tokenizer, out, (2, 2), **skip)
    prepare(texts, tokenizer, tmp_path / "alone", **skip)
    assert_same_folder(tmp_path / "alone", out)


def test_a_folder_of_somebody_else_or_a_half_cleared_one_is_not_joined(
    small: None, texts: Path, tokenizer: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("precious")
    with pytest.raises(InputError, match=r"holds other files \(thesis\.txt\)"):
        prepare_part(texts, tokenizer, out, (1, 2), **SETTINGS)
    (out / "thesis.txt").unlink()
    prepare_part(texts, tokenizer, out, (1, 2), **SETTINGS)
    (out / WORK / "plan.json").unlink()  # as by a kill in the midst of removing
    with pytest.raises(InputError, match="what is left of a preparation that was thrown away; remove it"):
        prepare_part(texts, tokenizer, out, (2, 2), **SETTINGS)


@pytest.mark.parametrize("part", [(0, 3), (4, 3), (1, 0)])
def test_a_part_that_there_is_not_is_refused(
    texts: Path, tokenizer: Path, tmp_path: Path, part: tuple[int, int]
) -> None:
    with pytest.raises(SettingError, match="`part` is a number from 1 up and how many there are, such as 2/8"):
        prepare_part(texts, tokenizer, tmp_path / "out", part, **SETTINGS)
    assert not (tmp_path / "out").exists()
