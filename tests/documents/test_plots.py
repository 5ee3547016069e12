"""Pictures: the same numbers give the same bytes, colours are the page's, text is text."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import matplotlib
import pytest

from gpt1.documents.blocks import MOST_POINTS, BarPlot, Curve, CurvePlot, Estimate, LinePlot, Point, ReliabilityPlot
from gpt1.documents.plots import LONGEST_LABEL, draw, with_own_ids
from gpt1.tasks.assessment import Bin

LOSSES = {"training": Curve([1, 2, 3], [3.0, 2.0, 1.5]), "dev": Curve([3], [1.8])}
BINS = [Bin(0.5, 0.6, 4, 0.55, 0.5), Bin(0.9, 1.0, 9, 0.95, 0.8)]
BARS = {
    "read": {"dev": Estimate(80.0, (70.0, 90.0)), "test": Estimate(70.0, None)},
    "scratch": {"dev": Estimate(-10.0, (-20.0, 10.0))},
}


LINES = {
    "pre-trained": [Point(50, 60, 55, 62), Point(1000, 70, 70, 70)],
    "scratch": [Point(50, 50, 50, 50), Point(1000, 52, 51, 53)],
}


def pictures() -> list[str]:
    return [
        draw(CurvePlot(LOSSES, "loss")),
        draw(BarPlot(BARS, "accuracy")),
        draw(ReliabilityPlot(BINS)),
        draw(LinePlot(LINES, "labels", "accuracy", log=True)),
        draw(LinePlot(LINES, "updates", "score", levels=(0.0, 1.0))),
    ]


def test_the_same_numbers_give_the_same_bytes() -> None:
    assert pictures() == pictures()


def test_the_users_settings_of_the_library_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = pictures()
    monkeypatch.setitem(matplotlib.rcParams, "lines.linewidth", 9.0)
    monkeypatch.setitem(matplotlib.rcParams, "svg.fonttype", "path")
    assert pictures() == before
    assert matplotlib.rcParams["lines.linewidth"] == 9.0  # and are left as they were


def test_colours_are_left_to_the_page() -> None:
    for picture in pictures():
        assert "var(--ink)" in picture or "var(--muted)" in picture
        assert "var(--series-1)" in picture
        assert not re.findall(r"(?:fill|stroke): #", picture)


def test_a_picture_is_one_element_without_a_date_or_a_style() -> None:
    for picture in pictures():
        root = ElementTree.fromstring(picture.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))
        assert root.tag.endswith("svg")
        assert "viewBox" in root.attrib
        assert not {"width", "height"} & set(root.attrib)  # it is as wide as the page lets it be
        assert not [word for word in ("<style", "<metadata", "<?xml", "<!DOCTYPE", "dc:date") if word in picture]


def test_a_picture_refers_to_its_own_ids_and_keeps_no_others() -> None:
    for picture in pictures():
        own = with_own_ids(picture, "mine")
        ids = re.findall(r' id="([^"]*)"', own)
        assert ids
        assert len(ids) == len(set(ids))
        assert all(name.startswith("mine-") for name in ids)
        assert set(re.findall(r'(?:url\(#|href="#)([^)"]+)', own)) == set(ids)


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "$5 and $x_2", "模型", "a & b", "x" * 200])
def test_names_are_drawn_as_they_are(name: str) -> None:
    picture = draw(BarPlot({name: {"dev": Estimate(0.5, None)}}, "accuracy"))
    assert "<script" not in picture
    root = ElementTree.fromstring(picture.replace("<svg ", '<svg xmlns="x" ', 1))
    assert name in "".join(element.text or "" for element in root.iter("{x}text"))  # a long one in several lines


def test_long_names_beside_bars_are_broken_where_a_part_ends_and_do_not_run_into_each_other() -> None:
    names = [
        f"runs/{task}-after-reading-stories-{seeds}-seeds" for task in ("entailment", "ending") for seeds in (1, 3)
    ]
    picture = draw(BarPlot({name: {"test": Estimate(0.5, None)} for name in names}, "accuracy"))
    drawn = re.findall(r"translate\([\d.]+ ([\d.]+)\)\">([^<>\n]+)</text>", picture)
    assert "".join(line for _, line in drawn) == "".join(names)
    assert all(line.endswith(("-", "/", "s")) and len(line) <= LONGEST_LABEL for _, line in drawn)
    heights = [float(height) for height, _ in drawn]
    assert all(after - before > 9 for before, after in pairwise(heights))  # letters are of 9 px


def test_names_in_wide_signs_are_broken_too_and_drawn_without_a_warning() -> None:
    name = "네이버영화리뷰긍정부정분류모델첫번째시도"
    drawn = draw(BarPlot({name: {"score": Estimate(71.0, None)}, "run": {"score": Estimate(50.0, None)}}, "accuracy"))
    first, second = name[: LONGEST_LABEL // 2], name[LONGEST_LABEL // 2 :]
    assert first in drawn
    assert second in drawn
    assert name not in drawn


def test_a_long_curve_is_drawn_as_means_of_neighbours() -> None:
    steps = list(range(1, 3 * MOST_POINTS))  # one short of three a point
    thin = Curve(steps, [float(step) for step in steps]).thinned()
    assert len(thin.steps) == MOST_POINTS
    assert thin.steps[:2] == [3, 6]
    assert thin.values[:2] == [2.0, 5.0]
    assert (thin.steps[-1], thin.values[-1]) == (899, 898.5)


def test_a_short_curve_is_left_as_it_is() -> None:
    assert LOSSES["training"].thinned() == LOSSES["training"]


def test_a_curve_of_one_point_can_be_seen() -> None:
    assert "<use" in draw(CurvePlot({"dev": Curve([5], [0.5])}, "score"))


def texts(picture: str) -> list[str]:
    return re.findall(r">([^<>\n]+)</text>", picture)


def test_updates_are_whole_numbers() -> None:
    assert texts(draw(CurvePlot({"dev": Curve([5], [0.5])}, "score")))[:2] == ["5", "updates"]
    one = [Point(5, 60, 60, 60)]
    assert texts(draw(LinePlot({"a": one, "b": one}, "updates", "score")))[:2] == ["5", "updates"]


def test_the_name_of_an_axis_is_not_cut_off_by_long_numbers() -> None:
    picture = draw(
        CurvePlot({"training": Curve([1, 5], [0.6812, 0.6972]), "dev": Curve([3, 5], [0.6906, 0.6906])}, "loss")
    )
    (place,) = re.findall(r'rotate\(-90 ([\d.]+) [\d.]+\)"[^>]*>loss<', picture)
    assert float(place) > 9  # letters of 9 px stand left of it


def test_a_legend_lies_below_its_lines() -> None:
    for names in (["a", "b"], ["what fine-tuning chooses", "pre-trained", "without auxiliary LM"]):
        picture = draw(LinePlot(dict.fromkeys(names, LINES["scratch"]), "labels", "accuracy"))
        heights = {text: float(y) for y, text in re.findall(r'y="([\d.]+)"[^>]*>([^<>]+)</text>', picture)}
        assert all(heights[name] > heights["labels"] for name in names)


def test_a_wiggle_of_scores_does_not_look_like_a_fall() -> None:
    points = [Point(0, 39.2, 39.2, 39.2), Point(1, 40.0, 40.0, 40.0)]

    def span(picture: str) -> float:
        ticks = [float(text) for text in texts(picture) if re.fullmatch(r"[34]\d(\.\d+)?", text)]
        return max(ticks) - min(ticks)

    assert span(draw(LinePlot({"rte": points}, "blocks", "accuracy"))) < 1
    assert 4 <= span(draw(LinePlot({"rte": points}, "blocks", "accuracy", least_span=5))) <= 5


def test_lines_have_bands_where_values_spread_and_places_of_their_own_on_a_log_scale() -> None:
    spread = draw(LinePlot(LINES, "labels", "accuracy", log=True))
    alone = draw(
        LinePlot(
            {name: [Point(p.x, p.value, p.value, p.value) for p in line] for name, line in LINES.items()},
            "labels",
            "accuracy",
            log=True,
        )
    )
    assert spread.count("opacity: 0.15") == 2
    assert "opacity: 0.15" not in alone
    for picture in (spread, alone):
        assert ">50<" in picture
        assert ">1k<" in picture
        assert ">labels<" in picture


@pytest.mark.parametrize("plot", [BarPlot(BARS, "accuracy"), ReliabilityPlot(BINS)])
def test_axes_of_scores_go_to_a_hundred(plot: BarPlot | ReliabilityPlot) -> None:
    marks = re.findall(r">([0-9.]+)</text>", draw(plot))
    assert max(map(float, marks)) == 100
