"""What sessions here have told all and not heard yet: it happens when the news comes back.

Until then a ``Here`` must not say that it has not happened: the others hear it before that.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nsmallest
from math import inf

from attrs import define, field, frozen
from twisted.internet.defer import Deferred

from svcserver.chat.events import PIECE, Here, Place, Said, Shown
from svcserver.chat.ghosts import seat_of
from svcserver.chat.rooms import Occupant
from svcserver.chat.session import Session
from svcserver.kernel.ids import AccountId

At = tuple[int, str]  # a session's number and a room's key

HEARD_S = 5.0  # a line that its own process has not heard after these is refused


@frozen
class Leave:
    """A session leaves a room: ``why``, and whether it is told so itself."""

    session: Session
    occupant: Occupant
    why: str
    tell_leaver: bool


@define(eq=False)
class Pending:
    """Entering, leaving and lines; a session says one line at a time.

    ``entering`` has the place.
    """

    leaving: dict[At, Leave] = field(factory=dict, init=False)
    entering: dict[At, tuple[Session, Place]] = field(factory=dict, init=False)
    # by session: when its line was told, which it is, and what waits for it to be heard
    _saying: dict[int, tuple[float, Said, Deferred[bool]]] = field(factory=dict, init=False)

    def say(
        self, said: Said, tell: Callable[[object], Deferred[bool]], now: float
    ) -> Deferred[bool]:
        """A session tells a line; fires with whether this process has heard it, too."""
        self._refuse(said.session)
        happened: Deferred[bool] = Deferred()
        self._saying[said.session] = now, said, happened

        def told(well: bool) -> bool | Deferred[bool]:
            if not well:
                self.said(said, heard=False)
            return happened  # nearly always it has been heard by now

        return tell(said).addCallback(told)

    def said(self, said: Said, *, heard: bool) -> None:
        """This line was heard, or will not be; one that is heard late answers for no later one."""
        _, waiting, happened = self._saying.get(said.session, (0.0, None, None))
        if happened is not None and waiting == said:
            del self._saying[said.session]
            happened.callback(heard)

    def _refuse(self, number: int) -> None:
        """The line of that session is not heard any more."""
        _, _, happened = self._saying.pop(number, (0.0, None, None))
        if happened is not None:
            happened.callback(False)

    def refuse_lines(self, until: float = inf) -> None:
        """Those that were told until then are not heard any more."""
        for number in [one for one, (at, *_) in self._saying.items() if at <= until]:
            self._refuse(number)

    def entered(self, place: Place, key: str) -> bool:
        """It is heard now that a session enters; False where it was told otherwise meanwhile."""
        found = self.entering.get((place.session, key))
        if found is not None and found[1] == place:  # else a later one is on its way
            del self.entering[place.session, key]
        return found is not None

    def forget(self, number: int) -> None:
        """A session has ended: it enters nothing any more."""
        for at in [one for one in self.entering if one[0] == number]:
            del self.entering[at]
        self._refuse(number)

    def here(
        self, worker: str, mine: dict[int, Session], since: int, readers: tuple[str, ...]
    ) -> Here:
        """What a process tells of its sessions. Those that have ended are told of as gone."""
        numbers = nsmallest(PIECE, [one for one in mine if one > since])
        until = numbers[-1] if len(numbers) == PIECE else None
        there = [mine[one] for one in numbers if not mine[one].ended]
        places = tuple(
            Place(one.number, occupant.room.address, occupant.nick)
            for one in there
            for key, occupant in one.in_rooms.items()
            if (one.number, key) not in self.leaving and (one.number, key) not in self.entering
        )
        shown = tuple(shown_of(worker, one) for one in there if one.status is not None)
        unheard = tuple(
            one for one in self.entering if one[0] > since and (until is None or one[0] <= until)
        )
        seats = tuple(map(seat_of, there))
        return Here(worker, seats, places, unheard, shown, since, until, readers)


def shown_of(worker: str, session: Session, to: tuple[AccountId, ...] = ()) -> Shown:
    """What is told of a session's status, or that it has none."""
    if session.status is None:
        return Shown(worker, session.number, None, to=to)
    return Shown(worker, session.number, session.status.show, session.status.text, to)
