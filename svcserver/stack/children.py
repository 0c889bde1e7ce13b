"""Starts the components in order, each when the one before is ready; restarts and stops them.

The next ones import their services meanwhile (``stack/prepared.py``): that is most of a start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from twisted.internet import defer
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessDone, ProcessExitedAlready
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.runner.procmon import ProcessMonitor

from svcserver.stack.components import Component
from svcserver.stack.prepared import Child, Prepared

READY = re.compile(r"\bready\b")
# what is restarted, and by which signal; a gateway would end players' connections
ROLLED = {"metagame": "TERM", "deploy": "HUP", "content": "TERM"}  # HUP: its game servers run on
# a line of kernel.settings.load, which names the variable: no later start can go better
BAD_SETTING = re.compile(r"svc-[a-z]+: [A-Z][A-Z0-9_]+ (?!cannot)")
READY_S = 60.0  # how long the next component waits for this one
Write = Callable[[str, str], object]  # a component and its line; never waits, never fails


class Children(ProcessMonitor):
    """A process monitor that starts its processes one after the other.

    A child that ends is started again: at once when it had run for ``threshold`` seconds,
    else after 1, 2, 4 ... 60 seconds. ``write`` gets every line of every child.
    """

    threshold = 5
    killTime = 15  # a service lets running requests finish for 10 s
    minRestartDelay = 1
    maxRestartDelay = 60
    log = Logger()

    def __init__(
        self,
        reactor: Any,
        wanted: Sequence[Component],
        write: Write,
        environ: Mapping[str, str],
        folder: str,
        dashboard: str = "",
        end: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(reactor)
        self.wanted, self.write, self.environ = list(wanted), write, dict(environ)
        self.folder, self.dashboard = folder, dashboard
        self.end = end  # ends the stack, where starting again is in vain
        self.when_ended: Callable[[str], object] = lambda name: None  # told of ends by itself
        self.complete = False  # all have been ready once
        self.ready: set[str] = set()
        self.starts = 0
        self._waiting = list(wanted)
        self._awaited: str | None = None
        self._deadline: Any = None
        self._gone: dict[str, Deferred[None]] = {}
        self._readiness: dict[str, Deferred[None]] = {}
        self._prepared = Prepared(reactor, self._start_prepared)
        self._rolling = False

    def startService(self) -> None:
        super().startService()
        self._next()
        Deferred.fromCoroutine(self._prepare_waiting())

    async def _prepare_waiting(self) -> None:
        """One by one, so that the one that starts has a processor for itself."""
        for one in list(self._waiting):
            if self.running and one in self._waiting:
                await self._prepared.begin(one)  # one that cannot says why when it is its turn

    def stopService(self) -> Any:
        """Stop the children, the last started first; fires when all are gone."""
        running = [one.name for one in reversed(self.wanted) if one.name in self.protocols]
        processes, self._processes = self._processes, {}  # the base class would stop all at once
        super().stopService()
        self._processes = processes
        self._quiet()
        self._prepared.drop_all()
        return Deferred.fromCoroutine(self._stop(running))

    async def _stop(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self.protocols:
                gone = self._gone[name] = Deferred()
                self.stopProcess(name)
                await gone

    async def roll(self) -> bool:
        """Restart the components of ``ROLLED``, one after the other; whether all came back.

        The gateway lets requests wait for one that is alone, and sends those of a worker to others.
        """
        if self._rolling or not self.running:
            return False
        self._rolling, well = True, True
        try:
            for one in self.wanted:
                if well and self.running and one.kind in ROLLED and one.name in self.protocols:
                    well = await self._again(one)
        finally:
            self._rolling = False
        if well:
            self.log.info("rolling restart over: every component is back")
        return well

    async def _again(self, one: Component) -> bool:
        name = one.name
        if not await self._prepare(one):
            self.log.error(
                "{name} is left as it is: a new one does not even start; look at its lines",
                name=name,
            )
            return False
        self.log.info("{name} is restarted", name=name)
        back: Deferred[None] = Deferred()
        self._readiness[name] = back
        self.timeStarted[name] = float("-inf")  # it ends because it was told to: no back-off
        self._end(name, ROLLED[one.kind])
        try:
            await back.addTimeout(self.killTime + READY_S, self._clock)
        except defer.TimeoutError:
            self._readiness.pop(name, None)
            self.log.error(
                "{name} did not come back; the others are left as they are: look at its lines",
                name=name,
            )
            return False
        return True

    def kill(self, name: str) -> None:
        """End a child that does not listen to anything any more; it is started again."""
        process: Any = self.protocols[name].transport if name in self.protocols else None
        if process is not None:
            with suppress(ProcessExitedAlready):
                process.signalProcess("KILL")

    def _end(self, name: str, how: str) -> None:
        """As ``stopProcess``, which knows TERM only."""
        process: Any = self.protocols[name].transport
        with suppress(ProcessExitedAlready):
            process.signalProcess(how)
            late = self._clock.callLater(self.killTime, self._forceStopProcess, process)
            self.murder[name] = late

    async def _prepare(self, one: Component) -> bool:
        """Start the process that is to follow, up to where it needs what the one before holds."""
        if not await self._prepared.begin(one, show=True):
            return False
        if self.running and one.name in self.protocols:
            return True
        self._prepared.drop(one.name)
        return False

    def _start_prepared(self, one: Component) -> Child:
        return self._spawn(Child(one.name, self, waits=True), one, one.waiting_command)

    def _spawn(self, child: Child, one: Component, words: list[str]) -> Child:
        environ = {**self.environ, **one.extra}
        self._reactor.spawnProcess(child, words[0], words, env=environ, path=self.folder)
        return child

    def startProcess(self, name: str) -> None:
        if name in self.protocols or not self.running:
            return
        self.starts += 1
        self.timeStarted[name] = self._clock.seconds()
        child = self._prepared.take(name)
        if child is not None:
            self.protocols[name] = child  # type: ignore[assignment]  # as below
            return
        [one] = [one for one in self.wanted if one.name == name]
        child = Child(name, self)
        self.protocols[name] = child  # type: ignore[assignment]  # the base class wants its own
        try:
            self._spawn(child, one, one.command)
        except OSError as why:
            self.ended(name, str(why), Failure())

    def heard(self, name: str, line: str) -> None:
        """Take a line of a child; its first ``ready`` lets the next one start."""
        self.write(name, line)
        if name not in self.ready and READY.search(line):
            self.ready.add(name)
            if (waiting := self._readiness.pop(name, None)) is not None:
                waiting.callback(None)
            if name == self._awaited:
                self._next()

    def ended(self, name: str, last: str, reason: Failure) -> None:
        """Take the end of a child: log it, and start it again unless we are stopping."""
        was_ready = name in self.ready
        self.ready.discard(name)
        self._monitoredProcessExited(name, None)
        if (gone := self._gone.pop(name, None)) is not None:
            gone.callback(None)
        if not self.running:
            return
        if name not in self._readiness:
            self.when_ended(name)
        how = describe(reason)
        if not was_ready and not self.complete and BAD_SETTING.match(last):
            self.log.error(
                "{name} ended before it was ready ({how}): {last}; the stack ends",
                name=name,
                how=how,
                last=last,
            )
            self.end()
            return
        wait = max(0.0, self.restart[name].getTime() - self._clock.seconds())
        if was_ready:
            self.log.warn(
                "{name} ended ({how}); again in {wait:.0f} s", name=name, how=how, wait=wait
            )
        else:
            self.log.error(
                "{name} ended before it was ready ({how}): {last}; again in {wait:.0f} s",
                name=name,
                how=how,
                last=last,
                wait=wait,
            )

    def _next(self) -> None:
        self._quiet()
        if not self._waiting:
            names = ", ".join(one.name for one in self.wanted)
            self.complete = True
            where = f"; dashboard: {self.dashboard}" if self.dashboard else ""
            self.log.info("stack ready: {names}{where}", names=names, where=where)
            return
        component = self._waiting.pop(0)
        self._awaited = component.name
        self._deadline = self._clock.callLater(READY_S, self._late, component.name)
        self.addProcess(component.name, component.command)

    def _late(self, name: str) -> None:
        self.log.error("{name} is not ready after {wait} s; going on", name=name, wait=READY_S)
        self._next()

    def _quiet(self) -> None:
        self._awaited = None
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._deadline = None


def describe(reason: Failure) -> str:
    """How a process ended: ``status 1`` or ``signal 9``."""
    if reason.check(ProcessDone):
        return "status 0"
    signal = getattr(reason.value, "signal", None)
    status = getattr(reason.value, "exitCode", None)
    if signal is not None:
        return f"signal {signal}"
    return f"status {status}" if status is not None else type(reason.value).__name__
