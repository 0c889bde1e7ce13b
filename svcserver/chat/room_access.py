"""The rules for entering and leaving rooms. Spec: 2 §4 Chat."""

from attrs import define
from twisted.logger import Logger

from svcserver.chat import stanza
from svcserver.chat.effects import Join, Leave
from svcserver.chat.kinds import KINDS
from svcserver.chat.names import (
    MAX_NICKNAME,
    Room,
    nickname_fault,
    printable,
    room_of,
    split_address,
)
from svcserver.chat.people import People, Person
from svcserver.chat.readings import Readings, pause
from svcserver.chat.rooms import Occupant, Rooms
from svcserver.chat.session import Session
from svcserver.chat.together import Together

log = Logger()

QUIET_S = 600.0  # between two log lines of the same refusal
# reason -> error condition and the error type that the game's clients expect
REFUSALS = {
    "nick-account": ("forbidden", "auth"),
    "nick-resource": ("forbidden", "auth"),
    "nick-format": ("forbidden", "auth"),
    "nick-name": ("forbidden", "auth"),
    "not-member": ("forbidden", "auth"),
    "not-allowed": ("not-allowed", "cancel"),
    "conflict": ("conflict", "cancel"),
    "limit": ("service-unavailable", "wait"),
}


@define
class RoomAccess:
    """The entry of sessions into rooms, and the removal of sessions that must leave."""

    rooms: Rooms
    people: People
    readings: Readings
    together: Together | None = None  # if the chat runs in several processes

    # -- entering ----------------------------------------------------------

    def join(self, session: Session, effect: Join) -> None:
        """Let the session enter a room, or refuse and give the reason."""
        local, host, nick = split_address(effect.to)
        address = effect.to.partition("/")[0]
        if not session.rates.join(session.number, session.seconds()):
            refuse_entry(session, address, nick, "limit")
            return
        room = room_of(local, host, session.domain)
        person = self.people.get(session.account)
        if room is None or person is None:
            refuse_entry(session, address, nick, "not-allowed")
            return
        stranger = not self.people.member(person, room)
        anew = stranger and (KINDS[room.kind].by_about or self.people.memberships.remembers)
        self.readings.freshly(session, lambda: self._join(session, person, room, nick), anew=anew)

    def _join(self, session: Session, person: Person, room: Room, nick: str) -> None:
        occupant = session.in_rooms.get(room.key)
        if not self.people.member(person, room):
            for mine in person.bound:
                if room.key in mine.in_rooms:
                    self.leave(mine, mine.in_rooms[room.key], "evicted")
            refuse_entry(session, room.address, nick, "not-member")
            return
        if occupant is not None and occupant.nick == nick:
            self.rooms.welcome(occupant)
            return
        fault = _nick_fault(session, person, nick)
        if fault is not None:
            refuse_entry(session, room.address, nick, fault)
            return
        if occupant is not None:
            self.leave(session, occupant, "left")
        self._ask_for(session, room, nick)

    def _ask_for(self, session: Session, room: Room, nick: str) -> None:
        if self.rooms.conflict(room, nick, session.account):
            refuse_entry(session, room.address, nick, "conflict")
        elif self.rooms.full(room, session):
            refuse_entry(session, room.address, nick, "limit")
        elif self.together is None:
            self.enter_now(session, room, nick)
        else:

            def on_published(delivered: bool) -> None:
                if not delivered:
                    refuse_entry(session, room.address, nick, "limit")

            pause(session, self.together.enter(session, room, nick), on_published)

    def enter_now(self, session: Session, room: Room, nick: str) -> None:
        """Let a session enter a room after the room's rules have been checked."""
        older = self.rooms.enter(session, room, nick)
        if older is not None:
            _log_leave(older, "replaced")
        log.info(
            "join room={room} uid={uid} name={name} occupants={count}",
            room=room.address,
            uid=session.account,
            name=printable(nick.partition(":")[0]),
            count=len(self.rooms.occupants(room.key)),
        )

    # -- leaving -----------------------------------------------------------

    def ask_to_leave(self, session: Session, effect: Leave) -> None:
        """Leave a room at the client's request; does nothing if the session is not in it."""
        local, host, _ = split_address(effect.to)
        room = room_of(local, host, session.domain)
        occupant = session.in_rooms.get(room.key) if room is not None else None
        if occupant is not None:
            self.leave(session, occupant, "left")

    def leave(
        self, session: Session, occupant: Occupant, why: str, *, tell_leaver: bool = True
    ) -> None:
        """Remove an occupant; ``why`` is "left", "disconnect", "evicted" or "replaced"."""
        if session.in_rooms.get(occupant.room.key) is not occupant:
            return  # asking the game for the party may have sent the signal that removed it
        if self.together is None:
            self.leave_now(session, occupant, why, tell_leaver=tell_leaver)
        else:
            self.together.leave(session, occupant, why, tell_leaver)

    def leave_now(
        self, session: Session, occupant: Occupant, why: str, *, tell_leaver: bool
    ) -> None:
        """Remove an occupant from a room in this process, unless the occupant has left already."""
        if session.in_rooms.get(occupant.room.key) is not occupant:
            return
        codes = ("307",) if why == "evicted" else ()
        self.rooms.leave(occupant, *codes, tell_leaver=tell_leaver)
        _log_leave(occupant, why)

    def leave_all(self, session: Session, why: str) -> None:
        """Remove a session from all rooms without sending anything to its own client."""
        for occupant in list(session.in_rooms.values()):
            self.leave(session, occupant, why, tell_leaver=False)

    def evict(self, person: Person) -> None:
        """Remove one person from all rooms where the person is no longer allowed."""
        for session in person.bound:
            for occupant in list(session.in_rooms.values()):
                if not self.people.member(person, occupant.room):
                    self.leave(session, occupant, "evicted")

    def evict_strangers(self, room: Room) -> None:
        if KINDS[room.kind].may_enter is None:
            return
        for occupant in self.rooms.occupants(room.key):
            person = self.people.get(occupant.session.account)
            if person is not None and not self.people.member(person, occupant.room):
                self.evict(person)

    def sweep(self) -> None:
        """Remove all occupants who are no longer allowed in their rooms."""
        for key in self.rooms.keys():  # noqa: SIM118 - a method of ours, not of a dict
            for occupant in self.rooms.occupants(key)[:1]:
                self.evict_strangers(occupant.room)


def _nick_fault(session: Session, person: Person, nick: str) -> str | None:
    names = session.names | {person.about.name}
    fault = nickname_fault(nick, session.account, session.resource, names)
    bounded = 1 <= len(nick.encode()) <= MAX_NICKNAME
    if fault is None or session.settings.nick_check == "enforce" or not bounded:
        return fault
    text = "nickname uid={uid} reason={reason}: allowed, because CHAT_NICK_CHECK is log"
    log.info(text, uid=session.account, reason=fault)
    return None


def refuse_entry(session: Session, address: str, nick: str, reason: str) -> None:
    """Send the error reply for a refused join."""
    condition, kind = REFUSALS[reason]
    session.write(
        stanza.element(
            stanza.CLIENT,
            "presence",
            stanza.element(stanza.MUC, "x"),
            stanza.error(condition, kind),
            type="error",
            from_=f"{address}/{nick}" if nick else address,
            to=session.jid,
        )
    )
    known = room_of(*split_address(address)[:2], session.domain)
    about = (known.kind if known is not None else "", reason)
    now = session.seconds()
    if now - session.refusals_logged.get(about, now - QUIET_S) >= QUIET_S:
        session.refusals_logged[about] = now
        log.info(
            "join refused room={room} uid={uid} reason={reason}",
            room=printable(address),
            uid=session.account,
            reason=reason,
        )


def _log_leave(occupant: Occupant, why: str) -> None:
    log.info(
        "leave room={room} uid={uid} reason={why}",
        room=occupant.room.address,
        uid=occupant.session.account,
        why=why,
    )
