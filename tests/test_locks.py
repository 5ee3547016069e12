"""What is installed is locked: each package has one version and the hashes of its files."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ALWAYS = [*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"]]
EXTRAS = PROJECT["project"]["optional-dependencies"]
OWN = PROJECT["project"]["name"]  # by which an extra takes in others
NEEDS = {"all.txt": [*ALWAYS, *chain(*EXTRAS.values())], "serve.txt": [*ALWAYS, *EXTRAS["serve"]]}
LOCKS = sorted((ROOT / "locks").glob("*.txt"))
# One line each, as pip reads them: a package, its version, perhaps where it is needed; then its hashes.
ENTRY = re.compile(r"([a-z0-9-]+)==([^\s;]+)( ; .+?)?((?: +--hash=sha256:[0-9a-f]{64})+)")


def entries(name: str) -> list[re.Match[str]]:
    text = (ROOT / "locks" / name).read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = [ENTRY.fullmatch(line) for line in lines]
    odd = [line[:100] for line, entry in zip(lines, found, strict=True) if entry is None]
    assert not odd, f"{name}: no version or no hash: {odd}"
    return [entry for entry in found if entry is not None]


def versions(name: str) -> dict[str, str]:
    return {entry[1]: entry[2] for entry in entries(name)}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_locked_package_has_one_version_and_hashes(lock: Path) -> None:
    found = [entry[1] for entry in entries(lock.name)]
    assert found
    assert len(found) == len(set(found))


@pytest.mark.parametrize("name", NEEDS)
def test_all_that_the_project_declares_is_locked_in_a_version_that_it_allows(name: str) -> None:
    # The container's PyTorch has a lock of its own.
    locked: dict[str, Any] = {**versions(name), **({} if name == "all.txt" else versions("torch-cpu.txt"))}
    for need in map(Requirement, NEEDS[name]):
        if need.name == OWN:
            assert need.extras <= EXTRAS.keys()
            continue
        assert need.specifier.contains(locked[canonicalize_name(need.name)].split("+")[0]), str(need)


def test_the_container_has_the_versions_that_are_tested() -> None:
    assert versions("serve.txt").items() <= versions("all.txt").items()


def test_pytorch_for_cpus_is_of_the_same_version_and_comes_alone_from_its_index() -> None:
    (public,) = [entry for entry in entries("all.txt") if entry[1] == "torch"]
    (cpu,) = entries("torch-cpu.txt")
    assert (cpu[1], cpu[2]) == ("torch", public[2] + "+cpu")
    assert "torch" not in versions("serve.txt")


def test_what_only_cuda_needs_stands_apart() -> None:
    assert not versions("cuda.txt").keys() & versions("all.txt").keys()
    assert all("sys_platform == 'linux'" in entry[3] for entry in entries("cuda.txt"))
