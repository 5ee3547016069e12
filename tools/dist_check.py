"""Try what is released as a stranger would: `make dist-check`, in fresh environments outside the clone.

For each Python and each extra alone the wheel in `dist/` is installed with the locked versions, `pip check` is asked,
every verb is asked for its help, and the base in the package learns a tiny table, answers it, is served and reported
on. A verb whose extra is not there must say how it is installed. It ends with a table of sizes and times. Packages
are fetched once for a Python, as pip is set up to, and linked into each environment.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lock import read  # tools/lock.py

ROOT = Path(__file__).parent.parent
WORK = Path(tempfile.gettempdir()) / "gpt1-dist-check"
EXTRAS = list(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
NO_EXTRA, NOT_TRIED = "none", "dev"  # dev is what tests want; it has all others
PYTHONS = ("python3.11", "python3.12", "python3.13")
ANSWER = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>It is so."
RECORD = (
    "WARC/1.0\r\nWARC-Type: response\r\nContent-Type: application/http\r\n"
    f"Content-Length: {len(ANSWER)}\r\n\r\n{ANSWER}\r\n\r\n"
)
DUMP = "<mediawiki><page><title>A</title><revision><text>It is so.</text></revision></page></mediawiki>"
TABLE = "text,label\n" + "".join(f"film {n} was good,good\nfilm {n} was bad,bad\n" for n in range(20))
# The whole of `gpt1 demo` with next to nothing to learn.
DEMO = """
from dataclasses import replace
from gpt1.cli import main
from gpt1.demo import recipe
reading = replace(recipe.PRETRAINING, training=replace(recipe.PRETRAINING.training, steps=6))
learning = replace(recipe.LEARNING, training=replace(recipe.LEARNING.training, epochs=1))
counts = {"train": 24, "dev": 12, "test": 20, "other": 20}
small = recipe.Plan(stories=120, counts=counts, pretraining=reading, learning=learning)
recipe.Plan = lambda: small
main(["demo", "--out", "demo"])
"""
FINETUNE = ["gpt1", "finetune", "--train", "films.csv", "--steps", "2", "--device", "cpu"]
TUNE = ["gpt1", "tune", "--train", "films.csv", "--trials", "1", "--set", "training.steps=2", "--device", "cpu"]
ALWAYS = [
    ["gpt1", "--version"],
    ["gpt1", "check", "films.csv"],
    [*FINETUNE, "--out", "run"],
    ["gpt1", "predict", "run", "films.csv", "--out", "answers.csv"],
    ["gpt1", "evaluate", "run"],
    ["gpt1", "card", "run"],
    ["gpt1", "generate", "small", "The old sailor", "--max-new-tokens", "5"],
    ["gpt1", "export", "compact", "small", "--out", "compact"],
]
# What needs an extra; where it is there, this works, and else it says how it comes.
WITH = {
    "report": [
        ["gpt1", "report", "run", "--out", "report.html"],
        ["python", "-c", DEMO],
        ["gpt1", "start", "films.csv", "--minutes", "0.1"],
    ],
    "export": [["gpt1", "export", "onnx", "run", "--out", "run.onnx"]],
    "tune": [[*TUNE, "--out", "tuned"]],
    "ray": [["gpt1", "prepare", "films.csv", "--tokenizer", "small", "--out", "corpus", "--engine", "ray"]],
    "crawl": [["gpt1", "tokenizer", "train", "page.warc", "--merges", "2", "--out", "crawl.json"]],
    "wikipedia": [["gpt1", "tokenizer", "train", "dump.xml", "--merges", "2", "--out", "wikipedia.json"]],
    "curves": [[*FINETUNE, "--out", "curves", "--tensorboard"]],
}
# These ask others, or wait: where their extra is there, they are not called, or otherwise.
ONLY_REFUSED = {
    "stores": [["gpt1", "tokenizer", "train", "s3://nobody/nothing.txt", "--merges", "2", "--out", "s.json"]],
    "serve": [["gpt1", "serve", "run"]],
    "hub": [
        ["gpt1", "tokenizer", "train", "hub:nobody/nothing", "--field", "text", "--out", "t.json"],
        ["gpt1", "tasks", "sst2", "--data", "hub:glue", "--tokenizer", "small"],
    ],
}


class Wrong(Exception):
    """What an environment does otherwise than it is to."""


def call(words: Sequence[str | Path], *, cwd: Path | None = None, path: Path | None = None) -> str:
    """Return what a command prints, and end where it fails; `path` is where programs are looked for first."""
    code, said = outcome(words, cwd=cwd, path=path)
    if code:
        raise Wrong(f"{' '.join(map(str, words))[:200]}\nended with {code}: {said[-2000:]}")
    return said


def outcome(words: Sequence[str | Path], *, cwd: Path | None = None, path: Path | None = None) -> tuple[int, str]:
    """Return how a command ends, and what it says; nothing of the clone is in its way."""
    done = subprocess.run(
        ["env", *words], cwd=cwd, env=environment(path), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.returncode, done.stdout


def environment(path: Path | None = None) -> dict[str, str]:
    """Return the variables of this process without those of the clone."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_"))}
    return kept if path is None else {**kept, "PATH": f"{path}{os.pathsep}{kept['PATH']}"}


def constraints() -> Path:
    """Write the locked versions as pip wants to be told them, without their hashes: the wheel has none."""
    entries = [entry.splitlines()[0].removesuffix(" \\") for name in ("all.txt", "cuda.txt") for entry in read(name)]
    file = WORK / "constraints.txt"
    file.write_text("\n".join(entries) + "\n")
    return file


def fetch(python: str, wheel: Path, extras: Sequence[str]) -> Path:
    """Return the folder of all packages that these extras need in this Python."""
    folder = WORK / f"packages-{version(python)}"
    needed = [f"{wheel}[{extra}]" if extra != NO_EXTRA else str(wheel) for extra in extras]
    settings = ["--quiet", "--only-binary", ":all:", "--constraint", constraints(), "--dest", folder]
    call([python, "-m", "pip", "download", *settings, "--find-links", folder, *needed])
    for own in folder.glob("gpt1-*.whl"):
        own.unlink()
    return folder


def version(python: str) -> str:
    """Return which Python it is, such as 3.12."""
    return call([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).strip()


@dataclass(frozen=True)
class Installed:
    """The wheel in an environment of its own, with one extra or none."""

    extra: str
    folder: Path

    @property
    def programs(self) -> Path:
        return self.folder / "env" / "bin"

    @property
    def desk(self) -> Path:
        """Where a person would be at work."""
        return self.folder / "desk"

    def call(self, words: Sequence[str]) -> str:
        return call(words, cwd=self.desk, path=self.programs)

    def check(self) -> None:
        """Find what does not work, or does not say why."""
        call([sys.executable, "-m", "pip", "--python", self.programs / "python", "check"])
        listed = self.call(
            ["python", "-c", "import gpt1; from gpt1.cli.app import VERBS; print(gpt1.__file__, *VERBS)"]
        )
        home, *verbs = listed.split()
        if not Path(home).is_relative_to(self.folder):
            raise Wrong(f"this is not what was installed: {home}")
        for verb in verbs:
            self.call(["gpt1", verb, "--help"])
        (self.desk / "films.csv").write_text(TABLE)
        (self.desk / "dump.xml").write_text(DUMP)
        (self.desk / "page.warc").write_text(RECORD)
        for words in ALWAYS:
            self.call(words)
        for extra, commands in [*WITH.items(), *ONLY_REFUSED.items()]:
            for words in commands:
                if extra != self.extra:
                    self.refused(words, extra)
                elif extra in WITH:
                    self.call(words)
        if self.extra == "serve":
            self.serves()

    def refused(self, words: Sequence[str], extra: str) -> None:
        """See that a command which lacks an extra says how it comes."""
        code, said = outcome(words, cwd=self.desk, path=self.programs)
        if code != 1 or f"pip install 'gpt1[{extra}]'" not in said or "Traceback" in said:
            raise Wrong(f"{' '.join(words)[:200]}\nwithout {extra} ended with {code}: {said[-2000:]}")

    def serves(self) -> None:
        """Ask a server for one answer."""
        with served(self) as address:
            said = ask(f"{address}/v1/classify", {"model": "run", "input": "film 3 was good"})
        (found,) = json.loads(said)["data"]
        if found["label"] not in ("good", "bad"):
            raise Wrong(f"the server answered {said}")

    def start_times(self) -> str:
        """Return how long it takes to start, the median of five."""
        return ", ".join(
            f"{' '.join(words[:3])[:20]} {statistics.median(self.seconds(words) for _ in range(5)):.2f} s"
            for words in (["gpt1", "--help"], ["gpt1", "finetune", "--help"], ["gpt1", "bases"])
        )

    def seconds(self, words: Sequence[str]) -> float:
        began = time.perf_counter()
        self.call(words)
        return time.perf_counter() - began

    def size(self) -> str:
        """Return how large the environment is, and of how many packages."""
        files = [path for path in (self.folder / "env").rglob("*") if path.is_file() and not path.is_symlink()]
        packages = len(list((self.folder / "env").rglob("*.dist-info")))
        return f"{packages} packages, {sum(path.stat().st_size for path in files) / 1e6:,.0f} MB"


@contextmanager
def served(installed: Installed) -> Iterator[str]:
    """A server of the run, at the address that is given once it is ready; it must end well when it is told to."""
    words = ["env", "gpt1", "serve", "run", "--port", "0", "--device", "cpu"]
    variables = environment(installed.programs)
    with subprocess.Popen(words, cwd=installed.desk, env=variables, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            told = next((line for line in process.stdout if line.startswith("serving at ")), None)
            if told is None:
                raise Wrong("the server did not start")
            address = told.split()[-1]
            ask(f"{address}/readyz", seconds=300)
            yield address
        finally:
            process.terminate()
    if process.returncode:
        raise Wrong(f"the server ended with {process.returncode}")


def ask(address: str, what: object = None, seconds: int = 0) -> str:
    """Return what a server answers; for so many seconds it may say that it is not ready."""
    request = urllib.request.Request(address, headers={"Content-Type": "application/json"})
    request.data = None if what is None else json.dumps(what).encode()
    end = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return str(answer.read(), "utf-8")
        except urllib.error.HTTPError as error:
            if error.code != 503 or time.monotonic() > end:
                raise Wrong(f"{address} answers {error.code}: {error.read()!r}") from None
        except OSError as error:
            raise Wrong(f"{address} does not answer: {error}") from None
        time.sleep(0.5)


def install(python: str, extra: str, wheel: Path, packages: Path) -> Installed:
    """Make an environment with the wheel and one extra; uv links what it has unpacked once."""
    made = Installed(extra, WORK / f"{version(python)}-{extra}")
    shutil.rmtree(made.folder, ignore_errors=True)
    made.desk.mkdir(parents=True)
    call([python, "-m", "venv", "--without-pip", made.folder / "env"])
    wanted = f"gpt1{'' if extra == NO_EXTRA else f'[{extra}]'} @ {wheel.as_uri()}"
    settings = ["--quiet", "--no-config", "--no-index", "--find-links", packages, "--cache-dir", WORK / "cache"]
    program = Path(sys.executable).with_name("uv")
    call(
        [
            program,
            "pip",
            "install",
            *settings,
            "--python",
            made.programs / "python",
            "--constraint",
            constraints(),
            wanted,
        ]
    )
    return made


def pythons(named: Sequence[str]) -> list[str]:
    """Return the interpreters to try: those that were named, or all known ones that this machine has and can start."""
    if named:
        return list(named)
    return [name for name in PYTHONS if shutil.which(name) and outcome([name, "--version"])[0] == 0]


def main() -> None:
    """Try all that was asked for, and say what failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", default=[], help="an interpreter; repeatable")
    parser.add_argument("--extra", action="append", default=[], help=f"{NO_EXTRA}, or an extra; repeatable")
    asked = parser.parse_args()
    (wheel,) = (ROOT / "dist").glob("*.whl")
    extras = asked.extra or [NO_EXTRA, *(extra for extra in EXTRAS if extra != NOT_TRIED)]
    WORK.mkdir(parents=True, exist_ok=True)
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
    failed = False
    for python in pythons(asked.python):
        packages = fetch(python, wheel, extras)
        for extra in extras:
            try:
                made = install(python, extra, wheel, packages)
                made.check()
                print(f"{version(python)} {extra}: well; {made.size()}; {made.start_times()}", flush=True)
            except Wrong as wrong:
                failed = True
                print(f"{version(python)} {extra}: {wrong}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
