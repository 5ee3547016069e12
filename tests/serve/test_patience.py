"""What `serve/patience.py` changes of uvicorn, which does not promise it, is still there."""

from __future__ import annotations

import inspect

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

CALLED = {
    H11Protocol: (
        "connection_made",
        "data_received",
        "on_response_complete",
        "pause_writing",
        "resume_writing",
        "connection_lost",
    ),
    uvicorn.Server: ("startup", "shutdown"),
}
SET = {
    H11Protocol: ("loop", "conn", "transport", "cycle", "scope", "connections"),
    uvicorn.Server: ("config", "server_state", "should_exit"),
    uvicorn.Config: ("http_protocol_class",),
}


def moved(kind: type, name: str) -> str:
    return f"uvicorn {uvicorn.__version__} no longer has {kind.__name__}.{name}: see serve/patience.py"


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in CALLED.items() for name in names])
def test_uvicorn_still_has_the_method(kind: type, name: str) -> None:
    assert callable(getattr(kind, name, None)), moved(kind, name)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in SET.items() for name in names])
def test_uvicorn_still_sets_the_attribute(kind: type, name: str) -> None:
    source = inspect.getsource(kind)
    assert f"self.{name} =" in source or f"self.{name}:" in source, moved(kind, name)


def test_uvicorn_still_makes_a_protocol_of_the_same_arguments() -> None:
    wanted = {"config", "server_state", "app_state"}
    assert wanted <= inspect.signature(H11Protocol).parameters.keys(), moved(H11Protocol, "__init__")
