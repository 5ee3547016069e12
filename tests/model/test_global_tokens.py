"""Global tokens beside a window, held against the mask written out: who looks at whom, word by word."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from gpt1.model import DropoutKey, KVCache, Model, attention_weights, build_model, linear_cross_entropy, read
from gpt1.model.attention import Looking, attend
from gpt1.model.dropout import keep_mask
from gpt1.model.global_tokens import GlobalTokens, find_global
from gpt1.model.packing import pack
from gpt1.recipes.values import Shape
from tests.model.test_network import masks_of
from tests.model.tools import MODERN, PAPER, VOCAB, batch, gradients, noise_for, relative_error
from tests.reference import transformer as reference

B, H, D = 2, 3, 8
SITE, RATE = 9, 0.3
SPECIALS = 3
START, DELIMITER, EXTRACT = range(VOCAB - SPECIALS, VOCAB)
WINDOW_AND_GLOBALS = replace(PAPER, window=2, global_tokens=1)
SHAPES = {
    "paper": WINDOW_AND_GLOBALS,
    "modern": replace(MODERN, window=3, global_tokens=2),
    "a window of one token": replace(PAPER, window=1, global_tokens=1),
}
EVERY_SHAPE = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def learner(shape: Shape, dtype: torch.dtype = torch.float64) -> Model:
    """Return a network whose last three tokens are special, and whose every parameter matters."""
    model = build_model(shape, VOCAB, compute=dtype, specials=SPECIALS).to(dtype)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(dtype)
    return model


def pairs(sequences: int = 3, length: int = 10) -> Tensor:
    """Return pairs of texts as fine-tuning lays them out, each delimited elsewhere."""
    ids = batch(sequences, length)[0] % START
    ids[:, 0], ids[:, -1] = START, EXTRACT
    for row in range(sequences):
        ids[row, 3 + row] = DELIMITER
    return ids


def who_looks_at_whom(is_global_T: list[bool], window: int) -> Tensor:
    """Write the mask out [T, T], by the words: never ahead; in the window; a global one sees and is seen."""
    T = len(is_global_T)
    allowed = torch.zeros(T, T, dtype=torch.bool)
    for i in range(T):
        for j in range(i + 1):
            allowed[i, j] = i - j < window or is_global_T[i] or is_global_T[j]
    return allowed


@pytest.mark.parametrize("dropping", [False, True], ids=["without dropout", "with dropout"])
@pytest.mark.parametrize(
    ("length", "window", "places"),
    [
        (12, 4, [[0, 5], [0, 11]]),
        (13, 4, [[0, 1, 12], [0, 7, 8]]),
        (15, 4, [[0, 4, 99], [0, 99, 99]]),
        (9, 2, [[0], [8]]),
        (7, 1, [[0, 3], [2, 99]]),
        (3, 4, [[0], [0]]),
    ],
)
def test_attention_by_blocks_is_attention_by_the_written_mask(
    length: int, window: int, places: list[list[int]], dropping: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    size = B, H, length, D
    inputs = [torch.randn(size, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(3)]
    noise = noise_for(B, first=3) if dropping else None
    looking = Looking(window, GlobalTokens(torch.tensor(places)))
    found = attend(*inputs, rate=RATE, noise=noise, site=SITE, looking=looking)

    q, k, v = inputs
    allowed = torch.stack([who_looks_at_whom([t in own for t in range(length)], window) for own in places])
    weights = (q @ k.mT / math.sqrt(D)).masked_fill(~allowed.unsqueeze(1), -1e9).softmax(-1)
    if noise is not None:
        weights = weights * keep_mask((H, length, length), RATE, noise, SITE) / (1 - RATE)
    wanted = weights @ v
    assert relative_error({"y": found}, {"y": wanted}) < 1e-12
    coming = torch.randn(size, generator=generator, dtype=torch.float64)
    slopes = [dict(zip("qkv", torch.autograd.grad(y, inputs, coming), strict=True)) for y in (found, wanted)]
    assert relative_error(*slopes) < 1e-9


@pytest.mark.parametrize("dropping", [False, True], ids=["without dropout", "with dropout"])
@EVERY_SHAPE
def test_a_network_that_knows_special_tokens_is_that_of_the_formulas(shape: Shape, dropping: bool) -> None:
    model, ids = learner(shape), pairs()
    noise = noise_for(len(ids), first=4) if dropping else None
    masks = masks_of(shape, noise, ids.shape[1]) if noise else None
    parameters = {name: value.detach().clone().requires_grad_() for name, value in model.named_parameters()}
    specials = {START, DELIMITER, EXTRACT}
    hidden, output = reference.forward(parameters, ids, shape, masks, shape.dropout, specials)
    found_hidden, found_output = model(ids, noise)
    assert relative_error({"h": found_hidden, "o": found_output}, {"h": hidden, "o": output}) < 1e-10

    _, targets, weights = batch()
    loss = reference.loss(hidden, output, targets, weights)
    found = linear_cross_entropy(found_hidden.flatten(0, 1), found_output, targets.flatten(), weights.flatten(), VOCAB)
    found_slopes = gradients(found, dict(model.named_parameters()))
    assert relative_error(found_slopes, gradients(loss, parameters)) < 1e-10


@EVERY_SHAPE
def test_logits_in_single_precision_are_near_the_formulas(shape: Shape) -> None:
    exact, single, ids = learner(shape), learner(shape, torch.float32), pairs()
    (hidden, output), (found, found_output) = exact(ids), single(ids)
    wanted, logits = hidden @ output.T, (found @ found_output.T).double()
    assert (logits - wanted).abs().max() < 1e-5 * wanted.abs().max()


@pytest.mark.parametrize("dropping", [False, True], ids=["without dropout", "with dropout"])
@EVERY_SHAPE
def test_packed_rows_and_padded_grids_and_parts_of_a_batch_say_the_same(shape: Shape, dropping: bool) -> None:
    model, grid = learner(shape), pairs()
    lengths = [10, 7, 5]
    own = [torch.cat((grid[row, : length - 1], torch.tensor([EXTRACT]))) for row, length in enumerate(lengths)]
    noise = noise_for(3) if dropping else None
    packed, _ = model(torch.cat(own), noise, pack(torch.tensor(lengths)))
    padded_ids = torch.nn.utils.rnn.pad_sequence(own, batch_first=True)
    padded, _ = model(padded_ids, noise)
    begins = 0
    for row, (ids, length) in enumerate(zip(own, lengths, strict=True)):
        part = DropoutKey(noise.word, noise.rows[row : row + 1]) if noise else None
        alone, _ = model(ids.unsqueeze(0), part)
        torch.testing.assert_close(packed[begins : begins + length], alone[0])
        torch.testing.assert_close(padded[row, :length], alone[0])
        begins += length


@EVERY_SHAPE
def test_texts_that_begin_with_special_tokens_go_on_as_if_they_were_read_anew(shape: Shape) -> None:
    model = learner(shape)
    memory = KVCache(shape, 3, dtype=torch.float64, device=torch.device("cpu"))
    sequences = [[START, 4, DELIMITER, 7, EXTRACT], [START], [3, 1, 2, 5, 6, EXTRACT]]
    firsts = torch.tensor([id for sequence in sequences for id in sequence])
    found, _ = read(model, memory.begin([0, 1, 2], [len(sequence) for sequence in sequences]), firsts)
    torch.testing.assert_close(found, anew(model, sequences))
    for new in range(shape.context - 7):
        for row, sequence in enumerate(sequences):
            sequence.append((5 * new + row) % START)
        found, _ = read(model, memory.go_on([0, 1, 2]), torch.tensor([sequence[-1] for sequence in sequences]))
        torch.testing.assert_close(found, anew(model, sequences))
    memory.leave(0)  # the last one moves to its place, with what it knows
    moved = [*sequences[2], 2]
    found, _ = read(model, memory.go_on([0]), torch.tensor([2]))
    torch.testing.assert_close(found, anew(model, [moved]))


def anew(model: Model, sequences: list[list[int]]) -> Tensor:
    with torch.no_grad():
        return torch.stack([model(torch.tensor([ids]))[0][0, -1] for ids in sequences])


def test_a_next_token_looks_at_its_window_and_at_global_tokens_and_at_nothing_else() -> None:
    model = learner(replace(PAPER, window=2, global_tokens=1))
    memory = KVCache(model.shape, 1, dtype=torch.float64, device=torch.device("cpu"))
    read(model, memory.begin([0], [6]), torch.tensor([START, 1, DELIMITER, 2, 3, 4]))
    reading = memory.go_on([0])
    assert reading.seen == slice(5, 7)
    assert reading.places is not None
    assert reading.places.tolist() == [[0, 2, 10]]
    assert reading.allowed is not None
    assert reading.allowed.flatten().tolist() == [True, True, True, True, False]


def test_the_token_that_answers_has_the_whole_text_before_it() -> None:
    model, ids = learner(replace(PAPER, layers=1, window=2, global_tokens=1)), pairs(1)
    changed = ids.clone()
    changed[0, 5] = (ids[0, 5] + 1) % START
    (before, _), (after, _) = model(ids), model(changed)
    moved = (before != after).any(-1)[0].tolist()
    assert moved == [False] * 5 + [True, True, False, False, True]  # its window, and the extract token


def test_global_tokens_are_the_first_ones_and_two_special_ones_behind_them() -> None:
    shape = replace(PAPER, window=2, global_tokens=2)
    ids = torch.tensor([[START, 1, 2, DELIMITER, 3, EXTRACT, 4], [1, 2, 3, 4, 5, 6, 7], [START] * 7])
    assert find_global(ids, None, shape, START).places.tolist() == [[0, 1, 3, 5], [0, 1, 11, 11], [0, 1, 2, 3]]
    assert find_global(ids, None, shape, None).places.tolist() == [[0, 1]] * 3
    packing = pack(torch.tensor([4, 1]))
    packed = find_global(torch.tensor([START, 1, 2, EXTRACT, 5]), packing, shape, START)
    assert packed.places.tolist() == [[0, 1, 3, 11], [0, 1, 11, 11]]


@EVERY_SHAPE
def test_the_attention_that_is_shown_is_that_of_the_mask(shape: Shape) -> None:
    model, ids = learner(shape, torch.float32), pairs(1)[0]
    is_global = [t < shape.global_tokens or id >= START for t, id in enumerate(ids.tolist())]
    assert shape.window is not None
    for layer in range(shape.layers):
        weights = attention_weights(model, ids, layer)
        assert torch.equal(weights > 0, who_looks_at_whom(is_global, shape.window).expand_as(weights))
        torch.testing.assert_close(weights.sum(-1), torch.ones(shape.heads, len(ids)))


@EVERY_SHAPE
def test_checkpointed_activations_leave_the_gradients_as_they_are(shape: Shape) -> None:
    slopes = []
    for checkpointed in (False, True):
        model = learner(shape)
        model.checkpoint_activations = checkpointed
        hidden, _ = model(pairs(), noise_for(3))
        slopes.append(gradients(hidden.square().sum(), {"tokens": model.tokens}))
    assert torch.equal(slopes[0]["tokens"], slopes[1]["tokens"])


def largest_tensor(length: int, dropping: bool) -> int:
    """Return the elements of the largest tensor that attention with global tokens makes, forwards."""
    sizes = [0]

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            made = function(*args, **(kwargs or {}))
            sizes.append(made.numel() if isinstance(made, Tensor) else 0)
            return made

    q, k, v = (torch.zeros(B, H, length, D) for _ in range(3))
    looking = Looking(32, GlobalTokens(torch.tensor([[0, length // 2, length - 1]] * B)))
    with Watch():
        attend(q, k, v, rate=RATE, noise=noise_for(B) if dropping else None, site=SITE, looking=looking)
    return max(sizes)


@pytest.mark.parametrize("dropping", [False, True], ids=["without dropout", "with dropout"])
def test_memory_grows_with_length_and_not_with_length_squared(dropping: bool) -> None:
    short, long = (largest_tensor(length, dropping) for length in (2048, 4096))
    assert 0 < short <= B * H * 2048 * (64 + 3)
    assert long == 2 * short


LONGER = Shape(layers=2, width=32, heads=2, feed_forward=64, context=200, dropout=0.2, window=20, global_tokens=1)


@pytest.mark.filterwarnings("default")  # the compiler's own
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("packed", [False, True], ids=["grid", "packed"])
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
@pytest.mark.parametrize("shape", [LONGER, replace(LONGER, global_tokens=0)], ids=["global", "window"])
def test_a_gpu_in_sixteen_bits_looks_at_and_drops_what_a_cpu_does(shape: Shape, compiled: bool, packed: bool) -> None:
    exact = learner(shape)
    half = build_model(shape, VOCAB, compute=torch.bfloat16, specials=SPECIALS)
    half.load_state_dict(exact.state_dict())
    half.cuda()
    ids, noise = pairs(3, 150), noise_for(3)
    places = [10, 90, 130]
    for row, place in enumerate(places):
        ids[row, place] = DELIMITER
    wanted_hidden, _ = exact(ids, noise)
    wanted = gradients(wanted_hidden.square().sum(), dict(exact.named_parameters()))

    on_gpu = DropoutKey(noise.word.cuda(), noise.rows.cuda())
    run = torch.compile(half, fullgraph=True) if compiled else half
    if packed:
        hidden, _ = run(ids.flatten().cuda(), on_gpu, pack(torch.tensor([150, 150, 150], device="cuda")))
        hidden = hidden.view(3, 150, -1)
    else:
        hidden, _ = run(ids.cuda(), on_gpu)
    assert half.blocks[0].attention.kernel is not None
    assert relative_error({"h": hidden.double().cpu()}, {"h": wanted_hidden}) < 0.03
    found = gradients(hidden.float().square().sum(), dict(half.named_parameters()))
    flat = [torch.cat([x.double().cpu().flatten() for x in slopes.values()]) for slopes in (found, wanted)]
    assert relative_error({"all": flat[0]}, {"all": flat[1]}) < 0.05
