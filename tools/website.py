"""Make the site: the Markdown that the repository shows, and a reference of verbs and of Python made from the code.

`python tools/website.py --out build/site`. The pages lie in `build/pages` as they lie in the repository, so that a link
between two of them is the same in both places; README.md is the first one, and docs/README.md says which others there
are, and in which order. What is odd, a link that leads nowhere above all, ends it with an error.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import jupytext
from reference import python_page, verb_pages  # tools/reference.py
from sphinx.cmd.build import build_main

ROOT = Path(__file__).parent.parent
MAP = "docs/README.md"
LESSON = "docs/lesson"
REFERENCE = {"reference/verbs.md": "Verbs", "reference/python.md": "Python", "reference/words.md": "The field's words"}

_LINK = re.compile(r"(?<=\]\()([^)\s:#]+)(?=[)#])")  # to a file
_ENTRY = re.compile(r"^- \[(.+?)\]\((.+?)\)", re.MULTILINE)  # of the map
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)


def linked(page: str, text: str) -> list[str]:
    """Return the files that a page of the repository leads to, by their places in it."""
    folder = (ROOT / page).parent
    return [str((folder / target).resolve().relative_to(ROOT)) for target in _LINK.findall(text)]


def sections(page: str) -> dict[str, str]:
    """Return the text of each section of a page."""
    _, *parts = _SECTION.split((ROOT / page).read_text())
    return dict(zip(parts[::2], parts[1::2], strict=True))


def chapters() -> dict[str, dict[str, str]]:
    """Return the pages of each section of the map, in its order, with what they are called there."""
    found = {section: _ENTRY.findall(text) for section, text in sections(MAP).items()}
    return {
        section: {linked(MAP, f"]({file})")[0]: name for name, file in entries} for section, entries in found.items()
    }


def lesson_pages() -> list[str]:
    """Return the pages of the lesson, where there is one: text first, then its notebooks, which are kept as Python."""
    found = [path for kind in ("*.md", "*.py") for path in sorted((ROOT / LESSON).glob(kind))]
    return [str(path.relative_to(ROOT)) for path in found]


def as_markdown(lesson: Path) -> str:
    """Return a notebook that is kept as Python as a page: its text, and its code."""
    cells = jupytext.read(lesson, fmt="py:percent").cells
    return "\n\n".join(f"```python\n{cell.source}\n```" if cell.cell_type == "code" else cell.source for cell in cells)


def place(path: str) -> str:
    """Return where a page of the repository lies among those of the site."""
    if path == "README.md":
        return "index.md"
    return path.removesuffix(".py") + ".md" if path.startswith(LESSON) and path.endswith(".py") else path


def relinked(page: str, text: str) -> str:
    """Return a page with its links to pages that lie elsewhere on the site."""
    moved = {"README.md", *lesson_pages()}
    folder = (ROOT / page).parent

    def target(found: re.Match[str]) -> str:
        path = (folder / found[1]).resolve()
        if not path.is_relative_to(ROOT) or (name := str(path.relative_to(ROOT))) not in moved:
            return found[1]
        return found[1].removesuffix(Path(name).name) + Path(place(name)).name

    return _LINK.sub(target, text)


def contents(title: str, pages: Mapping[str, str]) -> str:
    """Return a part of the list of pages that stands beside each."""
    paths = {f"/{place(page).removesuffix('.md')}": name for page, name in pages.items()}
    lines = (f"{name} <{path}>" if name else path for path, name in paths.items())
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "", *lines, "```", ""])


def glossary() -> str:
    """Return the field's words as a page of their own."""
    words = sections("docs/architecture.md")["The field's words"]
    return "# The field's words\n\nWhere in `src/gpt1/` the code of each is.\n" + words


def lay_out(pages: Path) -> None:
    """Write all pages of the site, and the files that they show or offer, into a new folder."""
    (begin, beginning), *others = chapters().items()
    lists = {begin: {MAP: "Who reads what", **beginning}}
    if lesson := lesson_pages():
        lists["The lesson"] = dict.fromkeys(lesson, "")  # called by their headings
    lists |= {title: {page: name for page, name in own.items() if page not in lesson} for title, own in others}
    made = {"reference/python.md": python_page(), "reference/words.md": glossary(), **verb_pages("reference")}
    for page in dict.fromkeys(["README.md", *(page for listed in lists.values() for page in listed)]):
        text = as_markdown(ROOT / page) if page.endswith(".py") else (ROOT / page).read_text()
        made[place(page)] = relinked(page, text)
        for file in linked(page, text):
            if not file.endswith((".md", ".py")) and (ROOT / file).is_file():
                (pages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / file, pages / file)
    lists["Reference"] = REFERENCE
    made["index.md"] += "".join(contents(title, listed) for title, listed in lists.items())
    for name, text in made.items():
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        (pages / name).write_text(text)


def main() -> None:
    """Lay the pages out and let Sphinx make HTML of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    out = parser.parse_args().out
    pages = out.with_name("pages")
    for folder in (pages, out):
        shutil.rmtree(folder, ignore_errors=True)
    lay_out(pages)
    settings = ["--quiet", "--fail-on-warning", "--conf-dir", str(ROOT / "docs" / "site"), "--doctree-dir"]
    if failed := build_main([*settings, str(pages.with_name("doctrees")), "--fresh-env", str(pages), str(out)]):
        sys.exit(failed)
    print(f"the site: {out / 'index.html'}")


if __name__ == "__main__":
    main()
