"""Which files of the metagame's tests are run once more on PostgreSQL."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.live.parity import GIVES_DATABASES, ROOT, pytest_ignore_collect

FILES = sorted((ROOT / "tests" / "metagame").rglob("test_*.py"))
ASKS = ("InstantLedger(", "Game(", "fresh_database(", "RealLedger(", "TwoLedgers(")


class ParityTests(SynchronousTestCase):
    def test_what_gives_databases_is_there(self) -> None:
        self.assertIn("def fresh_database(", GIVES_DATABASES.read_text())

    def test_each_file_that_makes_a_ledger_is_run(self) -> None:
        left_out = {file for file in FILES if pytest_ignore_collect(file)}
        asking = {file for file in FILES if any(one in file.read_text() for one in ASKS)}
        self.assertGreater(len(asking), 50)
        self.assertEqual(asking & left_out, set())

    def test_a_file_of_rules_alone_is_left_out(self) -> None:
        rules = ROOT / "tests" / "metagame" / "social" / "friends" / "test_rules.py"
        self.assertTrue(pytest_ignore_collect(rules))
