"""What the dashboard asks for and reads. Spec: 2 §4 Management API."""

from __future__ import annotations

from typing import TypedDict

from attrs import frozen

from svcserver.metagame.accounts.entries import AccountEntry
from svcserver.metagame.owner.dashboard.diffs import Change
from svcserver.metagame.owner.dashboard.history import HealthSample
from svcserver.metagame.owner.dashboard.shown import ChatRoom


class SearchReply(TypedDict):
    """``more``: there are others beyond the first fifty."""

    accounts: list[AccountEntry]
    more: bool


class HealthOverTime(TypedDict):
    """Samples of the last hour; ``now`` is the server's clock (epoch seconds)."""

    everySeconds: float
    now: float
    samples: list[HealthSample]


class ChatReply(TypedDict):
    """``on`` is false while the chat is off or could not start."""

    on: bool
    connections: int
    people: int
    roomCount: int
    rooms: list[ChatRoom]


class LogReply(TypedDict):
    """Lines ``last - len(lines) + 1`` to ``last`` since the start."""

    last: int
    lines: list[str]


class SaveDiffReply(TypedDict):
    """``tooLarge``: nothing was compared."""

    tooLarge: bool
    changes: list[Change]
    more: int


class JoinString(TypedDict):
    """``qr``: a row of the picture each, 1 is dark; ``why`` there is no string."""

    join: str | None
    qr: list[str] | None
    why: str | None


@frozen
class JoinWish:
    """An invite code that exists."""

    Code: str
