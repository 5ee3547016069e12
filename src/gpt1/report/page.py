"""Runs and studies in, one HTML page out: it needs no network, no script, no other file; the same in, the same out."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module, resources
from itertools import count
from pathlib import Path

from gpt1 import __version__
from gpt1.base.errors import InputError, MissingDependency
from gpt1.base.files import make_folder, require_absent, result_file
from gpt1.records.seeds import SEEDS_FILE
from gpt1.report.blocks import Section
from gpt1.report.compare import compare
from gpt1.report.gather import gather, gather_studies
from gpt1.report.svg import with_own_ids
from gpt1.runs.folder import RUN_FILE, is_run, run_folder
from gpt1.studies.cells import has_cells
from gpt1.studies.folder import STUDY_FILE, is_study

TEMPLATE = "page.html.j2"
FILE = "report.html"
RESULTS = "results"  # the anchor of the part that holds runs against each other
MARK = '<meta name="generator" content="gpt1 report'  # by which a page of ours is known
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

    The sections of `opening` come first. A page that is there is replaced only to `overwrite` it, another file never.
    """
    _require_libraries()
    out = Path(out)
    _require_own_file(out)
    require_absent(out, overwrite)
    sections = _sections([Path(run) for run in runs])
    named = [section.title for section in sections if section.anchor != RESULTS]
    content = render([*opening, *sections], title or f"Report on {', '.join(named)}")
    make_folder(out.parent)
    with result_file(out, overwrite=overwrite) as file:
        file.write(content.encode("utf-8", "backslashreplace"))
    return out


def render(sections: Sequence[Section], title: str) -> str:
    """Return a page; whatever it shows is text, never markup, but for the pictures."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    numbers = count(1)
    source = resources.files(__package__).joinpath(TEMPLATE).read_text("utf-8")
    house = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    house.filters["picture"] = lambda svg: Markup(with_own_ids(svg, f"picture-{next(numbers)}"))
    return house.from_string(source).render(sections=sections, title=title, version=__version__).strip() + "\n"


def _sections(paths: Sequence[Path]) -> list[Section]:
    # These draw, and are imported when it is known that the library for it is there.
    from gpt1.report.finetuned import finetuned_section
    from gpt1.report.pretrained import pretrained_section
    from gpt1.report.results import results
    from gpt1.report.study import study_section

    studies = [path for path in paths if is_study(path)]
    others = [path for path in paths if not is_study(path)]
    for path in others:
        _require_something(path)
    runs = gather(others) if others or not studies else []
    own = [
        (finetuned_section if run.is_finetuned else pretrained_section)(run, f"run-{number}")
        for number, run in enumerate(runs, 1)
    ]
    first = [results(runs, compare(runs), RESULTS)] if runs else []
    told = [
        study_section(name, folder, found, f"study-{number}")
        for number, (name, folder, found) in enumerate(gather_studies(studies), 1)
    ]
    return [*first, *told, *own]


def _require_something(path: Path) -> None:
    """Refuse a folder that holds neither a run nor a study."""
    if path.is_dir() and has_cells(path):
        raise InputError(f"{path} has cells of a study and no {STUDY_FILE}; the study's command writes it anew")
    if path.is_dir() and not is_run(run_folder(path)):
        raise InputError(
            f"{path} is neither a run nor a study; expected {RUN_FILE}, {SEEDS_FILE} or {STUDY_FILE} in it"
        )


def _require_libraries() -> None:
    missing = []
    for name in ("matplotlib", "jinja2"):
        try:
            import_module(name)
        except ImportError:
            missing.append(name)
    if missing:
        raise MissingDependency(f"a report needs {' and '.join(missing)}: pip install 'gpt1[report]'")


def _require_own_file(out: Path) -> None:
    """Refuse to write over anything but a page of ours."""
    if out.is_dir():
        raise InputError(f"{out} is a folder; name the page in it, such as {out / 'report.html'}")
    if out.is_file():
        with out.open("rb") as file:
            beginning = file.read(_MARK_WITHIN)
        if beginning and MARK.encode() not in beginning:
            raise InputError(f"{out} is another file, not a report; choose another name")
