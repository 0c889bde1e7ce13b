"""``svcctl init`` is killed at each of its steps, and then repeated."""

from __future__ import annotations

import os
import runpy
import signal
import socket
import sys
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
from sqlalchemy import create_engine
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl import begun
from svcserver.db.transaction import transaction
from svcserver.metagame.accounts.store import SqlAccounts
from tests.ctl.command import Ran, nowhere, svcctl
from tests.ctl.killed import KILLED, LONGEST_S, child, killed_at_put, killed_at_rename

MOST = 40  # renames: one for each file


def killed_at_removal() -> None:
    """Kill this process just before it removes the note about an unfinished init."""

    def hear(event: str, sent: tuple[object, ...]) -> None:
        if event == "os.remove" and begun.NOTE in str(sent[0]):
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)


def killed_before_the_commit() -> None:
    """Kill this process after the owner is written but before the commit."""
    add = SqlAccounts.add

    def written(*sent: object) -> None:
        add(*sent)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGKILL)

    mock.patch.object(SqlAccounts, "add", written).start()


@pytest.mark.live
class StoppedTests(SynchronousTestCase):
    """Hosts with a new database, and hosts with a database that already existed."""

    def setUp(self) -> None:
        self.folder, self.data = nowhere(self), nowhere(self)
        self.data.mkdir()
        self.database = self.data / "engine.db"

    def words(self, *more: object) -> list[object]:
        beside = ("--database", f"sqlite:///{self.database}")
        return ["init", self.folder, "--private-host", "127.0.0.1", *beside, *more]

    def owners(self, file: Path | None = None) -> list[str]:
        """Return the name of the owner whose key the folder holds, then the other owners' names."""
        engine = create_engine(f"sqlite:///{file or self.database}")
        self.addCleanup(engine.dispose)
        with transaction(engine) as tx:
            mine = SqlAccounts(tx).by_key((self.folder / "owner.key").read_text().strip())
            assert mine is not None
            others = [account for account in SqlAccounts(tx).everyone() if account.id != mine.id]
        return [mine.username, *(account.username for account in others)]

    def repeated(self) -> Ran:
        ran = svcctl(*self.words())
        self.assertEqual(ran.status, 0, ran.err)
        self.assertEqual([path for path in self.folder.iterdir() if path.name[0] == "."], [])
        self.assertEqual(svcctl(*self.words()).status, 1)  # the host exists and is not changed
        return ran

    def test_stop_before_the_owner_is_known_restarts_or_resumes(self) -> None:
        for trap in (partial(killed_at_rename, 1), killed_before_the_commit):
            self.setUp()
            self.assertEqual(child(trap, *self.words()), KILLED)
            self.assertFalse((self.folder / "metagame.env").exists())
            self.repeated()
            self.assertEqual(self.owners(), ["owner"])

    def test_closed_terminal_cleans_up_while_the_database_hangs(self) -> None:
        for number in (signal.SIGHUP, signal.SIGTERM):
            with socket.create_server(("127.0.0.1", 0)) as silent:
                silent.settimeout(LONGEST_S)

                def ended(pid: int, number: int = number, silent: socket.socket = silent) -> None:
                    with silent.accept()[0] as connection:
                        connection.recv(1)
                        os.kill(pid, number)
                        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

                url = f"postgresql://svc@127.0.0.1:{silent.getsockname()[1]}/svc"
                trap = partial(signal.signal, signal.SIGHUP, signal.SIG_DFL)
                words = (*self.words(), "--database", url)
                self.assertEqual(child(trap, *words, meanwhile=ended), 128 + number)
            self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_retry_of_init_uses_its_own_options_but_the_first_owner(self) -> None:
        first = ("--public-host", "203.0.113.10", "--database", f"sqlite:///{self.database}")
        trap = partial(killed_at_put, begun.LAST)
        self.assertEqual(child(trap, "init", self.folder, *first), KILLED)
        ran = svcctl(*self.words("--owner", "Olga", "--json"))
        self.assertEqual(ran.status, 0, ran.err)
        values = [ran.data[key] for key in ("host", "mode", "owner")]
        self.assertEqual(values, ["127.0.0.1", "private", "owner"])
        self.assertIn("--owner Olga was ignored: the owner is already owner", ran.err)
        for name in ("gateway.env", "gateway-cert.pem", "host/svc-gateway.service"):
            self.assertFalse((self.folder / name).exists(), name)
        self.assertEqual(self.owners(), ["owner"])

    def test_a_killed_init_without_an_owner_accepts_new_options(self) -> None:
        self.assertEqual(child(killed_before_the_commit, *self.words()), KILLED)
        beside = f"sqlite:///{self.data / 'other.db'}"
        public = ("--public-host", "203.0.113.10", "--database", beside, "--owner", "Olga")
        ran = svcctl("init", self.folder, *public)
        self.assertEqual((ran.status, ran.err), (0, ""))
        self.assertEqual(self.owners(self.data / "other.db"), ["Olga"])
        self.assertTrue((self.folder / "gateway.env").exists())

    def test_a_failed_retry_of_init_keeps_the_existing_owner_key(self) -> None:
        self.assertEqual(child(killed_before_the_commit, *self.words()), KILLED)
        key = (self.folder / "owner.key").read_text()
        self.database.unlink()
        self.database.mkdir()  # a folder is no database
        ran = svcctl(*self.words())
        self.assertEqual(ran.status, 1)
        self.assertIn("unable to open", ran.line)
        self.database.rmdir()
        self.repeated()
        self.assertEqual((self.folder / "owner.key").read_text(), key)

    def test_a_begun_init_refuses_another_data_folder(self) -> None:
        own = ("init", self.folder, "--private-host", "127.0.0.1", "--data", self.data)
        self.assertEqual(child(partial(killed_at_put, begun.LAST), *own), KILLED)
        ran = svcctl(*own, "--data", nowhere(self))
        self.assertEqual(ran.status, 1)
        self.assertIn(f"run svcctl init {self.folder} with the same options to continue", ran.line)
        self.assertEqual(svcctl(*own).status, 0)

    # slow: a host is made and finished again and again
    def test_an_init_killed_at_any_rename_is_completed_on_retry(self) -> None:
        for number in range(1, MOST, 2):
            self.setUp()
            if (status := child(partial(killed_at_rename, number), *self.words())) != KILLED:
                break
            self.assertFalse((self.folder / "metagame.env").exists())
            self.assertEqual(self.repeated().err, "")
            self.assertEqual(self.owners(), ["owner"])
        self.assertEqual(status, 0)
        self.assertGreater(number, 5)

    def test_init_removes_the_note_of_an_init_killed_at_cleanup(self) -> None:
        self.assertEqual(child(killed_at_removal, *self.words()), KILLED)
        self.assertTrue((self.folder / "metagame.env").exists())
        self.assertEqual(svcctl(*self.words()).status, 1)
        self.assertEqual(self.owners(), ["owner"])
        self.assertFalse((self.folder / begun.NOTE).exists())

    def test_a_damaged_note_is_one_line(self) -> None:
        self.assertEqual(child(partial(killed_at_rename, 3), *self.words()), KILLED)
        for damaged in ("{", "[]", "{}"):
            (self.folder / begun.NOTE).write_text(damaged)
            self.assertIn("is damaged. Empty", svcctl(*self.words()).line)

    def test_a_killed_init_with_a_data_folder_completes_on_retry(self) -> None:
        for trap in (killed_before_the_commit, partial(killed_at_put, begun.LAST)):
            self.setUp()
            own = ("init", self.folder, "--private-host", "127.0.0.1", "--data", self.data)
            self.assertEqual(child(trap, *own), KILLED)
            ran = svcctl(*own)
            self.assertEqual(ran.status, 0, ran.err)
            self.assertEqual(self.owners(self.data / "svc.db"), ["owner"])
            self.assertEqual([path for path in self.data.iterdir() if path.name[0] == "."], [])

    def test_an_owner_of_that_name_is_not_taken_over(self) -> None:
        """The second init is refused although the killed init had not yet reached the database."""
        self.assertEqual(child(partial(killed_at_rename, 2), *self.words()), KILLED)
        target = nowhere(self)
        self.assertEqual(svcctl("init", target, *self.words()[2:]).status, 0)
        ran = svcctl(*self.words("--share-database"))
        self.assertEqual((ran.status, (self.folder / "metagame.env").exists()), (1, False))
        self.assertIn("another account has this name", ran.err)

    def test_a_database_that_became_another_hosts_is_not_taken(self) -> None:
        self.assertEqual(child(partial(killed_at_rename, 2), *self.words()), KILLED)
        target = nowhere(self)
        self.assertEqual(svcctl("init", target, *self.words("--owner", "Ben")[2:]).status, 0)
        ran = svcctl(*self.words())
        self.assertEqual((ran.status, (self.folder / "metagame.env").exists()), (1, False))
        self.assertIn("has accounts of another host, so nothing was changed", ran.err)

    def test_init_adds_no_second_owner_to_a_complete_host(self) -> None:
        self.assertEqual(svcctl(*self.words()).status, 0)
        ran = svcctl(*self.words("--owner", "Mallory"))
        self.assertEqual(ran.status, 1)
        self.assertIn("Nothing was changed", ran.line)
        self.assertEqual(self.owners(), ["owner"])

    def test_a_second_init_at_the_same_time_changes_nothing(self) -> None:
        self.folder.mkdir()
        with begun.locked(self.folder):
            ran = svcctl(*self.words())
        self.assertEqual((ran.status, list(self.folder.iterdir())), (1, []))
        self.assertIn("Wait until that command ends", ran.line)

    def test_a_host_is_made_on_a_system_without_file_locks(self) -> None:
        """Windows has no fcntl: neither the import nor the command may need it."""
        with mock.patch.dict(sys.modules, fcntl=None):
            runpy.run_path(begun.__file__)
            self.repeated()
