"""What every room's tests may ask for: a small vocabulary of each kind, text, and the real data where it is."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side, and toys gain nothing from more threads

from gpt1.text.tokenizer import Tokenizer
from gpt1.text.training import WordCounter, train_bytes, train_words

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
    """A small vocabulary of the paper's kind."""
    return train_words(WordCounter().count([make_text(3000, seed=0)]), merges=300)


@pytest.fixture(scope="session")
def bytes_tokenizer() -> Tokenizer:
    """A small byte-level vocabulary."""
    return train_bytes([make_text(3000, seed=0)], merges=300)


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real books and tasks."""
    folder = os.environ.get("GPT1_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("no real data here; name its folder in GPT1_DATA")
    return Path(folder)
