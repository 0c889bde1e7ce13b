"""``svcctl play`` deletes all data of its simulated players, or says why it cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

from sqlalchemy import insert, select
from twisted.internet.defer import Deferred

from svcserver.ctl import play_command
from svcserver.ctl.database import know_every_table
from svcserver.ctl.host import find
from svcserver.ctl.output import Out
from svcserver.ctl.play.cleaning import clean
from svcserver.ctl.play.evening import PlayOptions
from svcserver.ctl.play.player import Player
from svcserver.ctl.play_command import Session
from svcserver.db.tables import METADATA
from svcserver.kernel import reactor_run
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.owner.people.data import account_columns
from svcserver.metagame.owner.people.store import SqlPeople
from svcserver.metagame.social.guilds.rules import Guild, Member, Rank
from svcserver.metagame.social.guilds.store import SqlGuilds
from tests.ctl.command import database_of, svcctl
from tests.ctl.hosts import change
from tests.ctl.test_accounts import HostCase

NAMES = ("Ada_1f3c", "Bo_1f3c")


def player(name: str, key: str = "UUK_x") -> Player:
    wire: Any = None
    return Player(None, wire, name, key=key)


class CleaningTests(HostCase):
    def setUp(self) -> None:
        super().setUp()
        know_every_table()
        for name in (*NAMES, "Stranger"):
            self.ctl("account", "create", name)
        with database_of(self.folder) as tx:
            named = SqlAccounts(tx).named
            self.ids = [owner.id for owner in map(named, (*NAMES, "Stranger")) if owner is not None]
            for at, account in enumerate(self.ids):
                row = {"id": f"c{at}", "account_id": account, "slot": 0, "version": 1}
                self.fill(tx, "characters", row)
                self.fill(tx, "character_saves", {"character_id": f"c{at}"})
            guilds = SqlGuilds(tx)
            guilds.insert_guild(Guild("g", "Evening", "EVE", self.ids[0], 1))
            for account, rank in zip(self.ids, (Rank.LEADER, Rank.OFFICER), strict=False):
                guilds.join(Member(account, "g", rank, 1))

    def fill(self, tx: Any, name: str, known: dict[str, Any]) -> None:
        """Add a row; columns without a given value get zero or an empty text."""
        table = METADATA.tables[name]
        row = {part.name: known[part.name] for part in table.c if part.name in known}
        for column in table.c:
            if column.name not in row and not column.nullable and column.autoincrement is not True:
                row[column.name] = column.type.python_type()
        tx.execute(insert(table).values(row))

    def left(self) -> dict[str, int]:
        """Return for each table how many rows name one of the accounts or characters."""
        counts: dict[str, int] = {}
        with database_of(self.folder) as tx:
            for table in METADATA.tables.values():
                names = [*account_columns(table)]
                wanted = [(name, self.ids[:2]) for name in names]
                if "character_id" in table.c:
                    wanted.append(("character_id", ["c0", "c1"]))
                for name, ids in wanted:
                    rows = tx.execute(select(table).where(table.c[name].in_(ids))).all()
                    if rows:
                        counts[table.name] = len(rows)
        return counts

    def test_cleaning_deletes_test_players_and_keeps_other_accounts(self) -> None:
        self.assertGreaterEqual(self.left()["character_saves"], 2)
        lines: list[str] = []
        players = [player(name) for name in NAMES]
        host = find(str(self.folder), None)
        session = Session(host, Out(False), PlayOptions(), players=players)
        self.assertIsNone(session.clean_up(lines.append))
        self.assertIsNone(session.clean_up(lines.append))
        self.assertEqual(len(lines), 1)
        self.assertEqual(self.left(), {})
        self.assertIn("2 accounts and all their data were deleted", lines[0])
        self.assertEqual(self.accounts(), {"Olga": True, "Stranger": False})
        with database_of(self.folder) as tx:
            self.assertIsNone(SqlGuilds(tx).guild("g"))
            saves = METADATA.tables["character_saves"]
            characters = tx.execute(select(saves.c.character_id)).scalars().all()
        self.assertEqual(characters, ["c2"])
        audit = self.ctl("audit", "--json").out
        self.assertIn("Ada_1f3c and 1 more", audit)
        self.assertEqual(clean(host, players), 0)

    def test_an_account_whose_name_was_refused_is_not_deleted(self) -> None:
        clean(find(str(self.folder), None), [player("Stranger", key="")])
        self.assertIn("Stranger", self.accounts())

    def test_cleaning_deletes_recently_online_players(self) -> None:
        clean(find(str(self.folder), None), [player(name) for name in NAMES])
        with database_of(self.folder) as tx:
            SqlPeople(tx).keep_seen(dict.fromkeys(self.ids, 7))
        self.assertEqual(self.left(), {})

    def test_a_host_that_cannot_be_written_is_one_line(self) -> None:
        host = find(str(self.folder), None)
        (self.folder / "svc.db").unlink()
        for keep, what in ((False, "the players' accounts are"), (True, "the invite code is")):
            session = Session(host, Out(False), PlayOptions(keep=keep), players=[player(NAMES[0])])
            session.code = "ABCD"
            why = session.clean_up(self.fail)
            self.assertTrue(str(why).startswith(f"database: {what} still there: "), why)
            self.assertIs(session.clean_up(self.fail), why)


class EndingTests(HostCase):
    def test_an_invalid_metagame_url_is_an_error(self) -> None:
        for url in ("nonsense", "http://", "ftp://127.0.0.1", "http://127.0.0.1:99999"):
            self.assertIn(f"{url} is not a URL like http://", svcctl("play", "--url", url).line)
        (self.folder / "gateway.env").unlink()
        change(self.folder, "metagame", "PORT", "abc")
        self.assertIn(":abc is not a URL like", self.ctl("play").line)

    def test_an_unexpected_error_in_play_is_raised(self) -> None:
        def react(main: Callable[[Any], Deferred[None]]) -> None:
            self.successResultOf(main(mock.Mock()))
            raise SystemExit(0)

        async def broken(*_: object) -> None:
            raise ZeroDivisionError

        self.patch(reactor_run, "react", react)
        self.patch(reactor_run, "globalLogBeginner", mock.Mock())
        self.patch(Session, "live", broken)
        self.assertRaises(ZeroDivisionError, self.ctl, "play")

    def test_an_interrupted_session_fails_and_is_cleaned_up(self) -> None:
        cleaned: list[str | None] = []

        async def live(session: Session, reactor: Any) -> None:
            session.code = "ABCD"
            await Deferred[None]()

        def run_in_reactor(work: Any) -> None:
            Deferred.fromCoroutine(work(None))
            raise KeyboardInterrupt

        self.patch(Session, "live", live)
        self.patch(play_command, "run_in_reactor", run_in_reactor)
        self.patch(play_command, "drop_invite", lambda host, code: cleaned.append(code))
        ran = self.ctl("play")
        self.assertEqual(ran.line, "svcctl: stopped before the session ended")
        self.assertEqual((ran.status, cleaned), (1, ["ABCD"]))
