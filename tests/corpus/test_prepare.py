from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpt1 import load_tokenizer, prepare
from gpt1.base.errors import FormatError, Gpt1Error, InputError, SettingError
from gpt1.base.files import write_json
from gpt1.corpus import batches
from gpt1.corpus.manifest import CORPUS_FILE, SUMS_FILE, read_corpus
from gpt1.corpus.prepare import describe
from gpt1.corpus.shards import open_shard, verify_shard
from gpt1.text import pieces
from gpt1.text.tokenizer import Tokenizer
from tests.conftest import make_text
from tests.corpus.tools import Said, assert_same_folder
from tests.moments import signalled
from tests.records import facts_in


@pytest.fixture
def tokenizer(words_tokenizer: Tokenizer, tmp_path: Path) -> Path:
    words_tokenizer.save(tmp_path / "tokenizer.json")
    return tmp_path / "tokenizer.json"


def stream(folder: Path, split: str) -> list[int]:
    shards = read_corpus(folder).splits[split].shards
    return [int(id) for shard in shards for id in open_shard(folder / shard.file).ids]


def documents_of(folder: Path, split: str, newline: int) -> list[list[int]]:
    """Cut the stream at the recorded starts; every document ends with one newline token."""
    ids: list[int] = []
    starts: list[int] = []
    for shard in read_corpus(folder).splits[split].shards:
        opened = open_shard(folder / shard.file)
        starts += [len(ids) + int(start) for start in opened.starts]
        ids += opened.ids.tolist()
    found = [ids[begin:end] for begin, end in zip(starts, [*starts[1:], len(ids)], strict=True)]
    assert all(document[-1] == newline for document in found)
    return [document[:-1] for document in found]


def write_lines(path: Path, texts: list[str]) -> None:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


def test_every_kept_document_comes_back_as_its_own_ids(tokenizer: Path, tmp_path: Path) -> None:
    texts = [make_text(20, seed) for seed in range(60)]
    write_lines(tmp_path / "texts.jsonl", texts)
    corpus = prepare([tmp_path / "texts.jsonl"], tokenizer, tmp_path / "out", valid=0.2, workers=1, shard_tokens=1000)
    encoder = load_tokenizer(tokenizer)
    ids = encoder.encode_batch(texts)
    train = documents_of(tmp_path / "out", "train", encoder.newline_id)
    valid = documents_of(tmp_path / "out", "valid", encoder.newline_id)
    assert sorted(train + valid) == sorted(ids)
    assert [document for document in ids if document in train] == train  # the order is kept
    assert 0.1 < sum(map(len, valid)) / sum(map(len, ids)) <= 0.2
    splits = corpus["splits"]
    assert splits["train"]["tokens"] == len(stream(tmp_path / "out", "train"))
    assert splits["train"]["bytes"] + splits["valid"]["bytes"] == sum(len(text.encode()) for text in texts)
    assert not (tmp_path / "out" / ".gpt1-work").exists()


def test_counts_in_are_counts_out_and_counts_dropped_by_reason(tokenizer: Path, tmp_path: Path) -> None:
    texts = [make_text(30, seed) for seed in range(10)]
    near = texts[3].replace("Ann", "Eve", 1)
    folder = tmp_path / "mixed"
    folder.mkdir()
    write_lines(folder / "a.jsonl", [*texts, texts[2], near, "", " \n ", texts[5], "Yes.", "Yes, Sir."])
    with (folder / "a.jsonl").open("a") as file:
        file.write('{"text": 5}\n{"other": "x"}\nnot json\n')
    (folder / "b.txt").write_bytes(b"fine until \xff here")
    (folder / "c.txt.gz").write_bytes(gzip.compress(make_text(50, 99).encode())[:-20])
    corpus = prepare([folder], tokenizer, tmp_path / "out", field="text", on_error="skip", workers=1, valid=0.0)
    documents = corpus["documents"]
    assert documents["dropped"] == {
        "bad-row": 1,
        "damaged": 1,
        "empty": 2,
        "exact duplicate": 2,
        "near duplicate": 1,
        "no-field": 1,
        "not-text": 1,
        "undecodable": 1,
    }
    kept = sum(split["documents"] for split in corpus["splits"].values())
    assert kept == 12
    assert documents["read"] == kept + sum(documents["dropped"].values())
    rows = [json.loads(line) for line in (tmp_path / "out" / "dropped.jsonl").read_text().splitlines()]
    assert len(rows) == sum(documents["dropped"].values())
    assert {"line 11", "line 12", "line 13", "line 14", "line 15"} <= {row.get("position") for row in rows}
    (repeat,) = [row for row in rows if row["reason"] == "near duplicate"]
    assert repeat["repeats"]["position"] == "line 4"


def test_the_first_fault_stops_a_careful_preparation_and_skipping_goes_on_from_there(
    tokenizer: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text(make_text(20, 1))
    (tmp_path / "b.txt").write_bytes(b"bad \xfe byte")
    with pytest.raises(InputError, match=r"b\.txt, byte 4.*`on_error='skip'`"):
        prepare([tmp_path / "a.txt", tmp_path / "b.txt"], tokenizer, tmp_path / "out", workers=1)
    corpus = prepare([tmp_path / "a.txt", tmp_path / "b.txt"], tokenizer, tmp_path / "out", workers=1, on_error="skip")
    assert corpus["documents"] == {"read": 2, "dropped": {"undecodable": 1}}


def test_a_document_longer_than_a_piece_is_what_encode_says(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpt1.corpus import documents

    for module in (pieces, documents):
        monkeypatch.setattr(module, "LIMIT", 997, raising=False)
    monkeypatch.setattr(pieces.pieces, "__defaults__", (997,))
    monkeypatch.setattr("gpt1.text.tokenizer.LIMIT", 997)
    monkeypatch.setattr(batches, "BATCH_CHARACTERS", 2500)
    long = [make_text(200, seed) for seed in (1, 2)] + ["x" * 5000, "\n" * 3000 + "end" + "\n" * 3000]
    for number, text in enumerate(long):
        (tmp_path / f"{number}.txt").write_text(text)
    corpus = prepare([tmp_path / "?.txt"], tokenizer, tmp_path / "out", workers=1, valid=0.0)
    encoder = load_tokenizer(tokenizer)
    found = documents_of(tmp_path / "out", "train", encoder.newline_id)
    assert found == encoder.encode_batch(long)
    assert corpus["documents"] == {"read": 4, "dropped": {}}


def test_long_copies_are_found_across_batches(tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces.pieces, "__defaults__", (997,))
    monkeypatch.setattr(batches, "BATCH_CHARACTERS", 1500)
    text = make_text(300, 1)
    for name, content in [("a", text), ("b", make_text(300, 2)), ("c", text), ("d", text.replace("Ann", "Eve", 2))]:
        (tmp_path / f"{name}.txt").write_text(content)
    corpus = prepare([tmp_path / "[a-d].txt"], tokenizer, tmp_path / "out", workers=1)
    assert corpus["documents"]["dropped"] == {"exact duplicate": 1, "near duplicate": 1}


def test_what_becomes_of_duplicates_is_a_choice(tokenizer: Path, tmp_path: Path) -> None:
    text = make_text(50, 1)
    write_lines(tmp_path / "a.jsonl", [text, text, text.replace("Ann", "Eve", 1)])
    for way, dropped in [
        ("keep", {}),
        ("exact", {"exact duplicate": 1}),
        ("near", {"exact duplicate": 1, "near duplicate": 1}),
    ]:
        corpus = prepare([tmp_path / "a.jsonl"], tokenizer, tmp_path / way, duplicates=way, workers=1)
        assert corpus["documents"]["dropped"] == dropped


def test_a_single_document_is_never_taken_for_validation_but_the_smaller_of_two_is(
    tokenizer: Path, tmp_path: Path
) -> None:
    write_lines(tmp_path / "one.jsonl", [make_text(50, 1)])
    write_lines(tmp_path / "two.jsonl", [make_text(50, 1), make_text(20, 2)])
    for name, valid in [("one", 0), ("two", 1)]:
        corpus = prepare([tmp_path / f"{name}.jsonl"], tokenizer, tmp_path / name, workers=1)
        assert corpus["splits"]["valid"]["documents"] == valid


def test_two_workers_write_the_same_bytes_as_one(tokenizer: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [make_text(20, seed) for seed in range(200)])
    run = [sys.executable, "-c", SCRIPT, str(tmp_path / "a.jsonl"), str(tokenizer)]
    for workers in ("1", "2"):
        subprocess.run([*run, str(tmp_path / workers), workers], check=True)
    assert_same_folder(tmp_path / "1", tmp_path / "2")


# Small batches, so that there are many moments to be killed at.
SCRIPT = """
import sys
import gpt1.corpus.batches
gpt1.corpus.batches.BATCH_CHARACTERS = 20_000
import gpt1.text.chunks
gpt1.text.chunks.WORTH_TELLING = 1
import gpt1
source, tokenizer, out, workers = sys.argv[1:]
gpt1.prepare([source], tokenizer, out, workers=int(workers), shard_tokens=5_000)
"""


@pytest.mark.parametrize(("kills", "workers"), [(4, "1"), pytest.param(20, "2", marks=pytest.mark.slow)])
def test_a_preparation_killed_again_and_again_ends_with_the_same_bytes(
    tokenizer: Path, tmp_path: Path, kills: int, workers: str
) -> None:
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    write_lines(tmp_path / "a.jsonl", [make_text(30, seed) for seed in range(40 * kills)])
    run = ["-c", SCRIPT, str(tmp_path / "a.jsonl"), str(tokenizer)]
    subprocess.run([sys.executable, *run, str(calm), workers], check=True)
    draw = random.Random(7)
    last_stage = 2 * (len(list(calm.iterdir())) - 1)  # each file but the tokenizer is written, then renamed
    for _ in range(kills):  # each goes on where the one before was killed
        command = signalled(draw.randint(1, last_stage), killed, signal.SIGKILL, *run, str(killed), workers)
        done = subprocess.run(command, check=False)
        assert done.returncode == -signal.SIGKILL
        assert not (killed / "corpus.json").exists()
    subprocess.run([sys.executable, *run, str(killed), workers], check=True)
    assert_same_folder(calm, killed)


def test_batches_that_are_there_are_not_encoded_again(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "BATCH_CHARACTERS", 5000)
    write_lines(tmp_path / "a.jsonl", [make_text(20, seed) for seed in range(30)])
    encoded: list[Path] = []
    real = batches.encode_batch

    def stop_after_three(task: tuple[Path, Any]) -> Any:
        if len(encoded) == 3:
            raise KeyboardInterrupt
        encoded.append(task[0])
        return real(task)

    monkeypatch.setattr("gpt1.corpus.encoding.encode_batch", stop_after_three)
    with pytest.raises(KeyboardInterrupt):
        prepare([tmp_path / "a.jsonl"], tokenizer, tmp_path / "out", workers=1)
    with pytest.raises(InputError, match="unfinished preparation"):
        read_corpus(tmp_path / "out")
    first, encoded[:] = list(encoded), []
    monkeypatch.setattr("gpt1.corpus.encoding.encode_batch", lambda task: (encoded.append(task[0]), real(task))[1])
    prepare([tmp_path / "a.jsonl"], tokenizer, tmp_path / "out", workers=1)
    assert encoded
    assert not {*encoded} & {*first}


def turn_bit(path: Path, byte: int) -> None:
    content = bytearray(path.read_bytes())
    content[byte] ^= 1
    path.write_bytes(content)


def begun(tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return a corpus, and the same one with all batches encoded and none of them put together."""
    monkeypatch.setattr(batches, "BATCH_CHARACTERS", 5000)
    write_lines(tmp_path / "a.jsonl", [make_text(20, seed) for seed in range(15)])
    prepare([tmp_path / "a.jsonl"], tokenizer, tmp_path / "calm", workers=1)
    with monkeypatch.context() as stopped:
        stopped.setattr("gpt1.corpus.prepare.assemble", lambda *given, **named: pytest.exit())
        with pytest.raises(pytest.exit.Exception):
            prepare([tmp_path / "a.jsonl"], tokenizer, tmp_path / "out", workers=1)
    return tmp_path / "calm", tmp_path / "out"


def test_a_damaged_batch_is_encoded_again_and_told(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm, out = begun(tokenizer, tmp_path, monkeypatch)
    whole = out.rename(tmp_path / "whole")
    size = (whole / ".gpt1-work" / "000000" / "000001.npz").stat().st_size
    for byte in (0, size // 2, size - 20):  # where it begins, in an array, where it ends
        shutil.copytree(whole, out, symlinks=True)
        turn_bit(out / ".gpt1-work" / "000000" / "000001.npz", byte)
        progress = Said()
        prepare([tmp_path / "a.jsonl"], tokenizer, out, workers=1, progress=progress)
        (told,) = [line for line in progress.lines if "is encoded again" in line]
        assert told.startswith(f"{out / '.gpt1-work' / '000000' / '000001.npz'} is damaged: ")
        assert_same_folder(calm, out)
        shutil.rmtree(out)


def test_a_damaged_plan_is_refused_by_name(tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calm, out = begun(tokenizer, tmp_path, monkeypatch)
    plan = out / ".gpt1-work" / "plan.json"
    turn_bit(plan, plan.read_bytes().index(b'"settings": "') + 20)
    with pytest.raises(FormatError, match=r"plan\.json is (damaged|not).*; make it anew with `gpt1\.prepare\(restart"):
        prepare([tmp_path / "a.jsonl"], tokenizer, out, workers=1)
    prepare([tmp_path / "a.jsonl"], tokenizer, out, workers=1, restart=True)
    assert_same_folder(calm, out)


def test_other_files_settings_or_tokenizer_are_not_mixed_into_a_folder(
    tokenizer: Path, bytes_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    write_lines(tmp_path / "a.jsonl", [make_text(20, 1), make_text(20, 2)])
    out = tmp_path / "out"
    prepare([tmp_path / "a.jsonl"], tokenizer, out, workers=1)
    before = (out / "corpus.json").read_bytes()
    bytes_tokenizer.save(tmp_path / "other.json")
    for what, other in [
        ("settings", lambda: prepare([tmp_path / "a.jsonl"], tokenizer, out, valid=0.3)),
        ("tokenizer", lambda: prepare([tmp_path / "a.jsonl"], tmp_path / "other.json", out)),
    ]:
        with pytest.raises(InputError, match=rf"a corpus with other {what}; .*`restart=True`"):
            other()
    assert (out / "corpus.json").read_bytes() == before
    assert prepare([tmp_path / "a.jsonl"], tokenizer, out) == facts_in(out / "corpus.json")
    os.utime(tmp_path / "a.jsonl", (1, 1))
    with pytest.raises(InputError, match="other files"):
        prepare([tmp_path / "a.jsonl"], tokenizer, out)
    prepare([tmp_path / "a.jsonl"], tokenizer, out, restart=True, workers=1)


def test_a_damaged_shard_is_found_before_a_corpus_is_used(tokenizer: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [make_text(20, 1), make_text(20, 2)])
    prepare([tmp_path / "a.jsonl"], tokenizer, tmp_path / "out", workers=1)
    shard = tmp_path / "out" / "train-00000.tok"
    verify_shard(shard)
    shard.write_bytes(shard.read_bytes()[:-8])
    with pytest.raises(Gpt1Error, match=r"train-00000\.tok is damaged"):
        read_corpus(tmp_path / "out")


def test_a_corpus_made_before_gets_the_sums_of_its_blocks_when_it_is_prepared_again(
    tokenizer: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text(make_text(200, 0))
    whole = prepare(tmp_path / "a.txt", tokenizer, tmp_path / "corpus", workers=1)
    sums = (tmp_path / "corpus" / SUMS_FILE).read_bytes()
    for spoil in (bytes(len(sums)), b""):
        (tmp_path / "corpus" / SUMS_FILE).write_bytes(spoil)
        assert prepare(tmp_path / "a.txt", tokenizer, tmp_path / "corpus", workers=1) == whole
        assert (tmp_path / "corpus" / SUMS_FILE).read_bytes() == sums
    (tmp_path / "corpus" / SUMS_FILE).unlink()
    write_json(tmp_path / "corpus" / CORPUS_FILE, {name: fact for name, fact in whole.items() if name != "blocks"})
    assert prepare(tmp_path / "a.txt", tokenizer, tmp_path / "corpus", workers=1) == whole
    assert (tmp_path / "corpus" / SUMS_FILE).read_bytes() == sums


def test_nonsense_is_refused_before_anything_is_written(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    for settings, message in [
        ({"duplicates": "nera"}, "did you mean 'near'"),
        ({"valid": 1.5}, "between 0 and 1"),
        ({"document": "lines"}, "did you mean 'line'"),
        ({"on_error": "ignore"}, "known: refuse, skip"),
        ({"document": "field"}, "'file' or 'line' or 'blank'"),
    ]:
        with pytest.raises(SettingError, match=message):
            prepare([tmp_path / "a.txt"], tokenizer, tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_nothing_in_it_is_an_error(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(" \n")
    with pytest.raises(InputError, match=r"no document is left.*1 empty"):
        prepare([tmp_path / "a.txt"], tokenizer, tmp_path / "out", workers=1)
    with pytest.raises(InputError, match=r"unfinished|is not a prepared corpus"):
        read_corpus(tmp_path / "out")


def test_one_document_is_told_as_one(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Ann sold apples.")
    prepare([tmp_path / "a.txt"], tokenizer, tmp_path / "out", workers=1)
    train, valid, read = describe(read_corpus(tmp_path / "out"))[:3]
    assert (" 1 document  " in train, " 0 documents " in valid) == (True, True)
    assert read == "read 1 document; dropped: none"


def test_a_folder_of_text_is_no_corpus_and_is_told_how_to_become_one(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Ann sold apples.")
    with pytest.raises(InputError, match=r"has no corpus\.json; `gpt1\.prepare\(\)` makes a corpus of text$"):
        read_corpus(tmp_path)


def test_two_commands_do_not_write_into_one_folder(tokenizer: Path, tmp_path: Path) -> None:
    from gpt1.base.files import lock_folder

    (tmp_path / "a.txt").write_text("some text")
    with lock_folder(tmp_path / "out"), pytest.raises(InputError, match="another command is at work"):
        prepare([tmp_path / "a.txt"], tokenizer, tmp_path / "out")


def test_a_full_disk_leaves_a_preparation_that_goes_on(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_lines(tmp_path / "a.jsonl", [make_text(20, seed) for seed in range(20)])
    prepare([tmp_path / "a.jsonl"], tokenizer, tmp_path / "calm", workers=1)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(np, "savez", full)
        with pytest.raises(InputError, match=r"cannot write .*No space left on device"):
            prepare([tmp_path / "a.jsonl"], tokenizer, tmp_path / "out", workers=1)
    prepare([tmp_path / "a.jsonl"], tokenizer, tmp_path / "out", workers=1)
    assert_same_folder(tmp_path / "calm", tmp_path / "out")


def listing(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("name", ["work/thesis.txt", "corpus.json", "tokenizer.json", "train-99.tok", "mine.tmp"])
def test_nobody_elses_file_is_ever_touched(tokenizer: Path, tmp_path: Path, name: str, restart: bool) -> None:
    out = tmp_path / "out"
    (out / name).parent.mkdir(parents=True)
    (out / name).write_text("{}" if name.endswith("json") else "precious")
    (tmp_path / "a.txt").write_text("some text")
    before = listing(out)
    with pytest.raises(Gpt1Error):
        prepare([tmp_path / "a.txt"], tokenizer, out, workers=1, restart=restart)
    assert listing(out) == before


def test_a_refused_preparation_keeps_the_tokenizer_it_was_given_from_its_own_folder(
    words_tokenizer: Tokenizer, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    words_tokenizer.save(out)
    (tmp_path / "bad.txt").write_bytes(b"x\xff")
    for _ in range(2):
        with pytest.raises(InputError, match="0xff"):
            prepare(tmp_path / "bad.txt", out, out, workers=1, restart=True)
    assert load_tokenizer(out).fingerprint == words_tokenizer.fingerprint


def test_batches_without_a_plan_are_not_trusted(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = tmp_path / "a.txt", tmp_path / "out"
    source.write_text(make_text(20, 1))

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr("gpt1.corpus.prepare.assemble", killed)
        with pytest.raises(KeyboardInterrupt):
            prepare(source, tokenizer, out, workers=1)
    assert (out / ".gpt1-work" / "000000" / "000000.npz").exists()
    (out / ".gpt1-work" / "plan.json").unlink()  # as by a kill in the midst of removing
    source.write_text(make_text(20, 2))
    prepare(source, tokenizer, out, workers=1)
    encoder = load_tokenizer(tokenizer)
    assert documents_of(out, "train", encoder.newline_id) == [encoder.encode(make_text(20, 2))]


def test_what_a_killed_writer_left_is_swept_away(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(make_text(20, 1))
    (tmp_path / "bad.txt").write_bytes(b"x\xff")
    paths = [tmp_path / "a.txt", tmp_path / "bad.txt"]
    with pytest.raises(InputError):
        prepare(paths, tokenizer, tmp_path / "out", workers=1)
    (tmp_path / "out" / "train-00000.tok.123.tmp").write_bytes(b"half")
    prepare(paths, tokenizer, tmp_path / "out", workers=1, on_error="skip")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "blocks.crc32",
        "corpus.json",
        "dropped.jsonl",
        "tokenizer.json",
        "train-00000.tok",
        "valid-00000.tok",
    ]


def test_a_corpus_among_its_own_texts_is_not_read_as_text(tokenizer: Path, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    write_lines(folder / "a.jsonl", [make_text(20, 1), make_text(20, 1)])
    first = prepare(folder, tokenizer, folder / "corpus", workers=1)
    assert first["documents"]["dropped"] == {"exact duplicate": 1}
    assert prepare(folder, tokenizer, folder / "corpus", workers=1) == first


def test_a_file_name_that_is_not_utf8_is_read_like_any_other(tokenizer: Path, tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.jsonl")
    write_lines(tmp_path / name, ["text one", "", "text two"])
    prepare(tmp_path / name, tokenizer, tmp_path / "out", workers=1)
    (row,) = [json.loads(line) for line in (tmp_path / "out" / "dropped.jsonl").read_text().splitlines()]
    assert row["source"] == str(tmp_path / name)


def test_a_script_without_a_guard_may_use_several_workers(tokenizer: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [make_text(20, 1), make_text(20, 2)])
    script = tmp_path / "script.py"
    script.write_text(f"import gpt1\nprint('once')\ngpt1.prepare('a.jsonl', {str(tokenizer)!r}, 'out', workers=2)\n")
    for command in ([sys.executable, str(script)], [sys.executable, "-"]):
        done = subprocess.run(
            command, input=script.read_text(), capture_output=True, text=True, cwd=tmp_path, timeout=600, check=True
        )
        assert (done.stdout, done.stderr) == ("once\n", "")
        assert read_corpus(tmp_path / "out").documents.read == 2


COMMAND = """
import gpt1.corpus.batches
gpt1.corpus.batches.BATCH_CHARACTERS = 20_000
import gpt1.cli
gpt1.cli.main()
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", [1, 6, 12], ids=["at its first change", "beginning", "encoding"])
def test_a_stopped_command_says_how_to_go_on_and_does(
    tokenizer: Path, tmp_path: Path, how: signal.Signals, moment: int
) -> None:
    write_lines(tmp_path / "a.jsonl", [make_text(30, seed) for seed in range(160)])
    arguments = ["prepare", "a.jsonl", "--tokenizer", str(tokenizer), "--out", "out", "--workers", "2"]
    command = signalled(moment, tmp_path / "out", how, "-c", COMMAND, *arguments)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, start_new_session=True, check=False)
    assert done.returncode == 130
    assert done.stderr.split("\n")[-4:] == ["stopped; the same command goes on where it was", "", "interrupted", ""]
    assert "Traceback" not in done.stderr
    assert "Warning" not in done.stderr
    assert not (tmp_path / "out" / "corpus.json").exists()
    subprocess.run([sys.executable, "-c", COMMAND, *arguments], cwd=tmp_path, check=True, capture_output=True)
    assert read_corpus(tmp_path / "out").documents.read == 160


def test_a_mistyped_setting_is_answered_with_the_nearest(tokenizer: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="did you mean 'unwrap'"):
        prepare(tmp_path, tokenizer, tmp_path / "out", unwrp=True)
