"""Request and reply shapes of maintenance mode."""

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from attrs import frozen

from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import Moment, pascal_case, spelled, text, text_where
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.wire import Reason
from svcserver.metagame.owner.maintenance.rules import ACTS, DrainOrder, MaintenanceStatus
from svcserver.metagame.play.drain import ORDERED, Drain, Then, Until
from svcserver.metagame.play.nodes.reports import AgentSeen

Word = Annotated[str, text(0, 16)]
HELPER_FAILS = "unknown: its allowlist helper does not work"


@spelled(pascal_case)
@frozen
class DrainRequest:
    """A request to switch maintenance mode on or off.

    ``Then`` is the next step: "stop", "restart", or "" for none. ``Until`` is the condition
    for that step: no hunt is running, or nobody is online.
    """

    on: bool
    then: Word = ""
    until: Word = "no hunt"
    reason: Reason = ""

    def order(self) -> DrainOrder | None:
        """Return the requested mode, or None to switch maintenance mode off; raises Malformed."""
        if not self.on:
            return None
        try:
            wanted = DrainOrder(Then(self.then), Until(self.until), self.reason)
        except ValueError:
            wanted = None
        if wanted is None or wanted.then in ORDERED.values():
            raise Malformed(
                'Then must be "stop", "restart" or empty, and Until "no hunt" or "nobody"',
                code="bad_request",
            )
        return wanted


class DrainEntry(TypedDict):
    """The staff member who began maintenance mode, the start time, and the next step.

    ``then`` says what happens when the server is empty: "stop", "restart", or "" if nothing
    happens. While the server stops or restarts, the value is "stopping" or "restarting".
    """

    by: str
    since: Moment
    then: str
    until: str
    reason: str


class DrainReply(TypedDict):
    """The state of maintenance mode; ``drain`` is null if the mode is off.

    ``hunts`` is null if the number of hunts is unknown. ``stack`` is false if there is no
    supervisor that can stop or restart the server.
    """

    drain: DrainEntry | None
    hunts: int | None
    playersOnline: int
    empty: bool
    stack: bool


@spelled(pascal_case)
@frozen
class GameServerRequest:
    """The game server to start, stop or restart, or the machine to drain.

    To start a game server, ``Kind`` is ``city`` or ``dojo``. To stop or restart a game server,
    ``Id`` is the id of the game server. To drain a machine or to end its draining, ``Id`` is the id
    of the machine.
    """

    act: Annotated[str, text_where(ACTS.__contains__, "start, stop, restart, drain or undrain")]
    id: Annotated[str, text(0, 64)] = ""
    kind: Word = ""
    reason: Reason = ""


class GameServerEntry(TypedDict):
    """A running game server; ``kind`` is empty if unknown."""

    id: str
    kind: str
    port: int
    map: str
    startedAt: str | None


class GameServerList(TypedDict):
    """The game servers that the deploy server runs."""

    servers: list[GameServerEntry]


class MachineEntry(TypedDict):
    """A machine that runs game servers; ``state`` is ready, draining, drained, down or unknown.

    ``room`` is the number of hunts for which the machine has free memory and CPU cores. ``agent``
    is "connected" or "away"; it is empty on the host's own machine, which needs no agent.
    ``clockSeconds`` (null if unknown) is the time by which the machine's clock is ahead of the
    host's. ``hasImage`` (null if unknown) says whether the machine has the game servers' image.
    ``gamePorts`` is "reachable" if a datagram from another machine has reached a game port, else
    "not reachable". If no test was possible, it begins with "not tried" or "unknown".
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
    agent: str
    clockSeconds: float | None
    hasImage: bool | None
    gamePorts: str


class MachineEntries(TypedDict):
    """The machines of the fleet; empty if all game servers run on the host's own machine."""

    machines: list[MachineEntry]


class HandledReply(TypedDict):
    """The id of the game server that has been started or restarted; null after other actions."""

    id: str | None


class ConsoleReply(TypedDict):
    """The last lines that a game server printed, without secrets."""

    lines: list[str]


def show_servers(records: list[dict[str, Any]]) -> GameServerList:
    """Return the reply that lists the game servers."""
    return {
        "servers": [
            {
                "id": record["id"],
                "kind": str(record.get("kind") or ""),
                "port": int(record.get("port") or 0),
                "map": record["map"],
                "startedAt": record.get("startedAt"),
            }
            for record in records
        ]
    }


def show_machine(
    record: Mapping[str, Any], agent: AgentSeen | None, *, has_helper: bool
) -> MachineEntry:
    """Return the entry of a machine.

    ``has_helper`` is true if the host has an allowlist helper, which opens UDP ports to players.
    """
    own, reached = record["own"], record["reached"]
    entry: MachineEntry = {
        "id": record["id"],
        "name": record["name"],
        "address": record["address"],
        "state": record["state"],
        "memoryBytes": record["memoryBytes"],
        "reservedBytes": record["reservedBytes"],
        "hunts": record["hunts"],
        "players": record["players"],
        "version": record["version"],
        "room": record["room"],
        "agent": "" if own else "connected" if agent is not None else "away",
        "clockSeconds": None,
        "hasImage": None,
        "gamePorts": "not tried: its agent is away",
    }
    if agent is not None:
        entry["clockSeconds"], entry["hasImage"] = agent.clock_s, agent.has_image
        reached, has_helper = agent.is_reached, agent.has_helper
    if own or agent is not None:
        entry["gamePorts"] = _game_ports(reached, has_helper=has_helper)
    if agent is not None and agent.helper_works is False:
        entry["gamePorts"] = HELPER_FAILS
    return entry


def _game_ports(reached: bool | None, *, has_helper: bool) -> str:
    if reached:
        return "reachable"
    if has_helper:
        return "not tried: its firewall admits only players"
    if reached is None:
        return "not tried: another machine's agent must be connected, and a game port must be free"
    return "not reachable"


def show_drain(drain: Drain) -> DrainEntry:
    """Return the part of the reply that describes the current mode."""
    return {
        "by": drain.by,
        "since": iso(drain.since),
        "then": drain.then.value,
        "until": drain.until.value,
        "reason": drain.reason,
    }


def show_maintenance(standing: MaintenanceStatus) -> DrainReply:
    """Return the reply with the state of maintenance mode."""
    return {
        "drain": None if standing.drain is None else show_drain(standing.drain),
        "hunts": standing.hunts,
        "playersOnline": standing.players,
        "empty": standing.is_empty,
        "stack": standing.stack,
    }
