"""What the launcher takes from the environment."""

from __future__ import annotations

from twisted.logger import LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from svcserver.launcher.main import relay_port


class SettingsTests(SynchronousTestCase):
    def test_a_relay_port_that_is_none_is_ignored_with_a_warning(self) -> None:
        """The launcher ended with a traceback on it once."""
        seen: list[object] = []

        def observer(event: LogEvent) -> None:
            seen.append(event.get("warning"))

        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        for good in ({}, {"SVC_RELAY_PORT": ""}, {"SVC_RELAY_PORT": "61000"}):
            self.assertEqual(relay_port(good), 61000)
        self.assertEqual(relay_port({"SVC_RELAY_PORT": "61010"}), 61010)
        self.assertEqual(seen, [])
        for number, bad in enumerate(("game", "80", "065000", "70000", "1e4", "-1", "9" * 5000)):
            self.assertEqual(relay_port({"SVC_RELAY_PORT": bad}), 61000)
            self.assertEqual(len(seen), number + 1)
            self.assertIn("SVC_RELAY_PORT must be a whole number from 1024", str(seen[-1]))
