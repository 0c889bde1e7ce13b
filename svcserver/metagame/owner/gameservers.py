"""The dashboard's pages about game servers: the fleet, each server's output, and past launches."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, TypedDict

from attrs import frozen

from svcserver.kernel.refusals import Missing, Refusal
from svcserver.kernel.roles import Role
from svcserver.kernel.shapes import Moment
from svcserver.metagame.owner.management.rules import Status
from svcserver.metagame.owner.titles import Titles
from svcserver.metagame.play.deploy_client import DeployClient, Usage
from svcserver.metagame.replies import worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer

MOST_NAMES = 40  # players named for each game server
Look = Callable[[], Awaitable[Any]]


class LaunchEntry(TypedDict):
    """A game server that has ended, or a launch that failed.

    ``how`` is the exit code, the signal, or "failed"; after a failed launch, ``port`` is 0.
    ``reason`` says why the game server has ended or the launch has failed; it may be empty.
    ``hasOutput`` is true if an owner can read the game server's last output.
    """

    id: str
    kind: str
    title: str
    port: int
    map: str
    startedAt: Moment
    endedAt: Moment
    how: str
    reason: str
    hasOutput: bool


class LaunchList(TypedDict):
    """The launches that have ended, the most recent first."""

    launches: list[LaunchEntry]


@frozen
class GameServerPages:
    """The data of the pages about game servers; ``status`` returns the server status."""

    deploy: DeployClient
    status: Callable[[], Awaitable[Status]]
    titles: Titles
    city_title: str
    wall_clock: Callable[[], float]

    async def fleet(self) -> Any:
        """Return the game servers, sorted by port.

        In the result, ``servers`` is None if the deploy server does not answer.
        """
        in_use = await self.deploy.in_use()
        if in_use is None:
            return {"servers": None, "launches": 0}
        records, usage, launches = in_use
        names = await self._names()
        servers = [
            self._server(record, names.get(record["id"], []), usage.get(record["id"]))
            for record in records
        ]
        return {"servers": sorted(servers, key=lambda server: server["port"]), "launches": launches}

    async def _names(self) -> dict[str, list[str]]:
        """Return the names of the players on each game server.

        The result is empty while the server status cannot be read.
        """
        names: dict[str, list[str]] = {}
        try:
            players = (await self.status()).players
        except Refusal:
            return names
        for player in players:
            if player.instance is not None:
                names.setdefault(player.instance, []).append(player.name)
        return names

    def _server(
        self, record: Mapping[str, Any], names: list[str], usage: Usage | None
    ) -> dict[str, Any]:
        return {
            "id": record["id"],
            "kind": str(record.get("kind") or ""),
            "title": self.titles.title(record, self.city_title),
            "port": int(record.get("port") or 0),
            "map": record["map"],
            "startedAt": record.get("startedAt"),
            "players": len(names),
            "names": names[:MOST_NAMES],
            "memoryBytes": None if usage is None else usage.memory_bytes,
            "cpuPercent": None if usage is None else usage.cpu_percent,
        }

    def console(self, server_id: str, cursor: str = "") -> Look:
        """Return a function that reads a game server's new output, from ``cursor`` on."""
        away = over = False

        async def look() -> Any:
            nonlocal away, over, cursor
            if over:
                return None
            try:
                part = await self.deploy.output(server_id, cursor)
            except Missing:
                over = True
                return {"over": True}
            except Refusal:  # the deploy server is restarting
                away = True
                return {"away": True}
            over = part["ended"]
            if not (away or over or part["lines"]) and part["cursor"] == cursor:
                return None
            away, cursor = False, part["cursor"]
            return part

        return look

    async def launches(self) -> LaunchList:
        """Return the launches that have ended.

        Raises Conflict if the deploy server does not answer.
        """
        return {"launches": [self._launch(entry) for entry in await self.deploy.history()]}

    def _launch(self, entry: Mapping[str, Any]) -> LaunchEntry:
        return {
            "id": str(entry["id"]),
            "kind": str(entry["kind"]),
            "title": self.titles.title(entry, self.city_title),
            "port": int(entry["port"]),
            "map": str(entry["map"]),
            "startedAt": entry["startedAt"],
            "endedAt": entry["endedAt"],
            "how": str(entry["how"]),
            "reason": str(entry["reason"]),
            "hasOutput": entry.get("hasOutput") is True,
        }


@frozen
class LaunchRoutes:
    """The route of the launch history."""

    routes: ClassVar[Routes] = Routes(worded, access=Access.ADMIN_KEY)
    pages: GameServerPages

    @routes.row("GET", "/svc/api/DashboardLaunches", role=Role.HELPER, reply=LaunchList, quiet=True)
    async def launches(self, call: Call) -> Answer:
        """List the last launches that have ended.

        The reply is 409 if the deploy server does not answer.
        """
        return Answer(200, await self.pages.launches(), NO_STORE)
