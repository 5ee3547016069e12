"""The HTTP API: OpenAI's completions, embeddings and models; classify and score besides; health, readiness, figures.

A handler checks what is asked against the limits, hands it to the run's engine, and words the answer. Nothing of what a
request says is logged.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any, Literal, TypedDict, TypeVar

from fastapi import FastAPI, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, StreamingResponse

from gpt1 import __version__
from gpt1.base.errors import Gpt1Error, RuinedWeights
from gpt1.recipes.values import TRANSFORMER
from gpt1.serve.answers import (
    AttentionAnswer,
    RowAnswers,
    ScoreAnswers,
    VectorAnswers,
    attention_tokens,
    classified,
    embedded,
    looked,
    scored,
)
from gpt1.serve.completions import Pieces, completed, completion_wishes, streamed
from gpt1.serve.drift import DriftWatch
from gpt1.serve.engine import FAILED, LOADING, Engine
from gpt1.serve.guards import Guards, Turns, Watched, error_response
from gpt1.serve.limits import ApiError, Limits, busy, gone, no_numbers, too_slow
from gpt1.serve.monitoring import Meters
from gpt1.serve.page import add_page
from gpt1.serve.patience import ANSWERING, Courtesy, Drain
from gpt1.serve.schemas import (
    AttentionRequest,
    ClassifyRequest,
    CompletionRequest,
    EmbeddingRequest,
    ScoreRequest,
    StrictRoute,
    Unreadable,
    malformed,
)

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": what}
    for status, what in {
        400: "The request makes no sense, or asks for more than the limits allow.",
        401: "The token is missing or wrong.",
        404: "There is no run of that name.",
        408: "The request did not come in in time.",
        413: "The request is too large.",
        415: "The request does not say that it is JSON.",
        429: "Too many requests wait; see Retry-After.",
        500: "The run has failed, or gives no numbers for this request; or a fault of the server itself.",
        503: "The run is not loaded yet, or the server ends; see Retry-After.",
        504: "The request took too long.",
    }.items()
}
Answer = TypeVar("Answer")
TOLD = ("title", "fields", "labels", "labels_sep", "choices", "score_range")  # of a task


class AttentionShape(TypedDict):
    """Of what attention can be asked for, and of how many tokens."""

    layers: int
    heads: int
    tokens: int


class ModelAnswer(TypedDict):
    """What a run is: OpenAI's fields, and ours."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    status: str
    kind: str
    network: str
    tokenizer: str
    context: int
    attention: AttentionShape | None  # an LSTM has none
    tasks: dict[str, dict[str, object]]


class ModelList(TypedDict):
    """All runs."""

    object: Literal["list"]
    data: list[ModelAnswer]


class Server:
    """Engines by the names of their runs, and what they are allowed to take on."""

    def __init__(
        self, engines: dict[str, Engine], limits: Limits, meters: Meters, watches: dict[str, DriftWatch]
    ) -> None:
        self.engines, self.limits, self.meters, self.watches = engines, limits, meters, watches
        self.drain = Drain()

    def engine(self, name: str) -> Engine:
        """Return the engine of a run, or say that there is none."""
        if name not in self.engines:
            message = f"there is no run '{name}'; /v1/models lists them"
            raise ApiError(404, message, code="model_not_found", param="model")
        return self.engines[name]

    @contextmanager
    def entered(self, name: str) -> Iterator[tuple[Engine, ExitStack]]:
        """Give the engine of a run and a place in its queue, which is left at the end or by who takes it over."""
        engine = self.engine(name)
        with ExitStack() as place:
            if sum(other.open for other in self.engines.values()) >= self.limits.at_work:
                raise busy()
            engine.enter()
            place.callback(self._left, engine)
            self.meters.entered(name)
            yield engine, place

    def _left(self, engine: Engine) -> None:
        self.meters.left(engine.name)
        engine.leave()


def build_app(server: Server, *, token: str | None = None, hosts: tuple[str, ...] | None = None) -> FastAPI:
    """Return the application; `hosts` are the only names it answers to (None: any)."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        for engine in server.engines.values():
            engine.start(give_others_a_turn=Courtesy(loop))
        for watch in server.watches.values():
            watch.start()
        yield
        for watch in server.watches.values():
            watch.close()
        patience = (1 - ANSWERING) / 2 * server.limits.grace_seconds
        await asyncio.gather(*(asyncio.to_thread(engine.close, patience) for engine in server.engines.values()))

    app = FastAPI(title="gpt1", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.server = server
    app.router.route_class = StrictRoute
    _add_answers(app, server)
    _add_checks(app, server)
    add_page(app)
    _add_errors(app)
    paths = [route.path for route in app.routes if hasattr(route, "path")]
    app.add_middleware(Guards, token=token, hosts=hosts, limits=server.limits, drain=server.drain)
    app.add_middleware(Watched, meters=server.meters, paths=paths)
    app.add_middleware(Turns)
    return app


def _add_answers(app: FastAPI, server: Server) -> None:
    limits = server.limits

    @app.post("/v1/completions", responses=ERRORS, response_model=None)
    async def completions(asked: CompletionRequest, http: HttpRequest) -> Response:
        """Continue texts."""
        with server.entered(asked.model) as (engine, place):
            deadline = asyncio.get_running_loop().time() + limits.request_timeout
            wishes = await _while_there(http, completion_wishes(asked, engine, limits), limits, deadline)
            if not asked.stream:
                return await _while_there(http, completed(asked, wishes, engine), limits, deadline)
            pieces = Pieces(wishes, engine, place.pop_all())
            return StreamingResponse(streamed(asked, wishes, pieces, limits, deadline), media_type="text/event-stream")

    @app.post("/v1/classify", responses=ERRORS, response_model=dict[str, Any])
    async def classify(asked: ClassifyRequest, http: HttpRequest) -> RowAnswers:
        """Answer texts or rows with a fine-tuned run: the probability of each label."""
        with server.entered(asked.model) as (engine, _):
            seen = server.watches[engine.name].see
            found = await _while_there(http, classified(asked, engine, limits, seen), limits)
            server.meters.classified(engine.name, found["task"], found["data"])
            return found

    @app.post("/v1/embeddings", responses=ERRORS, response_model=dict[str, Any])
    async def embeddings(asked: EmbeddingRequest, http: HttpRequest) -> VectorAnswers:
        """Make vectors of texts."""
        with server.entered(asked.model) as (engine, _):
            return await _while_there(http, embedded(asked, engine, limits), limits)

    @app.post("/v1/score", responses=ERRORS, response_model=dict[str, Any])
    async def score(asked: ScoreRequest, http: HttpRequest) -> ScoreAnswers:
        """Tell the log-probability of each token of texts."""
        with server.entered(asked.model) as (engine, _):
            return await _while_there(http, scored(asked, engine, limits), limits)

    @app.post("/v1/attention", responses=ERRORS, response_model=dict[str, Any])
    async def attention(asked: AttentionRequest, http: HttpRequest) -> AttentionAnswer:
        """Tell how much each token of a text takes from each one before it, in each head of a layer."""
        with server.entered(asked.model) as (engine, _):
            return await _while_there(http, looked(asked, engine, limits), limits)

    @app.get("/v1/models", response_model=dict[str, Any])
    async def models() -> ModelList:
        """List the runs, each with what it is."""
        return {"object": "list", "data": [_described(engine) for engine in server.engines.values()]}

    @app.get("/v1/models/{name}", responses={404: ERRORS[404]}, response_model=dict[str, Any])
    async def model(name: str) -> ModelAnswer:
        """Describe a run."""
        return _described(server.engine(name))


async def _while_there(
    http: HttpRequest, answer: Coroutine[Any, Any, Answer], limits: Limits, deadline: float | None = None
) -> Answer:
    """Wait for an answer as long as the client does, and as a request may take: from now, or until that time."""
    if deadline is None:
        deadline = asyncio.get_running_loop().time() + limits.request_timeout
    working, leaving = asyncio.create_task(answer), asyncio.create_task(_departure(http))
    try:
        async with asyncio.timeout_at(deadline):
            await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise gone()
        return await working
    except TimeoutError:
        raise too_slow(limits.request_timeout) from None
    finally:
        working.cancel()
        leaving.cancel()


async def _departure(http: HttpRequest) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass


def _add_checks(app: FastAPI, server: Server) -> None:
    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz")
    async def health() -> dict[str, str]:
        """Tell that the process lives."""
        return {"status": "ok"}

    @app.head("/startupz", include_in_schema=False)
    @app.get("/startupz", responses={503: {"description": "Some run is not loaded yet."}})
    async def start() -> JSONResponse:
        """Tell whether all runs have been loaded, whatever has become of them since."""
        waiting = [name for name, engine in server.engines.items() if not engine.loaded]
        return JSONResponse({"status": "waiting" if waiting else "started", "for": waiting}, 503 if waiting else 200)

    @app.head("/readyz", include_in_schema=False)
    @app.get("/readyz", responses={503: {"description": "Some run is not loaded or has failed, or the server ends."}})
    async def readiness() -> JSONResponse:
        """Tell whether requests would be answered by every run."""
        runs = {name: engine.status for name, engine in server.engines.items()}
        waiting, lost = ([name for name, found in runs.items() if found == status] for status in (LOADING, FAILED))
        status = "draining" if server.drain.has_begun else "failed" if lost else "waiting" if waiting else "ready"
        return JSONResponse({"status": status, "for": waiting, "failed": lost}, 200 if status == "ready" else 503)

    @app.head("/metrics", include_in_schema=False)
    @app.get("/metrics")
    async def metrics() -> Response:
        """Tell figures for Prometheus."""
        return Response(server.meters.text(), media_type="text/plain; version=0.0.4")


def _described(engine: Engine) -> ModelAnswer:
    run, shape = engine.run, engine.run.recipe.shape
    tasks = run.tasks if run.has_tasks else {}
    attention: AttentionShape = {"layers": shape.layers, "heads": shape.heads, "tokens": attention_tokens(shape)}
    return {
        "id": engine.name,
        "object": "model",
        "created": int((run.path / "run.json").stat().st_mtime),
        "owned_by": "gpt1",
        "status": engine.status,
        "kind": run.record.kind,
        "network": shape.kind,
        "tokenizer": run.tokenizer.kind,
        "context": shape.context,
        "attention": attention if shape.kind == TRANSFORMER else None,
        "tasks": {name: {key: getattr(task, key) for key in TOLD} for name, task in tasks.items()},
    }


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def refused(request: HttpRequest, error: ApiError) -> JSONResponse:
        return error_response(error)

    @app.exception_handler(RuinedWeights)
    async def of_the_network(request: HttpRequest, error: RuinedWeights) -> JSONResponse:
        return error_response(no_numbers())

    @app.exception_handler(Gpt1Error)
    async def of_ours(request: HttpRequest, error: Gpt1Error) -> JSONResponse:
        return error_response(ApiError(400, str(error)))

    @app.exception_handler(RequestValidationError)
    async def no_request(request: HttpRequest, error: RequestValidationError) -> JSONResponse:
        return error_response(malformed(error.errors()))

    @app.exception_handler(Unreadable)
    async def no_json(request: HttpRequest, error: Unreadable) -> JSONResponse:
        return error_response(error.told)

    @app.exception_handler(HTTPException)
    async def of_http(request: HttpRequest, error: HTTPException) -> JSONResponse:
        if error.status_code == 404:
            return error_response(ApiError(404, _no_path(app, request.url.path), code="not_found"))
        headers = dict(error.headers or {})
        code = {408: "too_slow", 413: "too_large"}.get(error.status_code)
        return error_response(ApiError(error.status_code, str(error.detail), code=code, headers=headers))


def _no_path(app: FastAPI, path: str) -> str:
    """Return what is told of a path that there is not, with those that there are."""
    every: list[str] = [getattr(route, "path", "") for route in app.routes]
    paths = sorted(one for one in every if one.startswith("/v1/"))
    chat = "; the runs here do not chat, /v1/completions continues a text" if "/chat/" in path else ""
    return f"there is no {path} here{chat}; there are {', '.join(paths)}"
