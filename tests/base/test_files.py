from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpt1.base import files
from gpt1.base.errors import Busy, FormatError, InputError, NoRoom
from gpt1.base.files import (
    file_hash,
    is_of_format,
    is_temporary,
    lock_folder,
    make_folder,
    missing,
    read_json,
    read_lines,
    remove_folder,
    remove_temporaries,
    remove_temporaries_below,
    require_own_folder,
    require_plain,
    reserve,
    result_file,
    short_names,
    whole_file,
    whole_folder,
    write_json,
)


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
    near = tmp_path / "reviews.csv"
    for name in ("review.csv", "reviews.cvs", "reviews", "rveiews.tsv"):
        assert str(missing(tmp_path / name)).endswith(f"{name} does not exist; did you mean '{near}'?")
    for name in ("nofile.csv", "a.csv", "news.csv"):
        assert str(missing(tmp_path / name)).endswith(f"{name} does not exist")
    (tmp_path / "reviews.tsv").touch()
    assert str(missing(tmp_path / "review.tsv")).endswith(f"did you mean '{tmp_path / 'reviews.tsv'}'?")
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
        ("cut.json", FormatError, r"is not a thing: it is not JSON \("),
        (".", InputError, "is a folder"),
    ]:
        with pytest.raises(error, match=message):
            read_json(tmp_path / name, "a thing")


def test_a_locked_folder_is_free_again_when_its_holder_is_killed(tmp_path: Path) -> None:
    code = "import sys, pathlib, signal\nfrom gpt1.base.files import lock_folder\n"
    code += "with lock_folder(pathlib.Path(sys.argv[1])):\n print('held', flush=True); signal.pause()"
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


# ---- folders ----


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_folder_is_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with whole_folder(path) as folder:
        (folder / "one").write_text("1")
        assert not path.exists()
    assert contents(tmp_path) == {"a/one": "1"}
    with pytest.raises(ZeroDivisionError), whole_folder(path) as folder:
        (folder / "two").write_text("half")
        raise ZeroDivisionError
    assert contents(tmp_path) == {"a/one": "1"}
    with whole_folder(path) as folder:
        (folder / "two").write_text("2")
    assert contents(tmp_path) == {"a/two": "2"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError])
def test_whatever_interrupts_the_writer_of_a_folder_leaves_the_old_one(
    tmp_path: Path, error: type[BaseException]
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_text("1")
    with pytest.raises(error), whole_folder(tmp_path / "a") as folder:
        (folder / "two").write_text("half")
        raise error
    assert contents(tmp_path) == {"a/one": "1"}


def test_an_interruption_while_the_old_folder_is_removed_leaves_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old").write_text("1")
    remove = shutil.rmtree

    def interrupted(path: Path, ignore_errors: bool = False) -> None:
        if ".replaced." in path.name:
            raise KeyboardInterrupt
        remove(path, ignore_errors=ignore_errors)

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt), whole_folder(tmp_path / "a") as folder:
            (folder / "new").write_text("2")
    assert contents(tmp_path / "a") == {"new": "2"}
    remove_temporaries(tmp_path)
    assert contents(tmp_path) == {"a/new": "2"}


def test_a_killed_writer_leaves_the_old_folder_and_what_can_be_cleaned_up(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_text("1")
    code = "import os, sys, pathlib\nfrom gpt1.base.files import whole_folder\n"
    code += "with whole_folder(pathlib.Path(sys.argv[1])) as folder:\n"
    code += " (folder / 'two').write_text('half'); os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "a")]).returncode == -9
    assert contents(tmp_path / "a") == {"one": "1"}
    assert len(list(tmp_path.iterdir())) == 2
    remove_temporaries(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    inside = tmp_path / "file" / "inside"
    with pytest.raises(InputError, match=r"cannot write .*inside: Not a directory"), whole_folder(inside):
        pass
    with pytest.raises(InputError, match=r"cannot write .*: No space left"), whole_folder(tmp_path / "a"):
        raise OSError(28, "No space left on device")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_is_told_with_what_to_do_whichever_process_meets_it(tmp_path: Path) -> None:
    told = "a: No space left on device; make room and give the command again"
    for write in (
        whole_file(tmp_path / "a"),
        result_file(tmp_path / "a", overwrite=False),
        whole_folder(tmp_path / "a"),
    ):
        with pytest.raises(NoRoom, match=f"^cannot write .*{told}$") as full, write:
            raise OSError(28, "No space left on device")
        assert str(pickle.loads(pickle.dumps(full.value))) == str(full.value)
    assert list(tmp_path.iterdir()) == []


def test_what_has_the_name_of_the_result_and_is_of_another_kind_stays(tmp_path: Path) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("mine")
    folder.mkdir()
    with pytest.raises(InputError, match="file is a file; choose a new or empty folder"):
        require_own_folder(file, lambda entry: True)
    with pytest.raises(InputError, match=r"cannot write .*file: Not a directory"), whole_folder(file) as filled:
        (filled / "new").write_text("new")
    with pytest.raises(InputError, match=r"cannot write .*folder: it is a folder"), whole_file(folder):
        pytest.fail("begun in vain")
    assert contents(tmp_path) == {"file": "mine"}


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_files_of_a_folder_are_for_whom_the_umask_lets(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with whole_folder(tmp_path / "a") as folder:
            (folder / "theirs").touch(mode=0o600)
            (folder / "ours").touch()
    finally:
        os.umask(before)
    modes = {entry.name: entry.stat().st_mode & 0o777 for entry in (tmp_path / "a").iterdir()}
    assert modes == {"theirs": 0o666 & ~umask, "ours": 0o666 & ~umask}


def test_a_removed_folder_leaves_its_name_before_anything_in_it_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.mkdir()
    (path / "one").write_text("1")

    def killed(path: Path) -> None:
        raise SystemExit

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", killed)
        with pytest.raises(SystemExit):
            remove_folder(path)
    assert not path.exists()
    remove_temporaries(tmp_path)
    assert list(tmp_path.iterdir()) == []


WRITER = """
import sys, pathlib
from gpt1.base import files
path = pathlib.Path(sys.argv[2])
def work(place):
    print("begun", flush=True)
    sys.stdin.read(1)
kind = sys.argv[1]
if kind == "file":
    with files.whole_file(path) as file:
        file.write(b"half"); work(path)
elif kind == "result":
    with files.result_file(path, overwrite=False) as file:
        file.write(b"half"); work(path)
elif kind == "folder":
    with files.whole_folder(path) as folder:
        (folder / "half").write_text("half"); work(path)
else:
    files.shutil.rmtree = work
    files.remove_folder(path)
"""


@pytest.mark.parametrize("kind", ["file", "result", "folder", "removal"])
@pytest.mark.parametrize("killed", [False, True])
def test_what_a_writer_is_at_work_on_stays_until_it_is_dead(tmp_path: Path, kind: str, killed: bool) -> None:
    if kind == "removal":
        (tmp_path / "a").mkdir()
    command = [sys.executable, "-c", WRITER, kind, str(tmp_path / "a")]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "begun\n"
    if killed:
        writer.kill()
    else:
        remove_temporaries(tmp_path)
    writer.communicate("x" if not killed else None)
    if killed:
        assert [is_temporary(entry) for entry in tmp_path.iterdir()] == [True]
    else:
        assert kind == "removal" or [entry.name for entry in tmp_path.iterdir()] == ["a"]
        assert writer.returncode == 0
    remove_temporaries_below(tmp_path)
    assert not any(is_temporary(entry) for entry in tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["result", "folder"])
def test_the_next_writer_of_a_result_clears_what_a_killed_one_left(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    command = [sys.executable, "-c", WRITER, kind, str(path)]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "begun\n"
    writer.kill()
    writer.communicate()
    (tmp_path / "b.123.tmp").touch()  # another one's, which nobody asked to clear
    if kind == "result":
        with result_file(path, overwrite=False) as file:
            file.write(b"w")
    else:
        with whole_folder(path) as folder:
            (folder / "whole").touch()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a", "b.123.tmp"]
    assert path.is_dir() or path.read_bytes() == b"w"


def test_of_two_writers_of_a_result_the_second_is_told_who_the_first_is(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, "result", str(tmp_path / "a")]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "begun\n"
    told = rf"another command is writing .*a \(process {writer.pid}: .*\); wait for it"
    with pytest.raises(Busy, match=told), result_file(tmp_path / "a", overwrite=True):
        pytest.fail("begun in vain")
    writer.communicate("x")
    assert (tmp_path / "a").read_bytes() == b"half"


def test_a_result_that_is_there_is_replaced_only_when_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("mine")
    told = "a is there already; choose another name, or replace it with `overwrite=True`"
    with pytest.raises(InputError, match=told), result_file(path, overwrite=False):
        pytest.fail("begun in vain")
    with result_file(path, overwrite=True) as file:
        file.write(b"new")
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("a", "new")]
    with pytest.raises(InputError, match="is there already"), result_file(tmp_path / "b", overwrite=False) as file:
        (tmp_path / "b").write_text("another program's")
    assert (tmp_path / "b").read_text() == "another program's"
    with pytest.raises(InputError, match="Directory not empty"), whole_folder(tmp_path / "c", overwrite=False):
        (tmp_path / "c").mkdir()
        (tmp_path / "c" / "mine").touch()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a", "b", "c"]


def test_a_link_that_leads_nowhere_is_replaced_only_when_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.symlink_to(tmp_path / "unmounted")
    with pytest.raises(InputError, match="a is there already"), result_file(path, overwrite=False):
        pytest.fail("begun in vain")
    assert path.is_symlink()
    with result_file(path, overwrite=True) as file:
        file.write(b"new")
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("a", "new")]


def test_a_new_folder_lasts_through_a_power_cut_with_all_that_leads_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(files, "sync_folder", synced.append)
    make_folder(tmp_path / "a" / "b" / "c")
    assert synced == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    synced.clear()
    make_folder(tmp_path / "a" / "b" / "c")
    assert synced == []
    with whole_folder(tmp_path / "d" / "e"):
        pass
    assert synced[0] == tmp_path
    assert synced[-1] == tmp_path / "d"


def test_only_temporaries_are_cleaned_up(tmp_path: Path) -> None:
    for name in ("a.12.tmp", "b.tmp", "tmp", "c.x.tmp", ".12.tmp", "d.leaving.3.tmp"):
        (tmp_path / name).write_text("")
    (tmp_path / "e.4.tmp").mkdir()
    (tmp_path / "e.4.tmp" / "inside").write_text("")
    remove_temporaries(tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".12.tmp", "b.tmp", "c.x.tmp", "tmp"]


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_a_hash_is_of_all_bytes_of_a_file(tmp_path: Path, size: int) -> None:
    content = bytes(range(256)) * (size // 256 + 1)
    (tmp_path / "a").write_bytes(content[:size])
    assert file_hash(tmp_path / "a") == hashlib.sha256(content[:size]).hexdigest()


def test_a_kill_between_taking_the_old_folder_away_and_naming_the_new_one_is_undone(tmp_path: Path) -> None:
    script = (
        "import os; from pathlib import Path; import gpt1.base.files as files;"
        "move = files._move_aside; files._move_aside = lambda *given: (move(*given), os._exit(9));"
        f"path = Path({str(tmp_path / 'a')!r});"
        "exec('with files.whole_folder(path) as folder: (folder / \\'new\\').write_text(\\'2\\')')"
    )
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old").write_text("1")
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    assert not (tmp_path / "a").exists()
    remove_temporaries(tmp_path)
    assert contents(tmp_path) == {"a/old": "1"}


def test_lines_are_read_with_their_numbers_and_a_begun_one_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": 2}\n{"a": ')
    assert list(read_lines(path)) == [(1, {"a": 1}), (2, {"a": 2})]
    for content, message in (('{"a": \n', "line 1: not JSON"), ("[1]\n", "line 1: expected a JSON object, found list")):
        path.write_text(content)
        with pytest.raises(FormatError, match=message):
            list(read_lines(path))


def test_names_are_as_long_as_it_takes_to_tell_paths_apart(tmp_path: Path) -> None:
    assert short_names([tmp_path / "a" / "run", tmp_path / "b" / "run", tmp_path / "c"]) == ["a/run", "b/run", "c"]
    twice = short_names([tmp_path / "a", tmp_path / "a"])
    assert twice[0] == twice[1]


def test_a_pipe_is_refused_by_name_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for read in (file_hash, require_plain, lambda path: list(read_lines(path)), lambda path: read_json(path, "a run")):
        with pytest.raises(InputError, match="pipe is not a file"):
            read(tmp_path / "pipe")
    assert not is_of_format(tmp_path / "pipe", "gpt1")


def test_a_pipe_with_the_name_of_a_temporary_is_cleaned_up_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.json.12.tmp")
    remove_temporaries(tmp_path)
    assert list(tmp_path.iterdir()) == []
