"""What chat needs of the game and of a connection; others implement it, chat imports neither."""

from __future__ import annotations

from typing import Protocol

from attrs import frozen
from twisted.internet.defer import Deferred

from svcserver.kernel.ids import AccountId


class BadToken(Exception):
    """The token speaks for nobody; ``str()`` is ``expired`` or ``bad-token``, for the log."""


@frozen
class About:
    """An account as chat sees it at one moment."""

    name: str
    guild: str | None = None
    friends: frozenset[AccountId] = frozenset()
    blocks: frozenset[AccountId] = frozenset()
    blocked_by: frozenset[AccountId] = frozenset()

    def apart_from(self, other: AccountId) -> bool:
        """Whether either has blocked the other."""
        return other in self.blocks or other in self.blocked_by


class Proofs(Protocol):
    """What login asks."""

    def account_of(self, token: str) -> AccountId:
        """Whom a player token speaks for; raises BadToken."""


class Accounts(Protocol):
    """What is read of an account, and read again while it is here."""

    def about(self, account: AccountId) -> Deferred[About | None]:
        """The account as it is now; None when there is no such account."""


class Memberships(Protocol):
    """What rooms for some ask at each entry and line; without waiting."""

    def party_of(self, account: AccountId) -> str | None:
        """The id of the account's party, now."""


class Game(Proofs, Accounts, Memberships, Protocol):
    """The game behind the chat: all of these."""


class Wire(Protocol):
    """A connection, as a session uses it. After ``end`` nothing more is sent or received."""

    def send(self, frame: bytes) -> None:
        """Write one finished WebSocket frame."""

    def end(self, code: int | None, reason: str = "") -> None:
        """Close with a WebSocket code once what was sent is out; None cuts the connection."""
