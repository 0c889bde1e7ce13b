"""Starts, restarts and stops the components; each starts when the previous one is ready.

While one component starts, the processes of the later components are prepared, so that they start
faster.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from attrs import define, field
from twisted.internet import defer
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessDone, ProcessExitedAlready
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.runner.procmon import ProcessMonitor

from svcserver.stack.child import PREPARED
from svcserver.stack.components import Component
from svcserver.stack.lines import LinesAndEnd
from svcserver.stack.printing import message_in

READY = re.compile(r"\bready\b")
# signals of a rolling restart; a restarted gateway would end players' connections
ROLLED = {"metagame": "TERM", "deploy": "HUP", "content": "TERM"}  # HUP: game servers keep running
# a line of kernel.settings.load, which names the variable: a restart cannot help
BAD_SETTING = re.compile(r"svc-[a-z]+: [A-Z][A-Z0-9_]+ (?!cannot)")
READY_S = 60.0  # how long the next component waits for this one
PREPARED_S = 60.0  # how long a child may take to import its service
LAST_LINES = 8  # remembered per child: stdout and stderr arrive in any order
HELD_LINES = 200  # buffered per waiting child: usually few, but a traceback is long
Write = Callable[[str, str], object]  # a component and its line; never waits, never fails


class Child(LinesAndEnd):
    """A protocol that reports a child process's output and its exit to the monitor.

    While ``waits`` is True, the child's output is buffered and its exit is not reported.
    ``prepared`` fires with True when the child has prepared its component, or with False if the
    child ends first.
    """

    def __init__(self, name: str, monitor: Children, *, waits: bool = False) -> None:
        self.name, self.monitor, self.waits = name, monitor, waits
        self.prepared: Deferred[bool] = Deferred()
        super().__init__(self._on_line, self._on_end)
        self._last_lines: deque[str] = deque(maxlen=LAST_LINES)
        self._held_lines: deque[str] = deque(maxlen=HELD_LINES)

    @property
    def last_message(self) -> str:
        """The child's last message, or an earlier one that says why the child cannot start."""
        messages = [message_in(line) for line in reversed(self._last_lines)]
        reasons = (message for message in messages if message.startswith("svc-"))
        return next(reasons, [*messages, ""][0])

    def start(self) -> bool:
        """Make a waiting child start as soon as it is prepared; return False if it has ended."""
        transport: Any = self.transport
        if transport is None or transport.pid is None:
            return False
        self.waits = False
        self.print_held()
        transport.write(b"\n")
        return True

    def print_held(self) -> None:
        """Print the lines that were buffered while the child waited."""
        while self._held_lines:
            self.monitor.write(self.name, self._held_lines.popleft())

    def kill(self) -> None:
        """Kill the process of a child that has not begun its work."""
        transport: Any = self.transport
        if transport is not None and transport.pid is not None:
            transport.signalProcess("KILL")

    def _on_end(self, reason: Failure) -> None:
        self._finish_preparation(False)
        if not self.waits:
            self.monitor.on_end(self.name, self.last_message, reason)

    def _on_line(self, line: str) -> None:
        if line == PREPARED:
            self._finish_preparation(True)
            return
        if line:
            self._last_lines.append(line)
        if self.waits:
            self._held_lines.append(line)
        else:
            self.monitor.on_line(self.name, line)

    def _finish_preparation(self, prepared: bool) -> None:
        if not self.prepared.called:
            self.prepared.callback(prepared)


@define(eq=False)
class PreparedChildren:
    """The standby processes, at most one for each component.

    ``spawn`` starts a component's standby process (``Component.waiting_command``) or raises
    OSError.
    """

    clock: Any
    spawn: Callable[[Component], Child]
    _waiting: dict[str, Child] = field(factory=dict, init=False)

    async def prepare(self, component: Component, *, print_errors: bool = False) -> bool:
        """Start a component's standby process; return whether it is prepared for ``take``.

        A process that fails is killed; if ``print_errors`` is true, its output is printed.
        """
        self.drop(component.name)
        try:
            child = self._waiting[component.name] = self.spawn(component)
        except OSError:
            return False
        try:
            is_prepared = await child.prepared.addTimeout(PREPARED_S, self.clock)
        except defer.TimeoutError:
            is_prepared = False
        if not is_prepared and self._waiting.get(component.name) is child:  # not replaced meanwhile
            if print_errors:
                child.print_held()
            self.drop(component.name)
        return is_prepared

    def take(self, name: str) -> Child | None:
        """Run the component in its standby process, and return it; return None if there is none."""
        child = self._waiting.pop(name, None)
        return child if child is not None and child.start() else None

    def drop(self, name: str) -> None:
        """Kill a component's standby process, if there is one."""
        child = self._waiting.pop(name, None)
        if child is not None:
            child.kill()


class Children(ProcessMonitor):
    """A process monitor that starts its processes one after the other.

    A child that ends is restarted: immediately if it ran for ``threshold`` seconds, otherwise after
    1, 2, 4 ... 60 seconds. ``write`` is called with every output line of every child.
    """

    threshold = 5
    killTime = 15  # a service lets running requests finish for 10 s
    minRestartDelay = 1
    maxRestartDelay = 60
    log = Logger()

    def __init__(
        self,
        reactor: Any,
        components: Sequence[Component],
        write: Write,
        environ: Mapping[str, str],
        folder: str,
        dashboard: str = "",
        end: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(reactor)
        self.components, self.write, self.environ = list(components), write, dict(environ)
        self.folder, self.dashboard = folder, dashboard
        self.end = end  # ends the stack when a restart cannot help
        self.on_crash: Callable[[str], object] = lambda name: None
        self.on_start: Callable[[str], object] = lambda name: None
        self.on_complete: Callable[[], object] = lambda: None  # all have been ready once
        self.complete = False  # all components have been ready once
        self.ready: set[str] = set()
        self.starts = 0
        self._waiting = list(components)
        self._awaited: str | None = None
        self._deadline: Any = None
        self._stopping: dict[str, Deferred[None]] = {}
        self._readiness: dict[str, Deferred[None]] = {}
        self._prepared = PreparedChildren(reactor, self._spawn_waiting)
        self._rolling = False

    def startService(self) -> None:
        super().startService()
        self._start_next()
        Deferred.fromCoroutine(self._prepare_waiting())

    async def _prepare_waiting(self) -> None:
        """Prepare the later components one by one.

        If they were prepared concurrently, the component that is starting would get less CPU time.
        """
        for component in list(self._waiting):
            if self.running and component in self._waiting:
                # a failure is reported when the component itself is started
                await self._prepared.prepare(component)

    def stopService(self) -> Any:
        """Stop the children in reverse order; return a Deferred that fires when all have ended."""
        names = [component.name for component in reversed(self.components)]
        # otherwise the base class would stop all children concurrently
        processes, self._processes = self._processes, {}
        super().stopService()
        self._processes = processes
        self._stop_waiting()
        for component in self.components:
            self._prepared.drop(component.name)
        return Deferred.fromCoroutine(
            self._stop([name for name in names if name in self.protocols])
        )

    async def _stop(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self.protocols:
                ended = self._stopping[name] = Deferred()
                self.stopProcess(name)
                await ended

    async def roll(self) -> bool:
        """Restart the components in ``ROLLED`` one by one; return True if all are running again.

        While a metagame worker restarts, the gateway sends requests to the other workers. If
        the host has only one metagame, the gateway holds the requests until the metagame is back.
        """
        if self._rolling or not self.running:
            return False
        self._rolling, succeeded = True, True
        try:
            for component in self.components:
                is_rolled = component.kind in ROLLED and component.name in self.protocols
                if succeeded and self.running and is_rolled:
                    succeeded = await self._restart(component)
        finally:
            self._rolling = False
        if succeeded:
            self.log.info("rolling restart complete: every component is back")
        return succeeded

    async def _restart(self, component: Component) -> bool:
        name = component.name
        if not await self._prepare(component):
            text = "{name} is not restarted: its new process cannot start. See its log lines."
            self.log.error(text, name=name)
            return False
        self.log.info("{name} is restarted", name=name)
        ready: Deferred[None] = Deferred()
        self._readiness[name] = ready
        self.timeStarted[name] = float("-inf")  # the exit is requested: no back-off
        self._signal(name, ROLLED[component.kind])
        try:
            await ready.addTimeout(self.killTime + READY_S, self._clock)
        except defer.TimeoutError:
            self._readiness.pop(name, None)
            text = (
                "{name} was restarted but is not ready, so no further component is restarted."
                " See its log lines."
            )
            self.log.error(text, name=name)
            return False
        return True

    def kill(self, name: str) -> None:
        """Kill a child that no longer responds; the monitor restarts it."""
        process: Any = self.protocols[name].transport if name in self.protocols else None
        if process is not None:
            with suppress(ProcessExitedAlready):
                process.signalProcess("KILL")

    def _signal(self, name: str, how: str) -> None:
        """Stop a process as ``stopProcess`` does, but with the signal ``how``."""
        process: Any = self.protocols[name].transport
        with suppress(ProcessExitedAlready):
            process.signalProcess(how)
            kill = self._clock.callLater(self.killTime, self._forceStopProcess, process)
            self.murder[name] = kill

    async def _prepare(self, component: Component) -> bool:
        """Prepare the process that will replace a running one."""
        if not await self._prepared.prepare(component, print_errors=True):
            return False
        if self.running and component.name in self.protocols:
            return True
        self._prepared.drop(component.name)
        return False

    def _spawn_waiting(self, component: Component) -> Child:
        child = Child(component.name, self, waits=True)
        return self._spawn(child, component, component.waiting_command)

    def _spawn(self, child: Child, component: Component, words: list[str]) -> Child:
        environ = {**self.environ, **component.extra}
        self._reactor.spawnProcess(child, words[0], words, env=environ, path=self.folder)
        return child

    def startProcess(self, name: str) -> None:
        if name in self.protocols or not self.running:
            return
        self.starts += 1
        self.on_start(name)
        self.timeStarted[name] = self._clock.seconds()
        child = self._prepared.take(name)
        if child is not None:
            self.protocols[name] = child  # type: ignore[assignment]  # as below
            return
        [component] = [component for component in self.components if component.name == name]
        child = Child(name, self)
        self.protocols[name] = child  # type: ignore[assignment]  # the base class wants its own
        try:
            self._spawn(child, component, component.command)
        except OSError as error:
            self.on_end(name, str(error), Failure())

    def on_line(self, name: str, line: str) -> None:
        """Print a line of a child; the child's first ``ready`` line starts the next component."""
        self.write(name, line)
        if name not in self.ready and READY.search(line):
            self.ready.add(name)
            if (waiting := self._readiness.pop(name, None)) is not None:
                waiting.callback(None)
            if name == self._awaited:
                self._start_next()

    def on_end(self, name: str, last_message: str, reason: Failure) -> None:
        """Log that a child has ended and restart it, unless the stack is stopping."""
        was_ready = name in self.ready
        self.ready.discard(name)
        self._monitoredProcessExited(name, None)
        if (ended := self._stopping.pop(name, None)) is not None:
            ended.callback(None)
        if not self.running:
            return
        if name not in self._readiness:
            self.on_crash(name)
        how = describe(reason)
        before_ready = "{name} ended before it was ready ({how}): {last}; "
        if not was_ready and not self.complete and BAD_SETTING.match(last_message):
            text = before_ready + "the stack ends"
            self.log.error(text, name=name, how=how, last=last_message)
            self.end()
            return
        wait = max(0.0, self.restart[name].getTime() - self._clock.seconds())
        if was_ready:
            text = "{name} ended ({how}); it starts again in {wait:.0f} s"
            self.log.warn(text, name=name, how=how, wait=wait)
        else:
            text = before_ready + "it starts again in {wait:.0f} s"
            self.log.error(text, name=name, how=how, last=last_message, wait=wait)

    def _start_next(self) -> None:
        self._stop_waiting()
        if not self._waiting:
            names = ", ".join(component.name for component in self.components)
            self.complete = True
            where = f"; dashboard: {self.dashboard}" if self.dashboard else ""
            self.log.info("stack ready: {names}{where}", names=names, where=where)
            self.on_complete()
            return
        component = self._waiting.pop(0)
        self._awaited = component.name
        self._deadline = self._clock.callLater(READY_S, self._on_late, component.name)
        self.addProcess(component.name, component.command)

    def _on_late(self, name: str) -> None:
        text = "{name} is not ready after {wait} s; the next component starts"
        self.log.error(text, name=name, wait=READY_S)
        self._start_next()

    def _stop_waiting(self) -> None:
        self._awaited = None
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._deadline = None


def describe(reason: Failure) -> str:
    """Describe how a process ended: ``status 1`` or ``signal 9``."""
    if reason.check(ProcessDone):
        return "status 0"
    signal = getattr(reason.value, "signal", None)
    status = getattr(reason.value, "exitCode", None)
    if signal is not None:
        return f"signal {signal}"
    return f"status {status}" if status is not None else type(reason.value).__name__
