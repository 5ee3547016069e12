"""What happens in a run is told as values, in the order in which it happens, and nothing is printed."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from gpt1.runs.events import Evaluated, Noticed, Sampled, Saved, Stepped
from gpt1.training.config import Judgement
from gpt1.training.distributed import World
from tests.training.tools import TOY, Recorder, toy_trainer, with_training


def test_events_come_in_the_order_in_which_things_happen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = Recorder()
    logging = replace(TOY.logging, evaluate_every=2, sample_every=3, save_every=4)
    trainer = toy_trainer(
        tmp_path / "run",
        with_training(replace(TOY, logging=logging), steps=5),
        listeners=[record],
        evaluate=lambda: Judgement({"valid_loss": 1.0}, 1.0),
        sample=lambda step: Sampled(step, [{"prompt": "p", "text": str(step)}]),
    )
    assert trainer.train()
    saved = [event.step for event in record.events if isinstance(event, Saved)]
    assert saved == [0, 2, 4, 5]  # told as each is on the disk, whenever that is; the last one comes last
    assert isinstance(record.events[-1], Saved)
    others = [event for event in record.events if not isinstance(event, Saved)]
    assert [(type(event), getattr(event, "step", None)) for event in others] == [
        (Stepped, 1),
        (Stepped, 2),
        (Evaluated, 2),
        (Stepped, 3),
        (Sampled, 3),
        (Stepped, 4),
        (Evaluated, 4),
        (Stepped, 5),
        (Evaluated, 5),
        (Sampled, 5),
    ]
    assert capsys.readouterr() == ("", "")


def test_every_listener_hears_everything_and_only_the_first_process_speaks(tmp_path: Path) -> None:

    one, other = Recorder(), Recorder()
    trainer = toy_trainer(tmp_path / "run", with_training(TOY, steps=2), listeners=[one, other])
    assert trainer.train()
    assert one.events == other.events != []
    trainer.world = World(rank=1, size=2)
    trainer._notify(Noticed("nobody hears this"))
    assert Noticed("nobody hears this") not in one.events


def test_an_event_cannot_be_changed_by_who_hears_it() -> None:
    with pytest.raises(FrozenInstanceError):
        Noticed("a").text = "b"  # type: ignore[misc]
