"""The dashboard's pages as streams of events: each page is sent what it shows, when it changes."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from svcserver.kernel.refusals import Malformed
from svcserver.kernel.roles import Role
from svcserver.metagame.owner.dashboard.live import LivePages
from svcserver.metagame.owner.requestlog import page_of
from svcserver.metagame.replies import worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.eventstream import EventStreams
from svcserver.web.routes import Answer, Media, Needed

EVENTS = "text/event-stream"
MOST = 64  # characters of a name or an id
OWNERS = (("page", "log"), ("page", "invites"))  # pages for owners alone


@frozen
class LiveRoutes:
    """The stream by which the dashboard's pages are kept up to date."""

    routes: ClassVar[Routes] = Routes(worded)
    pages: LivePages
    streams: EventStreams

    @routes.row(
        "GET",
        "/svc/api/DashboardEvents",
        access=Access.ADMIN_KEY,
        role=Role.HELPER,
        owners=OWNERS,
        reply=Media((EVENTS,)),
        query={"page": Needed(str), "Account": str},
        quiet=True,
    )
    async def events(self, call: Call) -> Answer:
        """What a page shows, or a mark of it, as server-sent events: at once and at each change.

        It is asked with ``Accept: text/event-stream``. The page ``account`` is that of
        ``?Account=``, a name or an id.
        """
        _check_stream(call)
        look = self.pages.look(*_asked(call), page_of(call.request))
        if look is None:
            raise Malformed("no such live page", code="bad_request")
        call.request.hopeless = True  # a service that stops does not wait for its end
        return self.streams.answer(look)


def _asked(call: Call) -> tuple[str, str]:
    """The page, and whose account it shows."""
    return call.request.argument("page") or "", (call.request.argument("Account") or "")[:MOST]


def _check_stream(call: Call) -> None:
    if EVENTS not in (call.request.header(b"accept") or "") or call.request.method != "GET":
        raise Malformed(f"ask with Accept: {EVENTS}", code="bad_request")
