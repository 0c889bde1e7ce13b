"""The interfaces that the chat needs; the metagame and ``adapter`` implement them."""

from collections.abc import Callable
from typing import Protocol

from attrs import frozen
from twisted.internet.defer import Deferred

from svcserver.kernel.ids import AccountId


class BadToken(Exception):
    """The error for an invalid token; ``str()`` is ``expired`` or ``bad-token``, for the log."""


@frozen
class About:
    """An account's name, rooms, friends and blocks, as read at one moment.

    ``rooms`` has the kind and id of each members-only room that the account may enter according to
    the database, such as its guild's room. A ``muted`` account may read, but not write. The
    account's sessions from a network in ``muted_from`` may not write either.
    """

    name: str
    rooms: frozenset[tuple[str, str]] = frozenset()
    friends: frozenset[AccountId] = frozenset()
    blocks: frozenset[AccountId] = frozenset()
    blocked_by: frozenset[AccountId] = frozenset()
    muted: bool = False
    muted_from: frozenset[str] = frozenset()

    def has_block_with(self, account: AccountId) -> bool:
        """Return whether either account has blocked the other."""
        return account in self.blocks or account in self.blocked_by


class Proofs(Protocol):
    """The verification of player tokens, with the same rules as for HTTP requests."""

    def account_of(self, token: str) -> AccountId:
        """Return the account of a player token; raises BadToken."""


class Accounts(Protocol):
    """The source of account data, which are read at log-in and again while a player is online."""

    def about(self, account: AccountId, networks: frozenset[str]) -> Deferred[About | None]:
        """Return the account's current data, or None if there is no such account.

        ``networks`` are the networks of the account's sessions; ``muted_from`` of the result lists
        the muted ones.
        """


class Memberships(Protocol):
    """The memberships that decide who may be in a room.

    The methods are synchronous, because every chat line needs them.
    """

    @property
    def remembers(self) -> bool:
        """True if ``party_of`` returns a party that was read earlier and may have changed since."""

    def party_of(self, account: AccountId) -> str | None:
        """Return the id of the account's current party."""


class GameAccess(Proofs, Accounts, Memberships, Protocol):
    """Everything that the chat needs from the game."""


class Wire(Protocol):
    """A connection to a client. After ``end``, nothing more is sent or received."""

    def send(self, frame: bytes) -> None: ...

    def send_behind(self, frame: bytes) -> None:
        """Queue a frame behind all frames that are queued now on other connections.

        Frames that are sent on this connection later are written after this frame.
        """

    def take_turn(self, work: Callable[[], None]) -> None:
        """Do the work now, or later if the chat has used up its time in this reactor turn."""

    def end(self, code: int | None, reason: str = "") -> None:
        """Write all frames, then close; if ``code`` is None, close without a handshake."""
