"""Batched autoregressive generation with a KV cache: one token after another, for many sequences side by side.

A `BatchGenerator` holds any number of texts, each of its own length, with its own way of drawing; texts join and leave
between steps. A step gives each text one token. When a text no longer fits in the context, the last half of the context
is kept and read anew from position 0; everything else is read once and remembered (`model/kv_cache.py`). On a GPU the
kernels of a step are recorded and played back: it takes longer to start them than to run them. There texts that go on
are also given several tokens at once, drawn where the scores are made, and the host hears of them afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from gpt1.base.errors import RuinedWeights, tell_renamed
from gpt1.inference.sampling import Sampler, SamplingParams, Weighed, draw, draw_on_device, weighed
from gpt1.model import CacheStep, KVCache, Model, read
from gpt1.model.cuda_graphs import Pass, Recorder
from gpt1.model.fusing import fuses
from gpt1.recipes.values import TRANSFORMER
from gpt1.text.streaming import TextStream
from gpt1.text.tokenizer import Tokenizer

LENGTH, STOP = "length", "stop"  # why a text ended: it has its tokens, or met a stop string
ROWS = 32  # texts at once, where a caller gives more
AT_ONCE = 16  # tokens that are drawn before the host hears of them

Looks = Callable[[Sequence[int]], dict[str, int]]  # of the places of next tokens


@dataclass(eq=False)
class GeneratedSequence:
    """A text that is being written."""

    window: list[int]  # the tokens in its context, the prompt's among them
    sampler: Sampler
    before: dict[int, None]  # the tokens there were
    top_logprobs: int | None = None  # to be told of each token; None: nothing is
    written: list[int] = field(default_factory=list)
    weighed: list[Weighed] = field(default_factory=list)  # of what was written, where it is to be told
    remembered: bool = False  # whether all of the window but its last token is in the memory

    def hand_on(self, stream: TextStream, tokens: int) -> list[str]:
        """Give the last so many tokens to a stream and return its pieces; what follows a stop is taken back."""
        pieces = []
        for place in range(len(self.written) - tokens, len(self.written)):
            if piece := stream.push(self.written[place]):
                pieces.append(piece)
            if stream.stopped:
                del self.written[place + 1 :]
                break
        return pieces


class RuinedScores(RuinedWeights):
    """A step gave no numbers for some texts; it is to be made again without these, after all are begun anew."""

    def __init__(self, texts: Sequence[GeneratedSequence]) -> None:
        super().__init__("the network's scores are no numbers: its weights are ruined; use another checkpoint")
        self.texts = texts


class BatchGenerator:
    """Texts that a network continues side by side."""

    def __init__(self, model: Model, vocabulary: int, rows: int) -> None:
        self.model, self.vocabulary = model, vocabulary
        self.context = model.shape.context
        self.device = next(model.parameters()).device
        self.memory = KVCache(model.shape, rows, dtype=model.compute, device=self.device)
        self.texts: list[GeneratedSequence] = []  # in the order of the memory's rows
        records = self.device.type == "cuda" and model.shape.kind == TRANSFORMER
        scores, self._looks = _next_scores(model, self.memory)
        self._recorder = Recorder(scores) if records else None
        self._draws = Recorder(partial(_drawn, scores, vocabulary)) if records else None

    def join(self, prompt: Sequence[int], wanted: SamplingParams, seed: int) -> GeneratedSequence:
        """Add a text that continues a prompt of at least one token."""
        text = GeneratedSequence(
            self._kept(list(prompt)), Sampler(wanted, seed), dict.fromkeys(prompt), wanted.top_logprobs
        )
        self.texts.append(text)
        return text

    def rejoin(self, text: GeneratedSequence) -> None:
        """Add a text that has left, with all that it has; its context is read anew."""
        text.remembered = False
        self.texts.append(text)

    def begin_anew(self) -> None:
        """Read the contexts of all texts anew with the next step: whatever became of the last one is forgotten."""
        self.memory.lengths.clear()
        for text in self.texts:
            text.remembered = False

    def leave(self, text: GeneratedSequence) -> None:
        """Take a text out; what is beside it goes on."""
        row, last = self.texts.index(text), len(self.memory.lengths) - 1
        if row <= last:  # else it never had a step
            self.memory.leave(row)
            self.texts[row] = self.texts[last]
            row = last
        del self.texts[row]

    @torch.no_grad()
    def step(self, most: int = 1) -> int:
        """Write to each text one token, or where several can be drawn at once up to `most`; return how many."""
        new = [row for row, text in enumerate(self.texts) if not text.remembered]
        old = [row for row, text in enumerate(self.texts) if text.remembered]
        if old and not new and (steps := self._steps_at_once(most)) > 1:
            self._write_several(steps)
            return steps
        if old:
            self._draw(old, self._go_on(old))
        if new:
            self._draw(new, self._begin(new))
        return 1

    def _begin(self, rows: list[int]) -> Tensor:
        """Return the scores behind texts that are read from their beginning."""
        windows = [self.texts[row].window for row in rows]
        return _logits(self.model, self.memory.begin(rows, list(map(len, windows))), self._on_device(*windows))

    def _go_on(self, rows: list[int]) -> Tensor:
        """Return the scores behind the last tokens of texts, all before which are remembered."""
        ids = [self.texts[row].window[-1] for row in rows]
        if self._recorder is None or rows != list(range(len(rows))):
            return _logits(self.model, self.memory.go_on(rows), self._on_device(ids))
        places = self.memory.advance(rows)
        inputs = {"ids": self._filled(ids, torch.long), "position": self._filled(places, torch.long)}
        return self._recorder(inputs, **self._looks(places))[: len(rows)]

    def _filled(self, of_rows: Sequence[float], dtype: torch.dtype) -> Tensor:
        """Return one number a row, and zeros up to a power of two: few recordings do for any number of rows."""
        filled = [0] * (min(2 ** (len(of_rows) - 1).bit_length(), self.memory.rows) - len(of_rows))
        return torch.tensor([*of_rows, *filled], dtype=dtype, device=self.device)

    def _steps_at_once(self, most: int) -> int:
        """Return how many tokens can be drawn of all texts before the host has to hear of them."""
        if self._draws is None or not all(text.sampler.is_simple and text.top_logprobs is None for text in self.texts):
            return 1
        room = self.context + 1 - max(len(text.window) for text in self.texts)
        return min(most, room, AT_ONCE)

    def _write_several(self, steps: int) -> None:
        """Write so many tokens to each text, all of which is remembered but the last token."""
        assert self._draws is not None
        rows = range(len(self.texts))
        ids, places = [text.window[-1] for text in self.texts], self.memory.advance(rows, steps)
        looks = self._looks([min(places), max(places) + steps - 1])
        state = torch.stack([self._filled(ids, torch.long), self._filled(places, torch.long)])
        samplers = [text.sampler for text in self.texts]
        inputs: dict[str, Tensor] = {}
        points_SR = torch.empty(steps, 0)
        if draws := any(sampler.temperature > 0 for sampler in samplers):
            points = zip(*(sampler.points(steps) for sampler in samplers), strict=True)
            points_SR = torch.stack([self._filled(of_rows, torch.float64) for of_rows in points])
            inputs["temperature"] = self._filled([sampler.temperature for sampler in samplers], torch.float64)
            inputs["top_k"] = self._filled([sampler.top_k or 1 for sampler in samplers], torch.long)
            inputs["top_p"] = self._filled([sampler.top_p or 1 for sampler in samplers], torch.float64)
        found = []
        for point_R in points_SR:
            drawn = {"point": point_R} if draws else {}
            state = self._draws({"state": state, **inputs, **drawn}, **looks)
            found.append(state[0].clone())  # the next one is written over it
        written_RS = torch.stack(found, 1)[: len(rows)].tolist()
        if ruined := [text for text, own in zip(self.texts, written_RS, strict=True) if min(own) < 0]:
            raise RuinedScores(ruined)
        for text, own in zip(self.texts, written_RS, strict=True):
            if draws:
                text.sampler.use(steps)
            text.written += own
            text.before |= dict.fromkeys(own)
            window = text.window + own
            text.window = self._kept(window)
            text.remembered = len(text.window) == len(window)

    def _on_device(self, *parts: list[int]) -> Tensor:
        return torch.tensor([number for part in parts for number in part], device=self.device)

    def _draw(self, rows: list[int], logits_RV: Tensor) -> None:
        """Draw the next token of each of these texts."""
        logits_RV = logits_RV[:, : self.vocabulary].float()
        texts = [self.texts[row] for row in rows]
        sound_R = logits_RV.isfinite().all(1)
        if not sound_R.all():
            raise RuinedScores([text for text, sound in zip(texts, sound_R.tolist(), strict=True) if not sound])
        drawn = draw([text.sampler for text in texts], logits_RV, [text.before for text in texts])
        for text, id, logits_V in zip(texts, drawn, logits_RV, strict=True):
            text.written.append(id)
            if text.top_logprobs is not None:
                text.weighed.append(weighed(logits_V, id, text.top_logprobs))
            text.before[id] = None
            window = [*text.window, id]
            text.window = self._kept(window)
            text.remembered = len(text.window) == len(window)

    def _kept(self, ids: list[int]) -> list[int]:
        """Return what stays in the context: all of it, or where it does not fit its last half."""
        return ids if len(ids) <= self.context else ids[-(self.context // 2) :]


def _logits(model: Model, reading: CacheStep, ids_N: Tensor) -> Tensor:
    return model.logits(*read(model, reading, ids_N))


def _next_scores(model: Model, memory: KVCache) -> tuple[Pass, Looks]:
    """Return what gives the scores of next tokens, and what of their places it must be told to be recorded.

    Kernels of our own where they can: they find for themselves how far they look. Else the network.
    """
    if fuses(model.tokens):
        from gpt1.model.kernels.decode import Decoder, why_not

        if why_not(model) is None:
            decoder = Decoder(model, memory)
            return lambda inputs: decoder(inputs["ids"], inputs["position"]), lambda places: {}

    def looks(places: Sequence[int]) -> dict[str, int]:
        seen = memory.seen(places)
        return {"first": seen.start, "behind": seen.stop}

    return partial(_next_logits, model, memory), looks


def _next_logits(model: Model, memory: KVCache, inputs: dict[str, Tensor], *, first: int, behind: int) -> Tensor:
    return _logits(model, memory.next_of_first(inputs["position"], slice(first, behind)), inputs["ids"])


def _drawn(scores: Pass, vocabulary: int, inputs: dict[str, Tensor], **seen: int) -> Tensor:
    """Return the state after one more token of each text, given that before: the tokens and where they stand [2, R].

    Where scores are no numbers the token is -1, which it then remains.
    """
    ids_R, position_R = inputs["state"].unbind()
    scores_RV = scores({"ids": ids_R.clamp(min=0), "position": position_R}, **seen)
    if "point" not in inputs and fuses(scores_RV):
        from gpt1.model.kernels.decode import next_state

        return next_state(scores_RV, vocabulary, inputs["state"])
    logits_RV = scores_RV[:, :vocabulary].float()
    if "point" in inputs:
        ways = (inputs[name] for name in ("point", "temperature", "top_k", "top_p"))
        drawn_R = draw_on_device(logits_RV, *ways)
    else:
        drawn_R = logits_RV.argmax(1)
    sound_R = logits_RV.isfinite().all(1) & (ids_R >= 0)
    return torch.stack([torch.where(sound_R, drawn_R, -1), position_R + 1])


def continue_ids(
    model: Model, prompts: Sequence[Sequence[int]], wanted: SamplingParams, vocabulary: int | None = None
) -> list[list[int]]:
    """Return the ids that continue each prompt of at least one id; the seeds of prompts follow each other."""
    writer = BatchGenerator(model, vocabulary or model.vocab_size, len(prompts))
    texts = [writer.join(prompt, wanted, wanted.seed + place) for place, prompt in enumerate(prompts)]
    left = wanted.max_new_tokens
    while left:
        left -= writer.step(left)
    return [text.written for text in texts]


@dataclass(frozen=True)
class Generated:
    """A text that was written: what follows the prompt, its tokens, and why it ended (`length` or `stop`).

    With `top_logprobs`, also what the network thought of each token.
    """

    prompt: str
    text: str
    ids: list[int]
    finish_reason: str
    weighed: list[Weighed] = field(default_factory=list)

    @property
    def ended(self) -> str:
        """What `finish_reason` was called before."""
        tell_renamed("ended", "finish_reason")
        return self.finish_reason


def generate(model: Model, tokenizer: Tokenizer, prompts: Sequence[str], wanted: SamplingParams) -> list[Generated]:
    """Continue each prompt; the seeds of prompts follow each other."""
    found = []
    for first in range(0, len(prompts), ROWS):
        found += _generate(model, tokenizer, prompts[first : first + ROWS], wanted, wanted.seed + first)
    return found


def _generate(
    model: Model, tokenizer: Tokenizer, prompts: Sequence[str], wanted: SamplingParams, seed: int
) -> list[Generated]:
    writer = BatchGenerator(model, tokenizer.vocab_size, len(prompts))
    ids = [prompt_tokens(tokenizer, prompt) for prompt in prompts]
    streams = {
        writer.join(own, wanted, seed + place): TextStream(tokenizer, own, wanted.stop) for place, own in enumerate(ids)
    }
    left = wanted.max_new_tokens
    while left and writer.texts:
        steps = writer.step(left)
        left -= steps
        for text in list(writer.texts):
            text.hand_on(streams[text], steps)
            if streams[text].stopped:
                writer.leave(text)
    return [
        Generated(prompt, stream.whole(), text.written, STOP if stream.stopped else LENGTH, text.weighed)
        for prompt, (text, stream) in zip(prompts, streams.items(), strict=True)
    ]


def stream(model: Model, tokenizer: Tokenizer, prompt: str, wanted: SamplingParams) -> Iterator[str]:
    """Give the text that continues a prompt, piece by piece; together they are what `generate` gives."""
    return _stream(model, tokenizer, prompt_tokens(tokenizer, prompt), wanted)


def _stream(model: Model, tokenizer: Tokenizer, ids: list[int], wanted: SamplingParams) -> Iterator[str]:
    writer = BatchGenerator(model, tokenizer.vocab_size, 1)
    text, pieces = writer.join(ids, wanted, wanted.seed), TextStream(tokenizer, ids, wanted.stop)
    while len(text.written) < wanted.max_new_tokens and not pieces.stopped:
        steps = writer.step(wanted.max_new_tokens - len(text.written))
        yield from text.hand_on(pieces, steps)
    if rest := pieces.end():
        yield rest


def prompt_tokens(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """Return the ids of a prompt; one without words stands at the beginning of a document, after a newline."""
    return tokenizer.encode(prompt) or [tokenizer.newline_id]
