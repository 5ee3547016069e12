"""Questions that are answered at once: rows to classify, texts to embed and to score, many requests in one pass."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np
from numpy.typing import NDArray

from gpt1.base.errors import InputError, RuinedWeights, SettingError, unknown
from gpt1.inference.abstaining import promise
from gpt1.inference.answering import Predictions, answer
from gpt1.inference.attention_maps import Looks, as_rows, check_layer
from gpt1.inference.embedding import MEAN, text_ids
from gpt1.inference.explaining import Explanation, check_explain, explain_answer, explaining_tokens
from gpt1.inference.scoring import ScoredText
from gpt1.inference.words import LabelledStretch, stretches
from gpt1.recipes.values import Shape
from gpt1.serve.completions import check_characters, check_ids
from gpt1.serve.engine import Answering, Engine
from gpt1.serve.limits import Limits, bad
from gpt1.serve.schemas import AttentionRequest, ClassifyRequest, EmbeddingRequest, ScoreRequest
from gpt1.tasks.assessment import word_labels
from gpt1.tasks.catalog import Task
from gpt1.tasks.examples import Example, Row, example_to_answer
from gpt1.tasks.promises import CONFIDENCE, Promise
from gpt1.tasks.unknowns import is_unread, unread_notice

ATTENTION_TOKENS = 128  # of a text, at most: what is answered grows with the square of it
DIGITS = 4  # of a share of attention


class Named(TypedDict, total=False):
    """A label or a score, None where it is not sure enough; or all labels, where a row may have several.

    Where each word has a label: the words, their labels, and the stretches of the text that these spell.
    """

    label: str | float | None
    labels: list[str]
    words: list[str]
    spans: list[LabelledStretch]
    abstained: bool  # where a request asks for it
    notice: str  # where nothing of a row is known
    explanation: list[Explanation]  # where a request asks for it


class RowAnswer(Named):
    """What is answered to a row, and how much of it was read and known; probabilities where there are labels."""

    index: int
    probabilities: dict[str, float] | None
    confidence: float | None
    truncated: bool
    tokens: int
    unknown_tokens: int


class Promised(TypedDict):
    """What is promised of answers; by how many labelled rows, of which so many answered, of which so many wrong."""

    risk: float
    confidence: float
    examples: int
    answered: int
    wrong: int


class RowAnswers(TypedDict):
    """What is answered to rows."""

    object: Literal["list"]
    model: str
    task: str
    promise: NotRequired[Promised]
    unknown: int  # rows with tokens that are not in the vocabulary
    truncated: int  # rows of which the end was not read
    data: list[RowAnswer]


class VectorAnswer(TypedDict):
    """The vector of a text: numbers, or their bytes as base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class VectorUsage(TypedDict):
    """How many tokens were read."""

    prompt_tokens: int
    total_tokens: int
    unknown_tokens: int


class VectorAnswers(TypedDict):
    """The vectors of texts."""

    object: Literal["list"]
    model: str
    data: list[VectorAnswer]
    usage: VectorUsage


class ScoreAnswer(TypedDict):
    """How likely each token of a text is."""

    index: int
    ids: list[int]
    tokens: list[str]
    log_probabilities: list[float]
    mean: float | None


class ScoreAnswers(TypedDict):
    """How likely the tokens of texts are."""

    object: Literal["list"]
    model: str
    data: list[ScoreAnswer]


class AttentionAnswer(TypedDict):
    """What each token of a text takes from each one before it, by head."""

    object: Literal["attention"]
    model: str
    layer: int
    ids: list[int]
    tokens: list[str]
    weights: list[list[list[float]]]


class _InputRow(Row):
    """A row of a request, which knows its place there by the field."""

    def error(self, message: str, reason: str = "") -> InputError:
        return InputError(f"{self.place}: {message}")


async def classified(
    asked: ClassifyRequest, engine: Engine, limits: Limits, seen: Callable[[Sequence[Example], Predictions], None]
) -> RowAnswers:
    """Return the answer to each row, with the probability of each label; `seen` is told of it in the run's thread."""
    task = _task(engine, asked.task)
    inputs = asked.input if isinstance(asked.input, list) else [asked.input]
    _check_number(inputs, limits)
    places = [f"input[{place}]" for place in range(len(inputs))] if isinstance(asked.input, list) else ["input"]
    rows = [_InputRow(_row(task, value), place, 1) for value, place in zip(inputs, places, strict=True)]
    check_characters([text for row in rows for text in _texts(row.cells)], limits)
    try:
        examples = [example_to_answer(task, row) for row in rows]
    except InputError as error:
        raise bad(str(error), param="input") from None

    explain, gradients = asked.explain, asked.gradients
    await _check_explain(task, asked, examples, engine, limits)
    promised = None if asked.abstain is None else _promise(engine, task, asked.abstain)

    def answer_rows(examples: Sequence[Example]) -> list[tuple[RowAnswer, float]]:
        found = answer(engine.run, task, examples)
        rows = [_worded(found, place, example) for place, example in enumerate(examples)]
        if explain is not False:
            for place, (row, example) in enumerate(zip(rows, examples, strict=True)):
                row["explanation"] = explain_answer(
                    engine.run, task, example, found, place, explain, with_gradients=gradients
                )
        seen(examples, found)
        return [(row, float(found.sure[place])) for place, row in enumerate(rows)]

    found: list[tuple[RowAnswer, float]] = []
    if explain is False:
        found = await _answered(engine, ("classify", task.name), answer_rows, examples)
    else:  # one after the other and none with another request's, so that what has come meanwhile has its turn between
        for example in examples:
            found += await _answered(engine, ("explain", str(id(asked))), answer_rows, [example])
    data: list[RowAnswer] = [{**one, "index": place} for place, (one, _) in enumerate(found)]  # of the request
    unknown_rows, truncated = sum(one["unknown_tokens"] > 0 for one in data), sum(one["truncated"] for one in data)
    if promised is None:
        return {
            "object": "list",
            "model": asked.model,
            "task": task.name,
            "unknown": unknown_rows,
            "truncated": truncated,
            "data": data,
        }
    return {
        "object": "list",
        "model": asked.model,
        "task": task.name,
        "promise": {
            "risk": promised.risk,
            "confidence": CONFIDENCE,
            "examples": promised.examples,
            "answered": promised.answered,
            "wrong": promised.wrong,
        },
        "unknown": unknown_rows,
        "truncated": truncated,
        "data": [_or_none(one, sure < promised.threshold, explain) for one, (_, sure) in zip(data, found, strict=True)],
    }


def _promise(engine: Engine, task: Task, risk: float) -> Promise:
    try:
        return promise(engine.run, task, risk, f"the run '{engine.name}'")
    except (InputError, SettingError) as error:
        raise bad(str(error), param="abstain") from None


async def _check_explain(
    task: Task, asked: ClassifyRequest, examples: Sequence[Example], engine: Engine, limits: Limits
) -> None:
    """Refuse to explain what cannot be, or what has the run read too much: all of a text again for each word."""
    explain, gradients = asked.explain, asked.gradients
    if explain is False:
        if gradients:
            raise bad("'gradients' are told beside 'explain'; give both", param="gradients")
        return
    try:
        check_explain(task, explain)
    except SettingError as error:
        raise bad(str(error), param="explain") from None

    def tokens_read() -> int:
        return sum(explaining_tokens(engine.run, task, one, explain, with_gradients=gradients) for one in examples)

    tokens, most = await asyncio.wrap_future(engine.encode(tokens_read)), limits.explained_tokens
    if tokens > most:
        helps = "leave out 'gradients', or give fewer or shorter texts" if gradients else "give fewer or shorter texts"
        told = f"to explain this the run would read {tokens:,} tokens, and it reads at most {most:,} for a request"
        raise bad(f"{told}; {helps}", "too_long", param="gradients" if gradients else "explain")


def _or_none(given: RowAnswer, abstained: bool, explain: bool | str) -> RowAnswer:
    told: RowAnswer = {**given, "label": None if abstained else given.get("label"), "abstained": abstained}
    if abstained and explain is True:
        told["explanation"] = []
    return told


async def embedded(asked: EmbeddingRequest, engine: Engine, limits: Limits) -> VectorAnswers:
    """Return a vector for each text."""
    if asked.dimensions not in (None, engine.run.recipe.shape.width):
        width = engine.run.recipe.shape.width
        raise bad(f"this run's vectors have {width} dimensions", "unsupported", param="dimensions")
    inputs = _inputs(asked.input, engine, limits)
    ids = await asyncio.wrap_future(engine.encode(text_ids, engine.run.tokenizer, inputs))
    pooling = asked.pooling or MEAN

    def answer(texts: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        return list(engine.run.embed(texts, pooling=pooling))

    found = await _answered(engine, ("embed", pooling), answer, ids)
    as_base64 = asked.encoding_format == "base64"
    data: list[VectorAnswer] = [
        {"object": "embedding", "index": place, "embedding": _encoded(vector) if as_base64 else vector.tolist()}
        for place, vector in enumerate(found)
    ]
    tokens = sum(map(len, ids))
    unknown_tokens = sum(map(engine.run.tokenizer.unknown_among, ids))
    usage: VectorUsage = {"prompt_tokens": tokens, "total_tokens": tokens, "unknown_tokens": unknown_tokens}
    return {"object": "list", "model": asked.model, "data": data, "usage": usage}


async def scored(asked: ScoreRequest, engine: Engine, limits: Limits) -> ScoreAnswers:
    """Return the log-probabilities of each text's tokens."""
    texts = [asked.input] if isinstance(asked.input, str) else asked.input
    _check_number(texts, limits)
    check_characters([asked.after, *texts], limits)

    def answer(texts: Sequence[str]) -> list[ScoredText]:
        return engine.run.score(texts, after=asked.after)

    found = await _answered(engine, ("score", asked.after), answer, texts)
    spelled = await asyncio.to_thread(
        lambda: [engine.run.tokenizer.decode_each_after((), one.ids) for one in found]
    )  # of long texts it takes long
    data: list[ScoreAnswer] = [
        {
            "index": place,
            "ids": one.ids,
            "tokens": tokens,
            "log_probabilities": one.log_probabilities,
            "mean": one.mean,
        }
        for place, (one, tokens) in enumerate(zip(found, spelled, strict=True))
    ]
    return {"object": "list", "model": asked.model, "data": data}


async def looked(asked: AttentionRequest, engine: Engine, limits: Limits) -> AttentionAnswer:
    """Return how much each token takes from each one before it, in each head of a layer."""
    check_characters([asked.input], limits)
    shape = engine.run.recipe.shape
    try:
        check_layer(shape, asked.layer)
    except SettingError as error:
        raise bad(str(error), param="layer") from None
    ids = await asyncio.wrap_future(engine.encode(engine.run.tokenizer.encode, asked.input))
    tokens, most = len(ids), attention_tokens(shape)
    if tokens > most:
        raise bad(f"the text has {tokens:,} tokens, attention is shown of at most {most}", "too_long", param="input")

    def answer(texts: Sequence[str]) -> list[Looks]:
        return [engine.run.attention(text, layer=asked.layer) for text in texts]

    key = ("attention", str(asked.layer))
    (found,) = await _answered(engine, key, answer, [asked.input])
    return {
        "object": "attention",
        "model": asked.model,
        "layer": asked.layer,
        "ids": found.ids,
        "tokens": engine.run.tokenizer.decode_each_after((), found.ids),
        "weights": as_rows(found.weights, DIGITS),
    }


def attention_tokens(shape: Shape) -> int:
    """Return of how many tokens at most attention is shown."""
    return min(ATTENTION_TOKENS, shape.context)


async def _answered(engine: Engine, key: tuple[str, ...], answering: Answering, items: Sequence[Any]) -> list[Any]:
    """Have the inputs of a request answered; what is wrong is wrong with them."""
    try:
        found: list[Any] = await asyncio.wrap_future(engine.ask(key, answering, items))
    except RuinedWeights:  # not for its inputs
        raise
    except InputError as error:
        raise bad(str(error), param="input") from None
    return found


def _worded(found: Predictions, place: int, example: Example) -> RowAnswer:
    """Return the answer at a place; a label is one of those with probabilities, and of several each has its own."""
    shares, several = found.shares(place), found.task.is_multilabel
    tokens, unknown_tokens = int(found.tokens[place]), int(found.unknown[place])
    named = _named(found, place, example)
    if is_unread(unknown_tokens, tokens):
        named["notice"] = unread_notice(tokens)
    return {
        "index": place,
        **named,
        "probabilities": shares,
        "confidence": None if shares is None or several else found.confidence(place),
        "truncated": bool(found.cut[place] > 0),
        "tokens": tokens,
        "unknown_tokens": unknown_tokens,
    }


def _named(found: Predictions, place: int, example: Example) -> Named:
    """Return the answer at a place by the names that a request has for it."""
    if found.task.labels_words:
        given = found.answers[place]
        spelled = stretches(found.task, example.texts[0], example.words, given, found.probabilities[place])
        return {"words": list(example.words), "labels": word_labels(found.task, given), "spans": spelled}
    if found.task.is_multilabel:
        return {"labels": found.labels(place)}
    name = found.name(place)
    return {"label": name if found.shares(place) is None else str(name)}


def _check_number(inputs: Sequence[Any], limits: Limits) -> None:
    if not 1 <= len(inputs) <= limits.inputs:
        raise bad(f"a request has 1 to {limits.inputs} inputs, not {len(inputs)}", param="input")


def _task(engine: Engine, name: str | None) -> Task:
    """Return the task that is asked for; to clients a run has the name it is served under, and no path."""
    if not engine.run.has_tasks:
        raise bad(f"the run '{engine.name}' has learned no task yet; /v1/models tells which have", param="model")
    tasks = engine.run.tasks
    if name is None and len(tasks) > 1:
        several = f"the run '{engine.name}' has learned several tasks; name one"
        raise bad(f"{several} in 'task': {', '.join(tasks)}", param="task")
    if name is not None and name not in tasks:
        raise bad(str(unknown("task", name, tasks, of=f"'{engine.name}'")), param="task")
    return tasks[name or next(iter(tasks))]


def _row(task: Task, value: str | Mapping[str, object]) -> dict[str, object]:
    """Return an input as a row with the columns of the task, and no others."""
    reads = f"task '{task.name}' reads {', '.join(task.fields)}"
    if isinstance(value, str):
        if len(task.fields) != 1:
            raise bad(f"{reads}: give an object with these, not a string", param="input")
        if not value.strip():  # else it would be told by the name of a column, which the client has not sent
            raise bad("'input' has an empty text; fill it or leave it out", param="input")
        return {task.fields[0]: value}
    if others := [name for name in value if name not in task.fields]:
        raise bad(f"{reads}, and not '{others[0]}'", param="input")
    return dict(value)


def _texts(row: Mapping[str, object]) -> list[str]:
    values = [item for value in row.values() for item in (value if isinstance(value, list) else [value])]
    return [value for value in values if isinstance(value, str)]


def _inputs(given: Any, engine: Engine, limits: Limits) -> list[str | list[int]]:
    """Return the inputs of a request, each a text or the ids of one, after all limits have been checked."""
    inputs = [given] if isinstance(given, str) or (given and isinstance(given[0], int)) else given
    _check_number(inputs, limits)
    check_characters([value for value in inputs if isinstance(value, str)], limits)
    for value in inputs:
        if not isinstance(value, str):
            check_ids(value, engine, limits, param="input")
    return list(inputs)


def _encoded(vector: NDArray[np.float32]) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
