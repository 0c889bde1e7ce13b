"""Adopted game servers: a pid that now belongs to another process, and refused pidfds."""

from __future__ import annotations

import errno
import os
import signal
from typing import Any

from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactor, MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy import orphans
from svcserver.deploy.process import AdoptedTransport, GameProcess, adopt
from svcserver.deploy.watchers import POLL_S

PID = 2**22 + 42  # beyond what Linux gives away


class EndedTests(SynchronousTestCase):
    def test_signal_to_a_process_that_has_ended_is_no_error(self) -> None:
        def gone(*_: int) -> None:
            raise ProcessLookupError

        self.patch(os, "kill", gone)
        self.patch(os, "killpg", gone)
        process = GameProcess(None, lambda how: None)
        process.attach(AdoptedTransport(Clock(), 4242, process), 4242)
        process.kill("TERM")
        self.assertTrue(process.over)
        self.successResultOf(process.when_over())


class OursTests(SynchronousTestCase):
    """A pid may have become another's between the note of it and the adoption."""

    def setUp(self) -> None:
        self.calls: list[str] = []
        self.patch(os, "pidfd_open", self.open)

    def open(self, pid: int) -> int:
        """A descriptor, which is no process's."""
        self.calls.append("opened")
        handle = os.open(os.devnull, os.O_RDONLY)
        self.opened = handle
        return handle

    def adopt(self, ours: bool) -> None:
        def is_ours() -> bool:
            self.calls.append("looked at")
            return ours

        reactor: Any = MemoryReactor()
        adopt(reactor, GameProcess(None, lambda how: None), 4242, is_ours)
        self.assertEqual(len(reactor.getReaders()), 1)
        self.addCleanup(os.close, self.opened)

    def test_process_is_checked_after_its_pidfd_is_open(self) -> None:
        self.adopt(ours=True)
        self.assertEqual(self.calls, ["opened", "looked at"])

    def test_process_of_another_is_not_adopted(self) -> None:
        self.assertRaises(ProcessLookupError, self.adopt, ours=False)
        self.assertRaises(OSError, os.fstat, self.opened)


class RefusedPidfdTests(SynchronousTestCase):
    def test_process_without_a_pidfd_is_adopted_and_polled(self) -> None:
        def refuse(pid: int) -> int:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        self.patch(os, "pidfd_open", refuse)
        sent: list[tuple[int, int]] = []
        self.patch(os, "kill", lambda *words: sent.append(words))
        reactor: Any = MemoryReactorClock()
        ended: list[str] = []
        process = GameProcess(None, ended.append)
        lives = [True]
        adopt(reactor, process, PID, lambda: lives[0])
        reactor.advance(POLL_S)
        process.transport.signalProcess("TERM")
        self.assertEqual((sent, ended), ([(PID, signal.SIGTERM)], []))
        lives.clear()
        lives.append(False)
        reactor.advance(POLL_S)
        self.assertEqual((ended, reactor.getDelayedCalls()), (["code unknown"], []))

    def test_killed_process_is_waited_for_without_a_pidfd(self) -> None:
        def refuse(pid: int) -> int:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        self.patch(os, "pidfd_open", refuse)
        looks = [100, 100, None]
        self.patch(orphans, "POLL_S", 0.0001)
        self.patch(orphans, "started_at", lambda pid: looks.pop(0))
        orphans.wait_for([PID])
        self.assertEqual(looks, [])
