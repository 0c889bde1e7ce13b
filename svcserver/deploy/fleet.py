"""The state of the fleet of game servers: ports, records and memory reservations."""

from collections.abc import Callable, Iterable
from typing import TypedDict

from attrs import define, field, frozen

from svcserver.deploy.hunts import GameServerKind, Launch
from svcserver.kernel.ids import new_id
from svcserver.kernel.times import iso

PERSISTENT = (GameServerKind.CITY, GameServerKind.DOJO)


class NoCapacity(Exception):
    """The error when no game server can start now; ``reason`` says why.

    The answer is 503 ``capacity_unavailable``.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class GameServerRecord(TypedDict):
    """A game server in the reply to ``GET /gameservers``."""

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


class MachineRecord(TypedDict):
    """A machine that runs game servers.

    ``state`` is ready, draining, drained, down or unknown. ``players`` is the number of players
    expected in the machine's hunts. ``room`` is the number of hunts for which the machine has free
    memory and CPU cores. ``own`` is true for the machine of the deploy server. ``reached`` (null if
    unknown) says whether a datagram from another machine has reached the machine's game ports.
    """

    id: str
    name: str
    address: str
    state: str
    memoryBytes: int
    reservedBytes: int
    hunts: int
    players: int
    version: str
    room: int
    own: bool
    reached: bool | None


@frozen
class GameServer:
    """The record of a running game server."""

    id: str
    port: int
    launch: Launch
    pid: int
    started_at: float  # epoch seconds
    key_hash: str = field(default="", repr=False)  # hash of the key made for this launch
    host: str = ""  # the address of its machine; empty for MY_IP
    node: str = ""  # the id of its machine in a swarm

    def log_fields(self) -> dict[str, object]:
        """Return the log fields that identify the server: kind, id and port."""
        return {"kind": self.launch.kind.value, "id": self.id, "port": self.port}

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
    """The game servers and their UDP ports; a port can also be reserved for a launch."""

    first_port: int
    last_port: int
    hunt_worker: bool = False
    servers: dict[str, GameServer] = field(factory=dict, init=False)
    last_heartbeats: dict[str, float] = field(factory=dict, init=False)  # by server id
    _held: set[int] = field(factory=set, init=False)

    def has_ports(self, kind: GameServerKind) -> bool:
        """Return whether the port range has a port for this kind of server, free or in use."""
        return any(True for _ in self._ports(kind))

    def hold(self, kind: GameServerKind, is_bound: Callable[[int], bool]) -> int:
        """Reserve a port until ``started`` or ``release`` is called, or raise NoCapacity.

        The city has the last port of the range and the dojo the port before. Hunts and tutorials
        use the other ports, highest first. A port that another program uses is skipped.
        """
        unusable = self._held | self._taken()
        for port in self._ports(kind):
            if port not in unusable and not is_bound(port):
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
        """Record the server that a launch has started; ``now`` is in epoch seconds."""
        server = GameServer(server_id or new_id(), port, launch, pid, now, key_hash)
        self.add(server)
        return server

    def add(self, server: GameServer) -> None:
        """Record the server of a launch, and end the reservation of the server's port."""
        self._held.discard(server.port)
        self.servers[server.id] = server

    def adopt(self, server: GameServer) -> bool:
        """Record a server that an earlier deploy server started; return False if it does not fit.

        A server cannot be adopted if its port is taken or outside the port range, or if it is a
        second city or dojo.
        """
        kind = server.launch.kind
        fits = server.port in self._ports(kind) and server.port not in self._taken()
        if not fits or (kind in PERSISTENT and self.of_kind(kind) is not None):
            return False
        self.servers[server.id] = server
        return True

    def ended(self, server_id: str) -> None:
        """Remove the record of a server that has ended, which frees its port."""
        self.servers.pop(server_id, None)
        self.last_heartbeats.pop(server_id, None)

    def note_heartbeats(self, server_ids: Iterable[str], now: float) -> None:
        """Record that players on these servers sent heartbeats at the monotonic time ``now``."""
        for server_id in self.servers.keys() & server_ids:
            self.last_heartbeats[server_id] = now

    def of_kind(self, kind: GameServerKind) -> GameServer | None:
        """Return the running city or the running dojo, or None; there is at most one of each."""
        servers = self.servers.values()
        return next((server for server in servers if server.launch.kind is kind), None)

    def _taken(self) -> set[int]:
        return {server.port for server in self.servers.values()}

    def _ports(self, kind: GameServerKind) -> Iterable[int]:
        if kind is GameServerKind.CITY:
            return [self.last_port] if not self.hunt_worker else []
        if kind is GameServerKind.DOJO:
            return [self.last_port - 1] if not self.hunt_worker else []
        return range(self.last_port - 2, self.first_port - 1, -1)


@define
class MemoryGuard:
    """The guard that refuses a launch if memory is short: free - reserved < floor + cost.

    All amounts are in MB. A reservation ends when the launch fails or after ``reservation_s``.
    """

    floor: int
    cost: int
    hunt_cost: int
    reservation_s: float
    free_mb: Callable[[], float]
    _reserved: list[tuple[float, int]] = field(factory=list, init=False)  # until, MB

    def reserve(self, kind: GameServerKind, now: float) -> tuple[float, int]:
        """Return a new reservation, to be passed to ``release``; raises NoCapacity."""
        self._reserved = [(until, mb) for until, mb in self._reserved if until > now]
        cost = self.cost if kind in PERSISTENT else self.hunt_cost
        if self.free_mb() - sum(mb for _, mb in self._reserved) < self.floor + cost:
            raise NoCapacity("memory")
        reservation = (now + self.reservation_s, cost)
        self._reserved.append(reservation)
        return reservation

    def release(self, reservation: tuple[float, int]) -> None:
        """End the reservation of a failed launch."""
        if reservation in self._reserved:
            self._reserved.remove(reservation)
