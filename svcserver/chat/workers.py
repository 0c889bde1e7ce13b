"""A chat across several processes.

Each process keeps a copy of all rooms, and applies the same events to it in the same order. A
session's action is published first. It takes effect when the event arrives, even in the session's
own process. A process without a heartbeat for ``LEASE_S`` is removed with all its sessions. If such
a process is still alive, it ends its sessions and continues under a new name. A process that may
have missed events publishes Hello, and the other processes announce their sessions.
"""

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.board.board import Board
from svcserver.board.waiting import log_failure
from svcserver.chat.admission import MAX_BOUND
from svcserver.chat.events import (
    Alive,
    Bound,
    Entering,
    Expired,
    Hello,
    Here,
    Leaving,
    RoomPlace,
    Said,
    Seat,
    SessionEnded,
    StatusShown,
    Whispered,
)
from svcserver.chat.ghosts import Ghost, Ghosts, Seats, room_at, seat_of, status_in
from svcserver.chat.hello import ALL, Answers, Arriving
from svcserver.chat.leases import ALIVE_S, Leases
from svcserver.chat.messages import log_line, write_whisper
from svcserver.chat.names import Room
from svcserver.chat.pending import HEARD_S, Pending, PendingLeave, shown_of
from svcserver.chat.presence import Presences
from svcserver.chat.room_access import RoomAccess, refuse_entry
from svcserver.chat.rooms import Occupant, Rooms
from svcserver.chat.session import Session
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Unavailable

log = Logger()


@define(eq=False)
class Workers:
    """The implementation of ``Together``; the processes exchange events through ``board``."""

    board: Board
    rooms: Rooms
    room_access: RoomAccess
    presences: Presences
    seconds: Callable[[], float]
    leases: Leases = field(init=False)
    _mine: dict[int, Session] = field(factory=dict, init=False)  # sessions bound in this process
    _ghosts: Ghosts = field(init=False)
    _seats: Seats = field(factory=Seats, init=False)
    _pending: Pending = field(factory=Pending, init=False)
    _alive_at: float | None = field(default=None, init=False)
    _behind: bool = field(default=True, init=False)  # the others have not announced their sessions
    _arriving: Arriving = field(init=False)
    _answers: Answers = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._arriving = Arriving(self.seconds)
        self._answers = Answers(self.seconds, self._publish, self._here)
        self._ghosts = Ghosts(self.rooms, self._sit, self._seats.free, self.presences.restate)
        self.leases = Leases(
            self.seconds, self._publish_unwaited, self._forget_all, self._restart_lease
        )
        listeners: tuple[tuple[type[Any], Callable[[Any], None]], ...] = (
            (Alive, self.leases.on_alive),
            (Expired, self.leases.on_expired),
            (Hello, self._on_hello),
            (Here, self._on_here),
            (Bound, self._on_bound),
            (SessionEnded, self._on_gone),
            (Entering, self._on_entering),
            (Leaving, self._on_leaving),
            (Said, self._on_said),
            (Whispered, self._on_whispered),
            (StatusShown, self._on_shown),
        )
        for news, listener in listeners:
            self.board.listen(news, listener)
        self.board.when_missed(self._miss)

    @property
    def name(self) -> str:
        """The name of this process, which is valid as long as the process has its lease."""
        return self.leases.name

    def crowd(self) -> tuple[int, int]:
        """Return how many sessions other processes have, and how many accounts have sessions."""
        return len(self._ghosts), len(self._seats)

    # -- actions of sessions here -------------------------------------------

    def bound(self, session: Session) -> Deferred[bool]:
        """Publish a bound session; the Deferred fires with False if it cannot be published."""
        self._mine[session.number] = session
        published = self._publish(Bound(self.name, seat_of(session)))
        return published.addCallback(self._seated, session)

    def _seated(self, is_delivered: bool, session: Session) -> bool:
        """Record the session if necessary, and pass ``is_delivered`` on to the next callback."""
        self._sit_alone(session)
        return is_delivered

    def _sit_alone(self, session: Session) -> None:
        seat = seat_of(session)
        if not session.ended and not self._seats.has(self.name, seat):
            self._sit(self.name, seat)

    def gone(self, session: Session) -> None:
        """Publish that a bound session has ended."""
        if session.number in self._mine:
            gone = SessionEnded(self.name, session.number)
            published = self._publish(gone)
            log_failure(
                published.addCallback(
                    lambda is_delivered: None if is_delivered else self._on_gone(gone)
                )
            )

    def enter(self, session: Session, room: Room, nick: str) -> Deferred[bool]:
        place = RoomPlace(session.number, room.address, nick)
        return self._arriving.enter(lambda: self._publish_entry(session, place, room.key))

    def _publish_entry(self, session: Session, place: RoomPlace, key: str) -> Deferred[bool]:
        if session.ended:  # while the entry waited
            return succeed(False)
        self._pending.entering[session.number, key] = session, place

        def withdraw(is_delivered: bool) -> bool:
            if (
                not is_delivered
            ):  # the session gets an error; if the entry arrives after all, it is ignored
                self._pending.entering.pop((session.number, key), None)
            return is_delivered

        return self._publish(Entering(self.name, place, seat_of(session))).addCallback(withdraw)

    def leave(self, session: Session, occupant: Occupant, why: str, tell_leaver: bool) -> None:
        key = occupant.room.key
        if (session.number, key) in self._pending.leaving:
            return
        self._pending.leaving[session.number, key] = PendingLeave(
            session, occupant, why, tell_leaver
        )
        published = self._publish(Leaving(self.name, session.number, key, why, tell_leaver))
        published.addCallback(
            lambda is_delivered: None if is_delivered else self._leave_alone(session.number, key)
        )
        log_failure(published)

    def _leave_alone(self, number: int, key: str) -> None:
        """Remove a session from a room without publishing an event."""
        leave = self._pending.leaving.pop((number, key), None)
        if leave is not None:
            self._leave_now(leave)

    def _leave_now(self, leave: PendingLeave) -> None:
        tell = leave.tell_leaver and not leave.session.ended
        self.room_access.leave_now(leave.session, leave.occupant, leave.why, tell_leaver=tell)

    def broadcast_line(
        self, occupant: Occupant, stanza_id: str | None, body: str, deaf: frozenset[AccountId]
    ) -> Deferred[bool]:
        session: Any = occupant.session
        key, silent = occupant.room.key, tuple(sorted(deaf))
        line = Said(self.name, session.number, key, stanza_id, body, silent)
        return self._pending.publish_line(line, self._publish, self.seconds())

    def seats(self, account: str) -> list[tuple[str, Seat]]:
        return self._seats.of_account(account)

    def whisper(
        self, to: list[tuple[str, Seat]], jid: str, stanza_id: str | None, body: str
    ) -> Deferred[bool]:
        named = tuple((worker, seat.session) for worker, seat in to)
        return self._publish(Whispered(self.name, named, jid, stanza_id, body))

    def send_status(self, session: Session, to: tuple[AccountId, ...]) -> None:
        if session.number in self._mine:
            self._publish_unwaited(shown_of(self.name, session, to))

    def shown(self, account: AccountId) -> list[Ghost]:
        those = [self._ghosts.find(worker, seat.session) for worker, seat in self.seats(account)]
        return [ghost for ghost in those if ghost is not None and ghost.status is not None]

    # -- the processes ------------------------------------------------------

    def tick(self) -> None:
        """Publish a heartbeat and end the leases of silent processes."""
        now = self.seconds()
        pause_s = 0.0 if self._behind else ALIVE_S  # Hello is due at the next tick
        if self._alive_at is None or now - self._alive_at >= pause_s:
            self._alive_at = now
            self._publish(Alive(self.name)).addCallback(self._catch_up).addErrback(_defect)
        self._pending.refuse_lines(now - HEARD_S)
        self.leases.check()
        self._answers.check()
        self._arriving.check()

    def _catch_up(self, is_delivered: bool) -> None:
        if not is_delivered:
            self._arriving.let_enter()  # nothing can be published: refuse those who wait
        if is_delivered and (self._behind or self._arriving.ungreeted):
            self._behind = False
            self.board.reads_as(self.name)
            self._publish_unwaited(Hello(self.name))
            self._answers.answer(ALL)

    def _miss(self) -> None:
        """Complete or refuse this process's pending actions, because events may have been missed.

        Exits from rooms take effect in this process; entries and chat lines are refused.
        """
        self._behind = True
        for number, key in list(self._pending.leaving):
            self._leave_alone(number, key)
        entering, self._pending.entering = self._pending.entering, {}
        for session, place in entering.values():
            refuse_entry(session, place.address, place.nick, "limit")
        self._pending.refuse_lines()
        for session in list(self._mine.values()):
            if session.ended:
                self._on_gone(SessionEnded(self.name, session.number))
            else:
                self._sit_alone(session)

    def _here(self, since: int, readers: tuple[str, ...]) -> Here:
        return self._pending.here(self.name, self._mine, since, readers)

    def _forget_all(self, worker: str) -> None:
        self._arriving.gone(worker)
        count = self._ghosts.forget(worker)
        log.warn("a chat process and its {count} sessions have ended", count=count)

    def _restart_lease(self) -> None:
        """End this process's sessions, because the other processes have removed these sessions."""
        mine, self._mine = list(self._mine.values()), {}
        log.warn(
            "the other processes consider this chat process dead, so its {count} sessions end",
            count=len(mine),
        )
        for number, key in list(self._pending.leaving):
            self._leave_alone(number, key)
        self._pending.entering.clear()
        self._pending.refuse_lines()
        for session in mine:
            self._seats.free(self.name, session.number, session.account)
            for occupant in list(session.in_rooms.values()):
                self.room_access.leave_now(session, occupant, "disconnect", tell_leaver=False)
        self._alive_at, self._behind = None, True
        for session in mine:
            session.end("lease")

    # -- the news -----------------------------------------------------------

    def _on_hello(self, news: Hello) -> None:
        if news.worker != self.name:
            self._answers.answer(news.worker)
        else:
            self._arriving.greeted()

    def _on_here(self, news: Here) -> None:
        ours = not news.readers or self.name in news.readers
        if ours and news.worker != self.name and self.leases.renew(news.worker):
            self._arriving.answered(news)
            self._ghosts.correct(news)

    def _on_bound(self, news: Bound) -> None:
        seat = news.seat
        if news.worker != self.name:
            if not self.leases.renew(news.worker):  # the process may end before its first heartbeat
                return
        elif seat.session not in self._mine:
            return
        self._seats.free(
            news.worker, seat.session, seat.account
        )  # a seat that was taken while no event could be published
        earlier = self._seats.of_account(seat.account)
        for earlier_seat in [place for place in earlier if place[1].resource == seat.resource]:
            self._end(*earlier_seat)
        self._sit(news.worker, seat)
        for worker, older_seat in self.seats(seat.account)[:-1]:
            session = self._mine.get(older_seat.session) if worker == self.name else None
            if session is not None and news.worker != self.name and not session.ended:
                session.probe()

    def _sit(self, worker: str, seat: Seat) -> None:
        """Record a session; if its account then has too many sessions, end its oldest session."""
        if worker != self.name:
            self._ghosts.come(worker, seat)
        self._seats.take(worker, seat)
        for worker_of, oldest in self._seats.of_account(seat.account)[:-MAX_BOUND]:
            self._end(worker_of, oldest)

    def _end(self, worker: str, seat: Seat) -> None:
        """Remove a session from its account, and end the session if it belongs to this process."""
        self._seats.free(worker, seat.session, seat.account)
        session = self._mine.get(seat.session) if worker == self.name else None
        if session is not None:
            session.end("replaced")

    def _on_gone(self, news: SessionEnded) -> None:
        if news.worker != self.name:
            self._ghosts.drop(news.worker, news.session)
            return
        self._pending.forget(news.session)
        session = self._mine.pop(news.session, None)
        if session is not None:
            for occupant in list(session.in_rooms.values()):
                self.room_access.leave_now(session, occupant, "disconnect", tell_leaver=False)
            self._seats.free(self.name, session.number, session.account)

    def _on_entering(self, news: Entering) -> None:
        if news.worker != self.name:
            if self.leases.renew(news.worker):
                seat = news.seat
                if seat is not None and self._ghosts.find(news.worker, seat.session) is None:
                    self._sit(news.worker, seat)
                self._ghosts.enter(news.worker, news.place)
            return
        place = news.place
        session = self._mine.get(place.session)
        room = None if session is None else room_at(place, session.domain)
        if session is None or room is None:
            return
        if not self._pending.entered(place, room.key):
            return
        # an ended session enters, too: the other processes let it enter until its end is published
        if self.rooms.conflict(room, place.nick, session.account):
            refuse_entry(session, place.address, place.nick, "conflict")
        elif self.rooms.full(room, session):
            refuse_entry(session, place.address, place.nick, "limit")
        else:
            self.room_access.enter_now(session, room, place.nick)

    def _on_leaving(self, news: Leaving) -> None:
        if news.worker == self.name:
            leave = self._pending.leaving.pop((news.session, news.room), None)
            if leave is not None:
                self._leave_now(leave)
            return
        ghost = self._ghosts.find(news.worker, news.session)
        occupant = None if ghost is None else ghost.in_rooms.get(news.room)
        if occupant is not None:
            codes = ("307",) if news.why == "evicted" else ()
            self.rooms.leave(occupant, *codes, tell_leaver=False)

    def _on_said(self, news: Said) -> None:
        where: Session | Ghost | None
        if news.worker == self.name:
            where = self._mine.get(news.session)
        else:
            where = self._ghosts.find(news.worker, news.session)
        occupant = None if where is None else where.in_rooms.get(news.room)
        if news.worker == self.name:
            self._pending.resolve(news, is_delivered=occupant is not None)
        if occupant is None:
            return
        deaf = frozenset(news.deaf)
        count = self.rooms.deliver_line(occupant, news.id, news.body, deaf)
        if news.worker == self.name:
            log_line(occupant, news.body, count, len(self.rooms.occupants(news.room)))

    def _on_whispered(self, news: Whispered) -> None:
        for worker, number in news.to:
            session = self._mine.get(number) if worker == self.name else None
            if session is None:
                continue
            write_whisper(session, news.jid, news.id, news.body)

    def _on_shown(self, news: StatusShown) -> None:
        ghost = self._ghosts.find(news.worker, news.session)
        if ghost is not None:
            self.presences.changed(ghost, status_in(news), news.to)

    # -- publishing ---------------------------------------------------------

    def _publish(self, news: object) -> Deferred[bool]:
        published = self.board.transact(lambda transaction: transaction.publish(news))
        return published.addCallbacks(lambda _: True, self._unpublished)

    def _unpublished(self, failure: Failure) -> bool:
        failure.trap(Unavailable)
        self._behind = True
        return False

    def _publish_unwaited(self, news: object) -> None:
        log_failure(self._publish(news))


def _defect(failure: Failure) -> None:
    log.failure("a heartbeat of this chat process failed", failure)
