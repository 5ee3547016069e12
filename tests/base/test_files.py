from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpt1.base.errors import FormatError, InputError
from gpt1.base.files import lock_folder, make_folder, missing, read_json, reserve, whole_file, write_json


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    with pytest.raises(ZeroDivisionError), whole_file(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_bytes() == b"before"
    with whole_file(path) as file:
        file.write(b"after")
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("a", b"after")]


def test_a_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    code = "import os, sys, pathlib\nfrom gpt1.base.files import whole_file\n"
    code += "with whole_file(pathlib.Path(sys.argv[1])) as file:\n file.write(b'x' * 100_000); os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == -9
    assert path.read_bytes() == b"before"


def test_a_write_that_the_system_refuses_is_told_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    code = "import resource, sys, pathlib\nfrom gpt1.base.files import whole_file\n"
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
    code += "with whole_file(pathlib.Path(sys.argv[1])) as file:\n file.write(b'x' * 100_000)"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert f"InputError: cannot write {path}: File too large" in done.stderr
    assert [(entry.name, entry.read_bytes()) for entry in tmp_path.iterdir()] == [("a", b"before")]


def test_a_reserved_file_takes_its_place_on_the_disk_at_once(tmp_path: Path) -> None:
    reserve(tmp_path / "a", 100_000)
    about = (tmp_path / "a").stat()
    assert (about.st_size, about.st_blocks * 512 >= 100_000) == (100_000, True)
    code = "import resource, sys, pathlib\nfrom gpt1.base.files import reserve\n"
    code += "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\nreserve(pathlib.Path(sys.argv[1]), 100_000)"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "b")], capture_output=True, text=True)
    assert "InputError: cannot write" in done.stderr
    assert not (tmp_path / "b").exists()


def test_a_missing_file_is_told_with_the_one_nearest_in_name(tmp_path: Path) -> None:
    (tmp_path / "reviews.csv").write_text("")
    assert str(missing(tmp_path / "review.csv")).endswith("review.csv does not exist; did you mean 'reviews.csv'?")
    assert str(missing(tmp_path / "no" / "x")).endswith("x does not exist")


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot create the folder"):
        make_folder(tmp_path / "file" / "inside")
    with pytest.raises(InputError, match="cannot write"), whole_file(tmp_path / "absent" / "x"):
        pass


def test_json_comes_back_and_what_is_none_is_named(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"ü": [1, 2]})
    assert read_json(tmp_path / "a.json", "a thing") == {"ü": [1, 2]}
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "cut.json").write_text('{"a": ')
    for name, error, message in [
        ("absent.json", InputError, "does not exist; expected a thing"),
        ("list.json", FormatError, "holds a JSON list"),
        ("cut.json", FormatError, "is not a thing"),
        (".", InputError, "is a folder"),
    ]:
        with pytest.raises(error, match=message):
            read_json(tmp_path / name, "a thing")


def test_a_locked_folder_is_free_again_when_its_holder_is_killed(tmp_path: Path) -> None:
    code = "import sys, pathlib, time\nfrom gpt1.base.files import lock_folder\n"
    code += "with lock_folder(pathlib.Path(sys.argv[1])):\n print('held', flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "out")], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(InputError, match="another command is at work"), lock_folder(tmp_path / "out"):
        pass
    os.kill(holder.pid, 9)
    holder.wait()
    holder.stdout.close()
    with lock_folder(tmp_path / "out"):
        pass
