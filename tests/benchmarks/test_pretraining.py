"""A peer's own file is run as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.results import ROOT, read

MODEL = """
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class GPTConfig:
    block_size: int
    vocab_size: int
    n_layer: int
    n_head: int
    n_embd: int
    dropout: float
    bias: bool


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.table = nn.Embedding(config.vocab_size, config.n_embd)

    def forward(self, idx, targets):
        logits = self.table(idx) @ self.table.weight.T
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())
"""


def test_a_peer_comes_from_its_own_file_and_its_figures_go_into_the_results(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    options = ["--rounds", "1", "--steps", "1", "--warm", "1", "--vocab", "300", "--only", "peer", "--device", "cpu"]
    files = ["--peer-file", str(tmp_path / "model.py"), "--json", str(tmp_path / "results.json")]
    subprocess.run([sys.executable, "-m", "benchmarks.pretraining", *options, *files], cwd=ROOT, check=True)
    (row,) = read(tmp_path / "results.json")
    assert (row.contender, row.unit, row.rounds) == ("peer", "tokens/s", 1)
    assert row.median > 0
