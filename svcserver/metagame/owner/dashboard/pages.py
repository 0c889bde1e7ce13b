"""The dashboard's files, read from the package. They contain no secret: a key is typed into
the page and sent once, for a session that a cookie holds.

Spec: 2 §4 Management API; 1 §5.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

from svcserver.web.routes import Answer

PAGE = "index.html"
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
_POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",  # text can never become markup
    "trusted-types 'none'",
)
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "; ".join(_POLICY),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@lru_cache(maxsize=1)
def read_files() -> Mapping[str, Answer]:
    """The answers with the page's files, by name.

    Remembered, for tests and a simulation put many services together.
    """
    found = {}
    for one in files(__package__).joinpath("static").iterdir():
        kind = KINDS.get("." + one.name.rpartition(".")[2])
        if kind is not None:
            found[one.name] = Answer(200, one.read_bytes(), HEADERS, kind)
    return found
