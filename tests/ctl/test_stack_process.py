"""``svc-stack`` as a child process of a command, with a log of limited size."""

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl import stack_process
from svcserver.ctl.stack_process import LOG, Stack
from tests.ctl.command import nowhere


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
