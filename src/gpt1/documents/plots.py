"""Numbers as SVG, drawn by matplotlib: the same numbers give the same bytes, and colours are left to the page.

A colour is drawn as a stand-in and then named as a variable of the page's style, so that one picture serves light, dark
and paper. Text stays text.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Collection, Sequence

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gpt1.base.wording import width, x100
from gpt1.documents.blocks import BarPlot, CurvePlot, LinePlot, Plot, ReliabilityPlot

MOST_MARKERS = 20  # points of a line that are marked one by one
LONGEST_LABEL = 22  # characters of a line beside a bar, of those that are twice as wide half as many

# A stand-in and the page's variable that takes its place.
_INK, _MUTED, _GRID = "#000001", "#000002", "#000003"
_SERIES = ("#000011", "#000012", "#000013", "#000014")
_NAMES = {_INK: "ink", _MUTED: "muted", _GRID: "grid"} | {
    color: f"series-{number}" for number, color in enumerate(_SERIES, 1)
}
_STAND_IN = re.compile(rf"\b(fill|stroke): ({'|'.join(_NAMES)})\b")
_DASHES = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (5, 1.5, 1.5, 1.5)))
_WIDTH, _HEIGHT, _LEGEND_ROW = 4.8, 2.7, 0.2  # inches
_LABEL_LINE = 0.17  # inches
_LEGEND_LETTERS, _LEGEND_MARK = 66, 8  # side by side in that width; so wide is the line before a name

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gpt1",
    "text.parse_math": False,  # a dollar in a name is a dollar
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": _INK,
    "axes.edgecolor": _GRID,
    "axes.labelcolor": _MUTED,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "xtick.color": _MUTED,
    "ytick.color": _MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
}


def draw(plot: Plot) -> str:
    """Return a plot as SVG."""
    with matplotlib.style.context(["default", _STYLE]):
        match plot:
            case CurvePlot():
                return _draw_curves(plot)
            case LinePlot():
                return _draw_lines(plot)
            case BarPlot():
                return _draw_bars(plot)
            case ReliabilityPlot():
                return _draw_reliability(plot)


def _draw_curves(plot: CurvePlot) -> str:
    figure, axes = _figure(_HEIGHT)
    for index, (name, curve) in enumerate(plot.curves.items()):
        thin = curve.thinned()
        few = len(thin.steps) <= MOST_MARKERS
        axes.plot(
            thin.steps,
            thin.values,
            label=name,
            color=_SERIES[index % len(_SERIES)],
            linestyle=_DASHES[index % len(_DASHES)],
            marker="o" if few else "",
            markersize=3,
        )
    _label(axes, "updates", plot.value)
    _tick(axes, {step for curve in plot.curves.values() for step in curve.steps})
    _widen(axes, plot.least_span)
    _add_legend(figure, list(plot.curves))
    return _svg(figure)


def _draw_lines(plot: LinePlot) -> str:
    figure, axes = _figure(_HEIGHT)
    for level in plot.levels:
        axes.axhline(level, color=_MUTED, linewidth=1, linestyle=(0, (4, 3)))
    for index, (name, points) in enumerate(plot.lines.items()):
        places, color = [point.x for point in points], _SERIES[index % len(_SERIES)]
        if any(point.low < point.high for point in points):
            lows, highs = [point.low for point in points], [point.high for point in points]
            axes.fill_between(places, lows, highs, color=color, alpha=0.15, linewidth=0)
        axes.plot(
            places,
            [point.value for point in points],
            label=name,
            color=color,
            linestyle=_DASHES[index % len(_DASHES)],
            marker="o" if len(points) <= MOST_MARKERS else "",
            markersize=3,
        )
    if plot.log:
        axes.set_xscale("log")
        axes.minorticks_off()
    _label(axes, plot.x, plot.value)
    _tick(axes, {point.x for points in plot.lines.values() for point in points}, each=plot.log)
    _widen(axes, plot.least_span)
    _add_legend(figure, list(plot.lines))
    return _svg(figure)


def _draw_bars(plot: BarPlot) -> str:
    groups = list(dict.fromkeys(group for bars in plot.rows.values() for group in bars))
    labels = [_wrapped(name) for name in plot.rows]
    row_height = max(0.16 + 0.17 * len(groups), _LABEL_LINE * max(len(label.splitlines()) for label in labels))
    figure, axes = _figure(0.75 + row_height * len(plot.rows))
    thickness = 0.8 / len(groups)
    for place, group in enumerate(groups):
        drawn = [(row, bars[group]) for row, bars in enumerate(plot.rows.values()) if group in bars]
        heights = [row + (place - (len(groups) - 1) / 2) * thickness for row, _ in drawn]
        color = _SERIES[place % len(_SERIES)]
        values = [bar.value for _, bar in drawn]
        axes.barh(heights, values, height=thickness * 0.86, color=color, label=group)
        for height, (_, bar) in zip(heights, drawn, strict=True):
            if bar.interval is not None:
                axes.plot(bar.interval, [height, height], color=_INK, linewidth=1.2, marker="|", markersize=4)
    axes.set_yticks(range(len(plot.rows)), labels)
    for label in axes.get_yticklabels():
        label.set_color(_INK)
    axes.set_ylim(len(plot.rows) - 0.5, -0.5)  # the first one on top
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.0), max(high, 100.0))  # scores x 100
    axes.axvline(0, color=_MUTED, linewidth=0.8)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(plot.value)
    if len(groups) > 1:
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=len(groups), borderaxespad=0.2)
    return _svg(figure)


def _draw_reliability(plot: ReliabilityPlot) -> str:
    figure, axes = _figure(_HEIGHT)
    most = max(one.count for one in plot.bins)
    axes.plot([0, 100], [0, 100], color=_MUTED, linewidth=1, linestyle=(0, (4, 3)))
    for one in plot.bins:
        axes.bar(
            x100(one.from_ + one.to) / 2,
            x100(one.accuracy),
            width=x100(one.to - one.from_) * 0.92,
            color=_SERIES[0],
            alpha=0.25 + 0.6 * one.count / most,
        )
    axes.plot(
        [x100(one.confidence) for one in plot.bins],
        [x100(one.accuracy) for one in plot.bins],
        linestyle="",
        marker="o",
        markersize=3.5,
        color=_SERIES[1],
    )
    axes.set_xlim(x100(min(one.from_ for one in plot.bins)), 100)
    axes.set_ylim(0, 100)
    axes.set_xlabel("confidence of the answer, %")
    axes.set_ylabel("share that was right, %")
    return _svg(figure)


def _wrapped(name: str) -> str:
    """Return a name in lines that leave room for its bar, each as long as words and parts of paths let it be."""
    most = LONGEST_LABEL * len(name) // max(1, width(name))
    lines = [""]
    for part in re.findall(rf"[^-/_ ]{{0,{most - 1}}}[-/_ ]|[^-/_ ]{{1,{most}}}", name):
        if lines[-1] and width(lines[-1] + part) > LONGEST_LABEL:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _figure(height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    return figure, figure.add_subplot()


def _add_legend(figure: Figure, names: Sequence[str]) -> None:
    """Name lines below the picture, which grows for it; where there is one, nothing needs a name."""
    if len(names) > 1:
        columns = max(1, min(len(names), _LEGEND_LETTERS // (max(map(width, names)) + _LEGEND_MARK)))
        figure.set_figheight(figure.get_figheight() + _LEGEND_ROW * -(-len(names) // columns))
        figure.legend(loc="outside lower center", ncols=columns)


def _label(axes: Axes, x: str, value: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(value)
    axes.xaxis.set_major_formatter(FuncFormatter(_short_number))
    axes.yaxis.set_major_formatter(FuncFormatter(_short_number))
    axes.yaxis.set_major_locator(MaxNLocator(6))  # not as many as fit: their width is part of what has to fit


def _tick(axes: Axes, places: Collection[float], *, each: bool = False) -> None:
    """Mark whole numbers: each place, or some along the way."""
    if each or len(places) == 1:
        axes.set_xticks(sorted(places))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))


def _widen(axes: Axes, least: float) -> None:
    """Let the values' axis span so much, lest a wiggle looks like a fall."""
    low, high = axes.get_ylim()
    if high - low < least:
        middle = (low + high) / 2
        axes.set_ylim(middle - least / 2, middle + least / 2)


def _short_number(value: float, place: int | None) -> str:
    for unit, factor in (("M", 1e6), ("k", 1e3)):
        if abs(value) >= factor:
            return f"{value / factor:g}{unit}"
    return f"{value:g}"


def _svg(figure: Figure) -> str:
    """Return the picture as an element for a page."""
    text = io.StringIO()
    with warnings.catch_warnings():
        # Text is drawn by the browser, which has fonts for what this library's own font lacks.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .*missing from font")
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = _COMMENT.sub("", text.getvalue())
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<(metadata|style)\b.*?</\1>\s*", "", svg, flags=re.DOTALL)  # a style would reach the whole page
    head, rest = svg.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', head)
    assert box is not None
    rest = _in_tags(rest, _with_variables)
    return f'<svg {box[0]} xmlns:xlink="http://www.w3.org/1999/xlink" aria-hidden="true">{rest}'.strip()


def _with_variables(tag: str) -> str:
    """Return a tag with the page's variables in place of the stand-ins."""
    return _STAND_IN.sub(lambda found: f"{found[1]}: var(--{_NAMES[found[2]]})", tag)


# ---- what is markup in a picture, and what only looks like it because a person wrote it ----

# In a picture's texts and attributes the characters < and > are escaped, so that these are tags and nothing else.
_COMMENT, _TAG = re.compile(r"<!--.*?-->\s*", re.DOTALL), re.compile(r"<[^>]*>")
_ID, _REFERENCE = re.compile(r' id="([^"]*)"'), re.compile(r'(url\(#|href="#)([^)"]+)')


def _in_tags(svg: str, change: Callable[[str], str]) -> str:
    """Change the tags of a picture; its texts are left alone, whatever they say."""
    return _TAG.sub(lambda found: change(found[0]), svg)


def with_own_ids(svg: str, own: str) -> str:
    """Drop the ids that nothing refers to and give the others names of the picture's own: many share a page."""
    needed = sorted({name for tag in _TAG.findall(svg) for _, name in _REFERENCE.findall(tag)})
    names = {name: f"{own}-{number}" for number, name in enumerate(needed)}

    def renamed(tag: str) -> str:
        tag = _REFERENCE.sub(lambda found: found[1] + names[found[2]], tag)
        return _ID.sub(lambda found: f' id="{names[found[1]]}"' if found[1] in names else "", tag)

    return _in_tags(svg, renamed)
