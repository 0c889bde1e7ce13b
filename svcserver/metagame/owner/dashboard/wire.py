"""Request and reply shapes of the dashboard. Spec: 2 §4 Management API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from attrs import frozen

from svcserver.kernel.shapes import Opaque
from svcserver.metagame.owner.dashboard.differences import Diff
from svcserver.metagame.owner.dashboard.history import EVERY_S, HealthSample
from svcserver.metagame.owner.dashboard.state import ChatFigures, ChatRoom
from svcserver.metagame.owner.health.rules import upper_bound

ApiDocument = Annotated[dict[str, Any], Opaque("An OpenAPI 3.1 document.")]
TITLED = 3  # occupants that a room's title names


class SampleReply(TypedDict):
    """The health since the previous sample; event-loop delays are those of the last minute."""

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


class RoomReply(TypedDict):
    """An occupied chat room; ``id`` is that of its party or guild, else empty."""

    room: str
    title: str
    kind: str
    id: str
    count: int
    names: list[str]


class ChatReply(TypedDict):
    """The chat's state; ``on`` is false while the chat is off or could not start."""

    on: bool
    connections: int
    people: int
    roomCount: int
    rooms: list[RoomReply]


class EntitlementNames(TypedDict):
    """The names of entitlements that this host knows."""

    names: list[str]


class ChangeReply(TypedDict):
    """A changed value; ``before`` is null where it was added, ``after`` where it was removed."""

    path: str
    before: str | None
    after: str | None


class SaveDiffReply(TypedDict):
    """Differences between two saves; ``tooLarge``: they were not compared."""

    tooLarge: bool
    changes: list[ChangeReply]
    more: int


class JoinString(TypedDict):
    """``join`` and its QR code (rows of 0 and 1, 1 is dark), or ``why`` there is none.

    ``letter``: three sentences that the owner sends with it.
    """

    join: str | None
    letter: list[str]
    qr: list[str] | None
    why: str | None


@frozen
class JoinWish:
    """The invite code that a link for a friend is made of."""

    Code: str


def show_health(samples: Sequence[HealthSample], now: float) -> HealthOverTime:
    """Health over time: samples every ``EVERY_S`` seconds, and the time now."""
    return {"everySeconds": EVERY_S, "now": now, "samples": [_sample(one) for one in samples]}


def _sample(one: HealthSample) -> SampleReply:
    counts, loop = one.counts, one.loop
    return {
        "at": one.at,
        "seconds": round(one.seconds, 3),
        "requestsPerSecond": round(counts.completed / one.seconds, 3),
        "latencyP50UpperMs": upper_bound(counts.latencies, 0.50),
        "latencyP95UpperMs": upper_bound(counts.latencies, 0.95),
        "clientErrors": counts.client_errors,
        "serverErrors": counts.server_errors,
        "aborted": counts.aborted,
        "loopP50Ms": None if loop is None else loop.p50,
        "loopP95Ms": None if loop is None else loop.p95,
        "loopMaxMs": None if loop is None else loop.longest,
        "rssMB": one.rss_mb,
        "players": one.players,
    }


def show_chat(figures: ChatFigures | None, guilds: Mapping[str, str]) -> ChatReply:
    """The chat's state, None where there is no chat; ``guilds`` are names by id."""
    if figures is None:
        return {"on": False, "connections": 0, "people": 0, "roomCount": 0, "rooms": []}
    return {
        "on": True,
        "connections": figures.connections,
        "people": figures.people,
        "roomCount": figures.room_count,
        "rooms": [_room(one, guilds) for one in figures.rooms],
    }


def _room(one: ChatRoom, guilds: Mapping[str, str]) -> RoomReply:
    return {
        "room": one.room,
        "title": _title(one, guilds),
        "kind": one.kind,
        "id": one.id,
        "count": one.count,
        "names": [*one.names],
    }


def _title(one: ChatRoom, guilds: Mapping[str, str]) -> str:
    """What people call a room; in its address stands an id."""
    if one.kind == "Guild":
        return guilds.get(one.id, "A guild")
    if one.kind in ("Party", "Hunt"):
        more = " and others" if one.count > TITLED else ""
        return f"{one.kind} of {', '.join(one.names[:TITLED])}{more}"
    return "City" if one.kind == "City" else one.room


def show_diff(diff: Diff | None) -> SaveDiffReply:
    """The differences; None: the saves were too large to be compared."""
    if diff is None:
        return {"tooLarge": True, "changes": [], "more": 0}
    changes: list[ChangeReply] = [
        {"path": one.path, "before": one.before, "after": one.after} for one in diff.changes
    ]
    return {"tooLarge": False, "changes": changes, "more": diff.more}
