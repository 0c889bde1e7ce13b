"""A game server that an earlier run of the deploy server started, and this one watches.

It is no child of ours: its end is told by a descriptor of the process (pidfd), its exit code
nobody tells. What it prints still comes through its own pipes (``child_setup.py``).
"""

from __future__ import annotations

import errno
import os
import signal
import stat
from collections.abc import Callable
from typing import Any

from attrs import define
from twisted.internet.error import ProcessExitedAlready
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.deploy.process import GameProcess, Unseen
from svcserver.deploy.watched import Polled, Watched

log = Logger()


@define(eq=False)
class Adopted:
    """The transport of an adopted process: what ``GameProcess`` asks of one."""

    reactor: Any
    pid: int
    process: GameProcess
    _watch: Watched | Polled | None = None

    def begin(self, is_ours: Callable[[], bool]) -> None:
        """Watch the process; raises ProcessLookupError where it has ended.

        ``is_ours`` looks at the pid once more: from then on the descriptor is that of the process,
        whoever gets its pid after its end. Where pidfds are refused it is asked again and again.
        """
        watch: Watched | Polled
        try:
            watch = Watched(self.reactor, os.pidfd_open(self.pid), self._ended)
        except ProcessLookupError:
            raise
        except OSError:
            watch = Polled(self.reactor, is_ours, self._ended)
        if not is_ours():
            watch.close()
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        self._watch = watch
        watch.begin()
        for number in (1, 2):
            self._listen(number)

    def _listen(self, number: int) -> None:
        try:
            handle = os.open(f"/proc/{self.pid}/fd/{number}", os.O_RDONLY | os.O_NONBLOCK)
        except OSError as why:
            text = "the output of process {pid} is lost: {why}"
            log.warn(text, pid=self.pid, why=why.strerror)
            return
        if not stat.S_ISFIFO(os.fstat(handle).st_mode):  # it has made a file of it
            os.close(handle)
            return
        self.process.read_from(self.reactor, handle)

    def _ended(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        why = Failure(Unseen())
        self.process.processExited(why)
        self.process.processEnded(why)

    def loseConnection(self) -> None:
        """Nothing to close: ``GameProcess`` has the pipes."""

    def signalProcess(self, how: str) -> None:
        """Send a signal; raises ProcessExitedAlready, as the reactor's transport does."""
        if self._watch is None:
            raise ProcessExitedAlready
        number = getattr(signal, f"SIG{how}")
        try:
            if isinstance(self._watch, Watched):
                signal.pidfd_send_signal(self._watch.descriptor, number)
            elif self._watch.is_running():
                os.kill(self.pid, number)
        except ProcessLookupError:  # its end is still to be told
            raise ProcessExitedAlready from None


def adopt(reactor: Any, process: GameProcess, pid: int, is_ours: Callable[[], bool]) -> None:
    """Make ``process`` the one that runs as ``pid``; raises OSError where it has ended."""
    transport = Adopted(reactor, pid, process)
    transport.begin(is_ours)
    process.adopted(transport, pid)
