"""What requests look like, and how their bodies are read: JSON as it is defined; what is wrong with one, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from json import JSONDecodeError
from typing import Annotated, Any, Literal

from fastapi import HTTPException
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gpt1.base.errors import did_you_mean
from gpt1.base.records import parse_json
from gpt1.inference.sampling import SEEDS
from gpt1.serve.limits import ApiError, bad

# Each ends with its first fault: a body of a megabyte may hold a few hundred thousand, and one is told.
Texts = Annotated[list[str], Field(fail_fast=True)]
Ids = Annotated[list[int], Field(fail_fast=True)]
ListsOfIds = Annotated[list[Ids], Field(fail_fast=True)]
Row = dict[str, object]
Rows = Annotated[list[str | Row], Field(fail_fast=True)]
ALTERNATIVES = 20  # of a token, at most
SAMPLES = 10_000  # of a prompt; how many texts a request may have is limited besides
LONGEST_NAME = 100  # characters of a field's name that another may be like
UNKNOWN_FIELD = "extra_forbidden"
IN_JSON = {"string": "a text", "dictionary": "an object", "list": "a list", "integer": "a whole number"}
SEVERAL_KINDS = ("prompt", "stop", "input")  # fields that take values of several kinds


class Fields(BaseModel):
    """Fields of which those that are not known are refused, so that none is silently without effect."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _none_unknown(cls, given: Any) -> Any:
        """Refuse the first unknown field with the nearest known one; a body may have room for very many."""
        known = cls.model_fields
        name = next((name for name in given if name not in known), None) if isinstance(given, dict) else None
        if name is None:
            return given
        near = did_you_mean(name, known) if len(name) <= LONGEST_NAME else ""
        raise PydanticCustomError(UNKNOWN_FIELD, "there is no such field{near}", {"field": name, "near": near})


class Request(Fields):
    """What every request has."""

    model_config = ConfigDict(strict=True)

    model: str = Field(description="The name of a run, as /v1/models lists them.")
    user: str | None = Field(None, description="Not used.")


class StreamOptions(Fields):
    """What a stream tells besides text."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class CompletionRequest(Request):
    """A text to be continued: OpenAI's fields and their defaults, and two of ours."""

    prompt: str | Texts | Ids | ListsOfIds = ""
    max_tokens: int | None = Field(16, ge=0)
    temperature: float | None = Field(1.0, ge=0)
    top_p: float | None = Field(1.0, gt=0, le=1)
    n: int | None = Field(1, ge=1, le=SAMPLES)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    stop: str | Texts | None = None
    seed: int | None = Field(None, ge=0, lt=SEEDS)
    echo: bool | None = False
    top_k: int | None = Field(None, ge=1, description="Ours: draw from the likeliest so many.")
    repetition_penalty: float | None = Field(1.0, gt=0, description="Ours: above 1, say less again.")
    best_of: int | None = None
    logprobs: int | None = Field(None, ge=0, le=ALTERNATIVES, description="So many of the likeliest, for each token.")
    suffix: str | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, object] | None = None


class ClassifyRequest(Request):
    """Texts, or rows with the columns of the task, to be answered by a fine-tuned run."""

    input: str | Row | Rows
    task: str | None = Field(None, description="Which of the run's tasks, where it has learned several.")
    abstain: float | None = Field(
        None, gt=0, lt=1, description="Answer only where at most this share of the answers is wrong."
    )
    explain: bool | str = Field(False, description="Tell which words speak for each answer, or for this label.")
    gradients: bool = Field(False, description="Beside `explain`: tell of each word what the gradients say too.")


class EmbeddingRequest(Request):
    """Texts to be made vectors of."""

    input: str | Texts | Ids | ListsOfIds
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: int | None = None
    pooling: Literal["mean", "last"] | None = Field("mean", description="Ours: which outputs make the vector.")


class ScoreRequest(Request):
    """Texts whose tokens' log-probabilities are wanted."""

    input: str | Texts
    after: str = Field("", description="A text that stands before each of them and is not scored itself.")


class AttentionRequest(Request):
    """A text that a layer looks at."""

    input: str
    layer: int = Field(1, ge=1, description="Counted from 1.")


def malformed(faults: Sequence[ErrorDetails]) -> ApiError:
    """Return the error for a body that is no request, given what pydantic finds wrong with it."""
    first = faults[0]
    code, said, place = first["type"], first["msg"], [str(part) for part in first["loc"][1:]]
    if code == "json_invalid":
        return bad(f"the body is not JSON: {said} at character {place[0]}, {first['ctx']['error']}", code)
    if code == UNKNOWN_FIELD:
        place = [*place, str(first["ctx"]["field"])]
    if not place:
        what = "is empty" if code == "missing" else "is not a JSON object"
        return bad(f'the body {what}; send one, such as {{"model": ...}}', code)
    name = place[0]
    if name in SEVERAL_KINDS and len(place) > 1:  # each kind has its own fault
        own = [fault["msg"] for fault in faults if fault["loc"][1] == name]
        kinds = dict.fromkeys(_in_json(message.removeprefix("Input should be ")) for message in own)
        return bad(f"{name}: expected {' or '.join(kinds)}", code, param=name)
    return bad(f"{'.'.join(place)}: {said}", code, param=name)


def _in_json(kind: str) -> str:
    """Return what pydantic calls a kind of value as a writer of JSON does."""
    return IN_JSON.get(kind.removeprefix("a valid "), kind)


CODE = "json_invalid"


class Unreadable(HTTPException):
    """A body that is not read; FastAPI passes on no other kind from where bodies are read."""

    def __init__(self, told: ApiError) -> None:
        super().__init__(told.status, told.message)
        self.told = told


class StrictRoute(APIRoute):
    """A path whose requests' bodies are read strictly."""

    def get_route_handler(self) -> Callable[[HttpRequest], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        answer = super().get_route_handler()

        async def read_strictly(request: HttpRequest) -> Response:
            return await answer(_StrictRequest(request.scope, request.receive))

        return read_strictly


class _StrictRequest(HttpRequest):
    async def json(self) -> Any:
        try:
            return parse_json(await self.body(), parse_constant=_no_number, object_pairs_hook=_object)
        except (JSONDecodeError, Unreadable):  # FastAPI tells the place of the former
            raise
        except ValueError as error:
            raise Unreadable(bad(f"the body is not JSON that can be read: {error}", CODE)) from None


def _no_number(name: str) -> Any:
    raise Unreadable(bad(f"the body is not JSON: {name} is no number of it", CODE))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as an object; of a key that stands twice nobody could tell which is meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise Unreadable(bad(f"'{twice}' stands twice in the body", CODE, param=twice))
    return found
