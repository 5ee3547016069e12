"""Networks that look both ways: the formula with no score left out, in rows of any lengths, and what they refuse."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from gpt1.base.errors import SettingError
from gpt1.inference.attention_maps import looks
from gpt1.inference.generation import continue_ids
from gpt1.inference.sampling import SamplingParams
from gpt1.inference.scoring import log_probabilities
from gpt1.model import DropoutKey, HeadShape, Model, build_classifier, prepare_for_inference
from gpt1.model.attention import SHORT
from gpt1.model.dropout import Place, Site, keep_mask, layer_site, table_mask
from gpt1.model.packing import pack
from gpt1.recipes.values import Shape
from gpt1.text.tokenizer import Tokenizer
from tests.model.tools import MODERN, PAPER, VOCAB, batch, gradients, noise_for, relative_error, shaken
from tests.reference import transformer as reference

SHAPES = {"paper": PAPER, "modern": MODERN}
LENGTHS = (4, 11, 1, 0, 7)  # a sequence of nothing fills a row up


def sequences(seed: int = 0) -> list[Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return [torch.randint(0, VOCAB, (length,), generator=draw) for length in LENGTHS]


def masks_of(shape: Shape, noise: DropoutKey, row: int, length: int) -> dict[object, Tensor]:
    """Return what dropout keeps for one sequence of a batch, by place."""
    one = DropoutKey(noise.word, noise.rows[row : row + 1])
    found: dict[object, Tensor] = {"tokens": table_mask(VOCAB, shape.width, shape.dropout, noise, Site.TOKENS)}
    if shape.positions == "learned":
        found["positions"] = table_mask(shape.context, shape.width, shape.dropout, noise, Site.POSITIONS)
    if not shape.tied:
        found["output"] = table_mask(VOCAB, shape.width, shape.dropout, noise, Site.OUTPUT)
    for layer in range(shape.layers):
        size = shape.heads, length, length
        found["attention", layer] = keep_mask(size, shape.dropout, one, layer_site(layer, Place.INSIDE))
        for name, place in (("branch_1", Place.BRANCH_1), ("branch_2", Place.BRANCH_2)):
            found[name, layer] = keep_mask((length, shape.width), shape.dropout, one, layer_site(layer, place))
    return found


@pytest.mark.parametrize("dropping", [False, True], ids=["without dropout", "with dropout"])
@pytest.mark.parametrize("name", SHAPES)
def test_each_sequence_of_a_row_is_read_both_ways_by_the_formula(name: str, dropping: bool) -> None:
    shape = SHAPES[name]
    model, rows = shaken(shape, bidirectional=True), sequences()
    noise = noise_for(len(rows)) if dropping else None
    hidden, output = model(torch.cat(rows), noise, pack(torch.tensor(LENGTHS)))
    weights = dict(model.named_parameters())
    wanted = []
    for row, ids in enumerate(rows):
        if len(ids):
            masks = None if noise is None else masks_of(shape, noise, row, len(ids))
            found, matrix = reference.forward(  # type: ignore[no-untyped-call]
                weights, ids.unsqueeze(0), shape, masks, shape.dropout, bidirectional=True
            )
            wanted.append(found[0])
    far = relative_error({"y": hidden, "m": output}, {"y": torch.cat(wanted), "m": matrix})
    assert far < 1e-12
    weight = torch.randn(hidden.shape, dtype=torch.float64)
    sums = [(y * weight).sum() + m.square().sum() for y, m in ((hidden, output), (torch.cat(wanted), matrix))]
    assert relative_error(*(gradients(one, weights) for one in sums)) < 1e-10


@torch.no_grad()
@pytest.mark.parametrize("name", SHAPES)
def test_made_ready_for_use_it_looks_both_ways_too_and_each_token_counts(name: str) -> None:
    model, rows = shaken(SHAPES[name], bidirectional=True, dtype=torch.float32), sequences()
    packing = pack(torch.tensor(LENGTHS))
    plain, _ = model(torch.cat(rows), None, packing)
    ready, _ = prepare_for_inference(model)(torch.cat(rows), None, packing)
    torch.testing.assert_close(ready, plain, rtol=1e-4, atol=1e-4)
    changed = [*rows]
    changed[1] = torch.cat([rows[1][:-1], (rows[1][-1:] + 1) % VOCAB])
    other, _ = model(torch.cat(changed), None, packing)
    moved = (other - plain).abs().amax(1) > 1e-6
    assert moved.tolist() == [False] * 4 + [True] * 11 + [False] * 8


@torch.no_grad()
def test_long_sequences_take_the_librarys_attention_and_come_to_the_same() -> None:
    shape = Shape(layers=1, width=8, heads=2, feed_forward=8, context=SHORT + 60, dropout=0.0)
    model = shaken(shape, bidirectional=True)
    lengths = [SHORT + 60, SHORT + 3]
    rows = [torch.randint(0, VOCAB, (length,), generator=torch.Generator().manual_seed(3)) for length in lengths]
    with torch.enable_grad():
        hidden, _ = model(torch.cat(rows), None, pack(torch.tensor(lengths)))
    for found, ids in zip(hidden.split(lengths), rows, strict=True):
        alone, _ = model(ids.unsqueeze(0))
        assert relative_error({"y": found}, {"y": alone[0]}) < 1e-12


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("compute", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", SHAPES)
def test_a_gpu_gives_what_the_formula_gives(name: str, compute: torch.dtype) -> None:
    shape = replace(SHAPES[name], dropout=0.0, width=32, heads=2)  # of heads that its kernels know
    model, rows = shaken(shape, bidirectional=True, has_mask=True), sequences()
    packing = pack(torch.tensor(LENGTHS))
    masked = torch.arange(len(packing.sequence)) % 3 == 1
    wanted, _ = model(torch.cat(rows), None, packing, None, masked)
    model = model.float().cuda()
    model.compute_in(compute)
    moved = packing._replace(**{name: x.cuda() for name, x in packing._asdict().items() if name != "longest"})
    found, _ = model(torch.cat(rows).cuda(), None, moved, None, masked.cuda())
    assert relative_error({"y": found.cpu()}, {"y": wanted}) < (5e-2 if compute == torch.bfloat16 else 1e-3)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the compiler's own
@pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler here")
@pytest.mark.parametrize("name", SHAPES)
def test_a_compiled_network_reads_one_way_and_both_in_turn_and_is_compiled_for_each_once(name: str) -> None:
    model, (ids, _, _) = shaken(SHAPES[name], dtype=torch.float32, has_mask=True), batch()
    masked = torch.arange(ids.numel()).view_as(ids) % 4 == 1
    compiled = torch.compile(model, fullgraph=True)
    for step in (1, 2, 3):
        with torch.compiler.set_stance("default" if step == 1 else "fail_on_recompile"):
            for which in (None, masked):
                noise = noise_for(3, step=step)
                found, wanted = (network(ids, noise, masked_BT=which)[0] for network in (compiled, model))
                assert relative_error({"h": found}, {"h": wanted}) < 1e-5


def test_an_answer_is_read_where_all_of_the_text_is_seen_from_every_token() -> None:
    body = shaken(PAPER, bidirectional=True)
    model = build_classifier(body, {"t": HeadShape(3, 1, scores_sequences=False)}, seed=0).double()
    rows = [ids for ids in sequences() if len(ids)]
    logits, *_ = model(torch.cat(rows), pack(torch.tensor([len(ids) for ids in rows])), "t")
    weights = {name: weight.detach() for name, weight in body.named_parameters()}
    for found, ids in zip(logits, rows, strict=True):
        hidden, _ = reference.forward(weights, ids.unsqueeze(0), PAPER, bidirectional=True)  # type: ignore[no-untyped-call]
        head = model.heads["t"]
        torch.testing.assert_close(found, hidden[0, -1] @ head.weight.T + head.bias, rtol=1e-10, atol=1e-10)


def test_it_neither_writes_nor_tells_how_likely_a_text_is(bytes_tokenizer: Tokenizer) -> None:
    model: Model = shaken(PAPER, bidirectional=True, dtype=torch.float32)
    refused = "fine-tuned to look both ways"
    with pytest.raises(SettingError, match=refused):
        continue_ids(model, [[1, 2]], SamplingParams(max_new_tokens=1))
    with pytest.raises(SettingError, match=refused):
        log_probabilities(model, [([1, 2, 3], 1)])
    with pytest.raises(SettingError, match="attention is shown of networks that look back alone"):
        looks(model, bytes_tokenizer, "ab", 1)
