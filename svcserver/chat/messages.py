"""The delivery of chat lines in rooms, and of whispers. Spec: 2 §4 Chat."""

from attrs import define
from twisted.logger import Logger
from twisted.words.xish.domish import Element

from svcserver.chat import stanza
from svcserver.chat.effects import Say, Whisper
from svcserver.chat.names import printable, room_of, split_address
from svcserver.chat.people import People, Person
from svcserver.chat.readings import Readings, pause
from svcserver.chat.requests import MAX_ID
from svcserver.chat.room_access import RoomAccess
from svcserver.chat.rooms import Occupant, Rooms
from svcserver.chat.session import Session
from svcserver.chat.together import Together

log = Logger()

MAX_BODY = 2_048  # code points


@define
class Messages:
    """The delivery of chat lines and whispers to those who may read them."""

    rooms: Rooms
    people: People
    readings: Readings
    room_access: RoomAccess
    together: Together | None = None  # if the chat runs in several processes

    def deliver_to_room(self, session: Session, effect: Say) -> None:
        """Deliver a line to a room, or refuse it if the author exceeds the rate limit."""
        if session.rates.message(session.number, session.seconds()):
            anew = self._has_block(session)
            self.readings.freshly(
                session, lambda: self._deliver_to_room(session, effect.element), anew=anew
            )
        else:
            not_acceptable(session, effect.element)

    def whisper(self, session: Session, effect: Whisper) -> None:
        """Deliver a line to one account, or drop it if the author exceeds the rate limit."""
        if session.rates.message(session.number, session.seconds()):
            anew = self._has_block(session)
            self.readings.freshly(
                session, lambda: self._whisper(session, effect.element), anew=anew
            )
        else:
            _log_whisper(session, effect.element, "reason=rate")

    def _has_block(self, session: Session) -> bool:
        """Return whether the session's account blocks another account or is blocked by one."""
        person = self.people.get(session.account)
        return person is not None and bool(person.about.blocks or person.about.blocked_by)

    def _deliver_to_room(self, session: Session, element: Element) -> None:
        local, host, _ = split_address(element.getAttribute("to", ""))
        room, body = room_of(local, host, session.domain), _body(element)
        person = self.people.get(session.account)
        occupant = session.in_rooms.get(room.key) if room is not None else None
        if occupant is None or person is None or body is None or not person.may_write(session):
            not_acceptable(session, element)
            return
        if not self.people.member(person, occupant.room):
            not_acceptable(session, element)
            self.room_access.leave(session, occupant, "evicted")
            return
        self.room_access.evict_strangers(occupant.room)
        if self.together is not None:
            published = self.together.broadcast_line(
                occupant, _id(element), body, person.about.blocked_by
            )
            pause(
                session,
                published,
                lambda delivered: None if delivered else not_acceptable(session, element),
            )
            return
        rooms = self.rooms
        count = rooms.deliver_line(occupant, _id(element), body, person.about.blocked_by)
        log_line(occupant, body, count, len(rooms.occupants(occupant.room.key)))

    def _whisper(self, session: Session, element: Element) -> None:
        local, _, resource = split_address(element.getAttribute("to", ""))
        receiver, body = self.people.find(local), _body(element)
        person = self.people.get(session.account)
        if person is None or body is None:
            _log_whisper(session, element, "reason=body")
        elif not person.may_write(session):
            _log_whisper(session, element, "reason=muted")
        elif self.together is not None and self.together.seats(local):
            self._whisper_together(self.together, session, person, element)
        elif receiver is person:
            _log_whisper(session, element, "reason=self")
        elif receiver is None or not receiver.bound:
            _log_whisper(session, element, "reason=offline")
        elif person.about.has_block_with(receiver.account):
            _log_whisper(session, element, "reason=blocked")
        else:
            named = [
                bound for bound in receiver.bound if bound.resource == resource
            ] or receiver.bound
            for target in named:
                write_whisper(target, session.jid, _id(element), body)
            _log_whisper(session, element, f"delivered={len(named)}")

    def _whisper_together(
        self, together: Together, session: Session, person: Person, element: Element
    ) -> None:
        local, _, resource = split_address(element.getAttribute("to", ""))
        seats = together.seats(local)
        account, body = seats[0][1].account, _body(element) or ""
        if account == person.account:
            _log_whisper(session, element, "reason=self")
        elif person.about.has_block_with(account):
            _log_whisper(session, element, "reason=blocked")
        else:
            named = [seat for seat in seats if seat[1].resource == resource] or seats
            outcome = {True: f"delivered={len(named)}", False: "reason=offline"}
            published = together.whisper(named, session.jid, _id(element), body)
            pause(
                session,
                published,
                lambda delivered: _log_whisper(session, element, outcome[delivered]),
            )


def write_whisper(session: Session, jid: str, stanza_id: str | None, body: str) -> None:
    """Send a whisper from ``jid`` to a session."""
    session.write(
        stanza.element(
            stanza.CLIENT,
            "message",
            stanza.element(None, "body", body),
            type="chat",
            from_=jid,
            to=session.jid,
            id=stanza_id,
        )
    )


def not_acceptable(session: Session, element: Element) -> None:
    """Send an error reply for a room message that is not delivered."""
    session.write(
        stanza.element(
            stanza.CLIENT,
            "message",
            stanza.error("not-acceptable", "modify"),
            type="error",
            id=_id(element),
            from_=element.getAttribute("to", "").partition("/")[0],
            to=session.jid,
        )
    )


def _body(element: Element) -> str | None:
    body = stanza.content(stanza.child(element, "body"))
    return body if 1 <= len(body) <= MAX_BODY else None


def _id(element: Element) -> str | None:
    stanza_id: str | None = element.getAttribute("id")
    return stanza_id if stanza_id is not None and len(stanza_id) <= MAX_ID else None


def log_line(occupant: Occupant, body: str, count: int, present: int) -> None:
    """Log a chat line with the numbers of receivers (``count``) and occupants (``present``)."""
    log.info(
        "message room={room} uid={uid} len={length} to={count}{blocked}",
        room=occupant.room.address,
        uid=occupant.session.account,
        length=len(body),
        count=count,
        blocked=f" blocked={present - count}" if present > count else "",
    )


def _log_whisper(session: Session, element: Element, outcome: str) -> None:
    body = stanza.content(stanza.child(element, "body"))
    log.info(
        "whisper from={uid} to={to} len={length} {outcome}",
        uid=session.account,
        to=printable(split_address(element.getAttribute("to", ""))[0]),
        length=len(body),
        outcome=outcome,
    )
