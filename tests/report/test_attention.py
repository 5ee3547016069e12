"""Attention on the page: each head told and drawn, small however large the network."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

from gpt1.documents.blocks import Folded, Heads
from gpt1.report import report
from gpt1.report.attention import LAYERS, attention_blocks, draw_labelled, draw_small
from gpt1.report.gather import AttentionMaps
from tests.report.tools import LOOKS, PageReader, write_pretrained, write_run

TOKENS = ["Ann", " sold", " hats", "."]


def layers(found: AttentionMaps) -> list[Heads]:
    return [block for block in attention_blocks(found) if isinstance(block, Heads)]


def test_every_head_of_every_layer_is_told_in_words() -> None:
    first, second = layers(AttentionMaps(20, TOKENS, LOOKS))
    assert [part.caption for part in first.parts] == ["head 1: the one before", "head 2: the first"]
    assert [part.caption for part in second.parts] == ["head 1: itself", "head 2"]
    assert first.parts[0].alternative == (
        "Layer 1, head 1: a token takes 0 % from itself, 100 % from the one before, 0 % from the first"
    )
    assert second.whole.alternative == (
        "Layer 2, the mean of its 2 heads: what each token takes most of. "
        "Ann from Ann 100 %; sold from sold 75 %; hats from hats 67 %; . from . 62 %"
    )


def test_cells_of_one_strength_are_one_path_and_nothing_is_drawn_for_nothing() -> None:
    (drawn,) = re.findall(r'<g stroke="var\(--series-1\)".*?</g>', draw_small(LOOKS[0][0]))
    assert re.findall(r'd="([^"]*)" opacity="([^"]*)"', drawn) == [("M0 0h1M0 1h1M1 2h1M2 3h1", "1")]
    assert 'd="M0 3h4" opacity="0.5"' in draw_small(LOOKS[1][1])  # a quarter each: neighbours in one stroke


def test_tokens_stand_at_the_ends_of_their_rows_as_text() -> None:
    rows = [[1.0], [0.5, 0.5], [0.0, 0.0, 1.0]]
    drawn = draw_labelled(rows, ["<b>&", "\n", " extraordinarily"])
    assert re.findall(r"<text[^>]*>([^<]*)</text>", drawn) == ["&lt;b&gt;&amp;", "·", "extraordinar…"]


def test_a_sentence_of_one_token_can_be_shown() -> None:
    (layer,) = layers(AttentionMaps(1, ["Ann"], [[[[1.0]]]]))
    assert "Ann from Ann 100 %" in layer.whole.alternative


def test_many_layers_are_folded_and_the_papers_size_stays_a_small_page(tmp_path: Path) -> None:
    draw = random.Random(0)

    def head() -> list[list[float]]:  # no two neighbours alike: the worst there can be
        return [[round(draw.random(), 3) for _ in range(row)] for row in range(1, 25)]

    looks = [[head() for _ in range(12)] for _ in range(12)]
    run = write_pretrained(tmp_path / "run")
    facts = {"step": 1, "tokens": ["word"] * 24, "weights": looks}
    (run / "attention.json").write_text(json.dumps(facts))
    page = report([run], tmp_path / "report.html")
    assert page.stat().st_size < 1_000_000
    labels = [str(found.get("aria-label")) for _, found in PageReader(page.read_text()).elements]
    assert sum(label.startswith("Layer ") for label in labels) == 12 * 13
    *_, folded = attention_blocks(AttentionMaps(1, ["word"] * 24, looks))
    assert isinstance(folded, Folded)
    assert folded.summary == "8 more layers"
    assert len(folded.blocks) == 12 - LAYERS


def test_an_lstm_is_not_asked_where_it_looks(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "pretraining", ["shape.kind=lstm", "shape.layers=1"])
    assert "attention" not in report([run], tmp_path / "report.html").read_text()
