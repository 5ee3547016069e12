"""The bodies of requests: JSON as it is defined, and nothing that two readers would take for different things."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from json import JSONDecodeError
from typing import Any

from fastapi import HTTPException
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from gpt1.base.records import parse_json
from gpt1.serve.limits import ApiError, bad

CODE = "json_invalid"


class Unreadable(HTTPException):
    """A body that is not read; FastAPI passes on no other kind from where bodies are read."""

    def __init__(self, told: ApiError) -> None:
        super().__init__(told.status, told.message)
        self.told = told


class StrictRoute(APIRoute):
    """A path whose requests' bodies are read strictly."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        answer = super().get_route_handler()

        async def read_strictly(request: Request) -> Response:
            return await answer(_StrictRequest(request.scope, request.receive))

        return read_strictly


class _StrictRequest(Request):
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
