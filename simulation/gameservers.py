"""Game servers of the simulation: started by the real deploy server, played on by datagrams."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection
from typing import Any

from attrs import define, evolve, field, frozen
from twisted.internet.error import ProcessDone, ProcessTerminated
from twisted.python.failure import Failure

from simulation.clock import START, World
from svcserver.deploy.fleet import GameServer as Running
from svcserver.deploy.process import GameProcess, UnknownExit
from svcserver.deploy.simulator import NO_PLAYERS, PERSISTENT_FROM, CommandLine

IDLE_S = 50.0  # a hunt nobody comes to ends
EMPTY_S = 5.0  # after the last player has left
BOOT_S = 2.0
FIRST_PID = 1000
DATAGRAM = 64  # bytes
ENDED_S = 150.0  # the deploy server has ended what has read nothing for two minutes
NEVER_HEARD_S = 180.0  # players who fell silent are gone


@frozen
class _Kept:
    """What is noted of a game server."""

    server: Running
    all: Servers

    def is_running(self, mark: str) -> bool:
        """Whether the process that was noted still runs."""
        return self.all.runs(self.server.pid)


@define(eq=False)
class Notes:
    """``deploy.saved_servers.SavedServers`` in memory: it outlives its deploy server."""

    servers: Servers
    _noted: dict[str, Running] = field(factory=dict, init=False)

    def save(self, server: Running) -> None:
        """Note a game server that has been started."""
        self._noted[server.id] = evolve(server)

    def delete(self, server_id: str) -> None:
        self._noted.pop(server_id, None)

    def load_all(self) -> list[_Kept]:
        """The game servers that an earlier run of the deploy server noted."""
        return [_Kept(evolve(one), self.servers) for _, one in sorted(self._noted.items())]


@define(eq=False)
class GameServer:
    """One running game server; the transport of its ``GameProcess``."""

    world: World
    fleet: Servers
    process: GameProcess
    pid: int
    line: CommandLine
    began: float
    listens: bool = False
    over: bool = False
    deaf: bool = False  # it ends by KILL alone
    still: bool = False  # it reads nothing, and does nothing
    still_since: float = 0.0
    unread: int = 0  # bytes
    adopted: bool = False  # by a deploy server that did not start it
    heard: float = 0.0
    players: dict[str, float] = field(factory=dict)  # who, and when last heard
    loot: dict[str, int] = field(factory=dict)  # rewards given, by player

    @property
    def stays(self) -> bool:
        """Whether it is a world that never ends for want of players."""
        return self.line.port >= PERSISTENT_FROM

    @property
    def plays(self) -> bool:
        """Whether players are let in: it listens, and has not ended."""
        return self.listens and not self.over and not self.still

    def hear(self, ip: str, account: str, *, goodbye: bool = False) -> bool:
        """A datagram of a player who was sent here; whether it was answered.

        A line to a game server ends with it: who was on one that held the port earlier is
        no player of this one.
        """
        if not self.fleet.lets_in(ip, self.line.port):
            return False
        if not self.plays:
            self.sent_to()
            return False
        self.heard = self.world.now
        if goodbye:
            self.players.pop(account, None)
        else:
            self.players[account] = self.world.now
        return True

    def sent_to(self) -> None:
        """A datagram comes, and waits where nobody reads."""
        if self.still and not self.over:
            self.unread += DATAGRAM

    def stand_still(self, *, deaf: bool) -> None:
        """Read nothing more from now on; ``deaf``: it ends by KILL alone."""
        self.still, self.still_since, self.deaf = True, self.world.now, deaf

    def loseConnection(self) -> None:
        """Pipes need no closing here."""

    def signalProcess(self, how: str) -> None:
        """End it a moment later; one that hangs heeds KILL alone."""
        if how == "KILL" or not self.deaf:
            number = signal.SIGKILL if how == "KILL" else signal.SIGTERM
            self.world.later(0.05, lambda: self.end(by=number))

    def boot(self) -> None:
        """Begin to listen: from now on players are let in."""
        if not self.over and not self.still:
            self.listens, self.heard = True, self.world.now
            self.world.later(5.0, self._look)

    def _look(self) -> None:
        if self.over or self.still:
            return
        now = self.world.now
        for name, at in list(self.players.items()):
            if now - at > NEVER_HEARD_S:
                del self.players[name]
        waits = EMPTY_S if self.loot or self.line.expected == NO_PLAYERS else IDLE_S
        if not self.stays and not self.players and now - self.heard > waits:
            self.end()
        else:
            self.world.later(5.0, self._look)

    def end(self, code: int = 0, by: int | None = None) -> None:
        """End the process, and let its parent hear how."""
        if self.over:
            return
        self.over = True
        self.fleet.ended(self)
        done = code == 0 and by is None
        why: Exception = ProcessDone(0) if done else ProcessTerminated(code or None, by)
        if self.adopted:  # who is not its parent is not told how it ended
            why = UnknownExit()
        if not self.fleet.parent_dead():
            self.process.processExited(Failure(why))
            self.process.processEnded(Failure(why))


@define(eq=False)
class Servers:
    """All game servers of the host; the ``Starter`` of the supervisor.

    ``lets_in`` is the firewall. Who has ended is kept in ``started`` until ``forget``.
    """

    world: World
    lets_in: Callable[[str, int], bool]
    started: dict[int, GameServer] = field(factory=dict)  # by pid
    launches: int = 0
    hunts: int = 0  # launches of those that end when nobody is left
    fails: int = 0  # so many of the next launches cannot be started
    hangs: bool = False  # the next one never listens
    twice: list[str] = field(factory=list)  # ports that two held at once
    parent: Any = None
    end_sessions: Callable[[str, int], None] = lambda account, at: None  # the owner's hand
    _bound: dict[int, GameServer] = field(factory=dict, init=False)

    def parent_dead(self) -> bool:
        """Whether the deploy server that would hear of an end is gone."""
        return self.parent is None or bool(self.parent.dead)

    def spawn(self, process: GameProcess, command: list[str], extra: dict[str, str]) -> int:
        """Start a game server in place of a process, as ``deploy.process.Spawner`` does."""
        if self.fails:
            self.fails -= 1
            raise OSError(12, "Cannot allocate memory")
        line = CommandLine.parse(command[1:])
        pid = FIRST_PID + self.launches
        server = GameServer(self.world, self, process, pid, line, self.world.now)
        process.is_zombie = lambda _: server.over
        process.makeConnection(server)
        if line.port in self._bound:
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
        return pid

    def runs(self, pid: int) -> bool:
        """Whether this process has not ended."""
        return pid in self.started and not self.started[pid].over

    def forget(self) -> None:
        """Let go of those that have ended: a month of them would fill the memory."""
        self.started = {pid: one for pid, one in self.started.items() if not one.over}

    def ended(self, server: GameServer) -> None:
        """Give the port back."""
        if self._bound.get(server.line.port) is server:
            del self._bound[server.line.port]

    def is_bound(self, port: int) -> bool:
        """Whether a program holds the UDP port: also one that outlived its deploy server."""
        return port in self._bound

    def running(self) -> list[GameServer]:
        """The game servers that have not ended."""
        return list(self._bound.values())

    def unread(self) -> list[str]:
        """What the kernel's table says of the game servers' sockets."""
        rows = [
            f"0: 00000000:{one.line.port:X} 0:0 07 0:{one.unread:X} 0 0 0 0 {one.line.port}"
            for one in self.running()
        ]
        return ["\n".join(["sl local_address rem_address st tx_queue:rx_queue", *rows])]

    def ping(self, port: int) -> None:
        """The deploy server's datagram that means nothing."""
        server = self.at(port)
        if server is not None:
            server.sent_to()

    def end_left_over(self, spared: Collection[int]) -> None:
        """What the deploy server does at its start with those it has not adopted."""
        for one in self.running():
            if one.pid not in spared:
                one.end(by=signal.SIGKILL)

    def take(self, process: GameProcess, pid: int, is_ours: Callable[[], bool]) -> None:
        """As ``deploy.process.adopt``; raises OSError where it has ended."""
        if not self.runs(pid) or not is_ours():
            raise ProcessLookupError(3, "No such process")
        server = self.started[pid]
        server.process, server.adopted = process, True
        process.is_zombie = lambda _: server.over
        nobody: Any = None  # there is no process group of the system
        process.attach(server, nobody)

    def holds_up(self, account: str) -> bool:
        """Whether this player is still counted on a hunt that stands still.

        Until the deploy server has ended it they get no other.
        """
        stands = (one for one in self.started.values() if one.still and not one.over)
        since = (one.still_since for one in stands if account in one.players)
        return any(self.world.now - at < ENDED_S for at in since)

    def at(self, port: int) -> GameServer | None:
        """The game server that holds the port."""
        return self._bound.get(port)
