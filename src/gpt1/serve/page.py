"""The page at `/`: a few files of the package, which ask this server alone and hold nothing of anybody's."""

from __future__ import annotations

from importlib.resources import files

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

# What is served under each path, and as what.
PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page/icon.svg": ("icon.svg", "image/svg+xml"),
    "/page/style.css": ("style.css", "text/css; charset=utf-8"),
    **{
        f"/page/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8")
        for name in ("main", "asking", "drawing", "classify", "explaining", "complete", "attention", "endings")
    },
}
# Nothing from elsewhere, nothing written into the page itself, nothing sent away, no frame around it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def add_page(app: FastAPI) -> None:
    """Serve the page and its files, read once."""
    folder = files("gpt1.serve") / "static"
    read = {path: ((folder / name).read_bytes(), kind) for path, (name, kind) in PAGE.items()}

    async def page(request: Request) -> Response:
        """Answer with a file of the page."""
        content, kind = read[request.url.path]
        return Response(content, media_type=kind, headers=HEADERS)

    for path in PAGE:
        app.add_route(path, page, include_in_schema=False)
