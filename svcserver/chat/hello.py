"""The Hello and Here events, through which processes learn of each other's sessions.

A new process publishes Hello, and the other processes announce their sessions with Here. Sessions
of the new process wait for these announcements before they enter rooms. Spec: 2 §4 Chat, rooms.

An announcement has several parts, which are published one after another. Each part describes the
sessions at the time when the part is published.
"""

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.chat.events import PIECE, Here
from svcserver.chat.leases import ALIVE_S

log = Logger()

ALL = ""  # instead of the name of one process
ANSWERED_S = 0.5  # after Hello, the other processes start to answer within this time
MOST_S = 10.0  # limit for the rest of an answer

EntryAction = Callable[[], Deferred[bool]]


@define(eq=False)
class Arriving:
    """A queue of attempts to enter rooms; they wait for the other processes' announcements."""

    seconds: Callable[[], float]
    _greeted_at: float | None = field(default=None, init=False)
    _owing: set[str] = field(factory=set, init=False)  # processes whose answer is incomplete
    _begun: set[str] = field(factory=set, init=False)  # processes that have started to answer
    _waiting: list[tuple[EntryAction, Deferred[bool]]] = field(factory=list, init=False)

    def enter(self, entry: EntryAction) -> Deferred[bool]:
        """Run ``entry`` as soon as the other processes' sessions are known; return its result."""
        if self._knows_others():
            return entry()
        happened: Deferred[bool] = Deferred()
        self._waiting.append((entry, happened))
        return happened

    def greeted(self) -> None:
        """Record that this process's Hello has reached all processes; their answers follow."""
        if self._greeted_at is None:
            self._greeted_at = self.seconds()

    @property
    def ungreeted(self) -> bool:
        """True until this process has received its own Hello."""
        return self._greeted_at is None

    def answered(self, news: Here) -> None:
        """Record a part of another process's answer.

        Parts that arrive before this process's own Hello do not count.
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
        """Let waiting sessions enter their rooms if the other processes' sessions are known."""
        if self._knows_others():
            self.let_enter()

    def let_enter(self) -> None:
        """Let all waiting sessions enter their rooms, unless a room's rules refuse them."""
        waiting, self._waiting = self._waiting, []
        for entry, happened in waiting:
            entry().chainDeferred(happened)

    def _knows_others(self) -> bool:
        if self._greeted_at is None:
            return False
        since = self.seconds() - self._greeted_at
        return since >= MOST_S or (since >= ANSWERED_S and not self._owing)


@define(eq=False)
class Answers:
    """This process's answers to other processes' Hello events; one answer serves several processes.

    ``piece(since, readers)`` returns the answer's next part. The Deferred of ``publish`` fires with
    True when this process itself has received the part, or with False if publishing fails.
    """

    seconds: Callable[[], float]
    publish: Callable[[Here], Deferred[bool]]
    piece: Callable[[int, tuple[str, ...]], Here]
    _askers: dict[str, None] = field(factory=dict, init=False)
    _running: bool = field(default=False, init=False)
    _next_at: float = field(default=0.0, init=False)

    def answer(self, asker: str) -> None:
        """Send the sessions of this process to the process ``asker``, now or later.

        If the sessions are sent later, a ``Here`` event without sessions tells ``asker`` to wait.
        """
        self._askers[asker] = None
        self.check()
        if asker in self._askers and asker != ALL:
            wait = self.piece(0, (asker,)).to_come()
            Deferred.fromCoroutine(self._sent(wait))

    def check(self) -> None:
        """Start to send the next answer if it is time for one; called about once a second."""
        if self._askers and not self._running and self.seconds() >= self._next_at:
            readers = () if ALL in self._askers else tuple(self._askers)
            self._askers.clear()
            self._running = True
            Deferred.fromCoroutine(self._run(readers))

    async def _run(self, readers: tuple[str, ...]) -> None:
        began, count, since = self.seconds(), 0, 0
        try:
            while True:
                here = self.piece(since, readers)
                count += len(here.seats)
                if not await self._sent(here) or here.until is None:
                    return
                since = here.until
        finally:
            self._running = False
            # a small answer costs little, so the next answer may follow sooner
            self._next_at = began + ALIVE_S * min(1.0, count / PIECE)

    async def _sent(self, here: Here) -> bool:
        """Publish a ``Here`` event; return whether the event was delivered."""
        try:
            return await self.publish(here)
        except Exception:
            log.failure("could not announce this process's chat sessions")
            return False
