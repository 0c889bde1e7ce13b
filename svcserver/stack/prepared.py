"""Processes that import their service and read its settings before it is their turn to start."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from attrs import define, field
from twisted.internet import defer
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from svcserver.stack.child import PREPARED
from svcserver.stack.components import Component
from svcserver.stack.lines import LinesAndEnd
from svcserver.stack.printing import message_in

PREPARED_S = 60.0  # how long one may take to import its service
LAST = 8  # lines of a child that are remembered: both of its outputs come in any order
KEPT = 200  # lines of one that waits: a few, but for a traceback


class Monitor(Protocol):
    """Who is told of a child: ``stack/children.py``."""

    def write(self, name: str, line: str) -> object:
        """Print a line; never waits, never fails."""

    def heard(self, name: str, line: str) -> None:
        """Take a line of one that starts or runs."""

    def ended(self, name: str, last: str, reason: Failure) -> None:
        """Take the end of one that started or ran, with its last words."""


class Child(LinesAndEnd):
    """Passes a child's output and end on to the monitor.

    While it ``waits`` for its turn its lines are kept back, and its end is nobody's business:
    ``prepared`` fires with True when it can go on at once, with False when it ended before.
    """

    def __init__(self, name: str, monitor: Monitor, *, waits: bool = False) -> None:
        self.name, self.monitor, self.waits = name, monitor, waits
        self.prepared: Deferred[bool] = Deferred()
        super().__init__(self._line, self._ended)
        self._said: deque[str] = deque(maxlen=LAST)
        self._kept: deque[str] = deque(maxlen=KEPT)

    @property
    def last(self) -> str:
        """Its last words: why it cannot start, where it says so, though a log line came later."""
        words = [message_in(one) for one in reversed(self._said)]
        return next((one for one in words if one.startswith("svc-")), [*words, ""][0])

    def go_on(self) -> bool:
        """Let it start as soon as it is prepared; False where it has ended meanwhile."""
        transport: Any = self.transport
        if transport is None or transport.pid is None:
            return False
        self.waits = False
        self.show()
        transport.write(b"\n")
        return True

    def show(self) -> None:
        """Print what it said while it waited."""
        while self._kept:
            self.monitor.write(self.name, self._kept.popleft())

    def kill(self) -> None:
        """End one that waits; nothing is lost with it."""
        transport: Any = self.transport
        if transport is not None and transport.pid is not None:
            transport.signalProcess("KILL")

    def _ended(self, reason: Failure) -> None:
        self._tell(False)
        if not self.waits:
            self.monitor.ended(self.name, self.last, reason)

    def _line(self, line: str) -> None:
        if line == PREPARED:
            self._tell(True)
            return
        if line:
            self._said.append(line)
        if self.waits:
            self._kept.append(line)
        else:
            self.monitor.heard(self.name, line)

    def _tell(self, prepared: bool) -> None:
        if not self.prepared.called:
            self.prepared.callback(prepared)


@define(eq=False)
class Prepared:
    """At most one process of each component that waits for its turn.

    ``start`` starts that of a component (``Component.waiting_command``); raises OSError.
    """

    clock: Any
    start: Callable[[Component], Child]
    _waiting: dict[str, Child] = field(factory=dict, init=False)

    async def begin(self, one: Component, *, show: bool = False) -> bool:
        """Start one; True when it can go on at once, or went on before it was so far.

        One that cannot is ended; with ``show`` what it said is printed.
        """
        self.drop(one.name)
        try:
            child = self._waiting[one.name] = self.start(one)
        except OSError:
            return False
        try:
            well = await child.prepared.addTimeout(PREPARED_S, self.clock)
        except defer.TimeoutError:
            well = False
        if not well and self._waiting.get(one.name) is child:  # not one that came after it
            if show:
                child.show()
            self.drop(one.name)
        return well

    def take(self, name: str) -> Child | None:
        """Let one go on, and give it away; None where none lives."""
        child = self._waiting.pop(name, None)
        return child if child is not None and child.go_on() else None

    def drop(self, name: str) -> None:
        """End one that waits, if any."""
        child = self._waiting.pop(name, None)
        if child is not None:
            child.kill()

    def drop_all(self) -> None:
        """End all that wait."""
        for name in list(self._waiting):
            self.drop(name)
