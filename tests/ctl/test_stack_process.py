"""``svc-stack`` as a child process of a command, with a log of limited size."""

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl import stack_process
from svcserver.ctl.play.story import PlayFailed
from svcserver.ctl.stack_process import LOG, STOP_S, Stack
from tests.ctl.command import nowhere
from tests.stack.spawner import Spawner


class StopTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = Spawner()
        self.stack = Stack(self.reactor, nowhere(self))
        self.stack.folder.mkdir(exist_ok=True)

    def test_stop_waits_for_the_end_and_kills_a_process_that_stays(self) -> None:
        self.stack.start()
        [child] = self.reactor.spawned
        child.obedient = False
        stopped = Deferred.fromCoroutine(self.stack.stop())
        self.assertNoResult(stopped)
        self.reactor.advance(STOP_S)
        self.assertEqual(child.signals, ["TERM", "KILL"])
        self.successResultOf(stopped)
        self.failureResultOf(self.stack.ready, PlayFailed)
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_a_stack_that_could_not_be_started_needs_no_stop(self) -> None:
        self.reactor.missing = True
        self.assertRaises(FileNotFoundError, self.stack.start)
        self.successResultOf(Deferred.fromCoroutine(self.stack.stop()))


class LogTests(SynchronousTestCase):
    def test_a_long_log_is_rotated_and_keeps_the_last_lines(self) -> None:
        self.patch(stack_process, "MOST_LOG", 1_000)
        folder = nowhere(self)
        folder.mkdir(exist_ok=True)
        stack = Stack(Clock(), folder)
        for number in range(500):
            stack.handle_line(f"[metagame] line {number}")
        sizes = [path.stat().st_size for path in sorted(folder.iterdir())]
        self.assertEqual(len(sizes), 2)
        self.assertLess(max(sizes), 1_100)
        self.assertIn("line 499\n", (folder / LOG).read_text())
        self.assertEqual((folder / LOG).stat().st_mode & 0o777, 0o600)
