"""Request and reply shapes of the dashboard. Spec: 2 §4 Management API."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, TypedDict

from attrs import frozen

from svcserver.kernel.shapes import AtMost, Opaque
from svcserver.metagame.accounts.invites import MAX_NEW
from svcserver.metagame.owner.dashboard.differences import Diff
from svcserver.metagame.owner.dashboard.history import EVERY_S, HealthSample
from svcserver.metagame.owner.dashboard.state import GUILD_TITLES, ChatFigures, ChatRoom
from svcserver.metagame.owner.health.rules import upper_bound

ApiDocument = Annotated[dict[str, Any], Opaque("An OpenAPI 3.1 document.")]
TITLED = 3  # occupants that a room's title names


class SampleReply(TypedDict):
    """A health sample: the counts since the previous sample, and the last minute's loop delays."""

    at: float
    seconds: float
    requestsPerSecond: float
    latencyP50UpperMs: int | str | None
    latencyP95UpperMs: int | str | None
    clientErrors: int
    serverErrors: int
    aborted: int
    loopP50Ms: float | None
    loopP95Ms: float | None
    loopMaxMs: float | None
    rssMB: float | None
    players: int


class HealthOverTime(TypedDict):
    """Samples of the last hour; ``now`` is the server's clock (epoch seconds)."""

    everySeconds: float
    now: float
    samples: list[SampleReply]


class HistoryRange(StrEnum):
    """A period for which the overview shows the host's load and services."""

    DAY = "day"
    WEEK = "week"

    @property
    def seconds(self) -> int:
        return 86_400 if self is HistoryRange.DAY else 7 * 86_400

    @property
    def step_s(self) -> int:
        """Return the number of seconds that one value in the reply covers."""
        return 900 if self is HistoryRange.DAY else 3600


class HistoryColumn(TypedDict):
    """The history of one kind of load, such as CPU or memory, or of one service's availability.

    Each value covers one span of time, and is null if nothing was measured in that span.
    """

    name: str
    values: list[float | None]


class HostHistoryReply(TypedDict):
    """Averages over spans of ``stepSeconds``; the first span begins at ``since`` (epoch seconds).

    ``load`` is in percent. The values of ``services`` are availabilities: the share of checks (0 to
    1) at which the service was not down. A restart of at most 45 seconds does not count as down.
    """

    range: str
    stepSeconds: int
    since: int
    load: list[HistoryColumn]
    services: list[HistoryColumn]


class RoomReply(TypedDict):
    """An occupied chat room; ``id`` is its party's or guild's id, or empty for other rooms."""

    room: str
    title: str
    kind: str
    id: str
    count: int
    names: list[str]


class ChatReply(TypedDict):
    """The chat's state; ``on`` is false if the chat is off or could not start."""

    on: bool
    connections: int
    people: int
    roomCount: int
    rooms: list[RoomReply]


class EntitlementNames(TypedDict):
    """The names of the entitlements known to this host."""

    names: list[str]


class ChangeReply(TypedDict):
    """A changed value; ``before`` is null after an addition, ``after`` is null after a removal."""

    path: str
    before: str | None
    after: str | None


class SaveDiffReply(TypedDict):
    """The differences between two saves.

    ``tooLarge`` is true if the saves are too large to compare.
    """

    tooLarge: bool
    changes: list[ChangeReply]
    more: int


class JoinString(TypedDict):
    """A join string and its QR code; without a join string, ``why`` gives the reason.

    ``qr`` has rows of 0 and 1 (1 is dark). ``letter`` has three sentences that the owner sends to
    the invited player together with the join string. The letter contains ``words``; the player
    checks that the launcher shows the same words. In a private network, ``words`` is empty.
    """

    join: str | None
    letter: list[str]
    qr: list[str] | None
    why: str | None
    words: str


class JoinStrings(TypedDict):
    """The join strings of several invite codes, in the order of the request."""

    invites: list[JoinString]


@frozen
class JoinRequest:
    """The invite code for which to make a join string."""

    Code: str


@frozen
class JoinsRequest:
    """The invite codes for which to make join strings."""

    Codes: Annotated[tuple[str, ...], AtMost(MAX_NEW)]


def show_health(samples: Sequence[HealthSample], now: float) -> HealthOverTime:
    """Return the health samples and the current time."""
    return {"everySeconds": EVERY_S, "now": now, "samples": [_sample(sample) for sample in samples]}


def _sample(sample: HealthSample) -> SampleReply:
    counts, loop = sample.counts, sample.loop
    return {
        "at": sample.at,
        "seconds": round(sample.seconds, 3),
        "requestsPerSecond": round(counts.completed / sample.seconds, 3),
        "latencyP50UpperMs": upper_bound(counts.latencies, 0.50),
        "latencyP95UpperMs": upper_bound(counts.latencies, 0.95),
        "clientErrors": counts.client_errors,
        "serverErrors": counts.server_errors,
        "aborted": counts.aborted,
        "loopP50Ms": None if loop is None else loop.p50,
        "loopP95Ms": None if loop is None else loop.p95,
        "loopMaxMs": None if loop is None else loop.longest,
        "rssMB": sample.rss_mb,
        "players": sample.players,
    }


def show_chat(figures: ChatFigures | None, guilds: Mapping[str, str]) -> ChatReply:
    """Return the chat's state; ``figures`` is None if there is no chat.

    ``guilds`` maps guild ids to names.
    """
    if figures is None:
        return {"on": False, "connections": 0, "people": 0, "roomCount": 0, "rooms": []}
    return {
        "on": True,
        "connections": figures.connections,
        "people": figures.people,
        "roomCount": figures.room_count,
        "rooms": [_room(room, guilds) for room in figures.rooms],
    }


def _room(room: ChatRoom, guilds: Mapping[str, str]) -> RoomReply:
    return {
        "room": room.room,
        "title": _title(room, guilds),
        "kind": room.kind,
        "id": room.id,
        "count": room.count,
        "names": [*room.names],
    }


def _title(room: ChatRoom, guilds: Mapping[str, str]) -> str:
    if room.kind in GUILD_TITLES:
        return GUILD_TITLES[room.kind].format(guilds.get(room.id, "A guild"))
    if room.kind in ("Party", "Hunt"):
        more = " and others" if room.count > TITLED else ""
        return f"{room.kind} of {', '.join(room.names[:TITLED])}{more}"
    return "City" if room.kind == "City" else room.room


def show_diff(diff: Diff | None) -> SaveDiffReply:
    """Return the reply with the differences; ``diff`` is None if the saves were too large."""
    if diff is None:
        return {"tooLarge": True, "changes": [], "more": 0}
    changes: list[ChangeReply] = [
        {"path": change.path, "before": change.before, "after": change.after}
        for change in diff.changes
    ]
    return {"tooLarge": False, "changes": changes, "more": diff.more}
