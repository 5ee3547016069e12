"""From folders of text to a corpus on disk: `gpt1 prepare`.

Two steps. All cores encode batches of text, each into a file of its own under `work/`. Then the batches are put
together: duplicates are dropped, documents go to train or valid, shards are written, and `corpus.json` last of all.
Both steps are pure functions of their input, so a preparation killed at any moment and started again ends with the
same bytes; batches that are there are not encoded again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpt1.base.errors import InputError, SettingError, unknown
from gpt1.base.files import lock_folder, make_folder, read_json, write_json
from gpt1.base.parallel import cores, ordered_map
from gpt1.base.progress import Progress, Silent, stage
from gpt1.corpus.assembly import DROPPED_FILE, assemble
from gpt1.corpus.batches import begin_worker, encode_batch, in_batches
from gpt1.corpus.documents import Fault, Found, Part, find_sources, read_parts
from gpt1.corpus.meter import Meter
from gpt1.corpus.shards import open_shard
from gpt1.text.tokenizer import FILE_NAME, Tokenizer, load_tokenizer

CORPUS_FILE = "corpus.json"
CORPUS_FORMAT = "gpt1-corpus"
WORK = "work"
PLAN_FILE = "plan.json"
DUPLICATES = ("keep", "exact", "near")
ON_ERROR = ("refuse", "skip")


@dataclass(frozen=True)
class Preparation:
    """How documents become a corpus; every default of `gpt1 prepare` is here."""

    document: str | None = None
    field: str | None = None
    encoding: str = "utf-8"
    unwrap: bool = False
    duplicates: str = "near"
    valid: float = 0.01
    on_error: str = "refuse"
    shard_tokens: int = 1 << 26

    def __post_init__(self) -> None:
        if self.duplicates not in DUPLICATES:
            raise unknown("way with duplicates", self.duplicates, DUPLICATES)
        if self.on_error not in ON_ERROR:
            raise unknown("way with errors", self.on_error, ON_ERROR)
        if not 0 <= self.valid < 1:
            raise SettingError(f"the share for validation is between 0 and 1, not {self.valid}")
        if self.shard_tokens < 1:
            raise SettingError(f"a shard holds at least one token, not {self.shard_tokens}")


def prepare(
    paths: Sequence[str | Path],
    tokenizer: Tokenizer | str | Path,
    out: str | Path,
    *,
    workers: int | None = None,
    restart: bool = False,
    progress: Progress | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Encode text files into token shards under `out` and return the corpus's description, `corpus.json`.

    The settings are those of `Preparation`. Killed and called again, it goes on; finished, it returns at once.
    `restart` throws away what `out` holds of an earlier preparation.
    """
    progress = progress or Silent()
    preparation = Preparation(**settings)
    if not isinstance(tokenizer, Tokenizer):
        tokenizer = load_tokenizer(tokenizer)
    found = find_sources([str(path) for path in paths], field=preparation.field)
    read_parts(found.sources, **_reading(preparation))  # refuses what does not fit before anything is written
    out = Path(out)
    plan = _plan(preparation, tokenizer, found)
    with lock_folder(out):
        if restart:
            _clear(out)
        if (out / CORPUS_FILE).exists():
            return _finished(out, plan, progress)
        work = _begin(out, plan, progress)
        _announce(found, progress)
        faults: list[Fault] = []
        batches = _encode(found, preparation, tokenizer, work, workers or cores(), faults, progress)
        if faults and preparation.on_error == "refuse":
            raise InputError(f"{faults[0].message}\nMend it, or leave such documents out with --on-error skip")
        if not batches:
            raise InputError(f"there is no document to read{': ' + faults[0].message if faults else ''}")
        corpus = assemble(
            batches,
            faults,
            found.sources,
            tokenizer,
            out,
            duplicates=preparation.duplicates,
            valid=preparation.valid,
            shard_tokens=preparation.shard_tokens,
            progress=progress,
        )
        if not any(split["documents"] for split in corpus["splits"].values()):
            shutil.rmtree(work)
            raise InputError(f"no document is left: {_dropped(corpus)}; see {out / DROPPED_FILE}")
        tokenizer.save(out / FILE_NAME)
        write_json(out / CORPUS_FILE, {"format": CORPUS_FORMAT, "plan": _fingerprint(plan), **corpus})
        shutil.rmtree(work)
    return read_corpus(out)


def read_corpus(folder: str | Path) -> dict[str, Any]:
    """Return the description of a prepared corpus, its shards checked for presence and size."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder with a corpus; make one with 'gpt1 prepare'")
    if not (folder / CORPUS_FILE).exists() and (folder / WORK).exists():
        raise InputError(f"{folder} holds an unfinished preparation; run the same 'gpt1 prepare' again to finish it")
    corpus = read_json(folder / CORPUS_FILE, "the description of a corpus")
    if corpus.get("format") != CORPUS_FORMAT:
        raise InputError(f"{folder / CORPUS_FILE} is not the description of a corpus of ours")
    for split in corpus["splits"].values():
        for shard in split["shards"]:
            opened = open_shard(folder / shard["file"])
            if opened.checksum != shard["sha256"]:
                raise InputError(
                    f"{opened.path} is not the shard that {CORPUS_FILE} names; prepare anew with --restart"
                )
    return corpus


# --- one preparation, or another ----------------------------------------------------------------------------


def _reading(preparation: Preparation) -> dict[str, Any]:
    return {name: getattr(preparation, name) for name in ("document", "field", "encoding", "unwrap")}


def _plan(preparation: Preparation, tokenizer: Tokenizer, found: Found) -> dict[str, Any]:
    """All that decides the result: settings, tokenizer, and the files as they are now.

    Not what happens on an error: one who was refused may go on with `skip`.
    """
    settings = asdict(preparation)
    del settings["on_error"]
    return {
        "settings": settings,
        "tokenizer": tokenizer.fingerprint,
        "sources": [asdict(source) for source in found.sources],
    }


def _fingerprint(plan: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def _clear(out: Path) -> None:
    """Remove what an earlier preparation left, and nothing else."""
    (out / CORPUS_FILE).unlink(missing_ok=True)  # first: without it the rest counts as unfinished
    for path in [*out.glob("*.tok"), *out.glob("*.tmp"), out / FILE_NAME, out / DROPPED_FILE]:
        path.unlink(missing_ok=True)
    shutil.rmtree(out / WORK, ignore_errors=True)


def _finished(out: Path, plan: dict[str, Any], progress: Progress) -> dict[str, Any]:
    corpus = read_corpus(out)
    if corpus["plan"] != _fingerprint(plan):
        raise InputError(
            f"{out} holds a corpus of other files, settings or tokenizer. Choose another --out, "
            "or replace it with --restart"
        )
    shutil.rmtree(out / WORK, ignore_errors=True)
    progress.say(f"{out} was prepared before from the same files with the same settings")
    return corpus


def _begin(out: Path, plan: dict[str, Any], progress: Progress) -> Path:
    work = out / WORK
    if (work / PLAN_FILE).exists():
        before = read_json(work / PLAN_FILE, "the plan of a preparation")
        if before != json.loads(json.dumps(plan)):
            what = ", ".join(name for name in plan if before.get(name) != json.loads(json.dumps(plan[name])))
            raise InputError(
                f"{out} holds an unfinished preparation that differs in: {what}. Finish that one, choose another "
                "--out, or begin anew with --restart"
            )
        progress.say(f"going on with the preparation in {out}")
    else:
        make_folder(work)
        write_json(work / PLAN_FILE, plan)
    return work


def _announce(found: Found, progress: Progress) -> None:
    size = sum(source.bytes for source in found.sources)
    progress.say(f"reading {len(found.sources):,} files, {size / 1e6:,.1f} MB on disk")
    for skipped in found.skipped[:5]:
        progress.say(f"  left out: {skipped.name} ({skipped.reason})")
    if len(found.skipped) > 5:
        progress.say(f"  left out: {len(found.skipped) - 5:,} more")


# --- encoding -----------------------------------------------------------------------------------------------


def _encode(
    found: Found,
    preparation: Preparation,
    tokenizer: Tokenizer,
    work: Path,
    workers: int,
    faults: list[Fault],
    progress: Progress,
) -> list[Path]:
    """Encode every batch that is not there yet; return the files of all of them, in order."""
    files: list[Path] = []
    with stage(progress, "encoding") as bar:
        meter = Meter(found.sources, bar)

        def missing() -> Iterator[tuple[Path, list[Part]]]:
            parts = read_parts(found.sources, **_reading(preparation))
            for batch in in_batches(parts, faults):
                if preparation.on_error == "refuse" and faults:
                    return
                files.append(work / f"{len(files):06}.npz")
                meter.read(batch)
                if not files[-1].exists():
                    yield files[-1], batch

        for text_bytes in ordered_map(
            encode_batch, missing(), workers=workers, initializer=begin_worker, initargs=(tokenizer.vocabulary,)
        ):
            meter.done(text_bytes)
    return files


def describe(corpus: dict[str, Any]) -> list[str]:
    """Return the lines that tell a person what a corpus holds."""
    lines = []
    for name, split in corpus["splits"].items():
        lines.append(
            f"{name:6} {split['documents']:>12,} documents {split['tokens']:>14,} tokens {split['bytes']:>15,} bytes"
        )
    return [*lines, _dropped(corpus)]


def _dropped(corpus: dict[str, Any]) -> str:
    documents = corpus["documents"]
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in documents["dropped"].items())
    return f"read {documents['read']:,} documents; dropped: {dropped or 'none'}"
