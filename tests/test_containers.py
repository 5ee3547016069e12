"""What the container files name is there; they themselves are built by whoever has podman."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpt1.cli.app import main
from gpt1.serve.limits import Limits
from gpt1.serve.patience import HEALTH

ROOT = Path(__file__).parent.parent
FILES = sorted(ROOT.glob("Containerfile*"))


def instructions(path: Path) -> list[tuple[str, str]]:
    """Return what a container file does, a line each."""
    lines = [line for line in path.read_text().replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def test_there_is_one_for_a_cpu_and_one_for_a_gpu() -> None:
    assert [path.name for path in FILES] == ["Containerfile", "Containerfile.cuda"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_is_copied_and_installed_is_there_and_locked(path: Path) -> None:
    steps = instructions(path)
    for source in [name for word, rest in steps if word == "COPY" for name in rest.split()[:-1]]:
        assert (ROOT / source).exists(), source
    installed = [part for word, rest in steps if word == "RUN" for part in rest.split("&&") if "pip install" in part]
    assert installed
    for command in installed:
        lock = re.search(r"--requirement (\S+)", command)
        assert "--require-hashes" in command if lock else "--no-index ." in command, command
        assert lock is None or (ROOT / lock[1]).is_file(), command


def test_what_is_copied_and_nothing_else_is_handed_to_who_builds() -> None:
    kept = {line[1:] for line in (ROOT / ".containerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        name for path in FILES for word, rest in instructions(path) if word == "COPY" for name in rest.split()[:-1]
    }
    assert kept == copied


def test_who_ends_a_container_waits_longer_than_the_server_needs() -> None:
    for path in FILES:
        waits = [int(seconds) for seconds in re.findall(r"podman run --stop-timeout (\d+)", path.read_text())]
        assert len(waits) == path.read_text().count("podman run")
        assert min(waits) > Limits().grace_seconds


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_it_does_not_run_as_root_and_fetches_no_code_of_its_own(path: Path) -> None:
    steps = instructions(path)
    words = [word for word, _ in steps]
    assert ("USER", "1000:1000") in steps
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert not [rest for word, rest in steps if word == "ADD" or "curl" in rest or "wget" in rest]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_its_entry_is_a_command_whose_options_there_are(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (entry,) = [json.loads(rest) for word, rest in instructions(path) if word == "ENTRYPOINT"]
    assert entry[0] == "gpt1"
    comments = " ".join(line[1:] for line in path.read_text().replace("\\\n#", " ").splitlines() if line[:1] == "#")
    verbs = [entry[1:2]] if entry[1:] else [[verb] for verb in re.findall(r"gpt1-cuda ([a-z]+)", comments)]
    assert verbs
    for verb in verbs:
        with pytest.raises(SystemExit, match="0"):
            main([*verb, "--help"])
        told = capsys.readouterr().out
        shown = [*entry, *comments.split(f"gpt1-cuda {verb[0]}")[-1].split("podman")[0].split()]
        assert all(option in told for option in shown if option.startswith("--")), (verb, shown)


def test_its_health_is_asked_of_a_path_that_is_served() -> None:
    (health,) = [rest for word, rest in instructions(ROOT / "Containerfile") if word == "HEALTHCHECK"]
    assert re.findall(r"http://127\.0\.0\.1:8000(/\w+)", health) == ["/readyz"]
    assert "/readyz" in HEALTH
