"""A missing database is not silently replaced with an empty database."""

from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import make_url
from twisted.logger import LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.engine import BadDatabase
from svcserver.db.restoring import restoring
from svcserver.kernel.settings import load
from svcserver.metagame.service import open_database
from svcserver.metagame.settings import MetagameSettings
from tests.support.processes import metagame_environ


class NewDatabaseTests(SynchronousTestCase):
    def setUp(self) -> None:
        made = TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)

    def start(self) -> list[str]:
        """Start a metagame and return its warnings."""
        lines: list[LogEvent] = []
        globalLogPublisher.addObserver(lines.append)
        try:
            settings, _ = load(MetagameSettings, metagame_environ(self.folder, 1))
            open_database("svc-metagame", settings).dispose()
        finally:
            globalLogPublisher.removeObserver(lines.append)
        return [str(formatEvent(line)) for line in lines if line["log_level"].name == "warn"]

    def test_the_log_names_a_new_databases_path_and_the_restore_command(self) -> None:
        file = self.folder.resolve() / "svc.db"
        for _ in range(2):
            (reply,) = self.start()
            self.assertIn(f"made a new, empty database: {file}. ", reply)
            self.assertIn("svcctl db restore FILE", reply)
            self.assertEqual(self.start(), [])
            file.unlink()  # the database is lost

    def test_no_start_while_a_restore_holds_the_database(self) -> None:
        url = make_url(f"sqlite:///{self.folder.resolve() / 'svc.db'}")
        with restoring(url):
            why = self.assertRaises(SystemExit, self.start)
            self.assertIn("svcctl is restoring the database", str(why))
            with self.assertRaises(BadDatabase), restoring(url):
                pass
        self.start()
        self.assertFalse(list(self.folder.glob("*.restoring")))

    def test_a_start_with_an_empty_file_makes_a_new_database(self) -> None:
        (self.folder / "svc.db").touch(0o600)
        self.assertEqual(len(self.start()), 1)
