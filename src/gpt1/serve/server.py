"""A server from runs and settings to its end: SIGTERM or Ctrl-C let what is in flight be answered first."""

from __future__ import annotations

import math
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from gpt1.base.errors import SettingError, unknown
from gpt1.base.garbage import never_looked_through_again
from gpt1.finetuning.drifting import ENCODING, FEWEST, read_unlabelled, too_few
from gpt1.inference.answering import task_of
from gpt1.inference.run import load_run
from gpt1.serve.app import Server, build_app
from gpt1.serve.drift import DriftWatch
from gpt1.serve.engine import FAILED, READY, Engine
from gpt1.serve.guards import LOOPBACK, host_of
from gpt1.serve.listening import address_of, is_loopback, listen
from gpt1.serve.monitoring import Meters, logging_settings
from gpt1.serve.patience import BoundedServer, impatient
from gpt1.serve.settings import ServerSettings
from gpt1.serve.shares import ConnectionShare
from gpt1.tasks.catalog import refuse_words

TURN_SECONDS = 0.0001  # a run's thread may keep the server's from going on, after each thing it sends; Python: 0.005


def make_app(settings: ServerSettings) -> FastAPI:
    """Return the application; the runs are loaded when it starts."""
    host, token, limits = settings.host, settings.token, settings.limits
    if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token != ""):
        raise SettingError("a token is of plain ASCII characters, without blanks at its ends")
    meters = Meters()
    engines: dict[str, Engine] = {}
    for given in settings.runs:
        name, path = _named(given)
        if name in engines:
            raise SettingError(f"two runs are called '{name}'; give one another name: NAME={path}")
        run = load_run(path, device=settings.device, int8=settings.int8)
        engines[name] = Engine(run, name, limits, meters.batched(name))
        meters.watch(name)
        engines[name].tell_of_status(partial(_tell_ready, meters, name))
    tables = dict(_reference(given, engines) for given in settings.reference)
    watches = {
        name: DriftWatch(engine, meters, tables.get(name), settings.worded, watchers=settings.workers)
        for name, engine in engines.items()
    }
    own = host_of(f"[{host}]" if ":" in host else host)
    hosts = (*LOOPBACK, own or host) if is_loopback(host) else None
    return build_app(Server(engines, limits, meters, watches), token=token, hosts=hosts)


def serve(settings: ServerSettings, started: Callable[[str], None]) -> None:
    """Serve until told to stop; `started` is told the address."""
    app = make_app(settings)
    listening = listen(settings.host, settings.port)
    started(address_of(listening, settings.host))
    answer_requests(app, listening, json_logs=settings.json_logs)


def answer_requests(
    app: FastAPI,
    listening: socket.socket,
    *,
    json_logs: bool,
    share: ConnectionShare | None = None,
    opened: Callable[[], None] = lambda: None,
) -> None:
    """Answer requests that come in at a socket until told to stop.

    Who has a `share` has others that listen at the same socket: no connection is taken before all runs are loaded,
    of which `opened` is told, and the server ends when any of them fails.
    """
    sys.setswitchinterval(TURN_SECONDS)
    never_looked_through_again()
    server = bounded_server(app, logging_settings(as_json=json_logs), share)
    engines = list(app.state.server.engines.values())

    def note(status: str) -> None:
        are_ready = all(engine.ready.is_set() for engine in engines)
        app.state.server.meters.works(is_ready=are_ready)
        if are_ready and share is not None:
            server.open()
            opened()
        elif status == FAILED and (share is not None or any(not engine.loaded for engine in engines)):
            server.leave()

    for engine in engines:
        engine.tell_of_status(note)
    if share is None:
        server.open()
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        if not server.should_exit:  # else it has ended well, and was told once more
            raise
    for engine in engines:
        if engine.failure is not None and not engine.loaded:
            raise engine.failure


def bounded_server(
    app: FastAPI, log_config: dict[str, object] | None, share: ConnectionShare | None = None
) -> BoundedServer:
    """Return what serves the application within its limits."""
    served: Server = app.state.server
    config = uvicorn.Config(
        app,
        http=impatient(served.limits, served.meters),
        log_config=log_config,
        log_level="warning",
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=math.ceil(served.limits.grace_seconds),
    )
    return BoundedServer(config, served.limits, served.meters, served.drain, share or ConnectionShare())


def _tell_ready(meters: Meters, name: str, status: str) -> None:
    meters.ready(name, is_ready=status == READY)


def _named(given: str) -> tuple[str, str]:
    name, equals, path = given.partition("=")
    if not equals or Path(given).exists():
        return Path(given).resolve().name, given
    if not (name and path):
        raise SettingError(f"a run is given as its folder, or as NAME=FOLDER, not '{given}'")
    return name, path


def _reference(given: str, engines: dict[str, Engine]) -> tuple[str, Path]:
    """Return the run that a table of known rows is for, and the table, which was looked at."""
    name, equals, path = given.partition("=")
    if not equals or Path(given).exists():
        if len(engines) > 1:
            raise SettingError(f"`reference` {given}: several runs are served; say whose it is: NAME={given}")
        name, path = next(iter(engines)), given
    if name not in engines:
        raise unknown("run", name, engines, of="those that are served")
    task = task_of(engines[name].run)
    refuse_words(task, "`reference`")
    rows, _, _ = read_unlabelled(path, task, ENCODING, skip_bad=False)
    if len(rows) < FEWEST:
        raise too_few(rows, path, helps="")
    return name, Path(path)
