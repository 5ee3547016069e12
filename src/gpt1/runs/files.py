"""The files that grow with a run: what happens in it, as lines for a report and for people."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TypedDict

from gpt1.base.errors import FormatError, MissingDependency
from gpt1.base.files import (
    line_bytes,
    not_written,
    parse_line,
    read_lines,
    read_sealed,
    require_plain,
    whole_file,
)
from gpt1.base.records import Count, check_record, sealed
from gpt1.base.strict_json import to_json
from gpt1.runs.checkpoints import list_checkpoints
from gpt1.runs.events import Evaluated, Event, Listener, Noticed, RolledBack, Sampled, Saved, Stepped

METRICS_FILE, SAMPLES_FILE = "metrics.jsonl", "samples.jsonl"
LOG_FILE, EVENTS_FILE = "log.txt", "events.jsonl"  # the same, for people and for a report
ATTENTION_FILE = "attention.json"  # how the network of the last samples looked at a sentence
SAVED, ROLLBACK, NOTICE = "saved", "rollback", "notice"
_KINDS: dict[type, str] = {Saved: SAVED, RolledBack: ROLLBACK, Noticed: NOTICE}  # of lines of events.jsonl


class RunFiles:
    """Writes events to metrics.jsonl, samples.jsonl, attention.json, log.txt and events.jsonl of a run folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, event: Event) -> None:
        """Write an event where it belongs."""
        match event:
            case Stepped() | Evaluated():
                facts = asdict(event)
                scores = facts.pop("scores", {})
                facts.pop("fold", None)  # a run's own updates are of none
                self._append(METRICS_FILE, line_bytes({**facts, **scores}))
            case Sampled():
                for sample in event.samples:
                    self._append(SAMPLES_FILE, line_bytes({"step": event.step, **sample}))
                if event.attention is not None:
                    with whole_file(self._folder / ATTENTION_FILE) as file:  # numbers by the thousand: no line for each
                        file.write(to_json(sealed({"step": event.step, **event.attention})).encode() + b"\n")
            case RolledBack():
                forget_after(self._folder, event.to_step, lambda text: self._log(Noticed(text)))
                self._log(event)
            case Saved() | Noticed():
                self._log(event)

    def _log(self, event: Saved | RolledBack | Noticed) -> None:
        text = in_words(event)
        # First, so that a run with a log and no events is one that began before there were any; it goes on so.
        if (self._folder / EVENTS_FILE).exists() or not (self._folder / LOG_FILE).exists():
            self._append(EVENTS_FILE, line_bytes({"kind": _KINDS[type(event)], "text": text}))
        self._append(LOG_FILE, f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {text}\n".encode("utf-8", "backslashreplace"))

    def _append(self, name: str, line: bytes) -> None:
        require_plain(self._folder / name)
        try:
            with (self._folder / name).open("ab") as file:
                file.write(line)
        except OSError as error:
            raise not_written(self._folder / name, error) from error


def who_hears(folder: Path, listeners: Iterable[Listener], *, curves: bool) -> list[Listener]:
    """Return all who hear of a run, its own files first; they hear which lines about earlier events are damaged."""
    damaged: list[str] = []
    _keep_lines(folder / EVENTS_FILE, lambda facts, place: True, damaged.append)
    all_listeners: list[Listener] = [RunFiles(folder), *listeners, *([tensorboard(folder)] if curves else [])]
    for text in damaged:
        for listener in all_listeners:
            listener(Noticed(text))
    return all_listeners


def has_saved(folder: Path) -> bool:
    """Whether a run ever saved a checkpoint, which may be gone."""
    events, metrics = folder / EVENTS_FILE, folder / METRICS_FILE
    if list_checkpoints(folder):
        return True
    if events.is_file():
        return f'"kind": "{SAVED}"'.encode() in events.read_bytes()  # whatever else is damaged there
    return (
        metrics.exists() and metrics.stat().st_size > 0
    )  # before there were events, a run saved before its first step


class _OfStep(TypedDict):
    step: Count


def forget_after(folder: Path, step: int, notify: Callable[[str], None]) -> None:
    """Drop the metrics, samples and attention of steps that a run makes again, and what is damaged, which is told."""

    def is_made(facts: Mapping[str, object], place: str | Path) -> bool:
        return check_record(facts, _OfStep, place)["step"] <= step

    for name in (METRICS_FILE, SAMPLES_FILE):
        _keep_lines(folder / name, is_made, notify)
    attention = folder / ATTENTION_FILE
    if not attention.is_file():
        return
    try:
        is_kept = is_made(read_sealed(attention, "the attention of a run"), attention)
    except FormatError as error:
        notify(f"{error}; it is removed, and written with the next samples")
        is_kept = False
    if not is_kept:
        attention.unlink()


def _keep_lines(
    path: Path, is_kept: Callable[[Mapping[str, object], str], bool], notify: Callable[[str], None]
) -> None:
    """Drop lines, one that a kill left half written, and those that are damaged, of which somebody is told."""
    if not path.exists():
        return
    require_plain(path)
    with path.open("rb") as file:
        lines = list(file)
    kept = []
    for number, line in enumerate(lines, 1):
        try:
            facts = parse_line(line, path, number)
            if facts is not None and line.endswith(b"\n") and is_kept(facts, f"{path}, line {number}"):
                kept.append(line)
        except FormatError as error:
            notify(f"{error}; the line is left out")
    if len(kept) < len(lines):
        with whole_file(path) as file:
            file.writelines(kept)


def last_scores(folder: Path) -> tuple[int, dict[str, float]]:
    """Return the step and the scores of a run's last evaluation; where there was none, the last step and no scores."""
    path = folder / METRICS_FILE
    metrics = [facts for _, facts in read_lines(path)] if path.exists() else []
    evaluations = [facts for facts in metrics if "valid_loss" in facts]
    if not evaluations:
        return (metrics[-1]["step"] if metrics else 0), {}
    last = evaluations[-1]
    return last.pop("step"), {name: math.nan if value is None else value for name, value in last.items()}


def in_words(event: Saved | RolledBack | Noticed) -> str:
    """Return an event as a line for people."""
    match event:
        case Saved():
            return f"update {event.step}: saved {event.path}"
        case RolledBack():
            return (
                f"update {event.step}: batch {event.batch} blew up (loss {event.loss:.4g} where "
                f"{event.running_loss:.4g} was usual, gradient norm {event.gradient_norm:.4g}); back to update "
                f"{event.to_step}, without that batch"
            )
        case Noticed():
            return event.text


def tensorboard(folder: Path) -> Listener:
    """Return a listener that draws a run's curves for TensorBoard, in the folder `tensorboard` of the run."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise MissingDependency("TensorBoard is not installed; run: pip install 'gpt1[curves]'") from error
    writer = SummaryWriter(str(folder / "tensorboard"))
    add: Callable[..., None] = writer.add_scalar

    def listen(event: Event) -> None:
        match event:
            case Stepped():
                for name in ("loss", "learning_rate", "gradient_norm", "tokens_per_second"):
                    add(f"train/{name}", getattr(event, name), event.step)
            case Evaluated():
                for name, value in event.scores.items():
                    add(f"valid/{name}", value, event.step)
            case Sampled():
                for index, sample in enumerate(event.samples):
                    writer.add_text(f"sample/{index}", sample["prompt"] + " | " + sample["text"], event.step)
            case Saved():  # the last event of a run: what is not written now may never be
                writer.flush()

    return listen
