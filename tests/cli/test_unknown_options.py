"""An option that a verb does not have is answered with the one, or the setting, that was meant."""

from __future__ import annotations

import click
import pytest

from gpt1.cli.unknown_options import SYNONYMS
from tests.cli.test_words import commands
from tests.cli.tools import run


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("pretrain --epochs 3", "'--set training.epochs=3'"),
        ("pretrain --epochs=3", "'--set training.epochs=3'"),
        ("pretrain --epochs", "'--set training.epochs=VALUE'"),
        (
            "pretrain --kind muon",
            "'--set shape.kind=muon' or '--set optimizer.kind=muon' or '--set schedule.kind=muon'",
        ),
        ("pretrain --layerz 2", "'--set shape.layers=2'"),
        ("finetune --batch 9", "'--set training.batch=9'"),
        ("finetune --batch-size 9", "'--set training.batch=9'"),
        ("finetune --weight-decay 0.1", "'--set optimizer.weight_decay=0.1'"),
        ("finetune --learning-rate 1e-4", "'--lr'"),
        ("finetune --early-stopping 2", "'--patience'"),
        ("finetune --model runs/a", "'--init'"),
        ("finetune --output runs/a", "'--out'"),
        ("finetune --n-epochs 3", "'--epochs'"),
        ("generate run --max-tokens 9", "'--max-new-tokens'"),
        ("prepare books --tokeniser t", "'--tokenizer'"),
        ("tokenizer train books --vocab-size 900", "'--merges'"),
    ],
)
def test_what_was_meant_is_told(capsys: pytest.CaptureFixture[str], typed: str, meant: str) -> None:
    code, out, err = run(capsys, *typed.split())
    assert (code, out) == (2, "")
    assert err.splitlines()[0].startswith("Usage: gpt1 ")
    option = next(word for word in typed.split() if word.startswith("--")).partition("=")[0]
    assert err.splitlines()[-1] == f"Error: no such option '{option}'; did you mean {meant}?"


@pytest.mark.parametrize("typed", ["generate run --zzzzz", "generate run --learning-rate 1", "demo --batch 3"])
def test_what_a_verb_cannot_do_is_not_offered(capsys: pytest.CaptureFixture[str], typed: str) -> None:
    code, _, err = run(capsys, *typed.split())
    assert code == 2
    assert "did you mean" not in err


def test_every_synonym_stands_for_what_some_verb_has() -> None:
    options = {one.name for verb in commands() for one in verb.params if isinstance(one, click.Option)}
    assert set(SYNONYMS.values()) - options == {"batch"}  # a setting
