"""A child process that runs ``svc-stack`` for a command."""

import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessExitedAlready
from twisted.python.failure import Failure

from svcserver.ctl.play.story import PlayFailed
from svcserver.kernel.recent import Bounded
from svcserver.stack.components import SCRATCH, environment
from svcserver.stack.lines import LinesAndEnd

START_S = 120.0
STOP_S = 60.0
READY = re.compile(r"\bstack ready: ([^;]*)")
ENDED = " ended before it was ready ("  # logged by stack/children.py
LOG = "stack.log"
MOST_LOG = 16 * 1024 * 1024  # bytes


def broken_of(line: str) -> PlayFailed:
    """Return the failure that this output line of the stack reports.

    The line says that a component ended before it was ready. The failure contains the component's
    last output or its exit status.
    """
    name, _, rest = line.partition(ENDED)
    how, _, last = rest.partition("): ")
    message = last.removesuffix("; the stack ends").partition("; it starts again in ")[0]
    return PlayFailed(name.rpartition(": ")[2], message or how)


@define(eq=False)
class Stack:
    """The ``svc-stack`` process for ``folder``; its output is written to ``stack.log`` there.

    Only the end of a long log is stored. When ``stack.log`` is full, it becomes ``stack.log.1``.
    """

    reactor: Any
    folder: Path
    ready: Deferred[str] = field(factory=Deferred)  # the components' names, or PlayFailed
    gone: Deferred[None] = field(factory=Deferred)
    told_to_stop: bool = False
    _log: Bounded = field(init=False)
    _process: Any = None

    def __attrs_post_init__(self) -> None:
        self._log = Bounded(self.folder / LOG, MOST_LOG)

    def start(self) -> None:
        """Start the process; ``ready`` fires when all components are ready."""
        for old in (LOG, f"{LOG}.1"):
            (self.folder / old).unlink(missing_ok=True)
        command = ["-m", "svcserver.stack.child", "svc-stack", "--config", str(self.folder)]
        self._process = self.reactor.spawnProcess(
            LinesAndEnd(self.handle_line, self.ended),
            sys.executable,
            [sys.executable, *command],
            env=environment(os.environ, SCRATCH),  # for the stack's nightly restore test
        )
        self.ready.addTimeout(START_S, self.reactor, onTimeoutCancel=_too_slow)

    async def stop(self) -> None:
        """Send SIGTERM, and SIGKILL after ``STOP_S``; return when the process has ended."""
        self.told_to_stop = True
        if self._process is not None and not self.gone.called:
            self._signal("TERM")
            insist = self.reactor.callLater(STOP_S, self._signal, "KILL")
            await self.gone
            if insist.active():
                insist.cancel()

    def handle_line(self, line: str) -> None:
        """Handle an output line of the stack or of one of its child processes."""
        self._log.keep(line + "\n")
        if self.ready.called:
            return
        if (match := READY.search(line)) is not None:
            self.ready.callback(match[1])
        elif ENDED in line:
            self.ready.errback(broken_of(line))

    def ended(self, reason: Failure) -> None:
        if not self.ready.called:
            self.ready.errback(PlayFailed("stack", f"ended at its start; see {self.folder / LOG}"))
        self.gone.callback(None)

    def _signal(self, name: str) -> None:
        with suppress(ProcessExitedAlready):
            self._process.signalProcess(name)


def _too_slow(result: Any, timeout: float | None) -> Any:
    raise PlayFailed("stack", f"was not ready after {timeout:.0f} s")
