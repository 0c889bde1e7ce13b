"""Starts, watches and hands out game servers. Spec: 2 §3, §4 Deploy server.

Launches are queued and spaced; concurrent requests for city or dojo share one launch; a
dead server is noticed by its exit, by the watchdog, and before it is handed out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from attrs import define, evolve, field, frozen
from twisted.internet.defer import (
    Deferred,
    DeferredLock,
    TimeoutError,
    gatherResults,
    succeed,
)
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.deploy.family import TAG, Family
from svcserver.deploy.fleet import (
    PERSISTENT,
    Fleet,
    GameServer,
    GameServerRecord,
    MemoryGuard,
    NoCapacity,
)
from svcserver.deploy.hunts import HuntTable, Kind, Launch, Unlaunchable
from svcserver.deploy.kept import Kept, KeptServers
from svcserver.deploy.process import UNSEEN, WELL, GameProcess, Output
from svcserver.deploy.readiness import Readiness
from svcserver.kernel.buggify import buggify
from svcserver.kernel.ids import new_id
from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.kernel.secrets import Secret, constant_time_equal, fingerprint, hex_token

T = TypeVar("T")
log = Logger()

KILL_AFTER_S = 10.0
WATCHDOG_S = 60.0
GIVE_UP_S = 5.0  # after SIGKILL, which a process in the kernel may not heed
EXEC_S = 30.0  # for the program to be executed; milliseconds, but for a file system that is away
KEYLESS = "NO_KEY"
MAX_QUEUED = 64  # launches that may wait their turn


class Take(Protocol):
    """Makes a GameProcess that of a pid, if it still ``is_ours``; else raises OSError."""

    def __call__(self, process: GameProcess, pid: int, *, is_ours: Callable[[], bool]) -> None: ...


class Starter(Protocol):
    """What the supervisor needs of ``process.Spawner``."""

    def spawn(self, process: GameProcess, command: list[str], extra: dict[str, str]) -> int: ...


@frozen
class Program:
    """The game-server program and what every launch gives it.

    The command line, with its key, is visible in the machine's process list. So with
    ``launch_keys`` each launch gets a key of its own, valid only while its process runs.
    Otherwise all get ``key``.
    """

    binary: str
    launcher: tuple[str, ...] = ()
    extra: tuple[str, ...] = ("-server", "-nullrhi")
    key: Secret | None = None
    output: Path | None = None  # folder of the output files
    launch_keys: bool = False

    def command(
        self, launch: Launch, port: int, host: str, own_key: Secret | None = None
    ) -> list[str]:
        """The launch command line; the key, that of the launch or the shared one, comes first."""
        key = own_key or self.key
        word = key.reveal() if key is not None else KEYLESS
        return [*self.launcher, self.binary, word, *launch.arguments(port, host), *self.extra]


@define(eq=False)
class Supervisor:
    """Runs the processes of the fleet.

    ``wall_clock`` gives epoch seconds; ``is_bound`` tells whether another program holds a UDP port;
    ``broken_guard`` names a bad setting of the memory guard, which makes launches fail.
    """

    clock: Any
    wall_clock: Callable[[], float]
    starter: Starter
    program: Program
    table: HuntTable
    fleet: Fleet
    host: str
    is_bound: Callable[[int], bool]
    readiness: Readiness
    guard: MemoryGuard | None = None
    broken_guard: str = ""
    spacing_s: float = 0.0
    liveness: bool = True
    kept: KeptServers | None = None  # what outlives us on disk
    family: Callable[[str, int, int], Family] | None = None  # of an id, a port and a leader
    _processes: dict[str, GameProcess] = field(factory=dict, init=False)
    _starting: dict[Kind, list[Deferred[GameServer]]] = field(factory=dict, init=False)
    _asked: dict[str, list[Deferred[GameServer]]] = field(factory=dict, init=False)  # by match
    _queue: DeferredLock = field(factory=DeferredLock, init=False)
    _next_launch: float = field(default=0.0, init=False)
    _wanted: dict[Kind, None] = field(factory=dict, init=False)
    _hidden: dict[str, None] = field(factory=dict, init=False)  # ids whose sockets we cannot see
    _stopping: bool = field(default=False, init=False)
    _leaving: bool = field(default=False, init=False)

    async def hand_out(self, wish: LaunchRequest, match_id: str = "") -> GameServer:
        """A game server for a validated request; raises Unlaunchable or NoCapacity.

        A match that is asked for again, since its asker died, gets the server that it has.
        """
        if not self.host:
            raise Unlaunchable("MY_IP is not set")
        launch = self.table.launch(wish)
        if launch.kind in PERSISTENT:
            return await self.persistent(launch)
        if match_id:
            return await self._of_match(evolve(launch, match_id=match_id))
        return await self._launch(launch)

    def _of_match(self, launch: Launch) -> Deferred[GameServer]:
        mine: Deferred[GameServer] = Deferred()
        waiting = self._asked.get(launch.match_id)
        if waiting is not None:
            waiting.append(mine)
            return mine
        for server in self.fleet.servers.values():
            if server.launch.match_id == launch.match_id and self._is_alive(server):
                mine.callback(server)
                return mine
        self._asked[launch.match_id] = [mine]
        launched = Deferred.fromCoroutine(self._launch(launch))
        launched.addBoth(self._answer, self._asked, launch.match_id)
        return mine

    def persistent(self, launch: Launch) -> Deferred[GameServer]:
        """The city or the dojo; requests that come while it starts share the one launch."""
        self._wanted[launch.kind] = None
        mine: Deferred[GameServer] = Deferred()
        waiting = self._starting.get(launch.kind)
        if waiting is not None:  # it may be spawned, but is not ready to be handed out
            waiting.append(mine)
            return mine
        server = self.fleet.of_kind(launch.kind)
        if server is not None and (not self.liveness or self._is_alive(server)):
            mine.callback(server)
            return mine
        self._starting[launch.kind] = [mine]
        Deferred.fromCoroutine(self._replace(server, launch)).addBoth(
            self._answer, self._starting, launch.kind
        )
        return mine

    async def _replace(self, server: GameServer | None, launch: Launch) -> GameServer:
        """Launch, once nothing is left of the dead server before it, which may hold the port."""
        if server is not None:
            self._forget_dead(server)
        process = None if server is None else self._processes.get(server.id)
        if process is not None:
            process.kill("KILL")
            try:
                await process.when_over().addTimeout(KILL_AFTER_S, self.clock)
            except TimeoutError:
                raise Unlaunchable(
                    f"processes of the {launch.kind.value} before it do not end"
                ) from None
        return await self._launch(launch)

    @staticmethod
    def _answer(result: Any, waiting: dict[T, list[Deferred[GameServer]]], of: T) -> None:
        for one in waiting.pop(of):
            if not one.called:  # its caller may have been cancelled
                one.callback(result)

    async def _launch(self, launch: Launch) -> GameServer:
        """Launch through the queue; returns once the server is ready, where that is configured."""
        if self.queued() >= MAX_QUEUED:
            raise NoCapacity("ports")  # there are never so many ports to hand out
        await self._queue.acquire()
        try:
            wait = self._next_launch - self.clock.seconds()
            if wait > 0:
                await deferLater(self.clock, wait)
            server, process, proof = await self._spawn(launch)
            self._next_launch = self.clock.seconds() + self.spacing_s
        finally:
            self._queue.release()
        try:
            await self.readiness.wait(process, server.port, launch.kind, proof)
        except Unlaunchable:
            process.kill("KILL")
            raise
        return server

    async def _spawn(self, launch: Launch) -> tuple[GameServer, GameProcess, Path | None]:
        if self._stopping:
            raise Unlaunchable("the deploy server is stopping")
        if self.broken_guard:
            raise Unlaunchable(self.broken_guard)
        reservation = None
        if self.guard is not None:
            reservation = self.guard.reserve(launch.kind, self.clock.seconds())
        port = 0
        try:
            port = self._hold(launch.kind)
            server, process, proof = self._fork(launch, port)
            await self._executed(server, process)
        except (OSError, Unlaunchable, NoCapacity) as why:
            self.fleet.release(port)
            if self.guard is not None and reservation is not None:
                self.guard.release(reservation)
            if isinstance(why, OSError):
                text, binary = why.strerror or str(why), self.program.binary
                named = text if binary in text else f"{binary}: {text}"
                raise Unlaunchable(f"could not start the game server: {named}") from why
            raise
        log.info(
            "started {kind} {id} pid {pid} on port {port} with {map}",
            kind=launch.kind.value,
            id=server.id,
            pid=server.pid,
            port=port,
            map=launch.map,
        )
        return server, process, proof

    async def _executed(self, server: GameServer, process: GameProcess) -> None:
        """Return once the child has become the program; raises OSError, and then forgets it."""
        try:
            await process.when_executed().addTimeout(EXEC_S, self.clock)
        except (OSError, TimeoutError) as why:
            process.kill("KILL")
            self._drop(server)
            if isinstance(why, OSError):
                raise
            raise OSError(f"{self.program.binary} was not executed within {EXEC_S:.0f} s") from None

    def _hold(self, kind: Kind) -> int:
        if not 0 < self.fleet.first_port < self.fleet.last_port:
            raise Unlaunchable("PORT_RANGE_BEGIN and PORT_RANGE_END name no ports")
        if self.fleet.hunt_worker and kind in PERSISTENT:
            raise Unlaunchable("this is a hunt worker: no city and no dojo")
        if not self.fleet.has_ports(kind):
            raise Unlaunchable("PORT_RANGE_BEGIN and PORT_RANGE_END leave no port for hunts")
        return self.fleet.hold(kind, self.is_bound)

    def _fork(self, launch: Launch, port: int) -> tuple[GameServer, GameProcess, Path | None]:
        key = Secret(hex_token(64)) if self.program.launch_keys else None
        command = self.program.command(launch, port, self.host, key)
        output = self._output(launch.kind, port)
        if buggify("deploy: a fork fails"):
            raise OSError("out of processes")
        proof, extra = self.readiness.prepare()
        process = GameProcess(output, lambda how: self._on_end(process, how))
        server_id = new_id()
        if self.family is not None:
            process.family = self.family(server_id, port, 0)
            extra = {**extra, TAG: server_id}
        pid = self.starter.spawn(process, command, extra)
        key_hash = "" if key is None else fingerprint(key.reveal())
        server = self.fleet.started(launch, port, pid, self.wall_clock(), key_hash, server_id)
        process.moved = partial(self._moved, server.id)
        self._processes[server.id] = process
        if process.over:
            self._forget(server, "ended while it was started")
        elif self.kept is not None:
            self.kept.keep(server)
        return server, process, proof

    def adopt(self, mark: str, take: Take) -> list[int]:
        """Take over the game servers of an earlier run; the ids of their processes."""
        for one in self.kept.all() if self.kept is not None else []:
            if not one.runs(mark):
                one = self._in_background(one) or one
            if one.runs(mark) and self.fleet.adopt(one.server):
                self._take_over(one.server, partial(take, is_ours=partial(one.runs, mark)))
            elif self.kept is not None:
                self.kept.forget(one.server.id)
        return [server.pid for server in self.fleet.servers.values()]

    def _in_background(self, noted: Kept) -> Kept | None:
        """A noted game server whose noted process has ended, and another one has its port."""
        server = noted.server
        if self.family is None:
            return None
        holder = self.family(server.id, server.port, 0).holder()
        if holder is None:
            return None
        return evolve(noted, server=evolve(server, pid=holder.pid), started=holder.started)

    def _take_over(self, server: GameServer, take: Callable[[GameProcess, int], None]) -> None:
        process = GameProcess(
            self._output(server.launch.kind, server.port), lambda how: self._on_end(process, how)
        )
        self._processes[server.id] = process
        process.moved = partial(self._moved, server.id)
        if self.family is not None:
            process.family = self.family(server.id, server.port, server.pid)
        try:
            take(process, server.pid)
        except OSError as why:
            self._forget(server, f"not adopted: {why.strerror}")
            return
        log.info(
            "adopted {kind} {id} pid {pid} on port {port}",
            kind=server.launch.kind.value,
            id=server.id,
            pid=server.pid,
            port=server.port,
        )

    def _output(self, kind: Kind, port: int) -> Output | None:
        folder = self.program.output
        return None if folder is None else Output(folder / f"{kind.value}-{port}.log")

    def output_of(self, server: GameServer) -> Path | None:
        """The log file of what the game server prints; None where none is kept."""
        folder = self.program.output
        return folder and folder / f"{server.launch.kind.value}-{server.port}.log"

    def process_of(self, server_id: str) -> GameProcess | None:
        """The process of a server that is known."""
        return self._processes.get(server_id)

    def sockets_of(self, server: GameServer) -> set[int] | None:
        """The inodes of the game server's sockets; None where the system hides some of them."""
        process = self._processes.get(server.id)
        if process is None or process.family is None:
            return None
        inodes = process.family.sockets()
        if inodes is None and server.id not in self._hidden:
            self._hidden[server.id] = None
            log.warn(
                "{kind} {id} on port {port} is not watched for freezing: its processes belong to "
                "another user. Start it as the deploy server's user.",
                kind=server.launch.kind.value,
                id=server.id,
                port=server.port,
            )
        return inodes

    def want_no_more(self, kind: Kind) -> None:
        """The watchdog lets a city or dojo be, until a player asks for it."""
        self._wanted.pop(kind, None)

    def _on_end(self, process: GameProcess, how: str) -> None:
        for server_id, known in list(self._processes.items()):
            if known is process:
                server = self.fleet.servers.get(server_id)
                if server is not None:
                    self._forget(server, how)

    def _moved(self, server_id: str, pid: int) -> None:
        """A game server has gone on in the background, as another process than the one started."""
        server = self.fleet.servers.get(server_id)
        if server is None:
            return
        server = self.fleet.servers[server_id] = evolve(server, pid=pid)
        if self.kept is not None:
            self.kept.keep(server)
        log.info(
            "{kind} {id} on port {port} goes on as pid {pid}",
            kind=server.launch.kind.value,
            id=server.id,
            port=server.port,
            pid=pid,
        )

    def _drop(self, server: GameServer) -> None:
        self.fleet.ended(server.id)
        self._processes.pop(server.id, None)
        self._hidden.pop(server.id, None)
        if self.kept is not None:
            self.kept.forget(server.id)

    def _forget(self, server: GameServer, how: str) -> None:
        self._drop(server)
        usual = server.launch.kind not in PERSISTENT and how in (WELL, UNSEEN)
        tell = log.info if self._stopping or usual else log.warn
        tell(
            "{kind} {id} on port {port} ended: {how}",
            kind=server.launch.kind.value,
            id=server.id,
            port=server.port,
            how=how,
        )

    def _forget_dead(self, server: GameServer) -> None:
        process = self._processes.get(server.id)
        if process is not None:
            process.reap()  # which may end in _on_end, and so in _forget
            if process.ending:
                return  # what is left of it may hold the port
        if server.id in self.fleet.servers:
            how = "" if process is None else process.how
            self._forget(server, how or "found dead")

    def _is_alive(self, server: GameServer) -> bool:
        process = self._processes.get(server.id)
        alive = process is not None and process.alive
        if process is not None and buggify("deploy: a game server ends just after a look at it"):
            process.kill("KILL")
        return alive

    def knows_key(self, key_hash: str) -> bool:
        """Whether a running game server was launched with the key of this SHA-256 (hex)."""
        held = [
            one
            for one in self.fleet.servers.values()
            if constant_time_equal(one.key_hash, key_hash)
        ]
        return bool(key_hash) and any(self._is_alive(one) for one in held)

    def queued(self) -> int:
        """The number of waiting launches."""
        return len(self._queue.waiting)

    def records(self) -> list[GameServerRecord]:
        alive = [one.id for one in self.fleet.servers.values() if self._is_alive(one)]
        return self.fleet.records(alive)

    def watch(self) -> None:
        """The watchdog: forget dead hunts, restart dead persistent worlds."""
        for process in list(self._processes.values()):
            process.look()
        for server in list(self.fleet.servers.values()):
            if not self._is_alive(server):
                self._forget_dead(server)
        for kind in self._wanted:
            if self.fleet.of_kind(kind) is None:
                self.boot(kind)

    def boot(self, kind: Kind) -> Deferred[bool]:
        """Start the city or the dojo; fires with whether it runs. A failure is only logged."""

        def failed(why: Any) -> bool:
            why.trap(Unlaunchable, NoCapacity)
            if self._leaving:
                return True  # it may run already, and the next one looks after it
            log.critical("the {kind} did not start: {why}", kind=kind.value, why=str(why.value))
            return False

        self._wanted[kind] = None
        try:
            launch = self.table.city() if kind is Kind.CITY else self.table.dojo()
        except Unlaunchable as why:
            log.critical("the {kind} did not start: {why}", kind=kind.value, why=str(why))
            return succeed(False)
        return self.persistent(launch).addCallbacks(lambda server: True, failed)

    def leave(self) -> None:
        """Another deploy server takes over what runs: who waits for a launch asks that one."""
        self._leaving = True
        for waiting in [*self._asked.values(), *self._starting.values()]:
            for one in waiting:
                if not one.called:
                    one.errback(NoCapacity("ports"))

    def stop(self) -> Deferred[Any]:
        """End every game server: SIGTERM, after ``KILL_AFTER_S`` SIGKILL; fires when all ended."""
        self._stopping = True
        processes = list(self._processes.values())
        for process in processes:
            process.kill("TERM")
        late = self.clock.callLater(KILL_AFTER_S, self._kill_all, processes)

        def late_end(why: Failure) -> None:
            why.trap(TimeoutError)
            log.error("some game servers do not end; their ports may stay taken")

        def done(result: Any) -> Any:
            if late.active():
                late.cancel()
            return result

        ended = gatherResults([process.when_over() for process in processes])
        return (
            ended.addTimeout(KILL_AFTER_S + GIVE_UP_S, self.clock)
            .addErrback(late_end)
            .addBoth(done)
        )

    @staticmethod
    def _kill_all(processes: list[GameProcess]) -> None:
        for process in processes:
            process.kill("KILL")
