"""One rolling restart at a time, and the stack's state file for ``svcctl``."""

import tempfile
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.stack.rolling import Rolling, read_state
from tests.ctl.command import svcctl


@define
class SlowChildren:
    """Child processes whose restart lasts until the test finishes it."""

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

    def state(self) -> tuple[bool, int, bool]:
        state = read_state(self.folder)
        assert state is not None
        return state.rolling, state.rolled, state.well

    def test_second_rolling_restart_is_ignored(self) -> None:
        self.assertEqual(self.state(), (False, 0, True))
        over = self.rolling.roll()
        self.assertEqual(self.state(), (True, 0, True))
        with capturedLogs() as events:
            self.successResultOf(self.rolling.roll())
        self.assertEqual([event["log_level"].name for event in events], ["warn"])
        self.assertEqual((len(self.children.waiting), self.state()), (1, (True, 0, True)))
        self.children.waiting[0].callback(True)
        self.successResultOf(over)
        self.assertEqual(self.state(), (False, 1, True))
        again = self.rolling.roll()
        self.children.waiting[1].callback(False)
        self.successResultOf(again)
        self.assertEqual(self.state(), (False, 2, False))

    def test_failed_rolling_restart_is_over(self) -> None:
        over = self.rolling.roll()
        self.children.waiting[0].errback(RuntimeError("a fault of ours"))
        self.successResultOf(over)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertEqual(self.state(), (False, 1, False))

    def test_svcctl_refuses_a_second_rolling_restart(self) -> None:
        self.rolling.roll()
        ran = svcctl("restart", "--rolling", "--config", self.folder)
        self.assertEqual(ran.status, 1)
        self.assertIn("Another rolling restart is in progress", ran.err)
        self.assertEqual(len(self.children.waiting), 1)
