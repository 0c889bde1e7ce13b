"""One rolling restart at a time, and what the stack says of it to ``svcctl``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.stack.rolling import Rolling, read
from tests.ctl.command import svcctl


@define
class SlowChildren:
    """They are restarted when the test says so."""

    waiting: list[Deferred[bool]] = field(factory=list)

    async def roll(self) -> bool:
        self.waiting.append(Deferred())
        return await self.waiting[-1]


class RollingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.children = SlowChildren()
        children: Any = self.children
        self.rolling = Rolling(Clock(), children, self.folder)
        self.rolling.startService()
        self.addCleanup(self.rolling.stopService)

    def said(self) -> tuple[bool, int, bool]:
        found = read(self.folder)
        assert found is not None
        return found.rolling, found.rolled, found.well

    def test_another_is_not_begun_meanwhile_and_does_not_spoil_the_first(self) -> None:
        self.assertEqual(self.said(), (False, 0, True))
        over = self.rolling.roll()
        self.assertEqual(self.said(), (True, 0, True))
        with capturedLogs() as events:
            self.successResultOf(self.rolling.roll())
        self.assertEqual([one["log_level"].name for one in events], ["warn"])
        self.assertEqual((len(self.children.waiting), self.said()), (1, (True, 0, True)))
        self.children.waiting[0].callback(True)
        self.successResultOf(over)
        self.assertEqual(self.said(), (False, 1, True))
        again = self.rolling.roll()
        self.children.waiting[1].callback(False)
        self.successResultOf(again)
        self.assertEqual(self.said(), (False, 2, False))

    def test_one_that_fails_is_over_too(self) -> None:
        over = self.rolling.roll()
        self.children.waiting[0].errback(RuntimeError("a fault of ours"))
        self.successResultOf(over)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertEqual(self.said(), (False, 1, False))

    def test_svcctl_refuses_to_ask_for_another(self) -> None:
        self.rolling.roll()
        ran = svcctl("restart", "--rolling", "--config", self.folder)
        self.assertEqual(ran.status, 1)
        self.assertIn("another rolling restart is under way", ran.err)
        self.assertEqual(len(self.children.waiting), 1)
