"""An adopted game server that has just ended must not keep the others from being ended."""

from __future__ import annotations

import os

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy.adopted import Adopted
from svcserver.deploy.process import GameProcess


class EndedTests(SynchronousTestCase):
    def test_a_signal_to_one_that_has_just_ended_is_no_error(self) -> None:
        def gone(*_: int) -> None:
            raise ProcessLookupError

        self.patch(os, "kill", gone)
        self.patch(os, "killpg", gone)
        process = GameProcess(None, lambda how: None)
        process.adopted(Adopted(Clock(), 4242, process), 4242)
        process.kill("TERM")
        self.assertTrue(process.over)
        self.successResultOf(process.when_over())
