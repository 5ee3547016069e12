"""What every room's tests may ask for: small vocabularies, a corpus, a trained run, and the real data where it is."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

os.environ.pop("COLUMNS", None)  # which tells how wide whoever started the tests sees them
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side, and toys gain nothing from more threads
# Started in the background, a suite is deaf to Ctrl-C, and so would be every command that it interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

from gpt1.text.tokenizer import Tokenizer
from gpt1.text.training import WordCounter, train_bytes, train_words

with suppress(ModuleNotFoundError):  # a machine with a GPU may have no hypothesis, and runs tests that need none
    from tests import properties

    properties.settings.load_profile(properties.SAME)  # `--hypothesis-profile` comes after it


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Begin every test, and the fixtures that it is the first to ask for, with the same random numbers and a thread."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
        sys.modules["torch"].set_num_threads(1)  # whoever asked for more: a second one would only be waited for


PEOPLE = ("Ann", "the old sailor", "Mr. Brown", "a girl with a lamp", "Tom O'Neill", "somebody", "Dr. Wu", "the cat")
DEEDS = ("looked for", "couldn't find", "sold", "was given", "dreamt of", "wouldn't touch", "carried", "lost")
THINGS = (
    "a silver key",
    "the well-known map",
    "3 apples",
    "an umbrella (torn)",
    "£5.50",
    "her brother's hat",
    "nothing",
)
ENDS = (".", "!", "?", " -- at last.", "; it was 10 a.m.", "...", ', "so they say".', ".\n", ".\n\n")


def make_text(sentences: int, seed: int) -> str:
    """Return plain English of a small world, the same for the same seed."""
    draw = random.Random(seed)
    parts = [
        f"{draw.choice(PEOPLE)} {draw.choice(DEEDS)} {draw.choice(THINGS)}{draw.choice(ENDS)}" for _ in range(sentences)
    ]
    return " ".join(part[0].upper() + part[1:] for part in parts)


@pytest.fixture(scope="session")
def words_tokenizer() -> Tokenizer:
    """A small vocabulary of the paper's kind; tests that need none run where its libraries are not installed."""
    for library in ("ftfy", "spacy"):
        pytest.importorskip(library)
    return train_words(WordCounter().count([make_text(3000, seed=0)]), merges=300)


@pytest.fixture(scope="session")
def bytes_tokenizer() -> Tokenizer:
    """A small byte-level vocabulary."""
    return train_bytes([make_text(3000, seed=0)], merges=300)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory, words_tokenizer: Tokenizer) -> Path:
    """Forty documents of a small world, one or two of them for validation."""
    from gpt1.corpus.prepare import prepare

    folder = tmp_path_factory.mktemp("corpus")
    texts = folder / "texts"
    texts.mkdir()
    for number in range(40):
        (texts / f"{number}.txt").write_text(make_text(40, seed=number))
    words_tokenizer.save(folder / "tokenizer.json")
    prepare([texts], folder / "tokenizer.json", folder / "corpus", valid=0.05, workers=1, duplicates="keep")
    return folder / "corpus"


# A network that learns a little of the small corpus in a second.
SMALL_RUN = (
    "shape.layers=2",
    "shape.width=32",
    "shape.heads=2",
    "shape.feed_forward=64",
    "shape.context=16",
    "training.batch=8",
    "training.steps=12",
    "training.precision=fp32",
    "logging.log_every=1",
    "logging.evaluate_every=4",
    "logging.sample_every=12",
    "logging.save_every=4",
    "logging.keep=2",
)


@pytest.fixture(scope="session")
def trained(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of twelve updates on the small corpus, to be read and never changed."""
    from gpt1.pretraining.pretrain import pretrain

    run = tmp_path_factory.mktemp("trained") / "run"
    pretrain("tiny", corpus, run, changes=SMALL_RUN, device="cpu")
    return run


@pytest.fixture(scope="session")
def stand_in(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of bases with one in it, `small`: the trained run in a byte a weight, to be read and never changed."""
    from tests.bases.tools import write_base

    folder = tmp_path_factory.mktemp("bases")
    write_base(folder / "small", trained)
    return folder


@pytest.fixture
def small(stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a base that the package has while a test lasts."""
    from gpt1.bases import catalog

    monkeypatch.setattr(catalog, "PACKAGED", Path(shutil.copytree(stand_in, tmp_path / "packaged")))
    return tmp_path / "packaged" / "small"


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real books and tasks."""
    folder = os.environ.get("GPT1_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("no real data here; name its folder in GPT1_DATA")
    return Path(folder)
