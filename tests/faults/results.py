"""What a folder holds, but for what no two runs have the same: moments, durations and what was said on the way."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpt1.base.records import LINE_SEAL, SEAL

# What may differ between an undisturbed run and one that was stopped and went on. Nothing else may.
MADE_WITH = ("at", "command", "git")  # of run.json: when, how and from which sources it was begun
TIME_TRAINED = "seconds"  # of the progress in a checkpoint's state.json, and so the file's checksum of itself
STEP_TIMES = ("tokens_per_second", "utilisation", "memory_bytes", "seconds_left")  # of the lines of metrics.jsonl
CELL_TIME = "seconds"  # of cell.json, and of `cost` in study.json
TRIAL_TIMES = ("seconds", "updates", "seconds_an_update")  # of tuning.json and its trials
LOGS = ("log.txt", "events.jsonl")  # tell of every start; that they are there is all that is compared

Tree = dict[str, str]


def tree_of(folder: Path) -> Tree:
    """Return a hash of each file of a folder and an empty string for each folder, by path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = _hash(_constant(path)) if path.is_file() else ""
    return found


def differences(found: Tree, wanted: Tree) -> list[str]:
    """Return in words how a folder differs from what it should be."""
    more = [f"{name} is left over" for name in found if name not in wanted]
    less = [f"{name} is missing" for name in wanted if name not in found]
    other = [f"{name} is other" for name in wanted if name in found and found[name] != wanted[name]]
    return more + less + other


def constant_text(text: str) -> str:
    """Return what was printed without speeds and durations."""
    return re.sub(r"[\d.,:]+k? ?(tokens/s|rows/s|s\b|seconds?|ms\b|MB/s|min)", "TIME", text)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _constant(path: Path) -> bytes:
    content = path.read_bytes()
    if path.name in LOGS:
        return b""
    change = _VARIABLE.get(path.name) or _VARIABLE.get(path.suffix)
    try:
        return change(content) if change else content
    except (ValueError, TypeError, KeyError, AttributeError):  # damaged: then as it is
        return content


def _run(content: bytes) -> bytes:
    facts = json.loads(content)
    for name in MADE_WITH:
        facts["made_with"].pop(name, None)
    return _without_seal(facts)


def _state(content: bytes) -> bytes:
    facts = json.loads(content)
    facts["progress"].pop(TIME_TRAINED, None)
    return _without_seal(facts)


def _metrics(content: bytes) -> bytes:
    lines = [json.loads(line) for line in content.splitlines()]
    return _bytes(
        [{name: value for name, value in line.items() if name not in (*STEP_TIMES, LINE_SEAL)} for line in lines]
    )


def _cell(content: bytes) -> bytes:
    facts = json.loads(content)
    facts.pop(CELL_TIME)
    return _without_seal(facts)


def _tuning(content: bytes) -> bytes:
    facts = json.loads(content)
    for holder in (facts, *facts["trials"]):
        for name in TRIAL_TIMES:
            holder.pop(name, None)
    return _without_seal(facts)


def _study(content: bytes) -> bytes:
    facts = json.loads(content)
    facts["cost"].pop(CELL_TIME)
    return _without_seal(facts)


def _without_seal(facts: dict[str, Any]) -> bytes:
    """Return a record without its checksum, which is of what may differ too."""
    return _bytes({name: value for name, value in facts.items() if name != SEAL})


def _page(content: bytes) -> bytes:
    return constant_text(content.decode()).encode()


def _bytes(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


_VARIABLE: dict[str, Callable[[bytes], bytes]] = {
    "run.json": _run,
    "state.json": _state,
    "metrics.jsonl": _metrics,
    "cell.json": _cell,
    "study.json": _study,
    "tuning.json": _tuning,
    ".html": _page,
}
