"""``svcctl init`` that is killed at any of its steps, and repeated."""

from __future__ import annotations

import errno
import os
import runpy
import shutil
import signal
import socket
import sys
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
from sqlalchemy import create_engine
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl import host_creation, staging
from svcserver.db.transaction import transaction
from svcserver.metagame.accounts.store import SqlAccounts
from tests.ctl.command import Ran, nowhere, svcctl
from tests.ctl.killed import KILLED, LONGEST_S, child, killed_at_rename

MOST = 40  # renames: one says that all is written, then one for each file


def killed_at_removal() -> None:
    """End this process where it clears away what it has staged."""

    def hear(event: str, _: object) -> None:
        if event == "shutil.rmtree":
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)


def killed_before_the_commit() -> None:
    """End this process when the owner is written, and not committed."""
    add = SqlAccounts.add

    def written(*sent: object) -> None:
        add(*sent)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGKILL)

    mock.patch.object(SqlAccounts, "add", written).start()


@pytest.mark.live
class StoppedTests(SynchronousTestCase):
    """Hosts with a database of their own, and with one that is there before them."""

    def setUp(self) -> None:
        self.folder, self.data = nowhere(self), nowhere(self)
        self.data.mkdir()
        self.database = self.data / "engine.db"

    def words(self, *more: object) -> list[object]:
        beside = ("--database", f"sqlite:///{self.database}")
        return ["init", self.folder, "--private-host", "127.0.0.1", *beside, *more]

    def owners(self, file: Path | None = None) -> list[str]:
        """Whose key is in the folder, and who else owns the host."""
        engine = create_engine(f"sqlite:///{file or self.database}")
        self.addCleanup(engine.dispose)
        with transaction(engine) as tx:
            mine = SqlAccounts(tx).by_key((self.folder / "owner.key").read_text().strip())
            assert mine is not None
            others = [one for one in SqlAccounts(tx).everyone() if one.id != mine.id]
        return [mine.username, *(one.username for one in others)]

    def repeated(self) -> Ran:
        ran = svcctl(*self.words())
        self.assertEqual(ran.status, 0, ran.err)
        self.assertEqual([one for one in self.folder.iterdir() if "-" in one.name[:7]], [])
        self.assertEqual(svcctl(*self.words()).status, 1)  # it is there, and stays as it is
        return ran

    def test_before_the_owner_is_known_the_next_one_begins_anew_or_goes_on(self) -> None:
        for trap in (partial(killed_at_rename, 1), killed_before_the_commit):
            self.setUp()
            self.assertEqual(child(trap, *self.words()), KILLED)
            self.assertFalse((self.folder / "metagame.env").exists())
            self.repeated()
            self.assertEqual(self.owners(), ["owner"])

    def test_a_closed_terminal_leaves_nothing_of_one_that_waits_for_its_database(self) -> None:
        for number in (signal.SIGHUP, signal.SIGTERM):
            with socket.create_server(("127.0.0.1", 0)) as silent:
                silent.settimeout(LONGEST_S)

                def ended(pid: int, number: int = number, silent: socket.socket = silent) -> None:
                    with silent.accept()[0] as asked:
                        asked.recv(1)
                        os.kill(pid, number)
                        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

                url = f"postgresql://svc@127.0.0.1:{silent.getsockname()[1]}/svc"
                trap = partial(signal.signal, signal.SIGHUP, signal.SIG_DFL)
                words = (*self.words(), "--database", url)
                self.assertEqual(child(trap, *words, meanwhile=ended), 128 + number)
            self.assertEqual(list(self.folder.iterdir()), [])

    def test_one_that_is_finished_is_told_of_as_it_is(self) -> None:
        first = ("--public-host", "203.0.113.10", "--database", f"sqlite:///{self.database}")
        trap = partial(killed_at_rename, 2)
        self.assertEqual(child(trap, "init", self.folder, *first), KILLED)
        second = ("--private-host", "127.0.0.1", "--owner", "Olga", "--json")
        ran = svcctl("init", self.folder, *second)
        self.assertEqual(ran.status, 0, ran.err)
        told = [ran.data[one] for one in ("host", "mode", "owner", "database")]
        self.assertEqual(told, ["203.0.113.10", "public", "owner", str(self.database)])
        others = "--private-host and --owner did not count"
        self.assertIn(f"{others}: {self.folder} was begun by an earlier command", ran.err)

    def test_one_that_its_database_does_not_know_gives_way_to_new_options(self) -> None:
        self.assertEqual(child(killed_before_the_commit, *self.words()), KILLED)
        beside = f"sqlite:///{self.data / 'other.db'}"
        public = ("--public-host", "203.0.113.10", "--database", beside, "--owner", "Olga")
        ran = svcctl("init", self.folder, *public)
        self.assertEqual((ran.status, ran.err), (0, ""))
        self.assertEqual(self.owners(self.data / "other.db"), ["Olga"])
        self.assertTrue((self.folder / "gateway.env").exists())

    def test_where_its_database_cannot_say_one_line_tells_how_to_give_it_up(self) -> None:
        self.assertEqual(child(killed_before_the_commit, *self.words()), KILLED)
        self.database.unlink()
        self.database.mkdir()  # which is none
        [left] = self.folder.iterdir()
        ran = svcctl(*self.words())
        self.assertEqual((ran.status, list(self.folder.iterdir())), (1, [left]))
        self.assertIn("cannot say whether it knows the owner: unable to open", ran.line)
        self.assertTrue(ran.line.endswith(f"rm -r {left}"), ran.line)
        shutil.rmtree(left)
        self.database.rmdir()
        self.repeated()

    # slow: a host is made and finished again and again
    def test_wherever_the_moves_end_the_next_one_goes_on(self) -> None:
        for number in range(2, MOST, 4):
            self.setUp()
            if (status := child(partial(killed_at_rename, number), *self.words())) != KILLED:
                break
            self.assertFalse((self.folder / "metagame.env").exists())
            [said] = self.repeated().err.splitlines()  # the same options: none that did not count
            self.assertIn("finishing the host", said)
            self.assertEqual(self.owners(), ["owner"])
        self.assertEqual(status, 0)
        self.assertGreater(number, 5)

    def test_what_is_left_of_one_that_is_done_is_cleared_away_by_the_next(self) -> None:
        self.assertEqual(child(killed_at_removal, *self.words()), KILLED)
        self.assertTrue((self.folder / "metagame.env").exists())
        self.assertEqual(svcctl(*self.words()).status, 1)
        self.assertEqual(self.owners(), ["owner"])
        self.assertEqual([one for one in self.folder.iterdir() if "-" in one.name[:7]], [])

    def test_what_cannot_be_removed_keeps_its_note_for_the_next_one(self) -> None:
        own = ("init", self.folder, "--private-host", "127.0.0.1", "--data", self.data)
        remove = shutil.rmtree

        def stuck(path: Path) -> None:
            if path.parent == self.data:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
            remove(path)

        with mock.patch.object(shutil, "rmtree", stuck):
            ran = svcctl(*own)
        self.assertEqual(ran.status, 0)
        [left] = self.data.glob(".new-*")
        [note] = self.folder.glob(".whole-*")
        self.assertIn(f"Read-only file system; do it by hand: rm -r {note} {left}\n", ran.err)
        self.assertEqual(svcctl(*own).status, 1)  # the host is there
        self.assertFalse(left.exists() or note.exists())

    def test_files_without_a_note_are_passed_over_only_where_nothing_of_them_counts(self) -> None:
        self.assertEqual(child(partial(killed_at_rename, 2), *self.words()), KILLED)
        [left] = self.folder.iterdir()
        for damaged in ("{", "[]", "{}"):
            (left / staging.NOTE).write_text(damaged)
            ran = svcctl(*self.words())
            self.assertEqual((ran.status, list(self.folder.iterdir())), (1, [left]))
            self.assertIn(f"{left} has the files of a host that was begun", ran.line)
        left.rename(self.folder / "away")
        for one in (staging.NEW, staging.WHOLE):
            (self.folder / f"{one}0123").mkdir()
        self.database.unlink()
        self.repeated()

    def test_the_note_is_on_the_disk_before_any_file_is_written(self) -> None:
        """Else a machine that loses power leaves files of which nobody knows whose they are."""
        done: list[str] = []
        for name in ("sync_file", "sync_folder"):
            do = getattr(staging, name)
            self.patch(staging, name, lambda path, do=do: (do(path), done.append(path.name)))
        write = host_creation.write_private
        kept = mock.Mock(side_effect=lambda path, text: (done.append("file"), write(path, text)))
        self.patch(host_creation, "write_private", kept)
        self.assertEqual(svcctl(*self.words()).status, 0)
        [new] = {one for one in done if one.startswith(staging.NEW)}
        self.assertEqual(done[:3], [f"{staging.NOTE}.new", new, "file"])

    def test_a_new_database_in_a_folder_of_data_is_finished_too(self) -> None:
        for number in (2, 4):
            self.setUp()
            own = ("init", self.folder, "--private-host", "127.0.0.1", "--data", self.data)
            self.assertEqual(child(partial(killed_at_rename, number), *own), KILLED)
            ran = svcctl(*own)
            self.assertEqual(ran.status, 0, ran.err)
            self.assertEqual(self.owners(self.data / "svc.db"), ["owner"])
            self.assertEqual([one for one in self.data.iterdir() if one.name[0] == "."], [])

    def test_an_owner_of_that_name_is_not_taken_over(self) -> None:
        """Also where the one that was killed had not come to the database."""
        self.assertEqual(child(partial(killed_at_rename, 2), *self.words()), KILLED)
        self.database.unlink()
        other = nowhere(self)
        self.assertEqual(svcctl("init", other, *self.words()[2:]).status, 0)
        ran = svcctl(*self.words("--share-database"))
        self.assertEqual((ran.status, list(self.folder.iterdir())), (1, []))
        self.assertIn("knows that name already", ran.err)

    def test_a_database_that_became_another_hosts_is_not_taken(self) -> None:
        self.assertEqual(child(partial(killed_at_rename, 2), *self.words()), KILLED)
        self.database.unlink()
        other = nowhere(self)
        self.assertEqual(svcctl("init", other, *self.words("--owner", "Ben")[2:]).status, 0)
        ran = svcctl(*self.words())
        self.assertEqual((ran.status, list(self.folder.iterdir())), (1, []))
        self.assertIn("it is another host's: nothing was changed", ran.err)

    def test_a_host_that_is_there_gets_no_second_owner(self) -> None:
        self.assertEqual(svcctl(*self.words()).status, 0)
        ran = svcctl(*self.words("--owner", "Mallory"))
        self.assertEqual(ran.status, 1)
        self.assertIn("nothing was changed", ran.line)
        self.assertEqual(self.owners(), ["owner"])

    def test_one_who_makes_a_host_is_not_disturbed(self) -> None:
        self.folder.mkdir()
        with staging.locked(self.folder):
            ran = svcctl(*self.words())
        self.assertEqual((ran.status, list(self.folder.iterdir())), (1, []))
        self.assertIn("wait until it has ended", ran.line)

    def test_a_host_is_made_where_there_are_no_locks(self) -> None:
        """As on Windows: neither the import nor the command wants fcntl."""
        with mock.patch.dict(sys.modules, fcntl=None):
            runpy.run_path(staging.__file__)
            self.repeated()
