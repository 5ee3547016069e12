"""The command `gpt1`, and snippets of Python, in processes that need not import everything first.

Importing takes most of the time of a small command. So one process imports all that a command may want and then waits
at a socket; for every command it forks, and the child does what the command would do, in the caller's folder, with the
caller's environment, input and output. `gpt1` in the folder that `commands` makes is a script that asks it, as is
`snippet`, which takes Python.

    python -m tests.forks SOCKET
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.waiting import eventually

ASK = """#!{python} -SE
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as asked:
    asked.connect({at!r})
    socket.send_fds(asked, [b"!"], [0, 1, 2])
    asked.sendall(json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode())
    asked.shutdown(socket.SHUT_WR)
    sys.exit(int(asked.recv(10) or 137))
"""
MODULES = (
    "gpt1.corpus.vocabularies",
    "gpt1.demo.tour",
    "gpt1.estimators",
    "gpt1.exchange.importing",
    "gpt1.exchange.to_onnx",
    "gpt1.exchange.to_transformers",
    "gpt1.finetuning.measure",
    "gpt1.inference.zeroshot",
    "gpt1.pretraining.pretrain",
    "gpt1.report.page",
    "gpt1.studies.ablations",
    "gpt1.studies.objectives",
    "gpt1.studies.reproduce",
    "gpt1.text.splitting",
    "ftfy",
    "matplotlib.backends.backend_svg",
    "pandas",
    "pyarrow.parquet",
    "rensa",
    "sklearn.feature_extraction.text",
    "sklearn.linear_model",
    "spacy.lang.en",
    "transformers",
)


@contextmanager
def commands() -> Iterator[Path]:
    """Give a folder with `gpt1` and `snippet` that begin fast."""
    with tempfile.TemporaryDirectory() as made:
        folder, at = Path(made), str(Path(made) / "socket")
        waiting = subprocess.Popen([sys.executable, "-m", "tests.forks", at], cwd=Path(__file__).parents[1])
        for name in ("gpt1", "snippet"):
            script = folder / name
            script.write_text(ASK.format(python=sys.executable, at=at))
            script.chmod(0o755)
        try:
            eventually(lambda: Path(at).exists() or waiting.poll() is not None, "everything is imported")
            yield folder
        finally:
            waiting.terminate()
            waiting.wait()


def main() -> None:
    """Import everything, then do what is asked, each in a child."""
    from gpt1.cli.app import VERBS

    for module in (*MODULES, *(home for home, _ in VERBS.values())):
        importlib.import_module(module)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{sys.argv[1]}.new")
        listening.listen()
        Path(f"{sys.argv[1]}.new").rename(sys.argv[1])
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children here
        while True:
            asked, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _answer(asked)
            asked.close()


def _answer(asked: socket.socket) -> None:
    """Do what is asked and tell how it ended. Never returns."""
    code: Any = 1
    try:
        _, given, _, _ = socket.recv_fds(asked, 1, 3)
        with asked.makefile("rb") as file:
            words, folder, environment = json.load(file)
        for place, descriptor in enumerate(given):
            os.dup2(descriptor, place)
            os.close(descriptor)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        code = _call(words)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        asked.sendall(str(code).encode())
        os._exit(0)


def _call(words: list[str]) -> int:
    """Return what a command, or a snippet of Python, ends with."""
    from gpt1.cli.app import main as gpt1

    sys.argv = words
    try:
        if Path(words[0]).name == "gpt1":
            gpt1(words[1:])
        else:
            exec(words[1], {"__name__": "__main__"})
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


if __name__ == "__main__":
    main()
