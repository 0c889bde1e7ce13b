"""Request and reply shapes of maintenance mode."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from attrs import frozen

from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import Moment, pascal_case, spelled, text, text_where
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.wire import Reason
from svcserver.metagame.owner.maintenance.rules import ACTS, Order, Standing
from svcserver.metagame.play.drain import TOLD, Then, Until

Word = Annotated[str, text(0, 16)]


@spelled(pascal_case)
@frozen
class DrainWish:
    """On or off; ``Then`` stop or restart, once (``Until``) no hunt runs, or nobody is online."""

    on: bool
    then: Word = ""
    until: Word = "no hunt"
    reason: Reason = ""

    def order(self) -> Order | None:
        """What is asked for, None for an end; raises Malformed."""
        if not self.on:
            return None
        try:
            wanted = Order(Then(self.then), Until(self.until), self.reason)
        except ValueError:
            wanted = None
        if wanted is None or wanted.then in TOLD.values():
            raise Malformed(
                "Then is stop, restart or empty, and Until is no hunt or nobody", code="bad_request"
            )
        return wanted


class DrainEntry(TypedDict):
    """By whom and since when no new hunts begin, and what is done then.

    ``then`` is stop, restart or empty; stopping or restarting once the stack has been told.
    """

    by: str
    since: Moment
    then: str
    until: str
    reason: str


class DrainReply(TypedDict):
    """Maintenance mode, null where it is off; ``hunts`` is null where nobody says how many run.

    Without a ``stack`` nothing can be stopped or restarted from here.
    """

    drain: DrainEntry | None
    hunts: int | None
    playersOnline: int
    empty: bool
    stack: bool


@spelled(pascal_case)
@frozen
class GameServerWish:
    """Start a kind (city, dojo), or stop or restart one by its id."""

    act: Annotated[str, text_where(ACTS.__contains__, "start, stop or restart")]
    id: Annotated[str, text(0, 64)] = ""
    kind: Word = ""
    reason: Reason = ""


class GameServerEntry(TypedDict):
    """A running game server; ``kind`` is empty where none is said."""

    id: str
    kind: str
    port: int
    map: str
    startedAt: str | None


class GameServerList(TypedDict):
    """All that the deploy server has running, for the table that stops and restarts them."""

    servers: list[GameServerEntry]


class HandledReply(TypedDict):
    """The id of the game server that runs now in its place; null after a stop."""

    id: str | None


class ConsoleReply(TypedDict):
    """The last lines that a game server has printed, without secrets."""

    lines: list[str]


def show_servers(records: list[dict[str, Any]]) -> GameServerList:
    """The list, from the deploy server's records of its instances."""
    return {
        "servers": [
            {
                "id": one["id"],
                "kind": str(one.get("kind") or ""),
                "port": int(one.get("port") or 0),
                "map": one["map"],
                "startedAt": one.get("startedAt"),
            }
            for one in records
        ]
    }


def show(standing: Standing) -> DrainReply:
    """The reply on how draining stands."""
    drain = standing.drain
    shown: DrainEntry | None = None
    if drain is not None:
        shown = {
            "by": drain.by,
            "since": iso(drain.since),
            "then": drain.then.value,
            "until": drain.until.value,
            "reason": drain.reason,
        }
    return {
        "drain": shown,
        "hunts": standing.hunts,
        "playersOnline": standing.players,
        "empty": standing.is_empty,
        "stack": standing.stack,
    }
