"""The interface to the chat's other processes, for rooms and messages."""

from typing import Protocol

from twisted.internet.defer import Deferred

from svcserver.chat.events import Seat
from svcserver.chat.names import Room
from svcserver.chat.rooms import Occupant
from svcserver.chat.session import Session
from svcserver.kernel.ids import AccountId


class Together(Protocol):
    """The actions that are published to all processes and take effect when they are received.

    A Deferred fires with True when the published action has reached this process. It fires with
    False if the action is not published, or if a chat line is refused.
    """

    def enter(self, session: Session, room: Room, nick: str) -> Deferred[bool]: ...

    def leave(self, session: Session, occupant: Occupant, why: str, tell_leaver: bool) -> None: ...

    def broadcast_line(
        self, occupant: Occupant, stanza_id: str | None, body: str, deaf: frozenset[AccountId]
    ) -> Deferred[bool]: ...

    def seats(self, account: str) -> list[tuple[str, Seat]]:
        """Return (process, seat) for each bound session; ``account`` may be in any letter case."""

    def whisper(
        self, to: list[tuple[str, Seat]], jid: str, stanza_id: str | None, body: str
    ) -> Deferred[bool]: ...
