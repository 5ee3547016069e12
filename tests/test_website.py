"""tools/website.py and tools/reference.py: the site has all that the repository shows, and all that the code offers."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import click
import pytest

import gpt1
from gpt1.cli.app import gpt1 as command_line

ROOT = Path(__file__).parent.parent
TOOLS = ROOT / "tools"


@pytest.fixture(scope="module")
def tools() -> Iterator[tuple[ModuleType, ModuleType]]:
    """Its two programs, which find each other as a script finds its neighbours."""
    sys.path.insert(0, str(TOOLS))
    try:
        import reference
        import website

        yield website, reference
    finally:
        sys.path.remove(str(TOOLS))


@pytest.fixture
def website(tools: tuple[ModuleType, ModuleType]) -> ModuleType:
    return tools[0]


@pytest.fixture
def reference(tools: tuple[ModuleType, ModuleType]) -> ModuleType:
    return tools[1]


def commands(command: click.Command, words: str) -> Iterator[tuple[str, click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, f"{words} {name}")


def test_the_map_has_each_document_once(website: ModuleType) -> None:
    listed = [page for section in website.chapters().values() for page in section]
    assert sorted(page for page in listed if page.startswith("docs/")) == sorted(
        str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("**/*.md") if path != ROOT / "docs" / "README.md"
    )
    assert {"CONTRIBUTING.md", "CHANGELOG.md", "LOG.md"} <= set(listed)
    assert len(listed) == len(set(listed))


def test_a_link_to_a_page_that_lies_elsewhere_on_the_site_leads_there(website: ModuleType) -> None:
    assert website.relinked("docs/demo.md", "[a](../README.md#map)") == "[a](../index.md#map)"
    assert website.relinked("docs/README.md", "[a](../README.md), [b](demo.md)") == "[a](../index.md), [b](demo.md)"


def test_a_notebook_that_is_kept_as_python_is_text_and_code(
    website: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lesson = tmp_path / "docs" / "lesson" / "first.py"
    lesson.parent.mkdir(parents=True)
    lesson.write_text("# %% [markdown]\n# # Attention\n#\n# Who looks where.\n\n# %%\nprint(1 + 1)\n")
    assert website.as_markdown(lesson) == "# Attention\n\nWho looks where.\n\n```python\nprint(1 + 1)\n```"
    lesson.with_name("README.md").write_text("# The lesson\n")
    monkeypatch.setattr(website, "ROOT", tmp_path)
    assert website.lesson_pages() == ["docs/lesson/README.md", "docs/lesson/first.py"]
    assert website.relinked("docs/README.md", "[a](lesson/first.py)") == "[a](lesson/first.md)"


def test_the_reference_has_every_verb_with_every_option_and_every_example(reference: ModuleType) -> None:
    pages = reference.verb_pages("reference")
    text = "\n".join(pages.values())
    for words, command in commands(command_line, "gpt1"):
        if words == "gpt1":
            continue
        assert re.search(rf"^#+ {words}$", text, re.MULTILINE), words
        section = re.split(rf"^#+ {words}$", pages[f"reference/verbs/{words.split()[1]}.md"], flags=re.MULTILINE)[1]
        context = click.Context(command)
        for option in command.params:
            if isinstance(option, click.Option) and (record := option.get_help_record(context)) is not None:
                assert f":::{{option}} {record[0]}\n" in section, (words, option.name)
        for line in re.findall(r"^ *(?:Example: )?(gpt1 .*)$", command.help or "", re.MULTILINE):
            assert line in section, (words, line)


def test_what_holds_without_an_option_is_told(reference: ModuleType) -> None:
    entry = reference.verb_pages("reference")["reference/verbs/finetune.md"]
    assert (
        ":::{option} --dev TABLE\n`--train`: a table to choose the best epoch on. (default: a tenth of `--train`)\n"
        in entry
    )
    assert "Folder for the run. (required)" in entry
    assert "Times to see every example. (default: as the recipe says; `x>0`)" in entry


def test_examples_are_code_whether_beside_the_word_or_below_it(reference: ModuleType) -> None:
    beside = "Do it.\n\n\b\nExample: gpt1 a --b\n         gpt1 c\n           --d\n"
    assert [*reference.help_parts(beside)] == ["Do it.", "Example:", "```text\ngpt1 a --b\ngpt1 c\n  --d\n```"]
    below = "\b\nExamples, of two:\n  gpt1 a\n  echo b | gpt1 c -\n"
    assert [*reference.help_parts(below)] == ["Examples, of two:", "```text\ngpt1 a\necho b | gpt1 c -\n```"]
    assert [*reference.help_parts("Example: gpt1 a")] == ["Example:", "```text\ngpt1 a\n```"]
    assert [*reference.help_parts("Example, for a shell: see there.")] == ["Example, for a shell: see there."]


def test_signs_of_a_help_are_no_markup(reference: ModuleType) -> None:
    assert (
        reference.plain("of <a> or *b*, `c_d` and e_f; --out x|y") == r"of \<a\> or \*b\*, `c_d` and e\_f; `--out` x\|y"
    )


def test_the_reference_has_every_public_name_and_what_it_takes(reference: ModuleType) -> None:
    page = reference.python_page()
    for name in gpt1.__all__:
        assert f"\n## {name}\n" in page
    assert "gpt1.load_tokenizer(path: str | Path) -> Tokenizer" in page
    assert "\n    labels_sep: str | None = None,\n" in page
    assert "    top_k: int | None = 40  # None: all" in page  # of a value, with what is said beside it
    assert "The settings are those of [`Preparation`](#preparation)." in page
    assert "\n### Run.predict\n" in page
    assert "_request" not in page  # which scikit-learn adds


def made_of(folder: Path, text: str) -> tuple[int, str, str]:
    """Return how Sphinx ends with one page, what it says, and the page."""
    pages, out = folder / "pages", folder / "site"
    pages.mkdir()
    (pages / "index.md").write_text(text)
    words = ["sphinx", "--quiet", "--fail-on-warning", "--conf-dir", str(ROOT / "docs" / "site"), str(pages), str(out)]
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
    return done.returncode, done.stderr, (out / "index.html").read_text()


def test_formulas_need_no_program_from_elsewhere(tmp_path: Path) -> None:
    code, said, page = made_of(tmp_path, "# A\n\nThis is $h_0 = U W_e$.\n\n$$L = \\sum_i \\log P(u_1, \\dots, u_i)$$\n")
    assert (code, said) == (0, "")
    assert page.count("<math") == 2
    assert "MathJax" not in page


def test_a_formula_that_cannot_be_shown_is_told_with_its_place(tmp_path: Path) -> None:
    code, said, _ = made_of(tmp_path, "# A\n\nThis is $\\nowhere$.\n")
    assert code != 0
    assert re.search(r"index\.md:3: .*a formula cannot be shown: .*nowhere", said)


class Looked(HTMLParser):
    """What a page fetches, where it leads, and what can be led to in it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        had = dict(attrs)
        source = had.get("src") or had.get("href") or ""
        if tag in ("script", "img", "link", "iframe", "source") and source.strip("#"):
            self.fetched.append(source)
        if tag == "a" and (target := had.get("href")):
            self.links.append(target)
        self.anchors |= {value for name in ("id", "name") if (value := had.get(name))}


def test_the_site_is_made_without_a_warning_fetches_nothing_and_has_no_dead_link(tmp_path: Path) -> None:
    out = tmp_path / "site"
    made = subprocess.run([sys.executable, TOOLS / "website.py", "--out", out], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    pages = {path: Looked(path) for path in out.rglob("*.html")}
    assert out / "docs" / "README.html" in pages
    for path, page in pages.items():
        assert not [source for source in page.fetched if re.match(r"\w+:|//", source)], path
        for source in page.fetched:
            assert (path.parent / source.partition("?")[0]).is_file(), (path, source)
        for link in page.links:
            if re.match(r"https?:", link):
                continue
            target, _, anchor = unquote(link).partition("#")
            at = (path.parent / target).resolve() if target else path
            assert at.is_file(), (path, link)
            assert not anchor or at.suffix != ".html" or anchor in pages[at].anchors, (path, link)
    for style in out.rglob("*.css"):
        assert not re.search(r"@import|url\(['\"]?(?!data:)[a-z]*:?//", style.read_text()), style
