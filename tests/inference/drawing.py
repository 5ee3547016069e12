"""Several tokens at once, as on a GPU, where there is none."""

from __future__ import annotations

from functools import partial

import pytest

from gpt1.inference import generation
from gpt1.inference.generation import BatchGenerator
from gpt1.model import Model


def draw_several(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Draw several tokens at once where there is no GPU too, nothing recorded; how many each time is noted here."""
    begin, write, noted = BatchGenerator.__init__, BatchGenerator._write_several, []

    def begin_with_draws(self: BatchGenerator, model: Model, vocabulary: int, rows: int) -> None:
        begin(self, model, vocabulary, rows)
        monkeypatch.setattr(self.memory, "_whole", 4)
        draws = partial(generation._drawn, generation._next_scores(model, self.memory)[0], vocabulary)
        monkeypatch.setattr(self, "_draws", draws)

    def write_and_note(self: BatchGenerator, steps: int) -> None:
        noted.append(steps)
        write(self, steps)

    monkeypatch.setattr(BatchGenerator, "__init__", begin_with_draws)
    monkeypatch.setattr(BatchGenerator, "_write_several", write_and_note)
    return noted
