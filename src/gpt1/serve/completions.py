"""OpenAI's completions: what they ask for, as texts for an engine, and how these go back, whole or in pieces."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

from starlette.responses import Response

from gpt1.base.errors import RuinedWeights, SettingError
from gpt1.base.strict_json import to_json
from gpt1.inference.generation import prompt_tokens
from gpt1.inference.sampling import SEEDS, SamplingParams
from gpt1.serve.engine import Completion, Engine
from gpt1.serve.limits import ApiError, Limits, bad, no_numbers, too_slow
from gpt1.serve.schemas import CompletionRequest
from gpt1.text.tokenizer import Tokenizer

STOPS, STOP_CHARACTERS = 16, 1000
DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class AskedText:
    """One text of a request: what comes before it, its tokens, how it is continued, what is shown before it."""

    ids: list[int]
    unknown: int  # of them
    wanted: SamplingParams
    echo: str


async def completion_wishes(asked: CompletionRequest, engine: Engine, limits: Limits) -> list[AskedText]:
    """Return the texts of a request, each prompt `n` times, after all limits have been checked."""
    _check_supported(asked)
    try:
        engine.run.require_language_model()
    except SettingError as error:
        raise bad(str(error), param="model") from None
    prompts = _prompts(asked.prompt)
    samples = asked.n or 1
    if not 1 <= len(prompts) * samples <= limits.inputs:
        param = "n" if samples > 1 else "prompt"
        raise bad(f"a request is for 1 to {limits.inputs} texts, not {len(prompts) * samples}", param=param)
    check_characters([prompt for prompt in prompts if isinstance(prompt, str)], limits)
    wanted = _wanted(asked, limits)
    found = []
    for prompt in prompts:
        ids = await _ids(prompt, engine, limits)
        echo = "" if not asked.echo else prompt if isinstance(prompt, str) else engine.run.tokenizer.decode(ids)
        found += [AskedText(ids, engine.run.tokenizer.unknown_among(ids), wanted, echo)] * samples
    return [replace(one, wanted=replace(wanted, seed=(wanted.seed + place) % SEEDS)) for place, one in enumerate(found)]


async def completed(asked: CompletionRequest, wishes: Sequence[AskedText], engine: Engine) -> Response:
    """Return the whole answer."""
    request, tokenizer = object(), engine.run.tokenizer
    futures = [asyncio.wrap_future(engine.write(wish.ids, wish.wanted, request=request)) for wish in wishes]
    found: list[Completion] = await asyncio.gather(*futures)

    def worded() -> bytes:
        """Return the answer as JSON, made choice by choice: in one go, 60 MB of it would hold up all others."""
        choices = [
            _json(_choice(place, wish.echo + one.text, one.finish_reason, _log_probabilities(tokenizer, wish, one)))
            for place, (wish, one) in enumerate(zip(wishes, found, strict=True))
        ]
        usage = _usage(asked, wishes, sum(len(one.ids) for one in found))
        head, bracket, end = _json({**_head(asked), "usage": usage, "choices": []}).rpartition(b"]")
        return head + b",".join(choices) + bracket + end

    return Response(await asyncio.to_thread(worded), media_type="application/json")


class Pieces:
    """Texts that are being written for a stream; the place in the queue is left when the last of them has ended.

    What is written while the server's thread, or the client, does not keep up becomes one piece: else the server would
    have more and more to send, and time for nothing else.
    """

    def __init__(self, wishes: Sequence[AskedText], engine: Engine, place: ExitStack) -> None:
        self._loop = asyncio.get_running_loop()
        self._came: deque[tuple[int, str | None]] = (
            deque()
        )  # from the engine's thread: which text, its piece or its end
        self._is_told = False  # that something came
        self._unread: dict[int, str] = {}
        self._ended: list[int] = []
        self._news = asyncio.Event()
        self._left, self._place = len(wishes), place
        self.futures = [
            engine.write(wish.ids, wish.wanted, partial(self._tell, at), request=self) for at, wish in enumerate(wishes)
        ]
        for at, future in enumerate(self.futures):
            future.add_done_callback(lambda _, at=at: self._tell(at, None))  # type: ignore[misc]

    def _tell(self, at: int, piece: str | None) -> None:
        """Pass a piece on from the engine's thread."""
        self._came.append((at, piece))
        if not self._is_told:
            self._is_told = True
            self._loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        self._is_told = False  # before what came is taken: what comes meanwhile is told of again
        while self._came:
            at, piece = self._came.popleft()
            if piece is None:
                self._ended.append(at)
                self._left -= 1
            else:
                self._unread[at] = self._unread.get(at, "") + piece
        if not self._left:
            self._place.close()
        self._news.set()

    async def next(self) -> tuple[dict[int, str], list[int]]:
        """Wait for news; return what was added to which texts, and which have ended."""
        await self._news.wait()
        self._news.clear()
        unread, ended, self._unread, self._ended = self._unread, self._ended, {}, []
        return unread, ended

    def give_up(self) -> None:
        """End the texts that nobody waits for any more; those that are done stay so."""
        for future in self.futures:
            future.cancel()


async def streamed(
    asked: CompletionRequest, wishes: Sequence[AskedText], pieces: Pieces, limits: Limits, deadline: float
) -> AsyncIterator[bytes]:
    """Yield the answer as events, until that time on the event loop's clock."""
    head, left = _head(asked), len(wishes)
    loop = asyncio.get_running_loop()
    giving_up = loop.call_at(deadline, pieces.give_up)  # also where a client does not read what it is sent
    try:
        for at, wish in enumerate(wishes):
            if wish.echo:
                yield _event({**head, "choices": [_choice(at, wish.echo)]})
        while left:
            unread, ended = await pieces.next()
            if loop.time() >= deadline or any(pieces.futures[at].cancelled() for at in ended):
                raise TimeoutError
            for at, piece in unread.items():
                yield _event({**head, "choices": [_choice(at, piece)]})
            for at in ended:
                yield _event({**head, "choices": [_choice(at, "", pieces.futures[at].result().finish_reason)]})
            left -= len(ended)
        if asked.stream_options is not None and asked.stream_options.include_usage:
            tokens = sum(len(future.result().ids) for future in pieces.futures)
            yield _event({**head, "choices": [], "usage": _usage(asked, wishes, tokens)})
        yield DONE
    except TimeoutError:
        yield _event(too_slow(limits.request_timeout).body())
    except RuinedWeights:
        yield _event(no_numbers().body())
    except ApiError as error:
        yield _event(error.body())
    finally:
        giving_up.cancel()
        pieces.give_up()


def check_characters(texts: Sequence[str], limits: Limits) -> None:
    """Refuse more text than a request may have, before any of it is encoded."""
    if (characters := sum(map(len, texts))) > limits.characters:
        raise bad(f"the texts have {characters:,} characters, a request at most {limits.characters:,}", "too_long")


def check_ids(ids: Sequence[int], engine: Engine, limits: Limits, *, param: str) -> None:
    """Refuse tokens that there are not, and more than a request may have."""
    size = engine.run.tokenizer.vocab_size
    if len(ids) > limits.characters:
        raise bad(f"{len(ids):,} tokens are more than a request may have", "too_long", param=param)
    if wrong := [id for id in ids if not 0 <= id < size]:
        raise bad(f"id {wrong[0]} is not in the vocabulary of {size:,} tokens", param=param)


def _check_supported(asked: CompletionRequest) -> None:
    """Refuse what would have no effect here, rather than leave it out in silence."""
    unsupported = {
        "logprobs in a stream": asked.logprobs is not None and bool(asked.stream),
        "logprobs with echo": asked.logprobs is not None and bool(asked.echo),
        "suffix": bool(asked.suffix),
        "best_of": asked.best_of is not None and asked.best_of != (asked.n or 1),
        "presence_penalty": bool(asked.presence_penalty),
        "frequency_penalty": bool(asked.frequency_penalty),
        "logit_bias": bool(asked.logit_bias),
    }
    for name, wanted in unsupported.items():
        if wanted:
            raise bad(f"{name} is not supported", "unsupported", param=name.split()[0])


def _prompts(prompt: str | list[str] | list[int] | list[list[int]]) -> Sequence[str | list[int]]:
    if isinstance(prompt, str):
        return [prompt]
    texts = [one for one in prompt if not isinstance(one, int)]
    return texts if len(texts) == len(prompt) else [[one for one in prompt if isinstance(one, int)]]


def _wanted(asked: CompletionRequest, limits: Limits) -> SamplingParams:
    tokens = 16 if asked.max_tokens is None else asked.max_tokens
    if tokens > limits.max_tokens:
        raise bad(f"max_tokens is at most {limits.max_tokens:,}, not {tokens:,}", "too_long", param="max_tokens")
    stop = [asked.stop] if isinstance(asked.stop, str) else asked.stop or []
    if len(stop) > STOPS or any(len(one) > STOP_CHARACTERS for one in stop):
        raise bad(f"a request has at most {STOPS} stop strings of {STOP_CHARACTERS} characters", param="stop")
    if not all(stop):
        raise bad("a stop string has at least one character", param="stop")
    return SamplingParams(
        max_new_tokens=tokens,
        temperature=1.0 if asked.temperature is None else asked.temperature,
        top_p=asked.top_p,
        top_k=asked.top_k,
        repetition_penalty=asked.repetition_penalty or 1.0,
        stop=tuple(stop),
        top_logprobs=asked.logprobs,
        seed=secrets.randbelow(SEEDS) if asked.seed is None else asked.seed,
    )


async def _ids(prompt: str | list[int], engine: Engine, limits: Limits) -> list[int]:
    if isinstance(prompt, str):
        return await asyncio.wrap_future(engine.encode(prompt_tokens, engine.run.tokenizer, prompt))
    check_ids(prompt, engine, limits, param="prompt")
    return prompt or [engine.run.tokenizer.newline_id]


def _head(asked: CompletionRequest) -> dict[str, object]:
    made = int(time.time())
    return {"id": f"cmpl-{secrets.token_hex(12)}", "object": "text_completion", "created": made, "model": asked.model}


def _choice(
    place: int, text: str, ended: str | None = None, log_probabilities: dict[str, object] | None = None
) -> dict[str, object]:
    return {"index": place, "text": text, "logprobs": log_probabilities, "finish_reason": ended}


def _log_probabilities(tokenizer: Tokenizer, wish: AskedText, written: Completion) -> dict[str, object] | None:
    """Return what the network thought of each token, in OpenAI's form, where that was asked for."""
    if wish.wanted.top_logprobs is None:
        return None
    shares = tokenizer.decode_each_after(wish.ids, written.ids)
    return {
        "tokens": shares,
        "token_logprobs": [one.log_probability for one in written.weighed],
        "top_logprobs": [{tokenizer.spell(id): value for id, value in one.likeliest} for one in written.weighed],
        "text_offset": list(accumulate(map(len, shares), initial=0))[: len(shares)],
    }


def _usage(asked: CompletionRequest, wishes: Sequence[AskedText], tokens: int) -> dict[str, int]:
    read = wishes[:: asked.n or 1]  # each prompt once, as OpenAI counts
    prompts, unknown = sum(len(wish.ids) for wish in read), sum(wish.unknown for wish in read)
    total = prompts + tokens
    return {"prompt_tokens": prompts, "completion_tokens": tokens, "total_tokens": total, "unknown_tokens": unknown}


def _event(value: Mapping[str, object]) -> bytes:
    return b"data: " + _json(value) + b"\n\n"


def _json(value: Mapping[str, object]) -> bytes:
    return to_json(value, ensure_ascii=False).encode("utf-8", "replace")
