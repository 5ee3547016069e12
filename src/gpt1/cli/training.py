"""What a person sees of a training: a live line, and a line for each thing that happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gpt1.base.errors import NoRoom
from gpt1.base.progress import Bar, Progress, clock
from gpt1.cli.words import CommandTerminal
from gpt1.runs.events import Evaluated, Event, Noticed, RolledBack, Sampled, Saved, Stepped
from gpt1.runs.files import in_words


@contextmanager
def shown_training() -> Iterator[TrainingLines]:
    """Show a training on the terminal while it lasts; one that a full disk ends can go on, which is told."""
    terminal = CommandTerminal()
    try:
        yield TrainingLines(terminal)
    except NoRoom as error:
        raise NoRoom(error.problem, "make room, then the same again with `resume=True` goes on") from error
    finally:
        terminal.done()


class TrainingLines:
    """Listens to a training and tells a person."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bar: Bar | None = None  # begun with the first step: of several processes only one speaks

    def __call__(self, event: Event) -> None:
        """Tell of an event."""
        match event:
            case Stepped():
                self._bar = self._bar or self._progress.bar("training")
                self._bar.show(event.step / event.steps, step_line(event))
            case Evaluated():
                self._progress.say(f"step {event.step}: {score_line(event.scores)}")
            case Sampled():
                for sample in event.samples:
                    self._progress.say(
                        f"step {event.step}: “{_one_line(sample['prompt'])}” … {_one_line(sample['text'])}"
                    )
            case RolledBack() | Noticed():
                self._progress.say(in_words(event))
            case Saved():
                pass  # often, and as it should be: the log file has it


def step_line(event: Stepped) -> str:
    """Return a line such as `step 120  loss 4.3121  lr 2.4e-04  31.2k tokens/s  MFU 41 %  12.3 GiB  1:20 left`."""
    parts = [
        f"step {event.step}/{event.steps}",
        f"loss {event.loss:.4f}",
        f"lr {event.learning_rate:.1e}",
        f"{event.tokens_per_second / 1e3:.1f}k tokens/s",
    ]
    if event.utilisation is not None:
        parts.append(f"MFU {100 * event.utilisation:.0f} %")
    return "  ".join([*parts, f"{event.memory_bytes / 2**30:.1f} GiB", f"{clock(event.seconds_left)} left"])


def score_line(scores: dict[str, float], name: str = "validation loss") -> str:
    """Return scores in words: those of text, or of tasks as they are called."""
    if "perplexity" not in scores:
        return ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in scores.items())
    return (
        f"{name} {scores['valid_loss']:.4f}, perplexity {scores['perplexity']:.2f}, "
        f"{scores['bits_per_byte']:.3f} bits per byte"
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())
