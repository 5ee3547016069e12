"""A small library: documents whose sentences are told apart by their words."""

from __future__ import annotations

import numpy as np

from gpt1.corpus.documents import DocumentPart
from gpt1.lessons.passages import Passage, draw_passages, draw_stretches

NAMES = ["Anna", "Berta", "Clara", "Dora", "Emma", "Frieda", "Greta", "Hanna"]
DEEDS = ["walked", "walks", "waited", "waits", "looked", "looks", "talked", "talks", "turned", "turns"]
PLACES = ["garden", "kitchen", "harbour", "station", "market", "chapel", "meadow", "forest"]
MOODS = ["happy", "lovely", "sad", "gloomy", "wretched", "charming"]


def sentence(random: np.random.Generator) -> str:
    name, deed, place, mood = (str(random.choice(words)) for words in (NAMES, DEEDS, PLACES, MOODS))
    return f"{name} {deed} slowly to the {mood} {place} with a {random.choice(PLACES)} basket."


def library(documents: int = 3, length: int = 90, seed: int = 0) -> list[DocumentPart]:
    random = np.random.default_rng(seed)
    texts = [" ".join(sentence(random) for _ in range(length)) for _ in range(documents)]
    return [DocumentPart(text, True, True, at, "", len(text)) for at, text in enumerate(texts)]


def passages(count: int = 1000, **about: int) -> list[Passage]:
    return draw_passages(library(**about), count, seed=0)


def stretches(count: int = 1000, **about: int) -> list[Passage]:
    return draw_stretches(library(**about), count, seed=0)
