"""The routes of maintenance mode and game servers, which the dashboard and ``svcctl`` use."""

from typing import ClassVar

from attrs import frozen

from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import staff_of
from svcserver.metagame.once import Again
from svcserver.metagame.owner.maintenance import wire
from svcserver.metagame.owner.maintenance.acts import Maintenance
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer, Needed


@frozen
class MaintenanceRoutes:
    """The routes that show and switch maintenance mode."""

    routes: ClassVar[Routes] = Routes(worded, access=Access.ADMIN_KEY, again=Again.NEVER)
    maintenance: Maintenance
    has_helper: bool = False  # an allowlist helper guards the game ports of the host's machine

    @routes.row(
        "GET", "/svc/api/DashboardDrain", role=Role.HELPER, reply=wire.DrainReply, quiet=True
    )
    async def standing(self, call: Call) -> Answer:
        """Show whether new hunts are paused, how many hunts run and how many players are online."""
        return Answer(200, wire.show_maintenance(await self.maintenance.standing()), NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardDrain",
        body=wire.DrainRequest,
        reply=wire.DrainReply,
        bad_json=BAD_JSON,
    )
    async def switch(self, call: Call[wire.DrainRequest]) -> Answer:
        """Pause new hunts, or allow them again.

        If requested, the server is stopped or restarted as soon as it is empty.
        """
        by, order = staff_of(call).name, call.body.order()
        done = await self.maintenance.switch(by, order, call.body.reason)
        return Answer(200, wire.show_maintenance(done), NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardGameServers",
        role=Role.HELPER,
        reply=wire.GameServerList,
        quiet=True,
    )
    async def game_servers(self, call: Call) -> Answer:
        """List the running game servers; the reply is 409 if the deploy server does not answer."""
        return Answer(200, wire.show_servers(await self.maintenance.game_servers()), NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardGameServer",
        body=wire.GameServerRequest,
        reply=wire.HandledReply,
        bad_json=BAD_JSON,
    )
    async def handle(self, call: Call[wire.GameServerRequest]) -> Answer:
        """Start, stop or restart a game server, or switch the draining of a machine on or off."""
        sent, by = call.body, staff_of(call).name
        made = await self.maintenance.handle(by, sent.act, sent.id, sent.kind, sent.reason)
        reply: wire.HandledReply = {"id": made}
        return Answer(200, reply, NO_STORE)

    @routes.row(
        "GET", "/svc/api/DashboardMachines", role=Role.HELPER, reply=wire.MachineEntries, quiet=True
    )
    async def machines(self, call: Call) -> Answer:
        """List the machines of the fleet; the reply is 409 if the deploy server does not answer."""
        records, agents = await self.maintenance.machines()
        reply: wire.MachineEntries = {
            "machines": [
                wire.show_machine(record, agents[record["id"]], has_helper=self.has_helper)
                for record in records
            ]
        }
        return Answer(200, reply, NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardConsole",
        reply=wire.ConsoleReply,
        query={"Id": Needed(str)},
        quiet=True,
    )
    async def console(self, call: Call) -> Answer:
        """Return the last lines that a game server printed."""
        lines = await self.maintenance.deploy.console(call.request.argument("Id") or "")
        reply: wire.ConsoleReply = {"lines": lines}
        return Answer(200, reply, NO_STORE)
