"""The supervisor that starts, watches and hands out game servers. Spec: 2 §3, §4 Deploy server.

Launches wait in a queue, with a pause between two launches. All requests for the city share one
launch, as do all requests for the dojo. The supervisor notices when a server's process ends.
It also checks that a server answers: at intervals, and before a player gets the server's address.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from attrs import define, evolve, field, frozen
from twisted.internet.defer import Deferred, DeferredLock, TimeoutError, gatherResults, succeed
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.deploy.console import EndedOutputs
from svcserver.deploy.datagrams import DatagramTrials
from svcserver.deploy.family import LOOK_AGE_S, TAG, Family
from svcserver.deploy.fleet import (
    PERSISTENT,
    Fleet,
    GameServer,
    GameServerRecord,
    MachineRecord,
    MemoryGuard,
    NoCapacity,
)
from svcserver.deploy.hunts import GameServerKind, HuntTable, Launch, Unlaunchable
from svcserver.deploy.launch_history import LaunchHistory
from svcserver.deploy.orders import Order, Program
from svcserver.deploy.process import CLEAN_EXIT, UNKNOWN_EXIT, GameProcess, Output
from svcserver.deploy.readiness import Readiness
from svcserver.deploy.saved_servers import SavedServer, SavedServers
from svcserver.deploy.usage import ServerUsage, UsageMeter
from svcserver.kernel.buggify import buggify
from svcserver.kernel.ids import new_id
from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.kernel.secrets import Secret, constant_time_equal, hex_token

log = Logger()

KILL_AFTER_S = 10.0
GIVE_UP_S = 5.0  # wait after SIGKILL, which a process blocked in the kernel may ignore
EXEC_S = 30.0  # for the exec, which takes milliseconds unless a file system hangs
MAX_QUEUED = 64  # maximum number of queued launches
NO_ADDRESS = "the machine has no IPv4 address; set the label svc.address of the machine"

# Makes a GameProcess watch the process with this pid. Raises OSError if the process has ended; the
# last argument returns True while it runs.
Adopt = Callable[[GameProcess, int, Callable[[], bool]], None]


class Engine(Protocol):
    """The interface of ``Spawner`` and ``SwarmEngine``, which start and end game servers.

    ``start`` begins a launch and returns the pid, or 0 if there is no pid. A failed launch raises
    OSError or NoCapacity, or is reported through ``process.end_exec``. When the game server ends,
    the engine informs the object ``process``. ``process.kill`` ends the game server.
    """

    def start(self, process: GameProcess, order: Order) -> int: ...


@frozen
class _Started:
    """A launch that has begun; a ready game server writes the file ``proof``."""

    server: GameServer
    process: GameProcess
    proof: Path | None
    reservation: tuple[float, int] | None


@define(eq=False)
class Supervisor:
    """The supervisor of the fleet's processes.

    ``wall_clock`` returns epoch seconds; ``is_bound`` returns whether another program uses a UDP
    port. ``host`` is MY_IP, or None if the engine chooses each game server's machine. If the memory
    guard has a bad setting, ``broken_guard`` names the setting, and launches fail.
    """

    clock: Any
    wall_clock: Callable[[], float]
    engine: Engine
    program: Program
    table: HuntTable
    fleet: Fleet
    host: str | None
    is_bound: Callable[[int], bool]
    readiness: Readiness
    guard: MemoryGuard | None = None
    broken_guard: str = ""
    spacing_s: float = 0.0
    liveness: bool = True
    saved: SavedServers | None = None
    begin: Callable[[], Deferred[None]] = lambda: succeed(None)  # the engine adopts servers
    leave: Callable[[], object] = lambda: None  # the last call; game servers may still run
    look: Callable[[], object] = lambda: None  # the engine lists its game servers now
    machines: Callable[[], list[MachineRecord]] = list  # empty if no swarm is used
    trials: DatagramTrials | None = None  # of the game ports of a swarm's machines
    image: str = ""  # of the game servers in a swarm
    shortages: int = 0  # launches refused because no machine had enough memory
    # pauses a machine for new hunts, or ends the pause
    drain: Callable[[str, bool], Awaitable[None]] | None = None
    history: LaunchHistory = field(factory=LaunchHistory)
    # creates the family for a server's id, port and leader
    family: Callable[[str, int, int], Family] | None = None
    _processes: dict[str, GameProcess] = field(factory=dict, init=False)
    # requests that wait for a launch, by ("kind", name) or ("match", id)
    _shared: dict[tuple[str, str], list[Deferred[GameServer]]] = field(factory=dict, init=False)
    _queue: DeferredLock = field(factory=DeferredLock, init=False)
    _next_launch: float = field(default=0.0, init=False)
    _restarted_kinds: dict[GameServerKind, None] = field(factory=dict, init=False)
    _hidden: dict[str, None] = field(factory=dict, init=False)  # servers whose sockets are hidden
    _stopping: bool = field(default=False, init=False)
    _usage: UsageMeter = field(init=False)
    _handing_over: bool = field(default=False, init=False)

    @_usage.default
    def _meter(self) -> UsageMeter:
        return UsageMeter(self.clock)

    async def hand_out(self, request: LaunchRequest, match_id: str = "") -> GameServer:
        """Return a game server for a validated request; raises Unlaunchable or NoCapacity.

        Repeated requests for one match, such as after a metagame crash, get the same server.
        """
        if self.host == "":
            raise Unlaunchable("MY_IP is not set")
        launch = self.table.launch(request)
        if launch.kind in PERSISTENT:
            server = await self.persistent_server(launch)
        elif not match_id:
            server = await self._launch(launch)
        else:
            launch = evolve(launch, match_id=match_id)
            running = partial(self._find_match, match_id)
            server = await self._share_launch(
                ("match", match_id), running, lambda: self._launch(launch)
            )
        if self.host is None and not server.host:
            if launch.kind not in PERSISTENT:
                raise Unlaunchable(NO_ADDRESS)
            raise NoCapacity("memory")  # its machine is lost, and no other machine runs it yet
        return server

    def _find_match(self, match_id: str) -> GameServer | None:
        for server in self.fleet.servers.values():
            if server.launch.match_id == match_id and self._is_alive(server):
                return server
        return None

    def persistent_server(self, launch: Launch) -> Deferred[GameServer]:
        """Return the city or dojo that ``launch`` describes; start it if it does not run."""

        def running() -> GameServer | None:
            server = self.fleet.of_kind(launch.kind)
            alive = server is not None and (not self.liveness or self._is_alive(server))
            return server if alive else None

        self._restarted_kinds[launch.kind] = None
        return self._share_launch(
            ("kind", launch.kind.value), running, lambda: self._replace(launch)
        )

    def _share_launch(
        self,
        key: tuple[str, str],
        running: Callable[[], GameServer | None],
        launch: Callable[[], Coroutine[Any, Any, GameServer]],
    ) -> Deferred[GameServer]:
        """Return the launch in progress for ``key``, else the running server, else a new launch."""
        result: Deferred[GameServer] = Deferred()
        if key in self._shared:  # it may be spawned, but is not ready to be handed out
            self._shared[key].append(result)
        elif (server := running()) is not None:
            result.callback(server)
        else:
            self._shared[key] = [result]
            Deferred.fromCoroutine(launch()).addBoth(self._resolve, key)
        return result

    def _resolve(self, result: Any, key: tuple[str, str]) -> None:
        for waiting in self._shared.pop(key):
            if not waiting.called:  # its caller may have been cancelled
                waiting.callback(result)

    async def _replace(self, launch: Launch) -> GameServer:
        """Kill the remaining processes of the previous city or dojo, then launch a new one.

        These processes may still use the port.
        """
        server = self.fleet.of_kind(launch.kind)
        if server is not None:
            self._forget_dead(server)
        process = None if server is None else self._processes.get(server.id)
        if process is not None:
            process.kill("KILL")
            try:
                await process.when_over().addTimeout(KILL_AFTER_S, self.clock)
            except TimeoutError:
                raise Unlaunchable(
                    f"processes of the previous {launch.kind.value} do not end"
                ) from None
        return await self._launch(launch)

    async def _launch(self, launch: Launch) -> GameServer:
        """Launch a server through the queue; wait for readiness if that is configured."""
        if self.queued() >= MAX_QUEUED:
            raise NoCapacity("ports")  # there are never that many ports
        await self._queue.acquire()
        try:
            wait = self._next_launch - self.clock.seconds()
            if wait > 0:
                await deferLater(self.clock, wait)
            started = self._start_or_record(launch)
            self._next_launch = self.clock.seconds() + self.spacing_s
        finally:
            self._queue.release()
        server = await self._wait_for_exec(started)
        process = started.process
        try:
            await self.readiness.wait(process, server.port, launch.kind, started.proof)
        except Unlaunchable as error:
            process.reason = process.reason or str(error)
            process.kill("KILL")
            raise
        return server

    def _start_or_record(self, launch: Launch) -> _Started:
        try:
            return self._start(launch)
        except Unlaunchable as error:
            self._record_failure(launch, error)
            raise

    def _record_failure(self, launch: Launch, error: Unlaunchable) -> None:
        if not self._stopping:
            self.history.failed(launch, self.wall_clock(), str(error))

    def _start(self, launch: Launch) -> _Started:
        """Reserve memory and a port, and begin to start the game server."""
        if self._stopping:
            raise Unlaunchable("the deploy server is stopping")
        if self.broken_guard:
            raise Unlaunchable(self.broken_guard)
        reservation = None
        if self.guard is not None:
            reservation = self.guard.reserve(launch.kind, self.clock.seconds())
        port = 0
        try:
            port = self._reserve_port(launch.kind)
            return self._start_process(launch, port, reservation)
        except (OSError, Unlaunchable, NoCapacity) as error:
            self._give_back(port, reservation)
            raise self._unlaunchable(error) from error

    def _give_back(self, port: int, reservation: tuple[float, int] | None) -> None:
        """Free the port and the memory of a failed launch."""
        self.fleet.release(port)
        if self.guard is not None and reservation is not None:
            self.guard.release(reservation)

    def _unlaunchable(self, error: Exception) -> Exception:
        """Return the error with which a launch fails; OSError becomes Unlaunchable."""
        if not isinstance(error, OSError):
            return error
        reason, binary = error.strerror or str(error), self.program.binary
        named = reason if binary in reason else f"{binary}: {reason}"
        return Unlaunchable(f"the game server could not be started: {named}")

    async def _wait_for_exec(self, started: _Started) -> GameServer:
        """Return the game server once it runs; on failure, remove it."""
        server, process = started.server, started.process
        try:
            await process.when_executed().addTimeout(EXEC_S, self.clock)
            server = self.fleet.servers.get(server.id, server)  # with the machine's address
            if self.host is None and not server.host and server.launch.kind not in PERSISTENT:
                raise OSError(NO_ADDRESS)
        except (OSError, NoCapacity, TimeoutError) as error:
            process.kill("KILL")
            self._remove(server)
            self._give_back(server.port, started.reservation)
            if isinstance(error, TimeoutError):
                error = OSError(f"{self.program.binary} did not start within {EXEC_S:.0f} s")
            failure = self._unlaunchable(error)
            if isinstance(failure, Unlaunchable):
                self._record_failure(server.launch, failure)
            raise failure from error
        log.info(
            "started {kind} {id} pid {pid} on port {port} with {map}",
            **server.log_fields(),
            pid=server.pid,
            map=server.launch.map,
        )
        return server

    def _reserve_port(self, kind: GameServerKind) -> int:
        if not 0 < self.fleet.first_port < self.fleet.last_port:
            raise Unlaunchable("PORT_RANGE_BEGIN must be above 0 and below PORT_RANGE_END")
        if self.fleet.hunt_worker and kind in PERSISTENT:
            raise Unlaunchable(
                "the deploy server cannot start a city or dojo, because HUNT_WORKER=1 is set"
            )
        if not self.fleet.has_ports(kind):
            raise Unlaunchable("PORT_RANGE_BEGIN and PORT_RANGE_END leave no port for hunts")
        return self.fleet.hold(kind, self.is_bound)

    def _start_process(
        self, launch: Launch, port: int, reservation: tuple[float, int] | None
    ) -> _Started:
        key = Secret(hex_token(64)) if self.program.launch_keys else None
        if buggify("deploy: a fork fails"):
            raise OSError("the system allows no more processes")
        proof, extra = self.readiness.prepare()
        server_id = new_id()
        process = self._new_process(server_id, launch.kind, port)
        if self.family is not None:
            extra = {**extra, TAG: server_id}
        now, host = self.wall_clock(), self.host or ""
        order = Order(server_id, launch, port, self.program, host, now, key, extra)
        server = order.server(self.engine.start(process, order))
        self.fleet.add(server)
        self._processes[server_id] = process
        if process.over:
            self._forget(server, process.how or "ended while it was started")
        elif self.saved is not None:
            self.saved.save(server)
        return _Started(server, process, proof, reservation)

    def _new_process(
        self, server_id: str, kind: GameServerKind, port: int, leader: int = 0
    ) -> GameProcess:
        path = self._output_path(kind, port)
        process = GameProcess(
            Output(path) if path else None, lambda how: self._on_end(process, how)
        )
        process.moved = partial(self._on_move, server_id)
        process.placed = partial(self._on_place, server_id)
        process.restarted = partial(self._on_restart, server_id)
        if self.family is not None:
            process.family = self.family(server_id, port, leader)
        return process

    def adopt(self, mark: str, adopt: Adopt) -> list[int]:
        """Adopt the game servers of the previous deploy server; return their process ids."""
        for saved in self.saved.load_all() if self.saved is not None else []:
            if not saved.is_running(mark):
                saved = self._find_port_holder(saved) or saved
            if saved.is_running(mark) and self.fleet.adopt(saved.server):
                self._adopt(saved.server, adopt, partial(saved.is_running, mark))
            elif self.saved is not None:
                self.saved.delete(saved.server.id)
                self._record_end(saved.server, UNKNOWN_EXIT, "it ended while this service was down")
        return [server.pid for server in self.fleet.servers.values()]

    def adopt_placed(self, server: GameServer) -> GameProcess | None:
        """Adopt a game server that runs in the swarm; return None if ``Fleet.adopt`` refuses it."""
        if not self.fleet.adopt(server):
            return None
        process = self._new_process(server.id, server.launch.kind, server.port)
        self._processes[server.id] = process
        return process

    def _find_port_holder(self, saved: SavedServer) -> SavedServer | None:
        """Return a record of the process that has the server's port open, or None."""
        server = saved.server
        if self.family is None:
            return None
        holder = self.family(server.id, server.port, 0).holder()
        if holder is None:
            return None
        return evolve(saved, server=evolve(server, pid=holder.pid), started=holder.started)

    def _adopt(self, server: GameServer, adopt: Adopt, is_running: Callable[[], bool]) -> None:
        process = self._new_process(server.id, server.launch.kind, server.port, server.pid)
        self._processes[server.id] = process
        try:
            adopt(process, server.pid, is_running)
        except OSError as error:
            self._forget(server, f"not adopted: {error.strerror}")
            return
        text = "adopted {kind} {id} pid {pid} on port {port}"
        log.info(text, **server.log_fields(), pid=server.pid)

    def _output_path(self, kind: GameServerKind, port: int) -> Path | None:
        folder = self.program.output
        return folder and folder / f"{kind.value}-{port}.log"

    def usage(self) -> Mapping[str, ServerUsage]:
        """Return the memory and CPU usage by server id; {} if the system lists no processes."""
        if self._usage.is_due():
            self._usage.measure_servers(
                {
                    server_id: process.family.members(LOOK_AGE_S)
                    for server_id, process in self._processes.items()
                    if process.family is not None
                }
            )
        return self._usage.latest()

    def process_of(self, server_id: str) -> GameProcess | None:
        return self._processes.get(server_id)

    def sockets_of(self, server: GameServer) -> set[int] | None:
        """Return the inodes of the game server's sockets, or None if the system hides some."""
        process = self._processes.get(server.id)
        if process is None or process.family is None:
            return None
        inodes = process.family.sockets()
        if inodes is None and server.id not in self._hidden:
            self._hidden[server.id] = None
            log.warn(
                "the deploy server cannot detect whether {kind} {id} on port {port} is frozen, "
                "because this game server runs as another system user. Let game servers run as the "
                "user that runs the deploy server.",
                **server.log_fields(),
            )
        return inodes

    def stop_restarting(self, kind: GameServerKind) -> None:
        """Stop the watchdog from restarting a city or dojo until a player requests it."""
        self._restarted_kinds.pop(kind, None)

    def _on_end(self, process: GameProcess, how: str) -> None:
        for server_id, known in list(self._processes.items()):
            if known is process:
                server = self.fleet.servers.get(server_id)
                if server is not None:
                    self._forget(server, how)

    def _on_move(self, server_id: str, pid: int) -> None:
        """Record the new pid of a game server whose main process has changed."""
        server = self.fleet.servers.get(server_id)
        if server is None:
            return
        server = self.fleet.servers[server_id] = evolve(server, pid=pid)
        if self.saved is not None:
            self.saved.save(server)
        log.info(
            "{kind} {id} on port {port} continues as pid {pid}", **server.log_fields(), pid=pid
        )

    def _on_place(self, server_id: str, address: str, node: str) -> None:
        """Record the address and the id of the machine on which the game server runs now."""
        server = self.fleet.servers.get(server_id)
        if server is not None:
            self.fleet.servers[server_id] = evolve(server, host=address, node=node)
            text = "{kind} {id} on port {port} runs on {address}"
            log.info(text, **server.log_fields(), address=address or "no machine")

    def _on_restart(self, server_id: str, how: str, reason: str) -> None:
        """Record that the engine restarts a city or dojo whose program has ended."""
        server = self.fleet.servers.get(server_id)
        if server is not None:
            self.history.ended(server, self.wall_clock(), how, reason)
            text = "{kind} {id} on port {port} ended and starts again: {how} {why}"
            log.warn(text, **server.log_fields(), how=how, why=reason)

    def _remove(self, server: GameServer) -> None:
        self.fleet.ended(server.id)
        self._processes.pop(server.id, None)
        self._hidden.pop(server.id, None)
        if self.saved is not None:
            self.saved.delete(server.id)

    def _record_end(self, server: GameServer, how: str, reason: str) -> None:
        process = self._processes.get(server.id)
        path = self._output_path(server.launch.kind, server.port)
        output = process.output if process is not None else Output(path) if path else None
        if output is not None:
            self.ended_outputs.store(server.id, output.file())
        self.history.ended(server, self.wall_clock(), how, reason)

    @property
    def ended_outputs(self) -> EndedOutputs:
        """The last output of the game servers that have ended."""
        return EndedOutputs(self.program.output)

    def _forget(self, server: GameServer, how: str) -> None:
        process = self._processes.get(server.id)
        self._record_end(server, how, "" if process is None else process.reason)
        self._remove(server)
        usual = server.launch.kind not in PERSISTENT and how in (CLEAN_EXIT, UNKNOWN_EXIT)
        write = log.info if self._stopping or usual else log.warn
        write("{kind} {id} on port {port} ended: {how}", **server.log_fields(), how=how)

    def _forget_dead(self, server: GameServer) -> None:
        process = self._processes.get(server.id)
        if process is not None:
            process.reap()  # this may call _on_end, and so _forget
            if process.ending:
                return  # its remaining processes may use the port
        if server.id in self.fleet.servers:
            how = "" if process is None else process.how
            self._forget(server, how or "found dead")

    def _is_alive(self, server: GameServer) -> bool:
        process = self._processes.get(server.id)
        alive = process is not None and process.alive
        if process is not None and buggify("deploy: a game server ends just after a look at it"):
            process.kill("KILL")
        return alive

    def find_key(self, key_hash: str) -> GameServer | None:
        """Return the running game server whose launch key has this SHA-256 (hex), or None."""
        matching = [
            server
            for server in self.fleet.servers.values()
            if constant_time_equal(server.key_hash, key_hash)
        ]
        alive = (server for server in matching if key_hash and self._is_alive(server))
        return next(alive, None)

    def queued(self) -> int:
        """Return the number of waiting launches."""
        return len(self._queue.waiting)

    def records(self) -> list[GameServerRecord]:
        """Return the records of the running game servers."""
        return [server.record() for server in self.fleet.servers.values() if self._is_alive(server)]

    def watch(self) -> None:
        """Run the watchdog: forget dead hunts, restart a dead city or dojo."""
        for process in list(self._processes.values()):
            process.check_port()
        for server in list(self.fleet.servers.values()):
            if not self._is_alive(server):
                self._forget_dead(server)
        for kind in self._restarted_kinds:
            if self.fleet.of_kind(kind) is None:
                self.boot(kind)

    def boot(self, kind: GameServerKind) -> Deferred[bool]:
        """Start the city or the dojo; return whether it runs. A failure is only logged."""

        def failed(failure: Failure) -> bool:
            failure.trap(Unlaunchable, NoCapacity)
            if self._handing_over:
                return True  # it may run already, and the next deploy server watches it
            reason = str(failure.value)
            log.critical("the {kind} did not start: {why}", kind=kind.value, why=reason)
            return False

        self._restarted_kinds[kind] = None
        try:
            launch = self.table.city() if kind is GameServerKind.CITY else self.table.dojo()
        except Unlaunchable:
            return succeed(failed(Failure()))
        return self.persistent_server(launch).addCallbacks(lambda server: True, failed)

    def hand_over(self) -> None:
        """Leave running servers to the next deploy server; waiting requests fail."""
        self._handing_over = True
        for waiting in [result for results in self._shared.values() for result in results]:
            if not waiting.called:
                waiting.errback(NoCapacity("ports"))

    def stop(self) -> Deferred[Any]:
        """End every game server: SIGTERM, then SIGKILL after ``KILL_AFTER_S``; wait for all."""
        self._stopping = True
        processes = list(self._processes.values())

        def signal_all(how: str) -> None:
            for process in processes:
                process.reason = process.reason or "the host stopped"
                process.kill(how)

        def timed_out(failure: Failure) -> None:
            failure.trap(TimeoutError)
            log.error("some game servers do not end, so their ports may stay in use")

        def done(result: Any) -> Any:
            if kill.active():
                kill.cancel()
            return result

        signal_all("TERM")
        kill = self.clock.callLater(KILL_AFTER_S, signal_all, "KILL")
        ended = gatherResults([process.when_over() for process in processes])
        return (
            ended.addTimeout(KILL_AFTER_S + GIVE_UP_S, self.clock)
            .addErrback(timed_out)
            .addBoth(done)
        )
