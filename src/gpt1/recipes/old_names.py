"""What settings were called before: people may still type it, and files of then hold it."""

from __future__ import annotations

from collections.abc import Mapping

from gpt1.base.errors import FormatError

SECTIONS = {"watching": "logging"}
SETTINGS = {
    "training.spike": "training.max_loss_spike",
    "training.record": "training.cuda_graphs",
    "training.distribution": "training.parallelism",
    "shape.initial_deviation": "shape.init_std",
}
_ENDS = {old.split(".")[1]: new.split(".")[1] for old, new in SETTINGS.items()}


def todays_name(name: str) -> str:
    """Return what a setting is called today, with its section or, where it was typed so, without."""
    section, dot, end = name.partition(".")
    return SETTINGS.get(name) or (f"{SECTIONS.get(section, section)}.{end}" if dot else _ENDS.get(name, name))


def todays_names(values: Mapping[str, object]) -> dict[str, object]:
    """Return the settings that a file holds by dotted names, under today's; one that it holds twice is refused."""
    found: dict[str, object] = {}
    for name, value in values.items():
        today = todays_name(name)
        if today in found:
            held = next(other for other in values if todays_name(other) == today)
            raise FormatError(f"{held} and {name} are two names of one setting")
        found[today] = value
    return found


def todays_section(section: str, values: Mapping[str, object]) -> dict[str, object]:
    """Return the settings of one section that a file holds, under today's names."""
    found = todays_names({f"{section}.{name}": value for name, value in values.items()})
    return {name.partition(".")[2]: value for name, value in found.items()}
