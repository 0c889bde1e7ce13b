"""``svcctl account export`` and ``delete``: sometimes the exported file is the only copy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from svcserver.ctl import people
from svcserver.db.transaction import transact, transaction
from tests.ctl.command import Ran
from tests.ctl.test_accounts import HostCase
from tests.ctl.test_as_owner import RunningHostCase
from tests.support.belongings import Owner
from tests.support.proves import proves

Work = Callable[[Connection], Any]
TRANSACT = "svcserver.ctl.database.one_transact"
UNCLEAR = (
    "svcctl: svcctl does not know whether Alpha was deleted. To find out, run svcctl account list."
)


class RolledBack(Exception):
    """A transaction that the database rolled back because of a conflict."""


class FileOfAnAccountCase(HostCase):
    def setUp(self) -> None:
        super().setUp()
        self.assertEqual(self.ctl("account", "create", "Alpha").status, 0)
        self.above = self.folder.parent / "copies"
        self.above.mkdir()
        self.file = self.above / "mine.json"

    def delete(self, name: str = "Alpha") -> Ran:
        return self.ctl("account", "delete", name, "--export", self.file, "--yes")

    def rows(self) -> list[tuple[str, str, str | None]]:
        """Return the action, target and refusal of each audit row, newest first."""
        ran = self.ctl("audit", "--json")
        rows = [json.loads(line) for line in ran.out.splitlines()]
        return [(row["action"], row["target"], row["refused"]) for row in rows]

    def assert_whole(self) -> None:
        """Check that the export is complete, private to the owner, and the only file."""
        self.assertEqual(json.loads(self.file.read_text())["account"], "Alpha")
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)
        self.assertEqual(list(self.above.iterdir()), [self.file])


class FileOfAnAccountTests(FileOfAnAccountCase):
    @proves("svcctl account export, delete")
    def test_a_deleted_account_is_written_to_the_file(self) -> None:
        self.assertEqual(self.delete().status, 0)
        self.assertNotIn("Alpha", self.accounts())
        self.assert_whole()

    @proves("svcctl account export, delete")
    def test_an_existing_file_stays_unchanged_and_the_act_is_refused(self) -> None:
        self.file.write_text("precious\n")
        for name in ("Nobody", "Alpha"):
            for ran in (self.delete(name), self.ctl("account", "export", name, self.file)):
                self.assertEqual(ran.status, 1)
                self.assertIn("mine.json already exists. Choose another name.", ran.line)
        self.assertEqual(self.file.read_text(), "precious\n")
        self.assertIn("Alpha", self.accounts())
        why = f"{self.file} already exists. Choose another name."
        both = [("export", name, why) for name in ("Alpha", "Nobody")]
        tried = [row for row in self.rows() if row[0] in {"delete", "export"}]
        self.assertEqual(tried, [row for words in both for row in (words, ("delete", *words[1:]))])

    @proves("svcctl account export, delete")
    def test_a_file_created_during_the_act_stays_unchanged(self) -> None:
        def late(part: Path, value: object) -> None:
            part.touch()
            self.file.write_text("precious\n")

        with mock.patch.object(people, "_write", late):
            self.assertIn("mine.json already exists", self.delete().line)
        self.assertEqual(list(self.above.iterdir()), [self.file])
        self.assertEqual(self.file.read_text(), "precious\n")
        self.assertIn("Alpha", self.accounts())

    def test_a_dangling_link_counts_as_an_existing_file(self) -> None:
        self.file.symlink_to(self.above / "else")
        self.assertIn("mine.json already exists", self.delete().line)
        self.assertTrue(self.file.is_symlink())

    def test_nobody_of_that_name_leaves_no_file(self) -> None:
        for ran in (self.delete("Nobody"), self.ctl("account", "export", "Nobody", self.file)):
            self.assertIn("no account is called Nobody", ran.line)
        self.assertEqual(list(self.above.iterdir()), [])

    def test_a_file_that_cannot_be_written_is_a_refused_try(self) -> None:
        full = OSError(28, "No space left on device")
        for action, words in (("delete", ("--yes", "--export")), ("export", ())):
            with mock.patch.object(people.os, "fsync", side_effect=full):
                ran = self.ctl("account", action, "Alpha", *words, self.file)
            why = f"{self.file} cannot be written: No space left on device"
            self.assertEqual(ran.line, f"svcctl: Alpha: {why}")
            self.assertEqual(self.rows()[0], (action, "Alpha", why))
            self.assertEqual(list(self.above.iterdir()), [])
        self.assertIn("Alpha", self.accounts())


class TransactionTests(FileOfAnAccountCase):
    """On PostgreSQL, a transaction sometimes runs twice, or its commit is never acknowledged."""

    def twice(self, engine: Engine, work: Work, wait_ms: int) -> Any:
        with self.assertRaises(RolledBack), transaction(engine, wait_ms) as tx:
            work(tx)
            self.assert_whole()  # on disk before the commit
            raise RolledBack
        return transact(engine, work, wait_ms)

    @proves("svcctl account export, delete")
    def test_an_act_whose_transaction_runs_twice_writes_a_whole_file(self) -> None:
        with mock.patch(TRANSACT, self.twice):
            ran = self.delete()
        self.assertEqual((ran.status, ran.err), (0, ""))
        self.assertNotIn("Alpha", self.accounts())
        self.assert_whole()
        self.file.unlink()
        self.ctl("account", "create", "Alpha")
        with mock.patch(TRANSACT, self.twice):
            self.assertEqual(self.ctl("account", "export", "Alpha", self.file).status, 0)
        self.assert_whole()

    def test_an_act_that_is_refused_when_it_runs_again_leaves_no_file(self) -> None:
        rival, runs = self.above.parent / "other.json", [0]

        def gone_meanwhile(engine: Engine, work: Work, wait_ms: int) -> Any:
            runs[0] += 1
            if runs == [1]:
                with self.assertRaises(RolledBack), transaction(engine, wait_ms) as tx:
                    work(tx)
                    raise RolledBack
                with mock.patch(TRANSACT, transact):
                    words = ("account", "delete", "Alpha", "--yes", "--export", rival)
                    self.assertEqual(self.ctl(*words).status, 0)
            return transact(engine, work, wait_ms)

        with mock.patch(TRANSACT, gone_meanwhile):
            self.assertIn("no account is called Alpha", self.delete().line)
        self.assertEqual(list(self.above.iterdir()), [])

    @proves("svcctl account export, delete")
    def test_a_copy_stays_where_the_commit_is_done_and_its_answer_lost(self) -> None:
        def lose_reply(engine: Engine, work: Work, wait_ms: int) -> Any:
            transact(engine, work, wait_ms)
            raise OperationalError("COMMIT", {}, Exception("server closed the connection"))

        with mock.patch(TRANSACT, lose_reply):
            ran = self.delete()
        self.assertEqual(ran.status, 1)
        where, why = ran.err.splitlines()
        self.assertEqual(where, f"{UNCLEAR} The exported data is in {self.file}")
        self.assertIn("the database cannot be used", why)
        self.assertNotIn("Alpha", self.accounts())
        self.assert_whole()

    @proves("svcctl account export, delete")
    def test_ctrl_c_before_the_commit_keeps_copy_and_account(self) -> None:
        def called_off(engine: Engine, work: Work, wait_ms: int) -> Any:
            with transaction(engine, wait_ms) as tx:
                work(tx)
                raise KeyboardInterrupt

        with mock.patch(TRANSACT, called_off):
            ran = self.delete()
        self.assertEqual(ran.status, 1)
        where, *_, last = ran.err.splitlines()
        self.assertEqual(where, f"{UNCLEAR} The exported data is in {self.file}")
        self.assertEqual(last, "Aborted!")
        self.assertIn("Alpha", self.accounts())
        self.assert_whole()
        self.file.unlink()
        self.assertEqual(self.delete().status, 0)
        self.assertNotIn("Alpha", self.accounts())

    def test_no_file_is_left_where_the_database_cannot_be_used(self) -> None:
        def away(engine: Engine, work: Work, wait_ms: int) -> Any:
            raise OperationalError("BEGIN", {}, Exception("no connection"))

        with mock.patch(TRANSACT, away):
            self.assertIn("the database cannot be used", self.delete().line)
        self.assertEqual(list(self.above.iterdir()), [])


class SavesTests(RunningHostCase):
    def setUp(self) -> None:
        super().setUp()
        self.ann = Owner.of(self.game, "Ann_1")
        for number in (1, 2, 3):
            body: Any = {"characterId": self.ann.character, "data": f'{{"n":{number}}}'}
            sent = {**body, "updateVersion": number}
            token = self.ann.player.token
            self.assertEqual(
                self.game.browse("POST", "/character", json=sent, token=token).status, 200
            )

    def held(self) -> str:
        [character] = self.done("account", "saves", "Ann_1")["Characters"]
        return str(character["CharacterVersions"][0]["Reason"])

    def acts(self) -> list[tuple[str, str, str, bool]]:
        """Return action, target, reason and success of each audit row, newest first."""
        rows = [json.loads(line) for line in self.ctl("audit", "--json").out.splitlines()]
        names = ("action", "target", "reason")
        return [(*(row[name] for name in names), row["refused"] is None) for row in rows]

    @proves("svcctl account show, rename, saves, rollback")
    def test_an_older_save_comes_back_on_a_host_that_runs(self) -> None:
        data = self.done("account", "rollback", "ann_1", "2", "--kick", "--reason", "lost")
        self.assertEqual((data["RolledBackTo"], data["kicked"]), (2, True))
        keys = ("username", "character", "kicked", "CharacterId", "RolledBackTo")
        self.assertEqual(list(data), [*keys, "PreviousVersion", "UpdateVersion"])
        self.assertEqual(self.held(), "rollback:2")
        self.assertEqual(self.acts()[0], ("roll back", "Ann_1", "lost", True))
        self.assertEqual(self.acts()[1], ("kick", "Ann_1", "lost", True))
        page = self.game.browse("GET", "/character", token=self.ann.player.token)
        self.assertEqual(page.status, 401)

    @proves("svcctl account show, rename, saves, rollback")
    def test_an_older_save_comes_back_on_a_host_that_is_down(self) -> None:
        self.stop_the_metagame()
        self.assertIn("is back at version 1", self.ctl("account", "rollback", "Ann_1", "1").out)
        self.assertEqual(self.held(), "rollback:1")
        self.assertTrue(self.done("account", "rollback", "Ann_1", "2", "--kick")["kicked"])
        self.assertEqual(self.acts()[1], ("kick", "Ann_1", "rolled back", True))

    def test_a_rollback_warns_if_the_player_is_online(self) -> None:
        self.game.browse("POST", "/heartbeat", json={}, token=self.ann.player.token)
        output = self.ctl("account", "rollback", "Ann_1", "1").out
        self.assertIn("Ann_1 is online (", output)

    def test_a_rollback_to_an_unknown_version_is_refused_and_audited(self) -> None:
        for more, action in (((), "roll back"), (("--loadouts",), "roll back loadout")):
            ran = self.ctl("account", "rollback", "Ann_1", "99", *more)
            self.assertEqual(ran.line, "svcctl: Ann_1: no such version")
            self.assertEqual(self.acts()[0], (action, "Ann_1", "", False))
        ran = self.ctl("account", "rollback", "Ann_1", "1", "--character", "x")
        self.assertIn("no character with this name", ran.line)
