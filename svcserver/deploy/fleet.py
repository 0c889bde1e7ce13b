"""The state of the fleet of game servers: ports, records and memory reservations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypedDict

from attrs import define, field, frozen

from svcserver.deploy.hunts import Kind, Launch
from svcserver.kernel.ids import new_id
from svcserver.kernel.times import iso

PERSISTENT = (Kind.CITY, Kind.DOJO)


class NoCapacity(Exception):
    """503 ``capacity_unavailable``; ``reason`` is ``memory`` or ``ports``."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class GameServerRecord(TypedDict):
    """One game server as ``GET /gameservers`` shows it."""

    id: str
    port: int
    kind: str
    map: str
    gameMode: str | None
    behemoth: str | None
    huntId: str | None
    matchmakerHuntId: str | None
    expectedPlayers: list[str]
    maxPlayers: int | None
    startedAt: str


@frozen
class GameServer:
    """A game server that was started, and what it was started for."""

    id: str
    port: int
    launch: Launch
    pid: int
    started_at: float  # epoch seconds
    key_hash: str = field(default="", repr=False)  # of the key that was made for this launch

    def record(self) -> GameServerRecord:
        launch = self.launch
        return {
            "id": self.id,
            "port": self.port,
            "kind": launch.kind.value,
            "map": launch.map,
            "gameMode": launch.game_mode,
            "behemoth": launch.behemoth,
            "huntId": launch.hunt_id,
            "matchmakerHuntId": launch.matchmaker_hunt,
            "expectedPlayers": list(launch.players),
            "maxPlayers": launch.max_players,
            "startedAt": iso(self.started_at),
        }


@define
class Fleet:
    """Which server runs on which UDP port; a port may also be held for a launch."""

    first_port: int
    last_port: int
    hunt_worker: bool = False
    servers: dict[str, GameServer] = field(factory=dict, init=False)
    heard: dict[str, float] = field(factory=dict, init=False)  # when a player on it last was
    _held: set[int] = field(factory=set, init=False)

    def has_ports(self, kind: Kind) -> bool:
        """Whether the port range has a port, free or not, for this kind of server."""
        return any(True for _ in self._ports(kind))

    def hold(self, kind: Kind, is_bound: Callable[[int], bool]) -> int:
        """A port for a launch, until ``started`` or ``release``; raises NoCapacity.

        The city has the last port and the dojo the one before; hunts and tutorials take
        the rest, the highest first. A port that another program holds is skipped.
        """
        for port in self._ports(kind):
            if port not in self._held and port not in self._taken() and not is_bound(port):
                self._held.add(port)
                return port
        raise NoCapacity("ports")

    def release(self, port: int) -> None:
        """Free the port of a failed launch."""
        self._held.discard(port)

    def started(
        self,
        launch: Launch,
        port: int,
        pid: int,
        now: float,
        key_hash: str = "",
        server_id: str = "",
    ) -> GameServer:
        """Record the server of a launch; ``now`` in epoch seconds."""
        self._held.discard(port)
        server = GameServer(server_id or new_id(), port, launch, pid, now, key_hash)
        self.servers[server.id] = server
        return server

    def adopt(self, server: GameServer) -> bool:
        """Take a server that runs since before; False where it does not fit any more."""
        kind = server.launch.kind
        fits = server.port in self._ports(kind) and server.port not in self._taken()
        if not fits or (kind in PERSISTENT and self.of_kind(kind) is not None):
            return False
        self.servers[server.id] = server
        return True

    def ended(self, server_id: str) -> None:
        """Forget a server, which frees its port."""
        self.servers.pop(server_id, None)
        self.heard.pop(server_id, None)

    def hear(self, server_ids: Iterable[str], now: float) -> None:
        """Players on these servers were just heard; ``now`` by the monotonic clock."""
        self.heard.update((one, now) for one in server_ids if one in self.servers)

    def of_kind(self, kind: Kind) -> GameServer | None:
        """The server of a persistent kind, of which there is at most one."""
        return next((one for one in self.servers.values() if one.launch.kind is kind), None)

    def records(self, alive: Iterable[str]) -> list[GameServerRecord]:
        """The records of the servers with these ids."""
        living = set(alive)
        return [one.record() for one in self.servers.values() if one.id in living]

    def _taken(self) -> set[int]:
        return {one.port for one in self.servers.values()}

    def _ports(self, kind: Kind) -> Iterable[int]:
        if kind is Kind.CITY:
            return [self.last_port] if not self.hunt_worker else []
        if kind is Kind.DOJO:
            return [self.last_port - 1] if not self.hunt_worker else []
        return range(self.last_port - 2, self.first_port - 1, -1)


@define
class MemoryGuard:
    """Refuses launches that memory is too short for: free - reserved must cover floor + cost.

    Figures in MB; a reservation ends when the launch fails or after ``reservation_s``.
    """

    floor: int
    cost: int
    hunt_cost: int
    reservation_s: float
    free_mb: Callable[[], float]
    _reserved: list[tuple[float, int]] = field(factory=list, init=False)  # until, MB

    def reserve(self, kind: Kind, now: float) -> tuple[float, int]:
        """Take a reservation, to be given to ``release``; raises NoCapacity."""
        self._reserved = [one for one in self._reserved if one[0] > now]
        cost = self.cost if kind in PERSISTENT else self.hunt_cost
        if self.free_mb() - sum(mb for _, mb in self._reserved) < self.floor + cost:
            raise NoCapacity("memory")
        taken = (now + self.reservation_s, cost)
        self._reserved.append(taken)
        return taken

    def release(self, reservation: tuple[float, int]) -> None:
        """End the reservation of a failed launch."""
        if reservation in self._reserved:
            self._reserved.remove(reservation)
