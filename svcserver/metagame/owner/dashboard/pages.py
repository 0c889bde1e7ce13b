"""Serves the dashboard's files from the package. They contain no secret: the admin key is
typed into the page and stays in its memory.

Spec: 2 §4 Management API; 1 §5.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import ClassVar

from attrs import field, frozen

from svcserver.kernel.refusals import Missing
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import Answer, Page, bare

PAGE = "index.html"
_KINDS = {
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

NOTHING = Answer(404)
TO_THE_PAGE = Answer(302, b"", HEADERS | {"Location": "/svc/dashboard"})


def read_files() -> dict[str, Answer]:
    """The answers with the page's files, by name."""
    found = {}
    for one in files(__package__).joinpath("static").iterdir():
        kind = _KINDS.get("." + one.name.rpartition(".")[2])
        if kind is not None:
            found[one.name] = Answer(200, one.read_bytes(), HEADERS, kind)
    return found


@frozen
class DashboardPageRoutes:
    """The page, its styles, scripts and icon."""

    routes: ClassVar[Routes] = Routes(bare)
    kept: Mapping[str, Answer] = field(factory=read_files)

    @routes.row("GET", "/", access=Access.NONE, reply=Page, quiet=True)
    async def root(self, call: Call) -> Answer:
        """Sends a browser that calls directly to the page; for everybody else nothing is here."""
        request = call.request
        wanted = (request.header(b"accept") or "").lower()
        if "text/html" not in wanted or not request.direct:
            return NOTHING
        return TO_THE_PAGE

    @routes.row("GET", "/svc/dashboard", access=Access.DIRECT, reply=Page, quiet=True)
    async def page(self, call: Call) -> Answer:
        """The owner's page, for a browser on this machine."""
        return self.kept[PAGE]

    @routes.row("GET", "/svc/dashboard/<file>", access=Access.DIRECT, quiet=True)
    async def part(self, call: Call, file: str) -> Answer:
        """One of the page's files."""
        found = self.kept.get(file)
        if found is None:
            raise Missing("the page has no such file")
        return found
