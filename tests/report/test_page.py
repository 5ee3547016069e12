"""The page: what is on it, that it is the same again, that nothing in it is ever more than text."""

from __future__ import annotations

import itertools
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpt1.base.errors import FormatError, InputError, MissingDependency
from gpt1.documents.blocks import BarPlot, Estimate, Section
from gpt1.documents.plots import draw, with_own_ids
from gpt1.recipes.catalog import find_recipe
from gpt1.recipes.changes import settings
from gpt1.records.evaluation import Evaluation
from gpt1.report import report
from gpt1.runs.events import RolledBack
from gpt1.runs.files import RunFiles
from gpt1.tasks.catalog import Task
from tests.records import facts_in
from tests.report.tools import (
    LABELS,
    PageReader,
    write_finetuned,
    write_lines,
    write_pretrained,
    write_run,
    write_seeds,
)

WRONG = [1 - label for label in LABELS]
MOSTLY = [*LABELS[:7], 0]  # seven of eight are right


def page(tmp_path: Path, *runs: Path, title: str | None = None) -> PageReader:
    return PageReader(report(runs, tmp_path / "report.html", title, overwrite=True).read_text("utf-8"))


@pytest.fixture
def three(tmp_path: Path) -> list[Path]:
    """A pre-training run and two fine-tuned ones."""
    return [
        write_pretrained(tmp_path / "books"),
        write_finetuned(tmp_path / "read", {"dev": MOSTLY, "test": MOSTLY}),
        write_finetuned(tmp_path / "blank", {"dev": WRONG}, changes=["finetuning.scratch=true"]),
    ]


def test_a_pretraining_run_is_told_with_its_figures(tmp_path: Path, three: list[Path]) -> None:
    words = page(tmp_path, three[0]).words
    for fact in (
        "Report on books",
        "recipe tiny",
        "books, 10.0 k tokens",
        "validation loss 4.500 nats a token at update 20, perplexity 90.0, 1.500 bits per byte",
        "1.0 k tokens a second in the middle",
        "cost about 41 s on a fine GPU, in 2 processes; 463.7 GFLOP of the model's own",
        "1.0 GiB at most",
        "seed 7",
        "gpt1 0.1.0, torch 2.13",
        "gpt1 'x y'",
        "update 20 Once upon a time & again",
        "At update 20, reading text that it does not learn from: “Ann sold hats.”",
        "No batch blew up",
    ):
        assert fact in words


def test_how_much_of_the_text_was_read_is_never_told_as_nothing(tmp_path: Path) -> None:
    for tokens, told in [(10_000, "4.1"), (10_000_000, "0.004")]:
        run = write_pretrained(tmp_path / "books")
        facts = facts_in(run / "run.json")
        corpus = {"path": "books", "identity": "x", "tokens": tokens}
        (run / "run.json").write_text(json.dumps({**facts, "corpus": corpus}))
        assert f"41.0 k tokens in 20 updates, {told} times the text" in page(tmp_path, run).words


def test_every_setting_is_told_and_those_that_are_not_the_papers_come_first(tmp_path: Path, three: list[Path]) -> None:
    words = page(tmp_path, three[0]).words
    own, papers = settings(find_recipe("tiny")), settings(find_recipe("paper"))
    told = words[words.index("setting this run the paper") : words.index("Made with")]
    apart, alike = told.split("As in the paper: ")
    assert "shape.layers 4 12 " in apart
    assert "training.compile false true " in apart
    assert "shape.norm layer, " in alike
    for name in own:
        if not name.startswith("finetuning."):
            assert f"{name} " in (alike if own[name] == papers[name] else apart)
    scratch = page(tmp_path, three[2]).words
    assert "finetuning.scratch true false " in scratch


def test_parameters_are_those_of_the_network(tmp_path: Path, trained: Path) -> None:
    from gpt1.inference.run import load_run

    count = sum(parameter.numel() for parameter in load_run(trained, device="cpu").model.parameters())
    assert f"parameters {count:,} " in page(tmp_path, trained).words


def test_a_finetuned_run_is_told_with_its_scores(tmp_path: Path, three: list[Path]) -> None:
    words = page(tmp_path, three[1]).words
    for fact in (
        "Fine-tuned on moods",
        "train 30, dev 8, test 8",
        "pre-trained; network and words of runs/books",
        "hardware a fine GPU, in 2 processes",
        "4 updates of 32 examples",
        "dev 8 update 4 87.5 52.9 to 97.8",  # 7 of 8 by Wilson's interval
        "expected calibration error (ECE) 0.075",
        "example 8: answered bad, 80 % sure; right is good It was what it was",
    ):
        assert fact in words


def test_the_table_of_answers_is_shaded_by_the_share_of_its_row(tmp_path: Path, three: list[Path]) -> None:
    cells = [cell for cell in page(tmp_path, three[1]).named("td") if "shade" in (cell.get("class") or "")]
    assert [cell["style"] for cell in cells[:4]] == [f"--share: {share}%" for share in (100, 0, 25, 75)]
    assert ["wrong" in (cell["class"] or "") for cell in cells[:4]] == [False, True, True, False]


def test_runs_of_one_task_are_compared_at_the_top(tmp_path: Path, three: list[Path]) -> None:
    out = report(three, tmp_path / "report.html").read_text()
    top = out[: out.index('<section class="folded"')]
    assert "<strong>87.5</strong>" in top
    assert "read: Accuracy 87.5 on 8 rows" in top
    assert "from scratch, 30 labels" in top
    words = PageReader(out).words
    assert "read over blank dev accuracy, 8 examples +87.5 +62.5 to +100.0 better, beyond chance" in words


def test_losses_on_different_text_are_not_ranked(tmp_path: Path) -> None:
    runs = [write_pretrained(tmp_path / name, text=name) for name in ("one", "two")]
    out = report(runs, tmp_path / "report.html").read_text()
    assert "<strong>" not in out
    assert "not to be ranked" in out
    runs[1] = write_pretrained(tmp_path / "three", text="one", valid=[4.0, 4.2])
    assert "<strong>4.000</strong>" in report(runs, tmp_path / "other.html").read_text()


def test_seeds_are_told_one_by_one(tmp_path: Path) -> None:
    words = page(tmp_path, write_seeds(tmp_path / "three", [LABELS, MOSTLY, [0] * 8])).words
    assert "median mean deviation worst best each" in words
    assert "moods dev accuracy 87.5 79.2 26.0 50.0 100.0 100.0, 87.5, 50.0" in words
    assert "seed-0 is kept: the best on dev" in words
    assert "median of 3 seeds" in words


def test_the_same_runs_give_the_same_bytes(tmp_path: Path, three: list[Path]) -> None:
    one, other = (report(three, tmp_path / name).read_bytes() for name in ("one.html", "other.html"))
    assert one == other


def test_a_page_needs_nothing_but_itself(tmp_path: Path, three: list[Path]) -> None:
    found = page(tmp_path, *three)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in found.elements}
    targets = [str(value) for _, attributes in found.elements for name, value in attributes.items() if "href" in name]
    assert targets
    assert all(target.startswith("#") for target in targets)
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {target[1:] for target in targets} <= set(ids)


def test_headings_and_pictures_can_be_heard(tmp_path: Path, three: list[Path]) -> None:
    found = page(tmp_path, *three)
    levels = [int(tag[1]) for tag, _ in found.elements if tag in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    images = [attributes for _, attributes in found.elements if attributes.get("role") == "img"]
    assert len(images) == len(found.named("svg"))
    assert all(image["aria-label"] for image in images)
    labels = [str(image["aria-label"]) for image in images]
    assert any(label.startswith("training loss from 5.95 at update 1 to 5 at update 20") for label in labels)


def test_texts_are_never_markup(tmp_path: Path) -> None:
    evil = "<script>alert('x')</script>\"><img src=x onerror=y> &lt;"
    task = Task(name="moods", title=evil, shape="single", metrics=("accuracy",), fields=("text",), labels=("<b>", evil))
    run = write_finetuned(tmp_path / "<i>run", {"dev": WRONG}, task=task, texts=evil)
    books = write_pretrained(tmp_path / "books")
    write_lines(books / "samples.jsonl", [{"step": 1, "prompt": evil, "text": evil}])
    (books / "attention.json").write_text(json.dumps({"step": 1, "tokens": [evil], "weights": [[[[1.0]]]]}))
    (books / "log.txt").write_text(f"2026-11-15 12:00:00  {evil}\n")
    found = page(tmp_path, books, run, title=evil)
    assert not {"script", "img", "i", "b"} & {tag for tag, _ in found.elements}
    assert found.words.count("<script>alert('x')</script>") >= 5
    assert not any(name.startswith("on") for _, attributes in found.elements for name in attributes)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("url(#", "url(#"),
        ("url(#x)", "url(#x)"),
        ('href="#a', 'href="#a'),
        ('url(#a id="b" c', 'url(#a id="b" c'),
        ("fill: #000001", "fill: #000001"),
        ("<!-- --> x", "<!-- --> x"),
        ("'q' \"r\" <", "'q' \"r\" <"),
        ("$x_1$ $\\frac{", "$x_1$ $\\frac{"),
        ("100%s {{ 7*7 }} {% x", "100%s {{ 7*7 }} {% x"),
        ("_under", "_under"),
        ("two\nlines", "two lines"),
        ("\u202eturned", "\ufffdturned"),
        ("n" * 250, "n" * 59 + "…"),
    ],
)
def test_a_run_is_shown_by_its_name_whatever_that_looks_like(tmp_path: Path, name: str, shown: str) -> None:
    runs = [
        write_finetuned(tmp_path / name, {"dev": MOSTLY}),
        write_finetuned(tmp_path / "plain", {"dev": WRONG}),
        write_pretrained(tmp_path / f"x{name}"),
    ]
    found = page(tmp_path, *runs)
    assert f"Report on {shown}, plain, " in found.words
    assert found.named("script") == []
    values = [value or "" for _, attributes in found.elements for value in attributes.values()]
    used = {name for value in values for name in re.findall(r"^(?:url\(#([^)]+)\)|#(.+))$", value)}
    assert {first or second for first, second in used} <= {attributes.get("id") for _, attributes in found.elements}


@pytest.mark.parametrize("name", ["url(#", "url(#x)", "fill: #000001", "$x_1$", "_under"])
def test_a_picture_shows_a_name_as_it_is(name: str) -> None:
    svg = with_own_ids(draw(BarPlot({name: {"dev": Estimate(0.5, None)}}, "accuracy")), "own")
    assert f">{name}</text>" in svg


def test_a_title_of_ten_thousand_characters_is_shown(tmp_path: Path, three: list[Path]) -> None:
    assert "url(# " * 1600 in page(tmp_path, three[0], title="url(# " * 1700).words


def test_what_is_missing_is_said_in_a_sentence(tmp_path: Path) -> None:
    books = write_run(tmp_path / "books", "pretraining")
    moods = write_finetuned(tmp_path / "moods", {})
    (moods / "metrics.jsonl").unlink()
    (moods / "log.txt").unlink()
    words = page(tmp_path, books, moods).words
    for sentence in (
        "There is no metrics.jsonl, so there are no curves.",
        "It wrote no samples",
        "There is no attention.json, so where it looks is not known",
        "There is no events.jsonl, so what happened on the way is not known.",
        "there is no evaluation-*.json",
        "Not measured yet: moods.",
        "validation there was none",
    ):
        assert sentence in words


def test_a_run_that_has_only_begun_has_no_curves(tmp_path: Path) -> None:
    books = write_run(tmp_path / "books", "pretraining")
    (books / "metrics.jsonl").touch()
    assert "has no figures yet" in page(tmp_path, books).words


def test_rollbacks_are_told(tmp_path: Path) -> None:
    books = write_pretrained(tmp_path / "books")
    event = RolledBack(step=9, batch=8, loss=99.0, gradient_norm=5.0, running_loss=3.0, to_step=3)
    RunFiles(books)(event)
    words = page(tmp_path, books).words
    assert "A batch blew up 1 time, and the run went back:" in words
    assert "update 9: batch 8 blew up" in words


def test_of_many_labels_only_the_commonest_confusions_are_shown(tmp_path: Path) -> None:
    names = tuple(f"label {number}" for number in range(40))
    task = Task(name="moods", title="many", shape="single", metrics=("accuracy",), fields=("text",), labels=names)
    labels = list(range(40)) * 2
    answers = [label if row < 40 else (label + 1) % 40 for row, label in enumerate(labels)]
    found = page(tmp_path, write_finetuned(tmp_path / "run", {"dev": answers}, task=task, labels=labels))
    assert "What is mixed up most, of 40 labels." in found.words
    assert not [cell for cell in found.named("td") if "shade" in (cell.get("class") or "")]


def test_samples_are_shown_from_the_first_to_the_last(tmp_path: Path) -> None:
    books = write_pretrained(tmp_path / "books")
    write_lines(
        books / "samples.jsonl",
        [{"step": step, "prompt": "It", "text": f"was {step}."} for step in range(10, 1010, 10)],
    )
    words = page(tmp_path, books).words
    assert "At 6 of 100 places along the way." in words
    assert [step for step in range(10, 1010, 10) if f"It was {step}." in words] == [10, 210, 410, 600, 800, 1000]


def test_scores_are_told_with_their_largest_errors(tmp_path: Path) -> None:
    task = Task(
        name="alike", title="alike", shape="single", metrics=("pearson",), fields=("text",), score_range=(0.0, 5.0)
    )
    run = write_run(tmp_path / "run", "finetuning", tasks={"alike": {**vars(task)}}, examples={})
    mistakes = [
        {"index": 2, "label": 1.0, "prediction": 4.5, "error": 3.5, "text": "[start] a [delimiter] b [extract]"}
    ]
    evaluation = {
        "format": "gpt1-evaluation",
        "version": 1,
        "task": "alike",
        "split": "dev",
        "step": 3,
        "unlabelled": 2,
        "cut": {"examples": 1, "tokens": 5},
        "examples": 10,
        "metrics": {"pearson": -0.25},
        "intervals": {"pearson": [-0.5, 0.1]},
        "residuals": {"mean_absolute_error": 1.5},
        "mistakes": mistakes,
    }
    (run / "evaluation-alike-dev.json").write_text(json.dumps(evaluation))
    words = page(tmp_path, run).words
    assert "\u221225.0 \u221250.0 to 10.0 1.500" in words
    assert "example 3: answered 4.50; right is 1.00 (+3.500) a [delimiter] b" in words
    assert "2 examples had no label" in words
    assert "1 example had more text than fits" in words


def test_a_title_can_be_given_and_folders_are_made(tmp_path: Path, three: list[Path]) -> None:
    out = report(three, tmp_path / "new" / "page.html", "Books & moods")
    assert "<title>Books &amp; moods</title>" in out.read_text()


def test_only_a_report_is_written_over_and_only_when_that_is_asked_for(tmp_path: Path, three: list[Path]) -> None:
    out = tmp_path / "report.html"
    before = report(three[:1], out).read_text()
    with pytest.raises(InputError, match=r"report\.html is there already; .* `overwrite=True`"):
        report(three, out)
    assert out.read_text() == before
    assert report(three, out, overwrite=True).read_text() != before
    mine = tmp_path / "mine.html"
    mine.write_text("<p>mine</p>")
    with pytest.raises(InputError, match="another file, not a report"):
        report(three, mine, overwrite=True)
    assert mine.read_text() == "<p>mine</p>"
    with pytest.raises(InputError, match="is a folder"):
        report(three, tmp_path)


def test_a_damaged_file_leaves_no_page(tmp_path: Path) -> None:
    run = write_finetuned(tmp_path / "run", {"dev": LABELS})
    (run / "evaluation-moods-dev.json").write_text("{")
    with pytest.raises(FormatError, match=r"evaluation-moods-dev\.json"):
        report([run], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("library", ["matplotlib", "jinja2"])
def test_a_missing_library_is_named_with_the_way_to_get_it(
    tmp_path: Path, three: list[Path], monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingDependency, match=rf"a report needs {library}: pip install 'gpt1\[report\]'"):
        report(three, tmp_path / "report.html")


def test_a_wrong_choice_is_shown_with_the_right_one(tmp_path: Path) -> None:
    run = write_finetuned(tmp_path / "run", {"dev": WRONG})
    path = run / "evaluation-moods-dev.json"
    facts = facts_in(path)
    texts = {
        "text": "[start] It rained [delimiter] he swam [extract]",
        "right_text": "[start] It rained, he ran [extract]",
    }
    facts["mistakes"] = [{"index": 0, "label": 1, "prediction": 0, "probability": 0.9, **texts}]
    path.write_text(json.dumps(facts))
    words = page(tmp_path, run).words
    assert "example 1: wrong, 90 % sure It rained [delimiter] he swam Right would have been It rained, he ran" in words


def test_of_several_tasks_each_has_its_own_curves(tmp_path: Path) -> None:
    run = write_finetuned(tmp_path / "run", {"dev": LABELS})
    facts = facts_in(run / "run.json")
    facts["tasks"]["other"] = {**facts["tasks"]["moods"], "name": "other"}
    (run / "run.json").write_text(json.dumps(facts))
    # A batch has examples of one task; the loss of the other is told as 0.
    steps = [{"step": 1, "terms": {"moods": 0.5, "other": 0.0}}, {"step": 2, "terms": {"moods": 0.0, "other": 0.75}}]
    scored = {"step": 2, "moods_dev_accuracy": 0.25, "other_dev_accuracy": 0.5, "other_dev_loss": 0.6}
    write_lines(run / "metrics.jsonl", [*steps, scored])
    labels = [attributes.get("aria-label") for _, attributes in page(tmp_path, run).elements]
    assert "loss: training 0.5 at update 1" in labels
    assert "loss: training 0.75 at update 2; dev 0.6 at update 2" in labels
    assert "dev accuracy: dev accuracy 25.0 at update 2" in labels


def test_a_table_that_is_wider_than_the_page_keeps_its_first_column_and_shows_where_it_is_cut(tmp_path: Path) -> None:
    text = report([write_pretrained(tmp_path / "books")], tmp_path / "report.html").read_text()
    (box,) = re.findall(r"\n\.wide \{(.*?)\n\}", text, re.DOTALL)
    assert "overflow-x: auto" in box
    cover, shade = re.findall(r"linear-gradient\(to left, var\(--(\w+)\).*? no-repeat (\w+)[,;]", box)
    assert (cover, shade) == (("paper", "local"), ("shade", "scroll"))  # at the end what goes along hides the shade
    (first,) = re.findall(r"\n\.wide tr > :first-child \{(.*?)\}", text)
    assert {"position: sticky", "left: 0", "background: var(--paper)"} <= {part.strip() for part in first.split(";")}


def test_the_first_screen_of_one_run_is_its_verdict_yardsticks_and_a_picture(tmp_path: Path) -> None:
    run = write_finetuned(tmp_path / "moods", {"dev": MOSTLY})
    path = run / "evaluation-moods-dev.json"
    replace(Evaluation.read(path), words={"accuracy": 0.5}).write(path)
    out = report([run], tmp_path / "report.html").read_text()
    first = out[out.index("<main>") : out.index('<section id="run-1"')]
    assert '<p class="leads" dir="auto">Of use: 37.5 points ahead of counting words' in first
    assert "always &#39;bad&#39;, the commonest label" in first
    assert first.count("<svg") == 1
    assert out.count("<details>") >= 3


def test_several_runs_are_folded_and_behind_an_opening_all_is(tmp_path: Path, three: list[Path]) -> None:
    out = report(three, tmp_path / "report.html").read_text()
    assert (out.count('<section class="folded"'), out.count('<section id="results"')) == (3, 1)
    out = report(three, tmp_path / "opened.html", "Tour", [Section("tour", "A tour", "")]).read_text()
    assert (out.count('<section class="folded"'), out.count('<section id="results"')) == (4, 0)
    assert '<div id="run-1">' in out  # which a link to it opens
