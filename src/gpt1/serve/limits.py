"""What a server takes on, and the errors it answers with, in the form OpenAI's clients read."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TypedDict

from gpt1.base.errors import SettingError

ERROR_CHARACTERS = 1000  # of what an error tells, which may quote what was sent


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much one request may ask for, and how much may wait; every default of a server's patience stands here."""

    body_bytes: int = 1_000_000
    characters: int = 100_000  # of all the texts of a request, counted before anything is encoded
    inputs: int = 128  # texts of a request: prompts times samples, rows, inputs
    explained_tokens: int = 100_000  # read to explain a request: all of a text again for each of its words
    max_tokens: int = 1024  # new ones a text
    max_queue: int = 256  # requests that wait or are at work, for each run
    request_timeout: float = 120.0  # seconds that a request may take
    arrival_seconds: float = 10.0  # in which its head, and then its body, must have come
    max_batch: int = 32  # texts that are written side by side
    connections: int = 256  # at once
    grace_seconds: float = 30.0  # in which a server that is told to end has ended

    @property
    def at_work(self) -> int:
        """How many requests of all runs may wait or be at work: some connections are left to ask for health on."""
        return max(1, self.connections - max(1, self.connections // 8))

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < math.inf:
                raise SettingError(f"{name} is above 0{' and finite' if value == math.inf else ''}, not {value}")


class ErrorFound(TypedDict):
    """What is wrong with a request."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorAnswer(TypedDict):
    """What a request is answered that is refused."""

    error: ErrorFound


class ApiError(Exception):
    """A request that is not answered as it was meant."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code
        self.param, self.headers = param, headers or {}

    def body(self) -> ErrorAnswer:
        """Return the error as OpenAI's clients read it."""
        kind = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}.get(self.status)
        kind = kind or ("invalid_request_error" if self.status < 500 else "server_error")
        param = None if self.param is None else _shown(self.param)
        return {"error": {"message": _shown(_in_fields(self.message)), "type": kind, "param": param, "code": self.code}}


def _in_fields(message: str) -> str:
    """Return a message of the package, which names what can be set as Python does, with the names of fields."""
    return re.sub(r"`([a-z]\w*)(?:=[^`]*)?`", r"'\1'", message)


def _shown(text: str) -> str:
    """Return what may be told of a text: no half character, which UTF-8 cannot hold, and of a long one its two ends."""
    text, half = text.encode("utf-8", "replace").decode(), ERROR_CHARACTERS // 2
    return text if len(text) <= ERROR_CHARACTERS else f"{text[:half]} ... {text[-half:]}"


def bad(message: str, code: str | None = None, *, param: str | None = None) -> ApiError:
    """Return the error for a request that makes no sense; `param` is the field that is wrong, where it is one."""
    return ApiError(400, message, code=code, param=param)


def busy(seconds: int = 1) -> ApiError:
    """Return the error for a request that finds the queue full."""
    return ApiError(
        429, "too many requests wait already; try again", code="queue_full", headers={"Retry-After": str(seconds)}
    )


def failed(name: str) -> ApiError:
    """Return the error for a request to a run that has failed."""
    message = f"the run '{name}' has failed and answers no more; the server's log says why, a restart loads it anew"
    return ApiError(500, message, code="run_failed", param="model")


def no_numbers() -> ApiError:
    """Return the error for a request that the network answers with what is no number."""
    return ApiError(500, "the network gives no numbers for this request; try another run", code="no_numbers")


def no_room() -> ApiError:
    """Return the error for a connection that there is no room for."""
    return ApiError(503, "there are too many connections; try again", code="no_room", headers={"Retry-After": "1"})


def ends() -> ApiError:
    """Return the error for a request that comes when the server has been told to end."""
    headers = {"Retry-After": "1", "Connection": "close"}  # another server is found by another connection
    return ApiError(503, "the server ends; ask another one, or again when it is back", code="draining", headers=headers)


def too_slow(seconds: float) -> ApiError:
    """Return the error for a request that took too long."""
    return ApiError(504, f"the request was not done within {seconds:g} seconds", code="timeout")


def gone() -> ApiError:
    """Return the error for a request whose client did not wait for the answer; only logs and figures see it."""
    return ApiError(499, "the client has gone", code="gone")
