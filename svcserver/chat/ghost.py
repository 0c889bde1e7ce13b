"""What stands in our rooms for a session of another process."""

from __future__ import annotations

from typing import ClassVar

from attrs import define, field

from svcserver.chat.events import Seat
from svcserver.chat.rooms import Occupant
from svcserver.chat.session import Session
from svcserver.chat.status import Status
from svcserver.kernel.ids import AccountId


@define(eq=False)
class Ghost:
    """A session of another process, in our rooms: its own process sends it what it hears."""

    elsewhere: ClassVar[bool] = True
    seat: Seat
    in_rooms: dict[str, Occupant] = field(factory=dict)
    status: Status | None = None
    shown_to: frozenset[AccountId] = frozenset()  # who here was sent it

    @property
    def account(self) -> AccountId:
        return self.seat.account

    @property
    def jid(self) -> str:
        return self.seat.jid

    def deliver(self, frame: bytes) -> None:
        """Send nothing: the session's own process does."""

    def deliver_behind(self, frame: bytes) -> None:
        """Send nothing, as above."""


def seat_of(session: Session) -> Seat:
    """What other processes are told of a session here."""
    return Seat(session.number, session.account, session.resource, session.jid, session.domain)
