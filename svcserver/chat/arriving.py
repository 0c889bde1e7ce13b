"""Who enters a room while this process does not yet know who is in the rooms of the others.

A process that has just begun says Hello, and the others tell who is with them. Until then it
would not know the speakers of lines that come, and whoever entered a room here would not hear
them; so it enters nobody before. Spec: 2 §4 Chat, rooms.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred

from svcserver.chat.events import Here

ANSWERED_S = 0.5  # after its Hello was heard, the others have begun to answer a process
MOST_S = 10.0  # after that it waits no longer for the rest of an answer

Entry = Callable[[], Deferred[bool]]


@define(eq=False)
class Arriving:
    """Those who wait to enter rooms, in their order; a session waits in one room at a time.

    ``seconds`` is the clock of timers.
    """

    seconds: Callable[[], float]
    _greeted_at: float | None = field(default=None, init=False)
    _owing: set[str] = field(factory=set, init=False)  # processes of whose answer more is to come
    _begun: set[str] = field(factory=set, init=False)  # those that have begun with it
    _waiting: list[tuple[Entry, Deferred[bool]]] = field(factory=list, init=False)

    def enter(self, entry: Entry) -> Deferred[bool]:
        """Do it now, or once the others are known; fires with what it gives."""
        if self._knows_the_others():
            return entry()
        happened: Deferred[bool] = Deferred()
        self._waiting.append((entry, happened))
        return happened

    def greeted(self) -> None:
        """Our Hello was heard: the answers to it are on their way."""
        if self._greeted_at is None:
            self._greeted_at = self.seconds()

    @property
    def ungreeted(self) -> bool:
        """No Hello of ours was heard: it was told before this process could hear any news."""
        return self._greeted_at is None

    def answered(self, told: Here) -> None:
        """A process has told who is with it: all of it, or a piece.

        The end of an answer that it had begun for others before ours is not the end of ours.
        """
        if self._greeted_at is None:
            return
        if told.since == 0 and told.until != 0:  # up to 0 is: more is to come
            self._begun.add(told.worker)
        if told.until is None and told.worker in self._begun:
            self._owing.discard(told.worker)
        else:
            self._owing.add(told.worker)

    def gone(self, worker: str) -> None:
        """A process is there no more."""
        self._owing.discard(worker)

    def look(self) -> None:
        """Let them enter once the others are known; called about once a second."""
        if self._knows_the_others():
            self.let_enter()

    def let_enter(self) -> None:
        """Let them enter, or be told that it cannot be."""
        waiting, self._waiting = self._waiting, []
        for entry, happened in waiting:
            entry().chainDeferred(happened)

    def _knows_the_others(self) -> bool:
        if self._greeted_at is None:
            return False
        since = self.seconds() - self._greeted_at
        return since >= MOST_S or (since >= ANSWERED_S and not self._owing)
