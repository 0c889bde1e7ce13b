"""The routes of the server status and of the owner's list of online players. Spec: 2 §2, §4."""

from typing import ClassVar

from attrs import field, frozen

from svcserver.kernel import json
from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import is_registered
from svcserver.metagame.owner.management import wire
from svcserver.metagame.owner.management.acts import OnlinePlayers, StatusReports
from svcserver.metagame.owner.management.rules import Status
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import Answer, bare

NOTHING: tuple[Status | None, bytes] = None, b""
HEADERS = {"Cache-Control": "no-store", "Vary": "x-svc-user-api-key, Authorization"}


@frozen
class ServerStatusRoutes:
    """The server status; only registered callers see the players.

    Each status is encoded only once, because it is requested often and may list hundreds of
    players.
    """

    routes: ClassVar[Routes] = Routes(bare)
    reports: StatusReports
    _encoded: dict[bool, tuple[Status | None, bytes]] = field(factory=dict, init=False)

    @routes.row(
        "GET",
        "/svc/api/ServerStatus",
        access=Access.REGISTERED,
        reply=wire.ServerStatusReply,
        public=True,
        quiet=True,
    )
    async def status(self, call: Call) -> Answer:
        """Show the server's version; registered callers also see game servers and players."""
        known = is_registered(call)
        status = await (self.reports.full() if known else self.reports.limited())
        if self._encoded.get(known, NOTHING)[0] is not status:
            self._encoded[known] = status, json.dump(wire.show_status(status))
        return Answer(200, self._encoded[known][1], HEADERS)


@frozen
class OnlineListRoutes:
    """The owner's list of online players."""

    routes: ClassVar[Routes] = Routes(bare)
    players: OnlinePlayers

    @routes.row(
        "GET",
        "/svc/api/PrivateOnlineStats",
        access=Access.ADMIN_KEY,
        role=Role.HELPER,
        reply=list[wire.OnlineEntry],
    )
    async def everyone(self, call: Call) -> Answer:
        """List all online players, sorted by account id."""
        return Answer(200, [wire.show_online(*entry) for entry in await self.players.all()])
