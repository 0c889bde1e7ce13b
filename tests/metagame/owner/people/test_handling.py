"""Another key, merged notes, and the end of an account with all that is kept of it."""

from __future__ import annotations

from sqlalchemy import select, update

from svcserver.db.tables import METADATA
from svcserver.metagame.accounts.store import ACCOUNTS
from svcserver.metagame.owner.people.data import (
    BY_COLUMNS,
    OF_NOBODY,
    account_columns,
    is_of_character,
)
from tests.metagame.owner.moderation.test_moderation import StaffCase
from tests.support.belongings import Owner
from tests.support.proves import proves


class HandlingTests(StaffCase):
    @proves("POST DashboardNewKey")
    def test_a_new_key_ends_the_old_one_and_its_sessions(self) -> None:
        page = self.do(self.olga, "NewKey", "ann_1", Reason="lost")
        self.assertEqual(page.status, 200)
        self.assertEqual((self.log_in(self.ann), self.plays(self.ann)), (400, False))
        key = {"exchange_code": page.json["Key"]}
        said = self.game.browse("POST", "/account/api/oauth/token", json=key)
        self.assertEqual(said.status, 200)
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
                lambda tx, one=player.id, notes=notes: tx.execute(
                    update(ACCOUNTS).where(ACCOUNTS.c.id == one).values(notes=notes)
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
    def test_what_is_kept_is_handed_out_without_secrets(self) -> None:
        cleo = Owner.of(self.game, "Cleo")
        cleo.add("ORE", 3)
        page = self.do(self.olga, "Export", "Cleo")
        self.assertEqual(page.status, 200)
        tables = page.json["tables"]
        self.assertLessEqual({"accounts", "characters", "item_stacks"}, tables.keys())
        self.assertFalse({"account_keys", "dashboard_access", "purchase_tokens"} & tables.keys())

    @proves("POST DashboardDelete")
    def test_a_deleted_account_leaves_nothing_and_its_token_is_void(self) -> None:
        cleo = Owner.of(self.game, "Cleo")
        cleo.add("ORE", 3)
        self.do(self.olga, "Mute", "Cleo", For="1h")
        page = self.do(self.olga, "Delete", "Cleo", Reason="asked for it")
        self.assertEqual((page.status, page.json["Username"]), (200, "Cleo"))
        self.assertIn("item_stacks", page.json["Export"]["tables"])
        self.assertEqual((self.log_in(cleo.player), self.plays(cleo.player)), (400, False))
        self.game.ledger.run(self.game.parts.sessions.load)  # as at the next start
        self.assertFalse(self.plays(cleo.player))
        kept = self.game.ledger.run(
            lambda tx: [
                name
                for name, table in METADATA.tables.items()
                for column in account_columns(table)
                if tx.execute(
                    select(METADATA.tables[name]).where(
                        METADATA.tables[name].c[column] == cleo.player.id
                    )
                ).first()
            ]
        )
        self.assertEqual(kept, [])
        self.assertEqual(self.do(self.olga, "Delete", "Cleo").status, 404)

    def test_an_owner_is_not_deleted(self) -> None:
        self.assertEqual(self.do(self.olga, "Delete", "Olga").json["error"], "is_owner")

    def test_every_table_says_whose_its_rows_are(self) -> None:
        for name, table in METADATA.tables.items():
            found = account_columns(table), is_of_character(table), name in OF_NOBODY
            self.assertEqual(sum(map(bool, found)), name != "accounts", name)
        for name, columns in BY_COLUMNS.items():
            self.assertLessEqual(set(columns), set(METADATA.tables[name].c.keys()), name)
        self.assertLessEqual(set(OF_NOBODY), METADATA.tables.keys())
