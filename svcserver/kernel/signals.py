"""Signals: a feature notifies other features without importing them (observer pattern).

The feature that causes a change sends the signal; ``metagame/composition.py`` connects the
listeners:

    blocked: Signal[Blocked] = Signal()
    blocked.connect(parties.on_blocked)  # in composition.py
    blocked.send(Blocked(by, whom))  # in friends, which knows nothing of parties
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from attrs import define, field, frozen

from svcserver.kernel.ids import AccountId

T = TypeVar("T")


@define
class Signal(Generic[T]):
    """A signal that calls every listener synchronously, in the order of connection."""

    listeners: list[Callable[[T], None]] = field(factory=list, init=False)

    def connect(self, listener: Callable[[T], None]) -> None:
        self.listeners.append(listener)

    def send(self, news: T) -> None:
        """Call every listener in order.

        If a listener raises, which is a bug, the remaining listeners are not called.
        """
        for listener in self.listeners:
            listener(news)


@frozen
class PlayerActive:
    """A player's client has sent a heartbeat or a poll."""

    account_id: AccountId
    map: str = ""
    state: str = ""


@frozen
class Blocked:
    """One account has blocked another; their friendship and the invites between them end."""

    by: AccountId
    whom: AccountId


@frozen
class Unfriended:
    """One of two friends has ended the friendship."""

    by: AccountId
    whom: AccountId


@frozen
class FriendAccepted:
    """A friend request from the account ``asked`` was accepted by the account ``accepted_by``.

    ``created`` is the ISO time of the friendship.
    """

    asked: AccountId
    accepted_by: AccountId
    created: str


@frozen
class PartyChanged:
    """The accounts in ``left`` are no longer in the party."""

    party_id: str
    left: tuple[AccountId, ...]


@frozen
class GuildChanged:
    """The accounts in ``left`` are no longer in the guild; this signal may be sent repeatedly.

    If ``guild_id`` is empty, the accounts are in no guild at all. If there are no accounts, the
    guild was deleted.
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
    """All tokens that the account got before ``not_before`` (epoch seconds) are now refused.

    This ends all its sessions, so the listeners remove the account from the chat, parties and
    hunts. The signal may be sent more than once.
    """

    account_id: AccountId
    not_before: int


@frozen
class SentToHunt:
    """A player got the address of a hunt's server, for the first time in that hunt."""

    account_id: AccountId
    hunt_id: str


@frozen
class Announced:
    """A request to show ``text`` in every chat room as a line from the server.

    ``made_at`` (epoch milliseconds) identifies the announcement, and ``mark`` identifies the line.
    A later line has a smaller mark. If several processes send the same line, ``made_at`` and
    ``mark`` are equal, and the chat publishes the line once.
    """

    text: str
    made_at: int = 0
    mark: int = 0


@define
class News:
    """The signals between features; ``metagame/composition.py`` connects the listeners."""

    active: Signal[PlayerActive] = field(factory=Signal)
    blocked: Signal[Blocked] = field(factory=Signal)
    unfriended: Signal[Unfriended] = field(factory=Signal)
    friend_accepted: Signal[FriendAccepted] = field(factory=Signal)
    party_changed: Signal[PartyChanged] = field(factory=Signal)
    guild_changed: Signal[GuildChanged] = field(factory=Signal)
    renamed: Signal[Renamed] = field(factory=Signal)
    sessions_ended: Signal[SessionsEnded] = field(factory=Signal)
    announced: Signal[Announced] = field(factory=Signal)
    sent_to_hunt: Signal[SentToHunt] = field(factory=Signal)
