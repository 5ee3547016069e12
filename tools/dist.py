"""Make what is released, a source archive and a wheel, from what is committed: `make dist`.

Nothing is fetched, and the same commit gives the same bytes: files are copied as git knows them, their time is that of
the commit, and the wheel is built from the archive, so that each is what it says and neither has what lay about.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
BACKEND = "import sys; from setuptools import build_meta; getattr(build_meta, 'build_' + sys.argv[1])(sys.argv[2])"


def git(*words: str) -> str:
    """Return what git says of the repository."""
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def tracked() -> list[str]:
    """Return the files that git knows."""
    return git("ls-files", "-z").split("\0")[:-1]


def copy_tracked(folder: Path) -> None:
    """Copy the files that git knows, each as it may be read by all and run where it is a program."""
    for name in tracked():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
        (folder / name).chmod(0o755 if os.access(ROOT / name, os.X_OK) else 0o644)


def built(kind: str, source: Path, out: Path, time: int) -> Path:
    """Return what setuptools makes of a source: `sdist` or `wheel`."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(time)}
    command = [sys.executable, "-c", BACKEND, kind, str(out)]
    done = subprocess.run(command, cwd=source, env=environment, umask=0o022, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    (made,) = out.iterdir()
    return made


def repack(archive: Path, to: Path, time: int) -> None:
    """Write an archive again with nothing in it of who packed it, where and when."""
    with (
        tarfile.open(archive) as old,
        to.open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, time) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = time, 0, 0, "", ""
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)


def build(out: Path) -> list[Path]:
    """Make the archive, and the wheel of it, in a folder that has neither, and return where they are."""
    time = int(git("log", "-1", "--format=%ct"))
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        folders = [work / one for one in ("source", "sdist", "unpacked", "wheel")]
        for folder in folders:
            folder.mkdir()
        source, sdist, unpacked, wheel = folders
        copy_tracked(source)
        archive = built("sdist", source, sdist, time)
        repack(archive, out / archive.name, time)
        with tarfile.open(out / archive.name) as opened:
            opened.extractall(unpacked, filter="data")
        (whole,) = unpacked.iterdir()
        made = built("wheel", whole, wheel, time)
        return [out / archive.name, Path(shutil.copyfile(made, out / made.name))]


def main() -> None:
    """Make both, and tell how large they are; refuse what is not committed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    out = parser.parse_args().out
    if changed := git("status", "--porcelain"):
        sys.exit(f"commit these first, a release is made of what is committed:\n{changed.rstrip()}")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for path in build(out):
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
