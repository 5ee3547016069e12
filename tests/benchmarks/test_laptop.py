"""Both contenders do the same work: the same rows, and the paper's two losses."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from benchmarks.laptop import PADDING, Theirs, make_rows, padded


def test_rows_are_as_long_as_those_of_sst2() -> None:
    lengths = np.diff(make_rows(2000, 500, seed=0).offsets)
    assert 11 <= np.median(lengths) <= 15
    assert 0.03 <= (lengths > 40).mean() <= 0.08
    assert lengths.max() <= 66


def test_padding_changes_no_loss() -> None:
    torch.manual_seed(0)
    model, split = Theirs(500, torch.float32).eval(), make_rows(3, 500, seed=1)
    labels = torch.from_numpy(split.labels)
    alone = torch.stack([model.loss(padded(split, np.array([row])), labels[row : row + 1]) for row in range(3)])
    torch.testing.assert_close(model.loss(padded(split, np.arange(3)), labels), alone.mean())


def test_the_loss_is_the_tasks_and_half_of_the_next_tokens() -> None:
    torch.manual_seed(0)
    model, split = Theirs(500, torch.float32).eval(), make_rows(1, 500, seed=2)
    ids, label = padded(split, np.array([0])), torch.from_numpy(split.labels)
    assert (ids != PADDING).all()
    hidden = model.body(ids).last_hidden_state
    words = F.cross_entropy(hidden[0, :-1] @ model.body.tokens_embed.weight.T, ids[0, 1:])
    expected = F.cross_entropy(model.head(hidden[:, -1]), label) + 0.5 * words
    torch.testing.assert_close(model.loss(ids, label), expected)
