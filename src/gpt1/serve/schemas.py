"""What requests look like; FastAPI checks them and tells of them in its OpenAPI document; what is wrong, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from gpt1.inference.sampling import SEEDS
from gpt1.serve.limits import ApiError, bad

Row = dict[str, Any]
ALTERNATIVES = 20  # of a token, at most
SAMPLES = 10_000  # of a prompt; how many texts a request may have is limited besides
SEVERAL_KINDS = ("prompt", "stop", "input")  # fields that take values of several kinds


class Request(BaseModel):
    """What every request has; fields that are not known are refused, so that none is silently without effect."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str = Field(description="The name of a run, as /v1/models lists them.")
    user: str | None = Field(None, description="Not used.")


class StreamOptions(BaseModel):
    """What a stream tells besides text."""

    model_config = ConfigDict(extra="forbid")

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class CompletionRequest(Request):
    """A text to be continued: OpenAI's fields and their defaults, and two of ours."""

    prompt: str | list[str] | list[int] | list[list[int]] = ""
    max_tokens: int | None = Field(16, ge=0)
    temperature: float | None = Field(1.0, ge=0)
    top_p: float | None = Field(1.0, gt=0, le=1)
    n: int | None = Field(1, ge=1, le=SAMPLES)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    stop: str | list[str] | None = None
    seed: int | None = Field(None, ge=0, lt=SEEDS)
    echo: bool | None = False
    top_k: int | None = Field(None, ge=1, description="Ours: draw from the likeliest so many.")
    repetition_penalty: float | None = Field(1.0, gt=0, description="Ours: above 1, say less again.")
    best_of: int | None = None
    logprobs: int | None = Field(None, ge=0, le=ALTERNATIVES, description="So many of the likeliest, for each token.")
    suffix: str | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None


class ClassifyRequest(Request):
    """Texts, or rows with the columns of the task, to be answered by a fine-tuned run."""

    input: str | Row | list[str | Row]
    task: str | None = Field(None, description="Which of the run's tasks, where it has learned several.")


class EmbeddingRequest(Request):
    """Texts to be made vectors of."""

    input: str | list[str] | list[int] | list[list[int]]
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: int | None = None
    pooling: Literal["mean", "last"] | None = Field("mean", description="Ours: which outputs make the vector.")


class ScoreRequest(Request):
    """Texts whose tokens' log-probabilities are wanted."""

    input: str | list[str]
    after: str = Field("", description="A text that stands before each of them and is not scored itself.")


class AttentionRequest(Request):
    """A text that a layer looks at."""

    input: str
    layer: int = Field(1, ge=1, description="Counted from 1.")


def malformed(faults: Sequence[Mapping[str, Any]]) -> ApiError:
    """Return the error for a body that is no request, given what pydantic finds wrong with it."""
    first = faults[0]
    code, said, place = first["type"], first["msg"], [str(part) for part in first["loc"][1:]]
    if code == "json_invalid":
        return bad(f"the body is not JSON: {said} at character {place[0]}, {first['ctx']['error']}", code)
    if not place:
        what = "is empty" if code == "missing" else "is not a JSON object"
        return bad(f'the body {what}; send one, such as {{"model": ...}}', code)
    name = place[0]
    if name in SEVERAL_KINDS and len(place) > 1:  # each kind has its own fault
        own = [fault["msg"] for fault in faults if fault["loc"][1] == name]
        kinds = dict.fromkeys(message.removeprefix("Input should be ") for message in own)
        return bad(f"{name}: expected {' or '.join(kinds)}", code, param=name)
    return bad(f"{'.'.join(place)}: {said}", code, param=name)
