"""The actions that this process has published, but whose events it has not received yet.

All processes receive these events before this process's next ``Here`` event. So for ``Here``, a
pending exit from a room counts as done. ``Here.unheard`` lists the pending entries.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nsmallest
from math import inf

from attrs import define, field, frozen
from twisted.internet.defer import Deferred

from svcserver.chat.events import PIECE, Here, RoomPlace, Said, StatusShown
from svcserver.chat.ghosts import seat_of
from svcserver.chat.rooms import Occupant
from svcserver.chat.session import Session
from svcserver.kernel.ids import AccountId

At = tuple[int, str]  # a session's number and a room's key

HEARD_S = 5.0  # after which a line that was not received back is refused


@frozen
class PendingLeave:
    """A session's exit from a room; ``why`` is the reason.

    If ``tell_leaver`` is True, the client of the session that leaves is notified, too.
    """

    session: Session
    occupant: Occupant
    why: str
    tell_leaver: bool


@define(eq=False)
class Pending:
    """A process's pending room entries, room exits and chat lines.

    Each session has at most one pending line.
    """

    leaving: dict[At, PendingLeave] = field(factory=dict, init=False)
    entering: dict[At, tuple[Session, RoomPlace]] = field(factory=dict, init=False)
    # by session: the time of its line, the line, and the Deferred that waits for it
    _saying: dict[int, tuple[float, Said, Deferred[bool]]] = field(factory=dict, init=False)

    def publish_line(
        self, line: Said, publish: Callable[[object], Deferred[bool]], now: float
    ) -> Deferred[bool]:
        """Publish a session's line.

        The Deferred fires with True when the line is delivered, or with False if it is refused.
        """
        self._refuse(line.session)
        happened: Deferred[bool] = Deferred()
        self._saying[line.session] = now, line, happened

        def sent(well: bool) -> bool | Deferred[bool]:
            if not well:
                self.resolve(line, is_delivered=False)
            return happened  # usually it has been received back by now

        return publish(line).addCallback(sent)

    def resolve(self, line: Said, *, is_delivered: bool) -> None:
        """Fire a pending line's Deferred, unless the session has sent a newer line."""
        _, waiting, happened = self._saying.get(line.session, (0.0, None, None))
        if happened is not None and waiting == line:
            del self._saying[line.session]
            happened.callback(is_delivered)

    def _refuse(self, number: int) -> None:
        _, _, happened = self._saying.pop(number, (0.0, None, None))
        if happened is not None:
            happened.callback(False)

    def refuse_lines(self, until: float = inf) -> None:
        """Refuse the pending chat lines that were sent no later than ``until``."""
        for number in [session for session, (at, *_) in self._saying.items() if at <= until]:
            self._refuse(number)

    def entered(self, place: RoomPlace, key: str) -> bool:
        """Remove a pending attempt to enter a room; return False if it has been refused."""
        entry = self.entering.get((place.session, key))
        # another place means that a later entry is pending
        if entry is not None and entry[1] == place:
            del self.entering[place.session, key]
        return entry is not None

    def forget(self, number: int) -> None:
        """Drop the pending room entries and the pending chat line of a session that has ended."""
        for at in [entry for entry in self.entering if entry[0] == number]:
            del self.entering[at]
        self._refuse(number)

    def here(
        self, worker: str, mine: dict[int, Session], since: int, readers: tuple[str, ...]
    ) -> Here:
        """Return the next ``Here`` event, about sessions whose number is above ``since``."""
        numbers = nsmallest(PIECE, [number for number in mine if number > since])
        until = numbers[-1] if len(numbers) == PIECE else None
        sessions = [mine[number] for number in numbers if not mine[number].ended]
        places = tuple(
            RoomPlace(session.number, occupant.room.address, occupant.nick)
            for session in sessions
            for key, occupant in session.in_rooms.items()
            if (session.number, key) not in self.leaving
            and (session.number, key) not in self.entering
        )
        shown = tuple(
            shown_of(worker, session) for session in sessions if session.status is not None
        )
        unheard = tuple(
            entry
            for entry in self.entering
            if entry[0] > since and (until is None or entry[0] <= until)
        )
        seats = tuple(map(seat_of, sessions))
        return Here(worker, seats, places, unheard, shown, since, until, readers)


def shown_of(worker: str, session: Session, to: tuple[AccountId, ...] = ()) -> StatusShown:
    """Return the event with the session's status; without a status, ``show`` is None."""
    if session.status is None:
        return StatusShown(worker, session.number, None, to=to)
    return StatusShown(worker, session.number, session.status.show, session.status.text, to)
