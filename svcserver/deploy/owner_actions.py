"""The owner's actions on one game server: start, stop, restart, and show its output."""

from attrs import define
from twisted.internet.defer import TimeoutError

from svcserver.deploy.console import OutputFile, OutputPart
from svcserver.deploy.fleet import PERSISTENT, GameServer
from svcserver.deploy.hunts import GameServerKind
from svcserver.deploy.supervisor import GIVE_UP_S, KILL_AFTER_S, Supervisor
from svcserver.kernel.refusals import Conflict, Malformed, Missing, Unavailable

NO_OUTPUT: OutputPart = {"lines": [], "cursor": "", "fresh": True, "missed": False, "ended": False}


@define(eq=False)
class OwnerActions:
    """The owner's actions on the supervisor's game servers."""

    supervisor: Supervisor

    async def apply_action(self, act: str, server_id: str, kind: str) -> str | None:
        """Start the city or dojo, restart or stop a server, or drain a machine.

        Returns the id of the city or dojo after a start or restart, else None.
        """
        match act:
            case "start":
                return (await self.start(kind)).id
            case "restart":
                return (await self.restart(server_id)).id
            case "stop":
                await self.stop(server_id)
                return None
            case "drain" | "undrain":
                if self.supervisor.drain is None:
                    raise Conflict("game servers run only on this machine")
                await self.supervisor.drain(server_id, act == "drain")
                return None
            case _:
                raise Malformed("Act must be start, stop, restart, drain or undrain")

    async def start(self, kind: str) -> GameServer:
        """Start the city or the dojo, unless it already runs."""
        persistent_kind = next(
            (persistent for persistent in PERSISTENT if persistent.value == kind), None
        )
        if persistent_kind is None:
            raise Malformed(
                "only city or dojo can be started; a hunt starts when players request one"
            )
        return await self._boot(persistent_kind)

    async def stop(self, server_id: str) -> None:
        """Stop a server; a city or dojo starts again when a player requests it."""
        server = self._server(server_id)
        self.supervisor.stop_restarting(server.launch.kind)
        await self._end(server)

    async def restart(self, server_id: str) -> GameServer:
        """Stop the city or the dojo, and start it again on the same port."""
        server = self._server(server_id)
        if server.launch.kind not in PERSISTENT:
            raise Conflict(
                "a hunt cannot be restarted. Stop it; its players then request a new one."
            )
        await self._end(server)
        return await self._boot(server.launch.kind)

    def end_frozen(self, server: GameServer) -> None:
        """Kill a frozen server immediately; if it is a city or dojo, it is then restarted."""
        process = self.supervisor.process_of(server.id)
        if process is not None:
            process.reason = "it was frozen"
            process.kill("KILL")
            process.when_over().addCallback(lambda _: self.supervisor.watch())

    def console(self, server_id: str) -> list[str]:
        """Return the last lines of a running or ended server's output, without secrets."""
        output = self._output(server_id)
        return [] if output is None else output.last_lines()

    def output_after(self, server_id: str, cursor: str) -> OutputPart:
        """Return the server's output after a cursor, or its last lines if the cursor is empty."""
        output = self._output(server_id)
        return NO_OUTPUT if output is None else output.after(cursor)

    def _output(self, server_id: str) -> OutputFile | None:
        if server_id not in self.supervisor.fleet.servers:
            ended = self.supervisor.ended_outputs.find(server_id)
            if ended is not None:
                return ended
        process = self.supervisor.process_of(self._server(server_id).id)
        return None if process is None or process.output is None else process.output.file()

    def _server(self, server_id: str) -> GameServer:
        server = self.supervisor.fleet.servers.get(server_id)
        if server is None:
            raise Missing("no such game server is running")
        return server

    async def _end(self, server: GameServer) -> None:
        process = self.supervisor.process_of(server.id)
        if process is None:
            return
        process.reason = "stopped by staff"
        process.kill("TERM")
        clock = self.supervisor.clock
        kill = clock.callLater(KILL_AFTER_S, process.kill, "KILL")
        try:
            await process.when_over().addTimeout(KILL_AFTER_S + GIVE_UP_S, clock)
        except TimeoutError:
            raise Unavailable("some of its processes do not end. Try again later.") from None
        finally:
            if kill.active():
                kill.cancel()

    async def _boot(self, kind: GameServerKind) -> GameServer:
        if await self.supervisor.boot(kind):
            server = self.supervisor.fleet.of_kind(kind)
            if server is not None:
                return server
        raise Unavailable(f"the {kind.value} did not start. See the deploy server's log.")
