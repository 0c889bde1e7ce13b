"""Rooms: their occupants, and what those are sent, in which order. Spec: 2 §4 Chat.

Who may enter is decided in ``seating``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attrs import define, field

from svcserver.chat import stanza
from svcserver.chat.frames import text_frame
from svcserver.chat.names import Room
from svcserver.kernel.ids import AccountId

MAX_ROOMS = 1_000
MAX_OCCUPANTS = 256
MAX_ROOMS_PER_SESSION = 30
HERE = "\0"  # a placeholder in a text; XML cannot carry it, so no client can have sent it


class OccupantSession(Protocol):
    """What a room needs of a session."""

    @property
    def account(self) -> AccountId: ...

    @property
    def jid(self) -> str: ...

    @property
    def seats(self) -> dict[str, Occupant]:
        """Its seats by room key; the rooms keep this up to date."""

    def deliver(self, frame: bytes) -> None: ...


@define(eq=False)
class Occupant:
    """A session in a room, with the nickname and the room's address as it sent them."""

    sitter: OccupantSession
    room: Room
    nick: str

    def presence(self, address: str, to: str, *codes: str, gone: bool = False) -> str:
        """The presence stanza of this occupant for ``to``, who uses the room's ``address``."""
        before, after = self.wording(address, *codes, gone=gone)
        return f"{before}{stanza.attribute(to)}{after}"

    def wording(self, address: str, *codes: str, gone: bool = False) -> tuple[str, str]:
        """That stanza before and after the value of ``to``, since the rest is the same for all."""
        marks = "".join(stanza.element("status", code=code) for code in codes)
        item = stanza.element(
            "item",
            affiliation="none",
            role="none" if gone else "participant",
            jid=self.sitter.jid,
        )
        before, _, after = stanza.element(
            "presence",
            stanza.element("x", item + marks, xmlns=stanza.MUC_USER),
            xmlns=stanza.CLIENT,
            type="unavailable" if gone else None,
            from_=f"{address}/{self.nick}",
            to=HERE,
        ).partition(HERE)
        return before, after


@define
class Rooms:
    """Every room with occupants. An account has one seat in a room, that of its newest session."""

    max_rooms: int = MAX_ROOMS
    max_occupants: int = MAX_OCCUPANTS
    # room key -> account -> seat
    _rooms: dict[str, dict[AccountId, Occupant]] = field(factory=dict, init=False)
    _nicks: dict[str, dict[str, AccountId]] = field(factory=dict, init=False)

    def conflict(self, room: Room, nick: str, account: AccountId) -> bool:
        """Whether another account has that nickname there."""
        return self._nicks.get(room.key, {}).get(nick, account) != account

    def full(self, room: Room, sitter: OccupantSession) -> bool:
        """Whether a limit is reached: occupants, rooms, or rooms of the session."""
        occupants = self._rooms.get(room.key)
        if len(sitter.seats) >= MAX_ROOMS_PER_SESSION:
            return True
        if occupants is None:
            return len(self._rooms) >= self.max_rooms
        return sitter.account not in occupants and len(occupants) >= self.max_occupants

    def enter(self, sitter: OccupantSession, room: Room, nick: str) -> Occupant | None:
        """Seat a session; returns the seat of the account's older session, which leaves first."""
        older = self._rooms.get(room.key, {}).get(sitter.account)
        if older is not None:
            self.leave(older, tell_leaver=False)
        seat = Occupant(sitter, room, nick)
        occupants = self._rooms.setdefault(room.key, {})
        self._show_others(seat)
        self._tell(seat)
        occupants[sitter.account] = seat
        self._nicks.setdefault(room.key, {})[nick] = sitter.account
        sitter.seats[room.key] = seat
        self._confirm(seat)
        return older

    def welcome(self, seat: Occupant) -> None:
        """Send an occupant the room's state again; the others get nothing."""
        self._show_others(seat)
        self._confirm(seat)

    def leave(self, seat: Occupant, *codes: str, tell_leaver: bool = True) -> None:
        """Remove an occupant; ``codes`` (307: removed) are sent to all who are told."""
        key = seat.room.key
        occupants, nicks = self._rooms[key], self._nicks[key]
        del occupants[seat.sitter.account]
        del nicks[seat.nick]
        del seat.sitter.seats[key]
        if not occupants:
            del self._rooms[key], self._nicks[key]
        self._tell(seat, *codes, gone=True)
        if tell_leaver:
            said = seat.presence(seat.room.address, seat.sitter.jid, "110", *codes, gone=True)
            seat.sitter.deliver(text_frame(said))

    def say(
        self, seat: Occupant, stanza_id: str | None, body: str, hears: Callable[[Occupant], bool]
    ) -> int:
        """Deliver a line to every occupant for which ``hears`` is true; returns how many.

        Occupants who use the same address of the room get the same bytes.
        """
        inner = stanza.element("body", stanza.text(body))
        frames: dict[str, bytes] = {}
        count = 0
        for other in list(self._rooms.get(seat.room.key, {}).values()):
            if not hears(other):
                continue
            address = other.room.address
            frame = frames.get(address)
            if frame is None:
                frame = frames[address] = text_frame(
                    stanza.element(
                        "message",
                        inner,
                        xmlns=stanza.CLIENT,
                        type="groupchat",
                        id=stanza_id,
                        from_=f"{address}/{seat.nick}",
                    )
                )
            other.sitter.deliver(frame)
            count += 1
        return count

    def occupants(self, key: str) -> list[Occupant]:
        """The room's seats, oldest first."""
        return list(self._rooms.get(key, {}).values())

    def keys(self) -> list[str]:
        """The keys of all rooms."""
        return list(self._rooms)

    def __len__(self) -> int:
        return len(self._rooms)

    # -- inside ------------------------------------------------------------

    def _show_others(self, seat: Occupant) -> None:
        address, to = seat.room.address, seat.sitter.jid
        for other in self.occupants(seat.room.key):
            if other.sitter.account != seat.sitter.account:
                seat.sitter.deliver(text_frame(other.presence(address, to)))

    def _confirm(self, seat: Occupant) -> None:
        said = seat.presence(seat.room.address, seat.sitter.jid, "110")
        seat.sitter.deliver(text_frame(said))

    def _tell(self, seat: Occupant, *codes: str, gone: bool = False) -> None:
        wordings: dict[str, tuple[str, str]] = {}
        for other in self.occupants(seat.room.key):
            address = other.room.address
            if address not in wordings:
                wordings[address] = seat.wording(address, *codes, gone=gone)
            before, after = wordings[address]
            to = stanza.attribute(other.sitter.jid)
            other.sitter.deliver(text_frame(f"{before}{to}{after}"))
