"""The relay's port, which tests and two launchers of one PC set."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.launcher.main import relay_port


class PortTests(SynchronousTestCase):
    def test_one_that_is_none_is_said_in_one_line_and_not_used(self) -> None:
        """The launcher ended with a traceback on it once."""
        said: list[str] = []
        for text, port in (("", 61000), (" ", 61000), ("61010", 61010), ("1024", 1024)):
            self.assertEqual(relay_port(text, said.append), port)
        self.assertEqual(said, [])
        bad = ("game", "80", "065000", "70000", "1e4", "-1", "9" * 5000, "\u0661" * 5)
        for number, text in enumerate(bad, 1):
            self.assertEqual(relay_port(text, said.append), 61000)
            self.assertEqual(len(said), number)
        self.assertEqual(len(set(said)), 1)
        self.assertIn("SVC_RELAY_PORT is no port from 1024 to 65535", said[0])
