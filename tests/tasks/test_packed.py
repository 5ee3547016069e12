"""Sequences side by side in one row: nothing is lost, positions restart, and rows can be filled up to blocks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpt1.model.packing import pack
from gpt1.tasks.packed import pack_sequences, window_cells
from tests.properties import examples

CALM = examples(60)
SEQUENCES = st.lists(st.lists(st.integers(1, 40_000), min_size=1, max_size=12), min_size=1, max_size=10)


@CALM
@given(SEQUENCES)
def test_every_sequence_is_found_again_between_its_offsets(sequences: list[list[int]]) -> None:
    row = pack_sequences([np.array(ids, np.uint16) for ids in sequences])
    assert row.sequences == len(sequences)
    assert [row.ids[start:end].tolist() for start, end in pairwise(row.offsets)] == sequences
    assert row.position.tolist() == [place for ids in sequences for place in range(len(ids))]
    assert row.sequence.tolist() == [number for number, ids in enumerate(sequences) for _ in ids]
    assert row.longest == max(map(len, sequences))
    assert (row.ids.dtype, row.offsets.dtype) == (np.int32, np.int32)


@CALM
@given(SEQUENCES)
def test_a_row_is_what_the_network_calls_a_packing(sequences: list[list[int]]) -> None:
    row = pack_sequences([np.array(ids) for ids in sequences])
    packing = pack(torch.tensor([len(ids) for ids in sequences]))
    assert packing.offsets.tolist() == row.offsets.tolist()
    assert packing.sequence.tolist() == row.sequence.tolist()
    assert packing.position.tolist() == row.position.tolist()
    assert packing.longest == row.longest
    assert set(row.arrays()) == {"ids", "offsets", "sequence", "position"}


@CALM
@given(SEQUENCES, st.integers(2, 16))
def test_one_more_sequence_fills_the_row_up_to_whole_blocks(sequences: list[list[int]], block: int) -> None:
    row = pack_sequences([np.array(ids) for ids in sequences], block=block, filler=7)
    tokens = sum(map(len, sequences))
    assert len(row.ids) % block == 0
    assert 0 <= len(row.ids) - tokens < block
    assert row.sequences == len(sequences) + 1  # also where nothing is to be filled
    assert (row.ids[tokens:] == 7).all()
    assert row.position[tokens:].tolist() == list(range(len(row.ids) - tokens))
    assert row.longest >= max(map(len, sequences))
    assert row.longest == np.diff(row.offsets).max()


def test_windows_have_cells_in_a_grid_of_examples() -> None:
    cells, most = window_cells(np.array([1, 3, 2]))
    assert (cells.tolist(), most) == ([0, 3, 4, 5, 6, 7], 3)
    assert (cells // most).tolist() == [0, 1, 1, 1, 2, 2]
