"""The relay's port, which tests and two launchers on one PC set."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.launcher.main import relay_port


class PortTests(SynchronousTestCase):
    def test_bad_port_is_reported_and_not_used(self) -> None:
        """The launcher ended with a traceback on it once."""
        lines: list[str] = []
        for text, port in (("", 61000), (" ", 61000), ("61010", 61010), ("1024", 1024)):
            self.assertEqual(relay_port(text, lines.append), port)
        self.assertEqual(lines, [])
        bad = ("game", "80", "065000", "70000", "1e4", "-1", "9" * 5000, "\u0661" * 5)
        for number, text in enumerate(bad, 1):
            self.assertEqual(relay_port(text, lines.append), 61000)
            self.assertEqual(len(lines), number)
        self.assertEqual(len(set(lines)), 1)
        self.assertIn("SVC_RELAY_PORT must be a port from 1024 to 65535", lines[0])
