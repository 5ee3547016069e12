"""Runs and studies in, one HTML page out: it needs no network, no script, no other file; the same in, the same out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpt1.base.errors import FormatError, InputError
from gpt1.base.files import make_folder, require_absent, result_file
from gpt1.bases.catalog import run_or_base
from gpt1.documents.blocks import Section
from gpt1.documents.html import MARK, render, require_libraries
from gpt1.documents.study import KINDS, about_study, study_blocks
from gpt1.records.seeds import SEEDS_FILE
from gpt1.records.study import StudyRecord
from gpt1.report.compare import compare, results
from gpt1.report.gather import gather, gather_studies
from gpt1.report.runs import finetuned_section, pretrained_section
from gpt1.runs.folder import RUN_FILE, is_run, run_folder, start_without_run
from gpt1.studies.cells import has_cells
from gpt1.studies.folder import STUDY_FILE, is_study

FILE = "report.html"
RESULTS = "results"  # the anchor of the part that holds runs against each other
_MARK_WITHIN = 2000  # bytes


def report(
    runs: Sequence[str | Path],
    out: str | Path = FILE,
    title: str | None = None,
    opening: Sequence[Section] = (),
    *,
    overwrite: bool = False,
) -> Path:
    """Write one page about runs (pre-trained, fine-tuned or several seeds) and studies, and return its path.

    The sections of `opening` come first, and all else is folded then; so is each of several runs. A page that is there
    is replaced only to `overwrite` it, another file never.
    """
    require_libraries()
    out = Path(out)
    _require_own_file(out)
    require_absent(out, overwrite)
    sections = _sections([run_or_base(run) for run in runs], is_opened=bool(opening))
    named = [section.title for section in sections if section.anchor != RESULTS]
    content = render([*opening, *sections], title or f"Report on {', '.join(named)}")
    make_folder(out.parent)
    with result_file(out, overwrite=overwrite) as file:
        file.write(content.encode("utf-8", "backslashreplace"))
    return out


def _sections(paths: Sequence[Path], *, is_opened: bool) -> list[Section]:
    studies = [path for path in paths if is_study(path)]
    others = [path for path in paths if not is_study(path)]
    for path in others:
        _require_something(path)
    runs = gather(others) if others or not studies else []
    is_one = len(paths) == 1 and not is_opened
    own = [
        replace(
            (finetuned_section if run.is_finetuned else pretrained_section)(run, f"run-{number}"), is_folded=not is_one
        )
        for number, run in enumerate(runs, 1)
    ]
    first = [replace(results(runs, compare(runs), RESULTS), is_folded=is_opened)] if runs else []
    told = [
        _study_section(name, folder, found, f"study-{number}")
        for number, (name, folder, found) in enumerate(gather_studies(studies), 1)
    ]
    return [*first, *told, *own]


def _study_section(name: str, folder: Path, study: StudyRecord, anchor: str) -> Section:
    try:
        return Section(anchor, name, KINDS.get(study.kind, ""), [*about_study(study), *study_blocks(study)])
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{folder / STUDY_FILE} is damaged ({error!r}); {study.REMEDY}") from None


def _require_something(path: Path) -> None:
    """Refuse a folder that holds neither a run nor a study."""
    if path.is_dir() and has_cells(path):
        raise InputError(f"{path} has cells of a study and no {STUDY_FILE}; the study's command writes it anew")
    if told := start_without_run(path):
        raise InputError(told)
    if path.is_dir() and not is_run(run_folder(path)):
        raise InputError(
            f"{path} is neither a run nor a study; expected {RUN_FILE}, {SEEDS_FILE} or {STUDY_FILE} in it"
        )


def _require_own_file(out: Path) -> None:
    """Refuse to write over anything but a page of ours."""
    if out.is_dir():
        raise InputError(f"{out} is a folder; name the page in it, such as {out / 'report.html'}")
    if out.is_file():
        with out.open("rb") as file:
            beginning = file.read(_MARK_WITHIN)
        if beginning and MARK.encode() not in beginning:
            raise InputError(f"{out} is another file, not a report; choose another name")
