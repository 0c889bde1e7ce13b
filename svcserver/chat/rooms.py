"""The rooms: their occupants, and the order of the stanzas sent to them. Spec: 2 §4 Chat.

``room_access`` decides who may enter.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Protocol

from attrs import define, field
from twisted.words.xish.domish import Element

from svcserver.chat import stanza
from svcserver.chat.names import Room
from svcserver.chat.stanza import element_frame, text_frame
from svcserver.kernel.ids import AccountId

MAX_ROOMS = 1_000
MAX_OCCUPANTS = 256
MAX_ROOMS_PER_SESSION = 30
HERE = "\0"  # a placeholder in a text; XML cannot carry it, so no client can have sent it


class OccupantSession(Protocol):
    """The session of an occupant: a ``Session``, or a ``Ghost`` if another process has it."""

    elsewhere: ClassVar[bool]  # True if another process has the session

    @property
    def account(self) -> AccountId: ...

    @property
    def jid(self) -> str: ...

    @property
    def in_rooms(self) -> dict[str, Occupant]:
        """The session's ``Occupant`` in each room, by room key; updated by ``Rooms``."""

    def deliver(self, frame: bytes) -> None: ...

    def deliver_behind(self, frame: bytes) -> None:
        """Send a frame after other sessions' earlier frames have been written."""


@define(eq=False)
class Occupant:
    """A session in a room, with the nickname and the room address that the client uses."""

    session: OccupantSession
    room: Room
    nick: str
    _usual: tuple[str, str] | None = field(default=None, init=False)  # cached, see ``prepared``

    def presence(self, address: str, to: str, *codes: str, gone: bool = False) -> Element:
        """Return this occupant's presence stanza, with the room address that the receiver uses."""
        marks = [stanza.element(None, "status", code=code) for code in codes]
        item = stanza.element(
            None,
            "item",
            affiliation="none",
            role="none" if gone else "participant",
            jid=self.session.jid,
        )
        return stanza.element(
            stanza.CLIENT,
            "presence",
            stanza.element(stanza.MUC_USER, "x", item, *marks),
            type="unavailable" if gone else None,
            from_=f"{address}/{self.nick}",
            to=to,
        )

    def prepared(self, address: str, *codes: str, gone: bool = False) -> tuple[str, str]:
        """Return the parts of the presence text before and after the value of ``to``.

        Only this value differs between receivers. The usual presence is cached, because it is sent
        to every session that enters the room.
        """
        is_usual = address == self.room.address and not codes and not gone
        if is_usual and self._usual is not None:
            return self._usual
        presence = self.presence(address, HERE, *codes, gone=gone)
        before, _, after = stanza.serialize(presence).partition(HERE)
        if is_usual:
            self._usual = before, after
        return before, after


@define
class Rooms:
    """All rooms with occupants; a room has only the newest session of each account."""

    max_rooms: int = MAX_ROOMS
    max_occupants: int = MAX_OCCUPANTS
    # room key -> account -> occupant
    _rooms: dict[str, dict[AccountId, Occupant]] = field(factory=dict, init=False)
    _nicks: dict[str, dict[str, AccountId]] = field(factory=dict, init=False)
    _here: dict[str, tuple[Occupant, ...]] = field(factory=dict, init=False)  # cache of ``here``

    def conflict(self, room: Room, nick: str, account: AccountId) -> bool:
        """Return whether another account uses that nickname in the room."""
        return self._nicks.get(room.key, {}).get(nick, account) != account

    def full(self, room: Room, session: OccupantSession) -> bool:
        """Return whether a limit is reached: occupants, rooms, or rooms per session."""
        occupants = self._rooms.get(room.key)
        if len(session.in_rooms) >= MAX_ROOMS_PER_SESSION:
            return True
        if occupants is None:
            return len(self._rooms) >= self.max_rooms
        return session.account not in occupants and len(occupants) >= self.max_occupants

    def enter(self, session: OccupantSession, room: Room, nick: str) -> Occupant | None:
        """Add an occupant; if the account already has one there, replace and return that one."""
        older = self._rooms.get(room.key, {}).get(session.account)
        if older is not None:
            self.leave(older, tell_leaver=False)
        occupant = Occupant(session, room, nick)
        occupants = self._rooms.setdefault(room.key, {})
        self._show_others(occupant)
        self._broadcast(occupant)
        occupants[session.account] = occupant
        self._here.pop(room.key, None)
        self._nicks.setdefault(room.key, {})[nick] = session.account
        session.in_rooms[room.key] = occupant
        self._confirm(occupant)
        return older

    def welcome(self, occupant: Occupant) -> None:
        """Send an occupant the room's state again; nothing is sent to the other occupants."""
        self._show_others(occupant)
        self._confirm(occupant)

    def leave(self, occupant: Occupant, *codes: str, tell_leaver: bool = True) -> None:
        """Remove an occupant, and report this to the room with the status ``codes``."""
        key = occupant.room.key
        occupants, nicks = self._rooms[key], self._nicks[key]
        del occupants[occupant.session.account]
        del nicks[occupant.nick]
        del occupant.session.in_rooms[key]
        self._here.pop(key, None)
        if not occupants:
            del self._rooms[key], self._nicks[key]
        self._broadcast(occupant, *codes, gone=True)
        if tell_leaver and not occupant.session.elsewhere:
            presence = occupant.presence(
                occupant.room.address, occupant.session.jid, "110", *codes, gone=True
            )
            occupant.session.deliver(element_frame(presence))

    def deliver_line(
        self,
        occupant: Occupant,
        stanza_id: str | None,
        body: str,
        deaf: Collection[AccountId] = (),
    ) -> int:
        """Deliver a line to all occupants except ``deaf`` accounts; return the number of receivers.

        In the speaker's process, the speaker receives the line last.
        """
        key = occupant.room.key
        frames: dict[str, bytes] = {}

        def frame_for(address: str) -> bytes:
            frames[address] = _line(f"{address}/{occupant.nick}", stanza_id, body)
            return frames[address]

        here = self.here(key)
        for receiver in here:
            session, address = receiver.session, receiver.room.address
            if receiver is not occupant and session.account not in deaf:
                session.deliver(frames.get(address) or frame_for(address))
        speaker = occupant.session
        if not speaker.elsewhere and speaker.account not in deaf:
            address = occupant.room.address
            speak = speaker.deliver_behind if len(here) > 1 else speaker.deliver
            speak(frames.get(address) or frame_for(address))
        occupants = self._rooms.get(key, {})
        return len(occupants) - sum(account in occupants for account in deaf)

    def here(self, key: str) -> tuple[Occupant, ...]:
        """Return the occupants whose sessions are in this process, oldest first."""
        occupants = self._here.get(key)
        if occupants is None:
            occupants = tuple(
                occupant for occupant in self.occupants(key) if not occupant.session.elsewhere
            )
            if key in self._rooms:
                self._here[key] = occupants
        return occupants

    def announce(self, nick: str, body: str) -> int:
        """Deliver a server announcement to everyone in a room; return the number of receivers."""
        count = 0
        for key in self.keys():
            for occupant in self.here(key):
                occupant.session.deliver(_line(f"{occupant.room.address}/{nick}", None, body))
                count += 1
        return count

    def occupants(self, key: str) -> list[Occupant]:
        """Return the occupants of a room, oldest first."""
        return list(self._rooms.get(key, {}).values())

    def keys(self) -> list[str]:
        """Return the keys of all rooms, as a list that is safe to use while rooms change."""
        return list(self._rooms)

    def __len__(self) -> int:
        return len(self._rooms)

    # -- inside ------------------------------------------------------------

    def _show_others(self, occupant: Occupant) -> None:
        if occupant.session.elsewhere:
            return
        address, to = occupant.room.address, stanza.attribute(occupant.session.jid)
        for present in self.occupants(occupant.room.key):
            if present.session.account != occupant.session.account:
                before, after = present.prepared(address)
                occupant.session.deliver(text_frame(f"{before}{to}{after}"))

    def _confirm(self, occupant: Occupant) -> None:
        if occupant.session.elsewhere:
            return
        presence = occupant.presence(occupant.room.address, occupant.session.jid, "110")
        occupant.session.deliver(element_frame(presence))

    def _broadcast(self, occupant: Occupant, *codes: str, gone: bool = False) -> None:
        wordings: dict[str, tuple[str, str]] = {}
        for receiver in self.here(occupant.room.key):
            address = receiver.room.address
            if address not in wordings:
                wordings[address] = occupant.prepared(address, *codes, gone=gone)
            before, after = wordings[address]
            to = stanza.attribute(receiver.session.jid)
            receiver.session.deliver(text_frame(f"{before}{to}{after}"))


def _line(from_: str, stanza_id: str | None, body: str) -> bytes:
    return element_frame(
        stanza.element(
            stanza.CLIENT,
            "message",
            stanza.element(None, "body", body),
            type="groupchat",
            id=stanza_id,
            from_=from_,
        )
    )
