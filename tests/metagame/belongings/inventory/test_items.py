"""Edge cases of item shapes, and the rows of the item log."""

from typing import Any

import orjson
from sqlalchemy import select
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Forbidden, Malformed
from svcserver.metagame.belongings.inventory.rules import (
    By,
    InventoryHolder,
    Note,
    Policy,
    is_newer,
)
from svcserver.metagame.belongings.inventory.store import ITEM_LOG, SqlInventory
from tests.metagame.belongings.inventory import sent as items
from tests.metagame.belongings.inventory.base import Case, sword

NOTHING = items.transaction({})


class ItemTests(SynchronousTestCase):
    def refused(self, sent: dict[str, Any]) -> str:
        with self.assertRaises(Malformed) as caught:
            items.transaction(sent)
        return caught.exception.message

    def test_a_refusal_names_the_bad_field(self) -> None:
        for name in (
            "addInstancedItems",
            "addStackedItems",
            "removeInstancedItems",
            "removeStackedItems",
            "saveInstancedItems",
        ):
            self.assertEqual(self.refused({name: 1}), f"{name} must be a list of objects")
        good = {"catalogId": "A", "quantity": 1}
        for name in ("addStackedItems", "removeStackedItems"):
            self.assertRegex(self.refused({name: [good | {"catalogId": 1}]}), "^catalogId ")
            self.assertRegex(self.refused({name: [good | {"quantity": -1}]}), "^quantity ")
        for name in ("addInstancedItems", "saveInstancedItems"):
            self.assertRegex(self.refused({name: [sword(catalogId=1)]}), "^catalogId ")
            self.assertRegex(self.refused({name: [sword(name="")]}), "^instanceId ")
            self.assertRegex(self.refused({name: [sword(-1)]}), "^updateVersion ")
        for bad, word in (({}, "instanceId"), (sword(-1), "updateVersion")):
            self.assertRegex(self.refused({"removeInstancedItems": [bad]}), f"^{word} ")

    def test_ids_over_their_length_limit_are_shortened_or_refused(self) -> None:
        for sent in ("X", "0-X", "x" * 64):
            self.assertEqual(items.transaction_id(sent), sent)
        for sent in ("x" * 65, "a\0b"):
            self.assertEqual(len(items.transaction_id(sent) or ""), 64)
        self.assertEqual(items.identifier("x" * 256, "it"), "x" * 256)
        for bad in ("", "x" * 257, "a\0b", None):
            self.assertRaises(Malformed, items.identifier, bad, "it")

    def test_a_source_is_cut_and_loses_its_nul(self) -> None:
        self.assertEqual(items.source_of("a\0b"), "ab")
        self.assertEqual(items.source_of("x" * 200), "x" * 128)
        self.assertEqual(items.source_of(None), "")

    def test_quantities_are_accepted_up_to_the_largest_safe_number(self) -> None:
        for sent, expected in (
            (2**53 - 1, 2**53 - 1),
            ("9007199254740991", 2**53 - 1),
            (0, 0),
            (3.0, 3),
        ):
            self.assertEqual(items.stack({"catalogId": "A", "quantity": sent}).quantity, expected)
        for sent in (2**53, "9007199254740992", "0" * 17, -1, 0.5):
            with self.assertRaises(Malformed):
                items.stack({"catalogId": "A", "quantity": sent})

    def test_only_further_keys_are_extra(self) -> None:
        stacks = [{"catalogId": "A", "quantity": 1}, {"catalogId": "B", "quantity": 1, "shine": 2}]
        extras = items.transaction({"addStackedItems": stacks}).extras
        self.assertEqual(extras, {"B": b'{"shine":2}'})

    def test_an_item_without_data_has_version_0(self) -> None:
        bare = items.instance({"catalogId": "A", "instanceId": "i"})
        self.assertEqual((bare.version, bare.stateless), (0, True))
        full = items.instance({"catalogId": "A", "instanceId": "i", "itemData": "{}"})
        self.assertEqual((full.version, full.stateless), (None, False))
        # an item without a version is replaced by any version
        self.assertIs(is_newer(full, full), True)

    def test_twenty_thousand_entries_are_the_most(self) -> None:
        stack = {"catalogId": "A", "quantity": 1}
        items.transaction(
            {"addStackedItems": [stack] * 10_000, "removeStackedItems": [stack] * 10_000}
        )
        self.refused({"addStackedItems": [stack] * 10_000, "removeStackedItems": [stack] * 10_001})

    def test_items_of_players_are_in_no_repr(self) -> None:
        item = items.instance(sword(1, "who reads this?"))
        changes = {"made": ["who reads this?"]}
        note = Note("c", None, 0, By.CLIENT, "", changes, b"who reads this?")
        deal = items.transaction({"addInstancedItems": [sword(1, "who reads this?")]})
        for value in (item, note, InventoryHolder("c", "UID-a", b"who reads this?")):
            self.assertNotIn("who reads", repr(value))
        self.assertNotIn("who reads", repr(deal))


class LogTests(Case):
    def lines(self) -> list[tuple[Any, ...]]:
        columns = (ITEM_LOG.c.at, ITEM_LOG.c.caller, ITEM_LOG.c.changes)
        statement = select(*columns).order_by(ITEM_LOG.c.id)
        rows = self.game.ledger.run(lambda tx: tx.execute(statement).all())
        return [(row[0], row[1], orjson.loads(row[2])) for row in rows]

    def test_the_item_log_names_four_kinds_of_caller(self) -> None:
        self.assertEqual([*By], ["client", "gameserver", "store", "admin"])

    def test_a_log_row_has_the_request_and_the_totals(self) -> None:
        at = int(self.game.clock.seconds() * 1000)
        self.ann.add("A", 5)
        self.ann.transact(
            addStackedItems=[{"catalogId": "B", "quantity": 1}],
            removeStackedItems=[{"catalogId": "A", "quantity": 2}],
            addInstancedItems=[sword(1)],
            saveInstancedItems=[sword(1, name="i-2")],
            removeInstancedItems=[{"instanceId": "i-3"}],
        )
        self.ann.transact(removeInstancedItems=[{"instanceId": "i-2"}])
        body = {"characterId": self.ann.character, **sword(2)}
        self.ann.by_server(
            "POST", "/inventory/instanceditem", body | {"accountId": self.ann.player.id}
        )
        first = {"added": {"A": 5}, "taken": {}, "totals": {"A": 5}}
        second = {"added": {"B": 1}, "taken": {"A": 2}, "totals": {"B": 1, "A": 3}}
        parts = {"removed": ["i-3"], "saved": ["i-2"], "made": ["i-1"]}
        self.assertEqual(
            self.lines(),
            [
                (at, "client", {"stacks": first}),
                (at, "client", {"stacks": second, **parts}),
                (at, "client", {"removed": ["i-2"]}),
                (at, "gameserver", {"saved": ["i-1"]}),
            ],
        )

    def test_adding_0_to_a_stack_still_stores_its_extra_keys(self) -> None:
        self.ann.add("A", 5)
        self.ann.transact(addStackedItems=[{"catalogId": "A", "quantity": 0, "shine": 1}])
        item = {"catalogId": "A", "quantity": 5, "shine": 1}
        self.assertEqual(self.ann.inventory()["stackedItems"], [item])

    def test_spending_a_whole_stack_is_not_logged_as_odd(self) -> None:
        self.ann.add("A", 2)
        with capturedLogs() as events:
            self.ann.take("A", 2)
        self.assertFalse([event for event in events if "oddity" in event])

    def test_a_character_id_no_database_can_hold_is_not_looked_up(self) -> None:
        for odd in ("a\0b", None, 7):
            with self.assertRaises(Forbidden):
                SqlInventory(None).transact("UID-a", odd, NOTHING, By.CLIENT, Policy(), 0.0)
