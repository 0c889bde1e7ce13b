"""What a logged-in session does: bind, iq, rooms, messages, whispers, presence. Spec: 2 §4 Chat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.logger import Logger

from svcserver.chat import login, stanza
from svcserver.chat.names import (
    MAX_NICKNAME,
    Room,
    is_resource,
    nickname_fault,
    room_of,
    shown,
    split_address,
)
from svcserver.chat.presence import Status, status_of
from svcserver.chat.rooms import Seat
from svcserver.chat.stanza import Stanza
from svcserver.kernel.secrets import hex_token

if TYPE_CHECKING:
    from svcserver.chat.session import Session

log = Logger()

MAX_ID = 128
MAX_BODY = 2_048  # code points
MAX_BOUND = 2  # sessions per account
QUIET_S = 600.0  # between two log lines of the same refusal
# condition, and the type the clients are used to
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


def handle(session: Session, said: Stanza) -> None:
    """A stanza after login; what nobody knows is dropped."""
    if said.name == "close":
        session.end("close")
    elif said.name == "open":
        login.open_stream(session, said)
    elif said.name == "auth" and not session.bound:
        session.end("refused")
    elif said.name == "iq":
        _iq(session, said)
    elif not session.bound:
        return
    elif said.name == "presence":
        _presence(session, said)
    elif said.name == "message":
        _message(session, said)


# -- iq ------------------------------------------------------------------------


def _iq(session: Session, said: Stanza) -> None:
    stanza_id = said.get("id")
    if said.get("type") not in ("get", "set") or len(stanza_id) > MAX_ID:
        return
    bind = said.child("bind", stanza.BIND)
    if bind is None:
        session.write(stanza.result(stanza_id))
        return
    if not session.bound and not _bind(session, bind):
        session.write(stanza.failed(stanza_id, "bad-request"))
        return
    jid = stanza.element("jid", stanza.text(session.jid))
    session.write(stanza.result(stanza_id, stanza.element("bind", jid, xmlns=stanza.BIND)))


def _bind(session: Session, bind: Stanza) -> bool:
    wanted = bind.child("resource")
    resource = (wanted.text if wanted is not None else "") or f"srv-{hex_token(32)}"
    person = session.person
    if person is None or not is_resource(resource):
        return False
    for one in person.bound:
        if one.resource == resource:
            one.end("replaced")
    while len(person.bound) >= MAX_BOUND:
        min(person.bound, key=lambda one: one.heard).end("replaced")
    session.resource, session.bound = resource, True
    session.jid = f"{person.account}@{session.domain}/{resource}"
    log.info(
        "bound c={number} uid={uid} resource={resource} domain={domain} sessions={count}",
        number=session.number,
        uid=person.account,
        resource=resource,
        domain=session.domain,
        count=len(person.bound),
    )
    for one in person.bound:
        if one is not session:
            one.probe()
    return True


# -- presence ------------------------------------------------------------------


def _presence(session: Session, said: Stanza) -> None:
    to, kind = said.get("to"), said.get("type")
    if not to:
        _broadcast(session, said, kind)
        return
    local, host, _ = split_address(to)
    if kind == "unavailable":
        room = room_of(local, host, session.domain)
        seat = session.seats.get(room.key) if room is not None else None
        if seat is not None:
            leave_room(session, seat, "left")
    elif not kind:
        room_like = host.lower().startswith(("muc.", "conference."))
        if room_like or said.child("x", stanza.MUC) is not None:
            _ask_to_join(session, to)


def _broadcast(session: Session, said: Stanza, kind: str) -> None:
    if kind == "unavailable":
        for seat in list(session.seats.values()):
            leave_room(session, seat, "left", tell_leaver=False)
        session.hall.presences.withdraw(session)
    elif not kind and session.hall.settings.presence:
        status = status_of(said)
        session.freshly(lambda: announce(session, status))


def announce(session: Session, status: Status) -> None:
    """Tell friends, at once or, over the rate, at a later tick; only the newest counts."""
    if session.status == status:
        session.waiting_status = None
    elif session.hall.may(session.hall.presence_rate, session):
        session.waiting_status = None
        session.hall.presences.announce(session, status)
    else:
        session.waiting_status = status


def _ask_to_join(session: Session, to: str) -> None:
    local, host, nick = split_address(to)
    address = to.partition("/")[0]
    if not session.hall.may(session.hall.join_rate, session):
        _refuse_join(session, address, nick, "limit")
        return
    room = room_of(local, host, session.domain)
    if room is None:
        _refuse_join(session, address, nick, "not-allowed")
        return
    person = session.person
    stranger = person is not None and not session.hall.people.member(person, room)
    session.freshly(lambda: _join(session, room, nick), anew=stranger and room.kind == "Guild")


def _join(session: Session, room: Room, nick: str) -> None:
    hall, person = session.hall, session.person
    if person is None:
        return
    seat = session.seats.get(room.key)
    if not hall.people.member(person, room):
        for mine in person.bound:
            if room.key in mine.seats:
                leave_room(mine, mine.seats[room.key], "evicted")
        _refuse_join(session, room.address, nick, "not-member")
        return
    if seat is not None and seat.nick == nick:
        hall.rooms.welcome(seat)
        return
    fault = _nick_fault(session, nick)
    if fault is not None:
        _refuse_join(session, room.address, nick, fault)
        return
    if seat is not None:
        leave_room(session, seat, "left")
    if hall.rooms.conflict(room, nick, person.account):
        _refuse_join(session, room.address, nick, "conflict")
    elif hall.rooms.full(room, session):
        _refuse_join(session, room.address, nick, "limit")
    else:
        _enter(session, room, nick)


def _nick_fault(session: Session, nick: str) -> str | None:
    person = session.person
    names = session.names | ({person.about.name} if person is not None else set())
    fault = nickname_fault(nick, session.account, session.resource, names)
    bounded = 1 <= len(nick.encode()) <= MAX_NICKNAME
    if fault is None or session.hall.settings.nick_check == "enforce" or not bounded:
        return fault
    log.info("nickname uid={uid} reason={reason}: not enforced", uid=session.account, reason=fault)
    return None


def _enter(session: Session, room: Room, nick: str) -> None:
    older = session.hall.rooms.enter(session, room, nick)
    if older is not None:
        _log_leave(older, "replaced")
    log.info(
        "join room={room} uid={uid} name={name} occupants={count}",
        room=room.address,
        uid=session.account,
        name=shown(nick.partition(":")[0]),
        count=len(session.hall.rooms.occupants(room.key)),
    )


def _refuse_join(session: Session, address: str, nick: str, reason: str) -> None:
    condition, kind = REFUSALS[reason]
    session.write(
        stanza.element(
            "presence",
            stanza.element("x", xmlns=stanza.MUC) + stanza.error(condition, kind),
            xmlns=stanza.CLIENT,
            type="error",
            from_=f"{address}/{nick}" if nick else address,
            to=session.jid,
        )
    )
    known = room_of(*split_address(address)[:2], session.domain)
    about = (known.kind if known is not None else "", reason)
    now = session.hall.seconds()
    if now - session.refusals_logged.get(about, now - QUIET_S) >= QUIET_S:
        session.refusals_logged[about] = now
        log.info(
            "join refused room={room} uid={uid} reason={reason}",
            room=shown(address),
            uid=session.account,
            reason=reason,
        )


def leave_room(session: Session, seat: Seat, why: str, *, tell_leaver: bool = True) -> None:
    """Get up from a seat; ``why`` is left, disconnect, evicted or replaced."""
    if session.seats.get(seat.room.key) is not seat:
        return  # asking the game for a party may itself bring the news that removed it
    codes = ("307",) if why == "evicted" else ()
    session.hall.rooms.leave(seat, *codes, tell_leaver=tell_leaver)
    _log_leave(seat, why)


def _log_leave(seat: Seat, why: str) -> None:
    log.info(
        "leave room={room} uid={uid} reason={why}",
        room=seat.room.address,
        uid=seat.sitter.account,
        why=why,
    )


# -- messages ------------------------------------------------------------------


def _message(session: Session, said: Stanza) -> None:
    kind = said.get("type")
    if kind == "groupchat":
        if session.hall.may(session.hall.message_rate, session):
            session.freshly(lambda: _say(session, said), anew=_is_apart(session))
        else:
            not_acceptable(session, said)
    elif kind == "chat":
        if session.hall.may(session.hall.message_rate, session):
            session.freshly(lambda: _whisper(session, said), anew=_is_apart(session))
        else:
            _log_whisper(session, said, "reason=rate")


def _is_apart(session: Session) -> bool:
    """Whether there is a block that may just have been lifted."""
    person = session.person
    return person is not None and bool(person.about.blocks or person.about.blocked_by)


def _body(said: Stanza) -> str | None:
    body = said.child("body")
    return body.text if body is not None and 1 <= len(body.text) <= MAX_BODY else None


def _id(said: Stanza) -> str | None:
    stanza_id = said.attributes.get("id")
    return stanza_id if stanza_id is not None and len(stanza_id) <= MAX_ID else None


def not_acceptable(session: Session, said: Stanza) -> None:
    """A room message is not delivered; the connection stays."""
    session.write(
        stanza.element(
            "message",
            stanza.error("not-acceptable", "modify"),
            xmlns=stanza.CLIENT,
            type="error",
            id=_id(said),
            from_=said.get("to").partition("/")[0],
            to=session.jid,
        )
    )


def _say(session: Session, said: Stanza) -> None:
    local, host, _ = split_address(said.get("to"))
    room, person, body = room_of(local, host, session.domain), session.person, _body(said)
    seat = session.seats.get(room.key) if room is not None else None
    if seat is None or person is None or body is None:
        not_acceptable(session, said)
        return
    people = session.hall.people
    if not people.member(person, seat.room):
        not_acceptable(session, said)
        leave_room(session, seat, "evicted")
        return
    session.hall.evict_strangers(seat.room.key)
    rooms, blocked_by = session.hall.rooms, person.about.blocked_by
    count = rooms.say(seat, _id(said), body, lambda other: other.sitter.account not in blocked_by)
    log.info(
        "message room={room} uid={uid} len={length} to={count}{blocked}",
        room=seat.room.address,
        uid=person.account,
        length=len(body),
        count=count,
        blocked=_blocked_words(len(rooms.occupants(seat.room.key)) - count),
    )


def _blocked_words(count: int) -> str:
    return f" blocked={count}" if count > 0 else ""


def _whisper(session: Session, said: Stanza) -> None:
    local, _, resource = split_address(said.get("to"))
    other, person, body = session.hall.people.find(local), session.person, _body(said)
    if person is None or body is None:
        _log_whisper(session, said, "reason=body")
    elif other is person:
        _log_whisper(session, said, "reason=self")
    elif other is None or not other.bound:
        _log_whisper(session, said, "reason=offline")
    elif person.about.apart_from(other.account):
        _log_whisper(session, said, "reason=blocked")
    else:
        named = [one for one in other.bound if one.resource == resource]
        inner = stanza.element("body", stanza.text(body))
        for one in named or other.bound:
            one.write(
                stanza.element(
                    "message",
                    inner,
                    xmlns=stanza.CLIENT,
                    type="chat",
                    from_=session.jid,
                    to=one.jid,
                    id=_id(said),
                )
            )
        _log_whisper(session, said, f"delivered={len(named or other.bound)}")


def _log_whisper(session: Session, said: Stanza, outcome: str) -> None:
    body = said.child("body")
    log.info(
        "whisper from={uid} to={to} len={length} {outcome}",
        uid=session.account,
        to=shown(split_address(said.get("to"))[0]),
        length=len(body.text) if body is not None else 0,
        outcome=outcome,
    )
