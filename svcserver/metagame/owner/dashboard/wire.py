"""Request and reply shapes of the dashboard. Spec: 2 §4 Management API."""

from __future__ import annotations

from typing import TypedDict

from attrs import frozen

from svcserver.metagame.accounts.entries import AccountEntry
from svcserver.metagame.owner.dashboard.history import HealthSample
from svcserver.metagame.owner.dashboard.rules import Change
from svcserver.metagame.owner.dashboard.state import ChatRoom


class SearchReply(TypedDict):
    """Found accounts; ``more``: there are others beyond the first fifty."""

    accounts: list[AccountEntry]
    more: bool


class HealthOverTime(TypedDict):
    """Samples of the last hour; ``now`` is the server's clock (epoch seconds)."""

    everySeconds: float
    now: float
    samples: list[HealthSample]


class ChatReply(TypedDict):
    """The chat's state; ``on`` is false while the chat is off or could not start."""

    on: bool
    connections: int
    people: int
    roomCount: int
    rooms: list[ChatRoom]


class LogReply(TypedDict):
    """Log lines number ``last - len(lines) + 1`` to ``last`` since the start."""

    last: int
    lines: list[str]


class SaveDiffReply(TypedDict):
    """Differences between two saves; ``tooLarge``: they were not compared."""

    tooLarge: bool
    changes: list[Change]
    more: int


class JoinString(TypedDict):
    """``join`` and its QR code (rows of 0 and 1, 1 is dark), or ``why`` there is none."""

    join: str | None
    qr: list[str] | None
    why: str | None


@frozen
class JoinWish:
    """An existing invite code."""

    Code: str
