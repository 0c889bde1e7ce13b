"""The dashboard's pages as streams of events: each page is sent what it shows, when it changes."""

from __future__ import annotations

from typing import ClassVar, Protocol

from attrs import frozen

from svcserver.kernel.refusals import Malformed
from svcserver.kernel.roles import Role
from svcserver.metagame.replies import worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.eventstream import EventStreams, Look
from svcserver.web.routes import Answer

EVENTS = "text/event-stream"
OWNERS = ("log",)  # pages for owners alone


class Pages(Protocol):
    """Reads what the dashboard's pages show."""

    def look(self, page: str) -> Look | None:
        """The look at a page from its beginning; None where there is no such page."""


@frozen
class LiveRoutes:
    """The stream by which the dashboard's pages are kept up to date."""

    routes: ClassVar[Routes] = Routes(worded)
    pages: Pages
    streams: EventStreams

    @routes.row(
        "GET",
        "/svc/api/DashboardEvents",
        access=Access.ADMIN_KEY,
        role=Role.HELPER,
        query=("page",),
        quiet=True,
    )
    async def events(self, call: Call) -> Answer:
        """What a page shows, as server-sent events: at once, and whenever it changes."""
        if EVENTS not in (call.request.header(b"accept") or "") or call.request.method != "GET":
            raise Malformed(f"ask with Accept: {EVENTS}", code="bad_request")
        page = call.request.argument("page") or ""
        look = self.pages.look(page)
        if look is None or (page in OWNERS and call.caller.role < Role.OWNER):
            raise Malformed("no such live page", code="bad_request")
        call.request.hopeless = True  # a service that stops does not wait for its end
        return self.streams.answer(look)
