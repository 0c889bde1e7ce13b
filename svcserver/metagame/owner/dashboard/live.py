"""The dashboard's pages as streams of events: each page is sent what it shows, when it changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from attrs import field, frozen

from svcserver.kernel import json
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.roles import Role
from svcserver.kernel.times import iso
from svcserver.metagame.owner.dashboard import wire
from svcserver.metagame.owner.dashboard.feed import Feed
from svcserver.metagame.owner.dashboard.state import DashboardState
from svcserver.metagame.owner.health.rules import Health
from svcserver.metagame.owner.health.wire import show_loop, show_requests
from svcserver.metagame.owner.management.acts import StatusReports
from svcserver.metagame.owner.management.wire import show_status
from svcserver.metagame.owner.memory import memory_mb
from svcserver.metagame.replies import worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.eventstream import EventStreams, Look
from svcserver.web.routes import Answer

EVENTS = "text/event-stream"
LINES = 20  # of the feed


@frozen
class LivePages:
    """What each page shows; ``health`` is None where it is not watched."""

    shown: DashboardState
    feed: Feed
    reports: StatusReports
    health: Health | None
    now: Callable[[], float]

    def look(self, page: str) -> Look | None:
        """The look at a page from its beginning; None where the page is not live."""
        pages: dict[str, Callable[[], Callable[[], Awaitable[Any]]]] = {
            "overview": lambda: self._overview,
            "chat": lambda: self._chat,
            "health": self._health_from_start,
            "log": self._log_from_start,
        }
        begin = pages.get(page)
        if begin is None:
            return None
        found = begin()

        async def encoded() -> bytes | None:
            said = await found()
            return None if said is None else json.dump(said)

        return encoded

    async def _overview(self) -> Any:
        status: dict[str, Any] = {**show_status(await self.reports.full())}
        del status["uptimeSeconds"]  # else something would be new every second
        return {
            "status": status,
            "startedAt": iso(self.reports.started_at),
            "health": self._figures(),
            "feed": [
                {"number": one.number, "at": iso(one.at), "who": [*one.who], "what": one.what}
                for one in self.feed.newest(LINES)
            ],
        }

    def _figures(self) -> Any:
        if self.health is None:
            return None
        memory = memory_mb()["rss"]
        return {
            "memoryMB": {"rss": None if memory is None else round(memory)},
            "requests": show_requests(self.health.requests.last_minute(self.now())),
            "eventLoop": show_loop(self.health.loop.report()),
        }

    async def _chat(self) -> Any:
        figures = self.shown.chat
        return wire.show_chat(None if figures is None else figures())

    def _health_from_start(self) -> Callable[[], Awaitable[Any]]:
        newest = 0.0

        async def look() -> Any:
            nonlocal newest
            samples = self.shown.health.after(newest)
            if not samples and newest:
                return None
            newest = samples[-1].at if samples else 0.0
            return wire.show_health(samples, self.now())

        return look

    def _log_from_start(self) -> Callable[[], Awaitable[Any]]:
        last = -1

        async def look() -> Any:
            nonlocal last
            log = self.shown.log
            if log.count == last:
                return None
            lines, last = log.after(max(0, last)), log.count
            return {"last": last, "lines": lines}

        return look


@frozen
class LiveRoutes:
    """``/svc/api/DashboardEvents``."""

    routes: ClassVar[Routes] = Routes(worded)
    pages: LivePages
    streams: EventStreams = field()

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
        if look is None or (page == "log" and call.caller.role < Role.OWNER):
            raise Malformed("no such live page", code="bad_request")
        call.request.hopeless = True  # a service that stops does not wait for its end
        return self.streams.answer(look)
