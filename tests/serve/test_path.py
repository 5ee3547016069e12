"""The way of a request through the house, once the run is warm: short, and nothing is read or parsed a second time."""

from __future__ import annotations

import threading
from pathlib import Path
from types import FrameType
from typing import Any

import gpt1
from tests.serve.tools import serving

SOURCE = Path(gpt1.__file__).parent
BETWEEN = (
    "inference",
    "tasks",
    "records",
    "runs",
    "recipes",
    "finetuning",
)  # server and network
MOST_FILES = 15


def test_a_warm_classification_passes_few_files_and_parses_nothing_anew(taught: Path) -> None:
    is_warm, calls = threading.Event(), set[tuple[str, str]]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and is_warm.is_set() and path.is_relative_to(SOURCE):
            calls.add((str(path.relative_to(SOURCE)), frame.f_code.co_qualname))

    asked = {"model": "run", "task": "moods", "input": "Ann lost 3 apples"}
    threading.setprofile(note)  # of threads that are begun from here on: the server's and the run's
    try:
        with serving(f"run={taught}") as client:
            assert client.post("/v1/classify", json=asked).status_code == 200
            is_warm.set()
            assert client.post("/v1/classify", json=asked).status_code == 200
            is_warm.clear()
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]
    passed = {file for file, _ in calls if file.split("/")[0] in BETWEEN}
    assert {"inference/answering.py", "tasks/encoded.py"} <= passed
    assert len(passed) <= MOST_FILES, sorted(passed)
    names = {name for _, name in calls}
    assert names.isdisjoint({"check_record", "Task.__post_init__", "read_run", "load_tokenizer", "load_checkpoint"})
