"""Entries into rooms while this process does not know the sessions of the others.

A new process says Hello, and the others announce their sessions. Until then it would not know the
speakers of lines, so sessions here wait before they enter rooms. Spec: 2 §4 Chat, rooms.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred

from svcserver.chat.events import Here

ANSWERED_S = 0.5  # after its Hello, until the others have started to answer
MOST_S = 10.0  # limit for the rest of an answer

EntryAction = Callable[[], Deferred[bool]]


@define(eq=False)
class Arriving:
    """The entries that wait, in their order. ``seconds`` is the clock of timers."""

    seconds: Callable[[], float]
    _greeted_at: float | None = field(default=None, init=False)
    _owing: set[str] = field(factory=set, init=False)  # processes whose answer is incomplete
    _begun: set[str] = field(factory=set, init=False)  # processes that have started to answer
    _waiting: list[tuple[EntryAction, Deferred[bool]]] = field(factory=list, init=False)

    def enter(self, entry: EntryAction) -> Deferred[bool]:
        """Call ``entry`` now, or once the other processes are known; fires with its result."""
        if self._knows_others():
            return entry()
        happened: Deferred[bool] = Deferred()
        self._waiting.append((entry, happened))
        return happened

    def greeted(self) -> None:
        """Note that our Hello was received, so that answers follow."""
        if self._greeted_at is None:
            self._greeted_at = self.seconds()

    @property
    def ungreeted(self) -> bool:
        """True if no Hello of ours was received, because we could not receive news yet."""
        return self._greeted_at is None

    def answered(self, news: Here) -> None:
        """Note an answer of a process, or a piece of one.

        The end of an answer that it started for others before ours does not count.
        """
        if self._greeted_at is None:
            return
        if news.since == 0 and news.until != 0:  # an until of 0 means that more follows
            self._begun.add(news.worker)
        if news.until is None and news.worker in self._begun:
            self._owing.discard(news.worker)
        else:
            self._owing.add(news.worker)

    def gone(self, worker: str) -> None:
        self._owing.discard(worker)

    def check(self) -> None:
        """Let waiting sessions enter once the others are known; called about once a second."""
        if self._knows_others():
            self.let_enter()

    def let_enter(self) -> None:
        """Run all waiting entries, which may be refused."""
        waiting, self._waiting = self._waiting, []
        for entry, happened in waiting:
            entry().chainDeferred(happened)

    def _knows_others(self) -> bool:
        if self._greeted_at is None:
            return False
        since = self.seconds() - self._greeted_at
        return since >= MOST_S or (since >= ANSWERED_S and not self._owing)
