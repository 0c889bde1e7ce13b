"""The command line itself: a command costs only what it needs."""

from __future__ import annotations

from tempfile import mkdtemp

from twisted.trial.unittest import SynchronousTestCase

from tests.ctl.command import svcctl


class MainTests(SynchronousTestCase):
    def test_a_mistyped_command_is_named(self) -> None:
        ran = svcctl("bann", "Alpha")
        self.assertEqual(ran.status, 2)
        self.assertIn("bann", ran.err)

    def test_every_command_is_listed_with_its_help(self) -> None:
        said = svcctl("--help").out
        for name in ("announce", "db", "gameserver-key", "simulate"):
            self.assertIn(f"  {name} ", said)

    def test_a_folder_that_is_none_or_no_host_is_named(self) -> None:
        empty = mkdtemp()
        for words in (("status", "--config", f"{empty}/x"), ("doctor", "--config", f"{empty}/x")):
            self.assertIn(f"there is no folder {empty}/x; make a host", svcctl(*words).line)
        self.assertIn("is no host: it has no settings", svcctl("doctor", "--config", empty).line)
