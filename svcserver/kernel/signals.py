"""Signals: a feature notifies others of a change without importing them (observer pattern).

The feature that causes a change sends it; ``metagame/composition.py`` connects who must know:

    blocked: Signal[Blocked] = Signal()
    blocked.connect(parties.on_blocked)  # in composition.py
    blocked.send(Blocked(by, whom))  # in friends, which knows nothing of parties
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from attrs import define, field, frozen

from svcserver.kernel.ids import AccountId

T = TypeVar("T")


@define
class Signal(Generic[T]):
    """Calls every listener synchronously, in the order of connection."""

    listeners: list[Callable[[T], None]] = field(factory=list, init=False)

    def connect(self, listener: Callable[[T], None]) -> None:
        self.listeners.append(listener)

    def send(self, news: T) -> None:
        """Call every listener. One that raises is a defect, and ends the call."""
        for listener in self.listeners:
            listener(news)


@frozen
class Heard:
    """A player's client gave a sign of life (heartbeat or poll)."""

    account_id: AccountId
    map: str = ""
    state: str = ""


@frozen
class Blocked:
    """``by`` blocked ``whom``; friendship and invites between the two end."""

    by: AccountId
    whom: AccountId


@frozen
class Unfriended:
    """One of two friends has ended the friendship."""

    by: AccountId
    whom: AccountId


@frozen
class FriendAccepted:
    """A friend request sent by ``asked`` was accepted by ``accepted_by``.

    ``created`` is the ISO time of the friendship.
    """

    asked: AccountId
    accepted_by: AccountId
    created: str


@frozen
class PartyChanged:
    """These accounts are no longer in that party."""

    party_id: str
    left: tuple[AccountId, ...]


@frozen
class GuildChanged:
    """These accounts are no longer in that guild. May be sent again.

    Without an id they are in no guild; without accounts the guild was deleted.
    """

    guild_id: str
    left: tuple[AccountId, ...]


@frozen
class Renamed:
    """An account has a new username."""

    account_id: AccountId
    name: str


@frozen
class SessionsEnded:
    """Every token of the account from before ``not_before`` (epoch seconds) is refused.

    Sent before any later token exists, so every session at that moment used an old one: chat
    sessions and game places of the account end. May be sent again.
    """

    account_id: AccountId
    not_before: int


@frozen
class SentToHunt:
    """A player got the address of a hunt's server, for the first time of that hunt."""

    account_id: AccountId
    hunt_id: str


@frozen
class Announced:
    """Every chat room is to show this line of the server's.

    ``made_at`` (epoch milliseconds) identifies the announcement, and later lines of it have a
    smaller ``mark``: with these several processes send each line once.
    """

    text: str
    made_at: int = 0
    mark: int = 0


@define
class News:
    """The signals between features; ``metagame/composition.py`` connects the listeners."""

    active: Signal[Heard] = field(factory=Signal)
    blocked: Signal[Blocked] = field(factory=Signal)
    unfriended: Signal[Unfriended] = field(factory=Signal)
    friend_accepted: Signal[FriendAccepted] = field(factory=Signal)
    party_changed: Signal[PartyChanged] = field(factory=Signal)
    guild_changed: Signal[GuildChanged] = field(factory=Signal)
    renamed: Signal[Renamed] = field(factory=Signal)
    sessions_ended: Signal[SessionsEnded] = field(factory=Signal)
    announced: Signal[Announced] = field(factory=Signal)
    sent_to_hunt: Signal[SentToHunt] = field(factory=Signal)
