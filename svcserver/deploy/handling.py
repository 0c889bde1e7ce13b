"""What the owner does to one game server: start, stop, restart, and read what it prints."""

from __future__ import annotations

from pathlib import Path

from attrs import define
from twisted.internet.defer import TimeoutError

from svcserver.deploy.fleet import PERSISTENT, GameServer
from svcserver.deploy.hunts import Kind
from svcserver.deploy.supervisor import GIVE_UP_S, KILL_AFTER_S, Supervisor
from svcserver.kernel.redaction import redact
from svcserver.kernel.refusals import Conflict, Malformed, Missing, Unavailable

LAST_BYTES = 64 * 1024  # of the output
LAST_LINES = 200
LONGEST = 1_000  # characters of a line


@define(eq=False)
class Handling:
    """Acts on the supervisor's game servers."""

    supervisor: Supervisor

    async def act(self, act: str, server_id: str, kind: str) -> str | None:
        """Start a kind, or restart or stop one; the id of what was started, if any."""
        match act:
            case "start":
                return (await self.start(kind)).id
            case "restart":
                return (await self.restart(server_id)).id
            case "stop":
                await self.stop(server_id)
                return None
            case _:
                raise Malformed("Act is start, stop or restart")

    async def start(self, kind: str) -> GameServer:
        """The city or the dojo; one that runs already is left as it is."""
        wanted = next((one for one in PERSISTENT if one.value == kind), None)
        if wanted is None:
            raise Malformed("city or dojo can be started; a hunt starts when players ask for one")
        return await self._boot(wanted)

    async def stop(self, server_id: str) -> None:
        """End it; a city or dojo begins again once a player asks for it."""
        server = self._server(server_id)
        self.supervisor.want_no_more(server.launch.kind)
        await self._end(server)

    async def restart(self, server_id: str) -> GameServer:
        """End the city or the dojo and start it again on its port."""
        server = self._server(server_id)
        if server.launch.kind not in PERSISTENT:
            raise Conflict("a hunt is stopped, not restarted: its players ask for a new one")
        await self._end(server)
        return await self._boot(server.launch.kind)

    def freeze(self, server: GameServer) -> None:
        """End at once what does not live any more; a city or dojo starts again by itself."""
        process = self.supervisor.process_of(server.id)
        if process is not None:
            process.kill("KILL")
            process.when_over().addCallback(lambda _: self.supervisor.watch())

    def console(self, server_id: str) -> list[str]:
        """The last lines that it has printed, without secrets."""
        output = self.supervisor.output_of(self._server(server_id))
        return [] if output is None else _last_lines(output)

    def _server(self, server_id: str) -> GameServer:
        found = self.supervisor.fleet.servers.get(server_id)
        if found is None:
            raise Missing("no such game server runs")
        return found

    async def _end(self, server: GameServer) -> None:
        process = self.supervisor.process_of(server.id)
        if process is None:
            return
        process.kill("TERM")
        clock = self.supervisor.clock
        late = clock.callLater(KILL_AFTER_S, process.kill, "KILL")
        try:
            await process.when_over().addTimeout(KILL_AFTER_S + GIVE_UP_S, clock)
        except TimeoutError:
            raise Unavailable("some of its processes do not end; try again later") from None
        finally:
            if late.active():
                late.cancel()

    async def _boot(self, kind: Kind) -> GameServer:
        if await self.supervisor.boot(kind):
            found = self.supervisor.fleet.of_kind(kind)
            if found is not None:
                return found
        raise Unavailable(f"the {kind.value} did not start; the deploy server's log says why")


def _last_lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LAST_BYTES))
            data = file.read(LAST_BYTES)
    except OSError:  # it has printed nothing yet
        return []
    lines = data.decode("utf-8", "replace").splitlines()[1 if size > LAST_BYTES else 0 :]
    plain = ("".join(one if one.isprintable() else "?" for one in line) for line in lines)
    return [redact(line[:LONGEST]) for line in list(plain)[-LAST_LINES:]]
