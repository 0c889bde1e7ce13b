"""The file that holds the last log lines of all services."""

import io
import os
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.recent import RECENT, Bounded, Follower, Recent


class RecentTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / RECENT
        self.out = io.StringIO()
        self.recent = Recent(Bounded(self.file), self.out)

    def test_lines_are_kept_and_passed_on(self) -> None:
        self.recent.write("[deploy] one\n")
        reader = Follower(self.file)
        self.assertEqual(reader.new(), ["[deploy] one"])
        self.recent.write("[content] two\n[dep")
        self.assertEqual(reader.new(), ["[content] two"])
        self.recent.write("loy] three\n")
        self.assertEqual(reader.new(), ["[deploy] three"])
        self.assertEqual(reader.new(), [])
        self.assertEqual(self.out.getvalue().count("\n"), 3)
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)

    def test_the_file_is_bounded_and_a_reader_follows_into_the_next(self) -> None:
        self.recent.file.most = 100
        reader, values = Follower(self.file), []
        for number in range(50):
            self.recent.write(f"line {number}\n")
            values += reader.new() or []
        self.assertEqual(values, [f"line {number}" for number in range(50)])
        sizes = [path.stat().st_size for path in self.file.parent.iterdir()]
        self.assertEqual(len(sizes), 2)
        self.assertLess(max(sizes), 120)

    def test_secrets_are_redacted_in_the_recent_lines(self) -> None:
        self.recent.write("key UUK_" + "0" * 48 + "\n")
        self.assertNotIn("0000", "".join(Follower(self.file).new() or []))

    def test_a_file_of_an_earlier_stack_does_not_count(self) -> None:
        self.recent.write("old\n")
        os.utime(self.file, (1000, 1000))
        self.assertIsNone(Follower(self.file, since=2000).new())
        self.assertIsNone(Follower(self.file.with_name("none")).new())

    def test_lines_are_passed_on_although_their_file_cannot_be_written(self) -> None:
        stored = Recent(Bounded(self.file.parent / "nowhere" / RECENT), self.out)
        stored.write("one\n")
        self.assertEqual(self.out.getvalue(), "one\n")
