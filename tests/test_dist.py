"""tools/dist.py: what is released has all that it needs, nothing that lay about, and the same bytes each time."""

from __future__ import annotations

import os
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from gpt1 import __version__
from tests.test_base import load_tool

DIST = load_tool("dist")
ROOT = Path(__file__).parent.parent
OF_A_CLONE = (".ci/", ".gitignore")

in_a_clone = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a release is made in a clone")


def test_the_version_is_the_same_wherever_it_stands() -> None:
    assert re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE) == [__version__]
    assert set(re.findall(r"gpt1-(.+?)-py3", (ROOT / "docs" / "install.md").read_text())) == {__version__}


@in_a_clone
def test_the_wheel_has_every_file_of_the_package_and_the_archive_every_file_of_the_repository(tmp_path: Path) -> None:
    made = DIST.build(tmp_path)
    assert [path.name for path in made] == [f"gpt1-{__version__}.tar.gz", f"gpt1-{__version__}-py3-none-any.whl"]
    with zipfile.ZipFile(made[1]) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert packed == {name.removeprefix("src/") for name in DIST.tracked() if name.startswith("src/")}
    assert {"gpt1/serve/static/index.html", "gpt1/documents/page.html.j2", "gpt1/bases/small/tokenizer.json"} < packed
    with tarfile.open(made[0]) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
        owners = {(member.uid, member.gid, member.uname, member.gname) for member in archive.getmembers()}
    written = {name for name in names if name in ("PKG-INFO", "setup.cfg") or ".egg-info/" in name}
    assert names - written == {name for name in DIST.tracked() if not name.startswith(OF_A_CLONE)}
    assert owners == {(0, 0, "", "")}


@in_a_clone
@pytest.mark.slow
def test_the_same_files_give_the_same_bytes_whoever_packs_them(tmp_path: Path) -> None:
    folders = [tmp_path / "once", tmp_path / "again"]
    made = []
    for folder, umask in zip(folders, (0o022, 0o077), strict=True):
        folder.mkdir()
        before = os.umask(umask)
        try:
            made.append([path.read_bytes() for path in DIST.build(folder)])
        finally:
            os.umask(before)
    assert made[0] == made[1]


def test_what_is_not_committed_is_not_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DIST, "git", lambda *words: " M README.md\n")
    monkeypatch.setattr("sys.argv", ["dist.py", "--out", str(tmp_path / "dist")])
    with pytest.raises(SystemExit, match=r"commit these first.*\n M README.md"):
        DIST.main()
    assert not (tmp_path / "dist").exists()
