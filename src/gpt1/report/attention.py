"""Attention on the page: of each layer the mean over its heads with the tokens beside it, and each head in small.

A share is drawn as one of a few strengths of a colour, and cells of one strength are one path: a hundred pictures of
hundreds of cells stay a small page, which a plotting library would not manage.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby
from statistics import mean

from gpt1.base.wording import many
from gpt1.documents.blocks import Block, Folded, Heads, Note, Picture
from gpt1.report.gather import AttentionMaps

LAYERS = 4  # shown at once, the others in a fold
STRENGTHS = 12  # of the colour
CELL = 14  # pixels of the large picture
LABEL = 88  # beside it, for the token
LONGEST_TOKEN = 13  # characters that fit there

Rows = Sequence[Sequence[float]]  # what each token takes from those up to itself


def attention_blocks(found: AttentionMaps) -> list[Block]:
    """Return how each layer looked at a sentence."""
    read = " ".join("".join(found.tokens).split())
    layers: list[Block] = [
        Heads(_whole(heads, found.tokens, layer), [_part(head, layer, number) for number, head in enumerate(heads, 1)])
        for layer, heads in enumerate(found.weights, 1)
    ]
    blocks: list[Block] = [
        Note(
            f"At update {found.step:,}, reading text that it does not learn from: “{read}” A row is a token, a column "
            "one of those up to it; the stronger the colour, the more the row takes from the column. The numbers are "
            "in attention.json of the run."
        ),
        *layers[:LAYERS],
    ]
    rest = layers[LAYERS:]
    return [*blocks, Folded(many(len(rest), "more layer"), rest)] if rest else blocks


def _whole(heads: Sequence[Rows], tokens: Sequence[str], layer: int) -> Picture:
    rows = [[mean(shares) for shares in zip(*lines, strict=True)] for lines in zip(*heads, strict=True)]
    spoken = "; ".join(
        f"{_name(token)} from {_name(tokens[most])} {_percent(max(row))}"
        for token, row in zip(tokens, rows, strict=True)
        for most in [row.index(max(row))]
    )
    caption = f"Layer {layer}, the mean of its {many(len(heads), 'head')}"
    return Picture(draw_labelled(rows, tokens), f"{caption}: what each token takes most of. {spoken}", caption)


def _part(rows: Rows, layer: int, head: int) -> Picture:
    habit = _habit(rows)
    told = ", ".join(f"{_percent(share)} from {where}" for where, share in habit.items())
    where, share = max(habit.items(), key=lambda pair: pair[1])
    caption = f"head {head}" + (f": {where}" if share >= 0.5 else "")
    return Picture(draw_small(rows), f"Layer {layer}, head {head}: a token takes {told}", caption)


def _habit(rows: Rows) -> dict[str, float]:
    """Return what a token takes in the mean from itself, the one before it and the first one, where these are three."""
    some = rows[2:] or rows[-1:]
    return {
        "itself": mean(row[-1] for row in some),
        "the one before": mean(row[-2] if len(row) > 1 else 0.0 for row in some),
        "the first": mean(row[0] for row in some),
    }


def _name(token: str) -> str:
    name = " ".join(token.split()) or "·"
    return name if len(name) <= LONGEST_TOKEN else f"{name[: LONGEST_TOKEN - 1]}…"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


# ---- drawing ----


def draw_small(rows: Rows) -> str:
    """Return rows as a picture without words."""
    return f'<svg viewBox="0 0 {len(rows)} {len(rows)}" aria-hidden="true">{_cells(rows)}</svg>'


def draw_labelled(rows: Rows, tokens: Sequence[str]) -> str:
    """Return rows as a picture with each token at the end of its row, which is the top of its column."""
    size = CELL * len(rows)
    labels = "".join(
        f'<text x="{CELL * place + 5}" y="{CELL * (place - 0.25):g}">{escape(_name(token))}</text>'
        for place, token in enumerate(tokens, 1)
    )
    return (
        f'<svg viewBox="0 0 {size + LABEL} {size}" style="max-width: {size + LABEL}px" aria-hidden="true">'
        f'<g transform="scale({CELL})">{_cells(rows)}</g>'
        f'<g fill="var(--ink)" font-size="{CELL - 3}">{labels}</g></svg>'
    )


def _cells(rows: Rows) -> str:
    """Return cells of size 1 as lines of width 1 on a ground that shows where there could be any."""
    size = len(rows)
    lines: dict[int, list[str]] = {}
    for y, row in enumerate(rows):
        x = 0
        # The root shows small shares too.
        for strength, alike in groupby(round(STRENGTHS * share**0.5) for share in row):
            length = len(list(alike))
            if strength:
                lines.setdefault(strength, []).append(f"M{x} {y}h{length}")
            x += length
    paths = "".join(
        f'<path d="{"".join(lines[strength])}" opacity="{strength / STRENGTHS:g}"/>' for strength in sorted(lines)
    )
    ground = f'<path fill="var(--card)" d="M0 0v{size}h{size}{"v-1h-1" * size}z"/>'
    drawn = f'<g stroke="var(--series-1)" transform="translate(0 .5)">{paths}</g>'
    return f'<g shape-rendering="crispEdges">{ground}{drawn}</g>'
