"""Simulated game servers: the real deploy server starts them, and players send them datagrams."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection
from typing import Any

from attrs import define, evolve, field, frozen
from twisted.internet.error import ProcessDone, ProcessTerminated
from twisted.python.failure import Failure

from simulation.clock import START, World
from svcserver.deploy.fleet import GameServer as Running
from svcserver.deploy.orders import Order
from svcserver.deploy.process import GameProcess, UnknownExit
from svcserver.deploy.simulator import NO_PLAYERS, PERSISTENT_FROM, CommandLine

IDLE_S = 50.0  # a hunt without players ends
EMPTY_S = 5.0  # after the last player has left
BOOT_S = 2.0
FIRST_PID = 1000
DATAGRAM = 64  # bytes
ENDED_S = 150.0  # the deploy server has ended a server that has read nothing for two minutes
NEVER_HEARD_S = 180.0  # silent players are removed


@frozen
class _NotedServer:
    """A game server as saved for the next run of the deploy server."""

    server: Running
    all: Servers

    def is_running(self, mark: str) -> bool:
        """Return whether the saved process still runs."""
        return self.all.runs(self.server.pid)


@define(eq=False)
class Notes:
    """An in-memory ``deploy.saved_servers.SavedServers``, which outlives its deploy server."""

    servers: Servers
    _noted: dict[str, Running] = field(factory=dict, init=False)

    def save(self, server: Running) -> None:
        """Save a game server that was started."""
        self._noted[server.id] = evolve(server)

    def delete(self, server_id: str) -> None:
        self._noted.pop(server_id, None)

    def load_all(self) -> list[_NotedServer]:
        """Return the game servers that an earlier run of the deploy server saved."""
        return [
            _NotedServer(evolve(server), self.servers) for _, server in sorted(self._noted.items())
        ]


@define(eq=False)
class GameServer:
    """A running game server, which is the transport of its ``GameProcess``."""

    world: World
    fleet: Servers
    process: GameProcess | None  # None on a swarm
    pid: int
    line: CommandLine
    began: float
    listens: bool = False
    over: bool = False
    deaf: bool = False  # only KILL ends it
    still: bool = False  # it is frozen
    still_since: float = 0.0
    unread: int = 0  # bytes
    adopted: bool = False  # by a deploy server that did not start it
    node: str = ""  # its machine in a swarm
    address: str = ""  # of that machine
    cut_off: bool = False  # nothing reaches that machine
    code: int = 0  # its exit status
    last_heard: float = 0.0
    players: dict[str, float] = field(factory=dict)  # account -> time of the last datagram
    loot: dict[str, int] = field(factory=dict)  # rewards given, by player

    @property
    def stays(self) -> bool:
        """Return whether this is a persistent world, which keeps running without players."""
        return self.line.port >= PERSISTENT_FROM

    @property
    def plays(self) -> bool:
        """Return whether the game server admits players: it listens, and is not frozen or ended."""
        return self.listens and not (self.over or self.still or self.cut_off)

    def hear(self, ip: str, account: str, *, goodbye: bool = False) -> bool:
        """Handle a player's datagram; return whether the game server replied.

        A datagram to an earlier game server on the same port does not reach this game server.
        """
        if not self.fleet.lets_in(ip, self.line.port):
            return False
        if not self.plays:
            self.sent_to()
            return False
        self.last_heard = self.world.now
        if goodbye:
            self.players.pop(account, None)
        else:
            self.players[account] = self.world.now
        return True

    def sent_to(self) -> None:
        """Receive a datagram; a frozen game server leaves the datagram unread."""
        if self.still and not self.over:
            self.unread += DATAGRAM

    def stand_still(self, *, deaf: bool) -> None:
        """Freeze the game server; if ``deaf``, only SIGKILL can end its process."""
        self.still, self.still_since, self.deaf = True, self.world.now, deaf

    def loseConnection(self) -> None:
        """Do nothing: there are no pipes."""

    def signalProcess(self, how: str) -> None:
        """End the process a moment later; if it is ``deaf``, it ignores all signals but SIGKILL."""
        if how == "KILL" or not self.deaf:
            number = signal.SIGKILL if how == "KILL" else signal.SIGTERM
            self.world.later(0.05, lambda: self.end(by=number))

    def boot(self) -> None:
        """Start to listen and admit players."""
        if not self.over and not self.still:
            self.listens, self.last_heard = True, self.world.now
            self.world.later(5.0, self._check_players)

    def _check_players(self) -> None:
        if self.over or self.still:
            return
        now = self.world.now
        for name, at in list(self.players.items()):
            if now - at > NEVER_HEARD_S:
                del self.players[name]
        waits = EMPTY_S if self.loot or self.line.expected == NO_PLAYERS else IDLE_S
        if not self.stays and not self.players and now - self.last_heard > waits:
            self.end()
        else:
            self.world.later(5.0, self._check_players)

    def end(self, code: int = 0, by: int | None = None) -> None:
        """End the process and notify its deploy server."""
        if self.over:
            return
        self.over, self.code = True, 128 + by if by else code
        self.fleet.ended(self)
        done = code == 0 and by is None
        why: Exception = ProcessDone(0) if done else ProcessTerminated(code or None, by)
        if self.adopted:  # only the parent learns the exit status
            why = UnknownExit()
        if self.process is not None and not self.fleet.parent_dead():
            self.process.processExited(Failure(why))
            self.process.processEnded(Failure(why))


@define(eq=False)
class Servers:
    """All game servers of the host; the deploy server's supervisor starts them here.

    ``lets_in`` returns whether the firewall lets an address reach a port. Ended game servers remain
    in ``started`` until ``forget``.
    """

    world: World
    lets_in: Callable[[str, int], bool]
    started: dict[int, GameServer] = field(factory=dict)  # by pid
    launches: int = 0
    hunts: int = 0  # launched game servers that end when no player is left
    fails: int = 0  # how many of the next launches fail
    hangs: bool = False  # the next game server never listens
    twice: list[str] = field(factory=list)  # ports that two game servers used at the same time
    parent: Any = None
    end_sessions: Callable[[str, int], None] = lambda account, at: None  # as the owner does
    _bound: dict[int, GameServer] = field(factory=dict, init=False)

    def parent_dead(self) -> bool:
        """Return whether there is no running deploy server to notify."""
        return self.parent is None or bool(self.parent.dead)

    def start(self, process: GameProcess, order: Order) -> int:
        """Start a game server instead of a real process, like ``deploy.process.Spawner``."""
        if self.fails:
            self.fails -= 1
            raise OSError(12, "Cannot allocate memory")
        server = self.begin(process, CommandLine.parse(order.command()[1:]))
        process.is_zombie = lambda _: server.over
        process.makeConnection(server)
        return server.pid

    def begin(
        self, process: GameProcess | None, line: CommandLine, node: str = "", address: str = ""
    ) -> GameServer:
        """Start a game server; ``process`` is None if the game server runs in a swarm."""
        pid = FIRST_PID + self.launches
        server = GameServer(
            self.world, self, process, pid, line, self.world.now, node=node, address=address
        )
        before = self._bound.get(line.port)
        moves = server.stays and before is not None and before.node != node
        if before is not None and not moves:  # a city keeps its port on its next machine
            self.twice.append(f"port {line.port} at {self.world.now - START:.0f} s")
        self._bound[line.port] = server
        self.started[pid] = server
        self.launches += 1
        self.hunts += not server.stays
        if self.hangs:
            self.hangs = False
            server.stand_still(deaf=True)
        else:
            self.world.later(BOOT_S, server.boot)
        return server

    def runs(self, pid: int) -> bool:
        """Return whether the process with this pid is running."""
        return pid in self.started and not self.started[pid].over

    def forget(self) -> None:
        """Forget ended game servers, which would fill the memory in a long run."""
        self.started = {pid: server for pid, server in self.started.items() if not server.over}

    def ended(self, server: GameServer) -> None:
        """Release the port of an ended game server."""
        if self._bound.get(server.line.port) is server:
            del self._bound[server.line.port]

    def is_bound(self, port: int) -> bool:
        """Return whether a game server uses the UDP port, even if its deploy server has died."""
        return port in self._bound

    def running(self) -> list[GameServer]:
        """Return the game servers that have not ended."""
        return list(self._bound.values())

    def unread(self) -> list[str]:
        """Return the game servers' sockets in the format of the kernel's /proc/net/udp."""
        rows = [
            f"0: 00000000:{server.line.port:X} 0:0 07 0:{server.unread:X} 0 0 0 0 "
            f"{server.line.port}"
            for server in self.running()
        ]
        return ["\n".join(["sl local_address rem_address st tx_queue:rx_queue", *rows])]

    def ping(self, port: int) -> None:
        """Send the datagram with which the deploy server probes the game server on the port."""
        server = self.at(port)
        if server is not None:
            server.sent_to()

    def end_left_over(self, spared: Collection[int]) -> None:
        """Kill the game servers that a newly started deploy server has not adopted."""
        for server in self.running():
            if server.pid not in spared:
                server.end(by=signal.SIGKILL)

    def take(self, process: GameProcess, pid: int, is_ours: Callable[[], bool]) -> None:
        """Adopt a process as ``deploy.process.adopt`` does; raise OSError if it has ended."""
        if not self.runs(pid) or not is_ours():
            raise ProcessLookupError(3, "No such process")
        server = self.started[pid]
        server.process, server.adopted = process, True
        process.is_zombie = lambda _: server.over
        nobody: Any = None  # there is no process group of the system
        process.attach(server, nobody)

    def holds_up(self, account: str) -> bool:
        """Return whether this player is still assigned to a frozen hunt.

        The player gets no other hunt until the deploy server ends the frozen hunt.
        """
        stands = (server for server in self.started.values() if server.still and not server.over)
        since = (server.still_since for server in stands if account in server.players)
        return any(self.world.now - at < ENDED_S for at in since)

    def at(self, port: int, address: str = "") -> GameServer | None:
        """Return the game server that uses the port at this address, or None."""
        server = self._bound.get(port)
        return server if server is not None and server.address in ("", address) else None
