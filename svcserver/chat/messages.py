"""Delivers lines to rooms, and whispers. Spec: 2 §4 Chat."""

from __future__ import annotations

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
from svcserver.chat.rooms import Rooms
from svcserver.chat.session import Session
from svcserver.chat.together import Together

log = Logger()

MAX_BODY = 2_048  # code points


@define
class Messages:
    """Delivers lines of rooms and whispers to those who may read them."""

    rooms: Rooms
    people: People
    readings: Readings
    room_access: RoomAccess
    together: Together | None = None  # where there are several processes

    def say(self, session: Session, wish: Say) -> None:
        """Deliver a line to a room; over the rate it is refused."""
        if session.rates.message(session.number, session.seconds()):
            anew = self._may_be_apart(session)
            self.readings.freshly(session, lambda: self._say(session, wish.said), anew=anew)
        else:
            not_acceptable(session, wish.said)

    def whisper(self, session: Session, wish: Whisper) -> None:
        """Deliver a line to one account; over the rate it is dropped."""
        if session.rates.message(session.number, session.seconds()):
            anew = self._may_be_apart(session)
            self.readings.freshly(session, lambda: self._whisper(session, wish.said), anew=anew)
        else:
            _log_whisper(session, wish.said, "reason=rate")

    def _may_be_apart(self, session: Session) -> bool:
        """Whether the account has a block, which must be re-read, since it may have been lifted."""
        person = self.people.get(session.account)
        return person is not None and bool(person.about.blocks or person.about.blocked_by)

    def _say(self, session: Session, said: Element) -> None:
        local, host, _ = split_address(said.getAttribute("to", ""))
        room, body = room_of(local, host, session.domain), _body(said)
        person = self.people.get(session.account)
        occupant = session.in_rooms.get(room.key) if room is not None else None
        if occupant is None or person is None or body is None or not person.may_write(session):
            not_acceptable(session, said)
            return
        if not self.people.member(person, occupant.room):
            not_acceptable(session, said)
            self.room_access.leave(session, occupant, "evicted")
            return
        self.room_access.evict_strangers(occupant.room)
        if self.together is not None:
            told = self.together.say(occupant, _id(said), body, person.about.blocked_by)
            pause(session, told, lambda heard: None if heard else not_acceptable(session, said))
            return
        rooms = self.rooms
        count = rooms.say(occupant, _id(said), body, person.about.blocked_by)
        log.info(
            "message room={room} uid={uid} len={length} to={count}{blocked}",
            room=occupant.room.address,
            uid=person.account,
            length=len(body),
            count=count,
            blocked=blocked_words(len(rooms.occupants(occupant.room.key)) - count),
        )

    def _whisper(self, session: Session, said: Element) -> None:
        local, _, resource = split_address(said.getAttribute("to", ""))
        other, body = self.people.find(local), _body(said)
        person = self.people.get(session.account)
        if person is None or body is None:
            _log_whisper(session, said, "reason=body")
        elif not person.may_write(session):
            _log_whisper(session, said, "reason=muted")
        elif self.together is not None and self.together.seats(local):
            self._whisper_together(self.together, session, person, said)
        elif other is person:
            _log_whisper(session, said, "reason=self")
        elif other is None or not other.bound:
            _log_whisper(session, said, "reason=offline")
        elif person.about.apart_from(other.account):
            _log_whisper(session, said, "reason=blocked")
        else:
            named = [one for one in other.bound if one.resource == resource] or other.bound
            for one in named:
                write_whisper(one, session.jid, _id(said), body)
            _log_whisper(session, said, f"delivered={len(named)}")

    def _whisper_together(
        self, together: Together, session: Session, person: Person, said: Element
    ) -> None:
        local, _, resource = split_address(said.getAttribute("to", ""))
        seats = together.seats(local)
        account, body = seats[0][1].account, _body(said) or ""
        if account == person.account:
            _log_whisper(session, said, "reason=self")
        elif person.about.apart_from(account):
            _log_whisper(session, said, "reason=blocked")
        else:
            named = [one for one in seats if one[1].resource == resource] or seats
            outcome = {True: f"delivered={len(named)}", False: "reason=offline"}
            told = together.whisper(named, session.jid, _id(said), body)
            pause(session, told, lambda heard: _log_whisper(session, said, outcome[heard]))


def write_whisper(session: Session, jid: str, stanza_id: str | None, body: str) -> None:
    """Send a session a whisper of ``jid``."""
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


def not_acceptable(session: Session, said: Element) -> None:
    """Answer a room message that is not delivered with its error."""
    session.write(
        stanza.element(
            stanza.CLIENT,
            "message",
            stanza.error("not-acceptable", "modify"),
            type="error",
            id=_id(said),
            from_=said.getAttribute("to", "").partition("/")[0],
            to=session.jid,
        )
    )


def _body(said: Element) -> str | None:
    body = stanza.content(stanza.child(said, "body"))
    return body if 1 <= len(body) <= MAX_BODY else None


def _id(said: Element) -> str | None:
    stanza_id: str | None = said.getAttribute("id")
    return stanza_id if stanza_id is not None and len(stanza_id) <= MAX_ID else None


def blocked_words(count: int) -> str:
    """The end of a log line: how many in the room were not sent it."""
    return f" blocked={count}" if count > 0 else ""


def _log_whisper(session: Session, said: Element, outcome: str) -> None:
    body = stanza.content(stanza.child(said, "body"))
    log.info(
        "whisper from={uid} to={to} len={length} {outcome}",
        uid=session.account,
        to=printable(split_address(said.getAttribute("to", ""))[0]),
        length=len(body),
        outcome=outcome,
    )
