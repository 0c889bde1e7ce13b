"""``GET /svc/api/BackendHealth``. Spec: 2 §4 Management API."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from attrs import frozen

from svcserver.kernel.roles import Role
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.owner.health import wire
from svcserver.metagame.owner.health.rules import Health
from svcserver.metagame.owner.memory import memory_mb
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer, bare


@frozen
class HealthRoutes:
    """``BackendHealth``, where the setting switches it on."""

    routes: ClassVar[Routes] = Routes(bare)
    health: Health
    reads: ReadLimit
    wall_clock: Callable[[], float]
    started_at: float

    @routes.row(
        "GET",
        "/svc/api/BackendHealth",
        access=Access.ADMIN_KEY,
        role=Role.HELPER,
        when=lambda settings: settings.backend_health,
        reply=wire.BackendHealthReply,
        quiet=True,
    )
    async def report(self, call: Call) -> Answer:
        """How busy the server is: requests, event loop, memory. 404 unless BACKEND_HEALTH=1."""
        await self.reads.take(call.request.peer)
        now = self.wall_clock()
        reply: wire.BackendHealthReply = {
            "uptimeSeconds": int(now - self.started_at),
            "memoryMB": memory_mb(),
            "requests": wire.show_requests(self.health.requests.last_minute(now)),
            "eventLoop": wire.show_loop(self.health.loop.report()),
            "bans": {"supported": False, "count": None},
        }
        return Answer(200, reply, NO_STORE)
