"""A network that remembers says what one says that reads everything anew."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from gpt1.model import KVCache, Model, read
from gpt1.recipes.values import Shape
from tests.model.tools import PAPER, SHAPES, SMALL_LSTM, VOCAB, shaken

ALL_SHAPES = {**SHAPES, "lstm": SMALL_LSTM}
EVERY_SHAPE = pytest.mark.parametrize("shape", ALL_SHAPES.values(), ids=ALL_SHAPES)


def remember(model: Model, rows: int) -> KVCache:
    return KVCache(model.shape, rows, dtype=model.compute, device=torch.device("cpu"))


def anew(model: Model, sequences: list[list[int]]) -> Tensor:
    """Return the last output of each sequence, read alone and whole."""
    with torch.no_grad():
        return torch.stack([model(torch.tensor([ids]))[0][0, -1] for ids in sequences])


def begin(model: Model, memory: KVCache, rows: list[int], sequences: list[list[int]]) -> Tensor:
    ids = torch.tensor([id for sequence in sequences for id in sequence])
    return read(model, memory.begin(rows, [len(sequence) for sequence in sequences]), ids)[0]


def go_on(model: Model, memory: KVCache, rows: list[int], ids: list[int]) -> Tensor:
    return read(model, memory.go_on(rows), torch.tensor(ids))[0]


@EVERY_SHAPE
def test_sequences_of_any_lengths_go_on_as_if_they_were_read_anew(shape: Shape) -> None:
    model, draw = shaken(shape), random.Random(0)
    memory = remember(model, 3)
    sequences = [[draw.randrange(VOCAB) for _ in range(length)] for length in (1, 6, 3)]
    torch.testing.assert_close(begin(model, memory, [0, 1, 2], sequences), anew(model, sequences))
    for _ in range(shape.context - 6):
        for sequence in sequences:
            sequence.append(draw.randrange(VOCAB))
        found = go_on(model, memory, [0, 1, 2], [sequence[-1] for sequence in sequences])
        torch.testing.assert_close(found, anew(model, sequences))
    assert memory.lengths == [len(sequence) for sequence in sequences]


@EVERY_SHAPE
def test_sequences_begin_anew_join_and_leave_beside_others_that_go_on(shape: Shape) -> None:
    model, draw = shaken(shape), random.Random(1)
    memory = remember(model, 4)
    rows: list[list[int]] = []
    for _ in range(60):
        full = [row for row, ids in enumerate(rows) if len(ids) == shape.context]
        if full or (rows and draw.random() < 0.1):
            row = full[0] if full else draw.randrange(len(rows))
            if draw.random() < 0.5:
                memory.leave(row)
                rows[row] = rows[-1]
                rows.pop()
            else:
                rows[row] = [draw.randrange(VOCAB) for _ in range(draw.randint(1, 5))]
                torch.testing.assert_close(begin(model, memory, [row], [rows[row]]), anew(model, [rows[row]]))
        elif len(rows) < 4 and draw.random() < 0.3:
            rows.append([draw.randrange(VOCAB) for _ in range(draw.randint(1, 5))])
            begin(model, memory, [len(rows) - 1], rows[-1:])
        elif rows:
            some = sorted(draw.sample(range(len(rows)), draw.randint(1, len(rows))))
            for row in some:
                rows[row].append(draw.randrange(VOCAB))
            found = go_on(model, memory, some, [rows[row][-1] for row in some])
            torch.testing.assert_close(found, anew(model, [rows[row] for row in some]))


def test_a_token_is_written_in_place_and_what_is_looked_at_is_a_view() -> None:
    model = shaken(PAPER)
    memory = remember(model, 2)
    begin(model, memory, [0, 1], [[1, 2], [3, 4]])
    places = [layer.data_ptr() for layer in (*memory.first, *memory.second)]
    reading = memory.go_on([0, 1])
    assert reading.rows == slice(2)
    assert reading.allowed is None  # equal lengths: nothing to hide
    looked_at = reading.past(0).first[reading.rows][:, :, reading.seen]
    assert looked_at.data_ptr() == places[0]
    read(model, reading, torch.tensor([5, 6]))
    assert [layer.data_ptr() for layer in (*memory.first, *memory.second)] == places


def test_a_window_is_all_that_is_looked_at() -> None:
    model = shaken(ALL_SHAPES["modern with a window"])
    memory = remember(model, 1)
    begin(model, memory, [0], [[1, 2, 3, 4, 5, 6]])
    assert memory.go_on([0]).seen == slice(3, 7)


@EVERY_SHAPE
@pytest.mark.parametrize("whole", [2, 3, 8])
def test_what_is_seen_too_much_is_hidden(shape: Shape, whole: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, draw = shaken(shape), random.Random(0)
    memory = remember(model, 2)
    monkeypatch.setattr(memory, "_whole", whole)
    sequences = [[draw.randrange(VOCAB)] for _ in range(2)]
    begin(model, memory, [0, 1], sequences)
    for _ in range(shape.context - 1):
        for sequence in sequences:
            sequence.append(draw.randrange(VOCAB))
        found = go_on(model, memory, [0, 1], [sequence[-1] for sequence in sequences])
        torch.testing.assert_close(found, anew(model, sequences))
