"""New account keys, merged notes, and the export and deletion of accounts."""

import json
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sqlalchemy import Column, Connection, String, delete, insert, select, update
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db import migrations
from svcserver.db.engine import database_url, make_engine
from svcserver.db.tables import METADATA
from svcserver.db.transaction import transact
from svcserver.metagame.accounts.store import ACCOUNTS
from svcserver.metagame.owner.people import data as data_of_people
from svcserver.metagame.owner.people.data import (
    OF_NOBODY,
    account_columns,
    erase,
    exported,
    is_of_character,
)
from tests.metagame.owner.moderation.test_moderation import StaffCase
from tests.support.belongings import Owner
from tests.support.filling import fill
from tests.support.postgres import fresh_database
from tests.support.proves import proves

OTHER_IDS = ("character_id", "guild_id", "link_id", "season_id")
OTHER_IDS += ("asked_by",)  # one of the two accounts that the friendship names


def is_id(column: Column[Any]) -> bool:
    """Return whether the column has the width and the name of an id column."""
    wide = isinstance(column.type, String) and column.type.length == 64
    return wide and str(column.name).endswith(("_id", "_by"))


class HandlingTests(StaffCase):
    @proves("POST DashboardNewKey")
    def test_a_new_key_revokes_the_old_key_and_its_sessions(self) -> None:
        page = self.do(self.olga, "NewKey", "ann_1", Reason="lost")
        self.assertEqual(page.status, 200)
        self.assertEqual((self.log_in(self.ann), self.plays(self.ann)), (400, False))
        key = {"exchange_code": page.json["Key"]}
        reply = self.game.browse("POST", "/account/api/oauth/token", json=key)
        self.assertEqual(reply.status, 200)
        [row] = self.rows()
        self.assertEqual((row["action"], row["target"]), ("new key", "Ann_1"))
        self.assertNotIn(page.json["Key"], str(row))

    def test_only_an_owner_takes_over_or_removes_accounts(self) -> None:
        for act in ("NewKey", "MergeNotes", "Export", "Delete"):
            more = {"To": "Bob_1"} if act == "MergeNotes" else {}
            self.assertEqual(self.do(self.mod, act, "Ann_1", **more).status, 403, act)
            self.assertTrue(self.rows()[0]["refused"])

    @proves("POST DashboardMergeNotes")
    def test_notes_are_moved_whole(self) -> None:
        for player, notes in ((self.ann, 70), (self.bob, 5)):
            self.game.ledger.run(
                lambda tx, account_id=player.id, notes=notes: tx.execute(
                    update(ACCOUNTS).where(ACCOUNTS.c.id == account_id).values(notes=notes)
                )
            )
        page = self.do(self.olga, "MergeNotes", "Ann_1", To="Bob_1")
        self.assertEqual(page.json, {"Username": "Ann_1", "To": "Bob_1", "Moved": 70})
        again = self.do(self.olga, "MergeNotes", "Ann_1", To="Bob_1")
        same = self.do(self.olga, "MergeNotes", "Bob_1", To="bob_1")
        self.assertEqual([again.json["error"], same.json["error"]], ["no_notes", "same_account"])
        left = self.game.ledger.run(
            lambda tx: dict(tx.execute(select(ACCOUNTS.c.username, ACCOUNTS.c.notes)).all())
        )
        self.assertEqual((left["Ann_1"], left["Bob_1"]), (0, 75))

    @proves("POST DashboardExport")
    def test_an_export_has_no_secrets(self) -> None:
        cleo = Owner.of(self.game, "Cleo")
        cleo.add("ORE", 3)
        page = self.do(self.olga, "Export", "Cleo")
        self.assertEqual(page.status, 200)
        tables = page.json["tables"]
        self.assertLessEqual({"accounts", "characters", "item_stacks"}, tables.keys())
        self.assertFalse({"account_keys", "dashboard_access", "purchase_tokens"} & tables.keys())

    @proves("POST DashboardExport", "POST DashboardDelete")
    def test_a_too_large_account_is_exported_in_part_and_deleted(self) -> None:
        cleo = Owner.of(self.game, "Cleo")
        cleo.add("ORE", 3)
        for version in range(1, 31):
            data = {"level": version, "bag": "x" * 400}
            save = {
                "characterId": cleo.character,
                "data": json.dumps(data),
                "updateVersion": version,
            }
            reply = self.game.browse("POST", "/character", json=save, token=cleo.player.token)
            self.assertEqual(reply.status, 200)
        whole = self.do(self.olga, "Export", "Cleo").json
        self.assertEqual((whole["leftOut"], len(whole["tables"]["character_saves"])), ({}, 31))
        for most, saves in ((8_000, 2), (1, 0)):
            self.patch(data_of_people, "MAX_EXPORT", most)
            export = self.do(self.olga, "Export", "Cleo").json
            exported_saves = export["tables"].get("character_saves", [])
            self.assertEqual(
                exported_saves, whole["tables"]["character_saves"][31 - len(exported_saves) :]
            )
            self.assertGreaterEqual(len(exported_saves), saves)
            self.assertEqual(export["leftOut"]["character_saves"], 31 - len(exported_saves))
            self.assertLessEqual(len(str(export["tables"])), 3 * most + 10)
        page = self.do(self.olga, "Delete", "Cleo")
        self.assertEqual((page.status, page.json["Export"]["tables"]), (200, {}))
        self.assertEqual(self.kept_of(cleo.player.id), [])
        self.assertEqual(self.do(self.olga, "Export", "Cleo").status, 404)

    @proves("POST DashboardDelete")
    def test_a_deleted_account_leaves_nothing_and_its_token_is_void(self) -> None:
        cleo = Owner.of(self.game, "Cleo")
        cleo.add("ORE", 3)
        self.do(self.olga, "Mute", "Cleo", For="1h")
        page = self.do(self.olga, "Delete", "Cleo", Reason="asked for it")
        self.assertEqual((page.status, page.json["Username"]), (200, "Cleo"))
        self.assertIn("item_stacks", page.json["Export"]["tables"])
        self.assertEqual((self.log_in(cleo.player), self.plays(cleo.player)), (400, False))
        # as the next start of the metagame does
        self.game.ledger.run(self.game.parts.sessions.load)
        self.assertFalse(self.plays(cleo.player))
        self.assertEqual(self.kept_of(cleo.player.id), [])
        self.assertEqual(self.do(self.olga, "Delete", "Cleo").status, 404)

    @proves("POST DashboardDelete")
    def test_an_unrequested_export_is_not_sent(self) -> None:
        self.game.player("Dora")
        page = self.do(self.olga, "Delete", "Dora", Export=False)
        self.assertEqual(page.json, {"Username": "Dora", "Export": None})

    def kept_of(self, account_id: str) -> list[str]:
        """Return the tables that still have a row about the account."""
        tables: list[str] = self.game.ledger.run(
            lambda tx: [
                name
                for name, table in METADATA.tables.items()
                for column in account_columns(table)
                if tx.execute(select(table).where(table.c[column] == account_id)).first()
            ]
        )
        return tables

    def test_an_owner_is_not_deleted(self) -> None:
        self.assertEqual(self.do(self.olga, "Delete", "Olga").json["error"], "is_owner")

    def test_every_table_names_the_owner_of_its_rows(self) -> None:
        for name, table in METADATA.tables.items():
            kinds = account_columns(table), is_of_character(table), name in OF_NOBODY
            self.assertEqual(sum(map(bool, kinds)), name != "accounts", name)
        self.assertLessEqual(set(OF_NOBODY), METADATA.tables.keys())

    def test_columns_that_name_an_account_are_marked(self) -> None:
        for name, table in METADATA.tables.items():
            for column in () if name in OF_NOBODY else table.c:
                if is_id(column) and column.name not in (*OTHER_IDS, *account_columns(table)):
                    self.fail(
                        f"{name}.{column.name} may name an account, and neither export nor"
                        " deletion knows it. Declare it with info=ACCOUNT (svcserver/db/tables.py),"
                        " or add it to OTHER_IDS of this test."
                    )


class LargeAccountCase(SynchronousTestCase):
    """An account with many saves, on both databases."""

    def holds(self, url: str) -> None:
        """Assert that an export has the newest saves and that a deletion removes all saves."""
        engine = make_engine(database_url(url))
        self.addCleanup(engine.dispose)
        migrations.upgrade(engine)
        fill(engine)
        saves, characters = METADATA.tables["character_saves"], METADATA.tables["characters"]
        mine = transact(engine, lambda tx: tx.execute(select(characters)).one())
        account, character = mine.account_id, mine.id

        def more(tx: Connection) -> None:
            [row] = tx.execute(select(saves)).mappings().all()
            tx.execute(delete(saves))
            for number in range(1, 42):
                data = {"id": number, "version": number, "data": b"x" * 5_000, "request_id": None}
                tx.execute(insert(saves), {**row, **data, "character_id": character})

        transact(engine, more)
        self.patch(data_of_people, "MAX_EXPORT", 100_000)
        tables, left = transact(engine, lambda tx: exported(tx, account))
        exported_ids = [save["id"] for save in tables["character_saves"]]
        self.assertEqual(exported_ids, list(range(42 - len(exported_ids), 42)))
        self.assertGreater(len(exported_ids), 10)
        self.assertEqual(left, {"character_saves": 41 - len(exported_ids)})
        self.assertIn("characters", tables)  # small tables are exported completely
        transact(engine, lambda tx: erase(tx, account))
        self.assertEqual(transact(engine, lambda tx: exported(tx, account)), ({}, {}))
        self.assertIsNone(transact(engine, lambda tx: tx.execute(select(saves)).first()))


class SqliteLargeAccountTests(LargeAccountCase):
    def test_the_newest_saves_are_exported_and_all_are_deleted(self) -> None:
        self.holds(f"sqlite:///{self.enterContext(TemporaryDirectory())}/svc.db")


@pytest.mark.live
class PostgresLargeAccountTests(LargeAccountCase):
    def test_the_newest_saves_are_exported_and_all_are_deleted(self) -> None:
        self.holds(fresh_database())
