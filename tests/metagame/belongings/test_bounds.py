"""Limits on the data that a player can store; a rejected request changes nothing."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, select
from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.belongings.inventory.rules import By, Note, Policy
from svcserver.metagame.belongings.inventory.store import ITEM_LOG, LOG_ROW, SqlInventory
from svcserver.metagame.belongings.items import NOTHING, Size
from tests.support.belongings import Owner
from tests.support.browser import Page
from tests.support.game import Game


def stacks(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [{"catalogId": name, "quantity": 1, **more} for name in names]


def item(name: str, version: int = 1, data: str = "{}") -> dict[str, Any]:
    return {"catalogId": "W", "instanceId": name, "itemData": data, "updateVersion": version}


class Bounded(SynchronousTestCase):
    def start(self, **environ: str) -> None:
        self.game = Game(self, **environ)
        self.ann = Owner.of(self.game, "Ann_1")

    def asks(self, method: str, path: str, **sent: Any) -> Page:
        return self.game.browse(method, path, token=self.ann.player.token, **sent)

    def refused(self, page: Page, status: int) -> None:
        self.assertEqual((page.status, page.body), (status, b""))


class InventoryBoundTests(Bounded):
    def size(self) -> Size:
        held = self.game.ledger.run(lambda tx: SqlInventory(tx).holder(self.ann.character, None))
        assert held is not None
        return held.size

    def test_items_over_the_limit_are_409_and_change_nothing(self) -> None:
        self.start(INVENTORY_MAX_ITEMS="3")
        self.ann.transact(addStackedItems=stacks("A", "B"), addInstancedItems=[item("i")])
        before = self.ann.inventory()
        self.refused(self.ann.add("C", 1, transactionId="t1"), 409)
        self.refused(self.ann.transact(addInstancedItems=[item("j")]), 409)
        self.refused(self.ann.transact(saveInstancedItems=[item("j")]), 409)
        self.assertEqual(self.ann.inventory(), before)

    def test_a_full_character_still_changes_and_gives_away_items(self) -> None:
        self.start(INVENTORY_MAX_ITEMS="2")
        self.ann.transact(addStackedItems=stacks("A"), addInstancedItems=[item("i")])
        self.assertEqual(self.ann.add("A", 5).status, 200)
        self.assertEqual(self.ann.transact(saveInstancedItems=[item("i", 2)]).status, 200)
        swap = {"removeInstancedItems": [{"instanceId": "i"}], "addStackedItems": stacks("B")}
        self.assertEqual(self.ann.transact(**swap).status, 200)
        self.assertEqual(self.ann.stacks(), {"A": 6, "B": 1})
        self.ann.take("A", 6)
        self.assertEqual(self.ann.add("C", 1).status, 200)

    def test_bytes_are_bounded_in_every_part_of_a_transaction(self) -> None:
        self.start(INVENTORY_MAX_BYTES="1000")
        self.assertEqual(self.ann.transact(addInstancedItems=[item("i")]).status, 200)
        self.refused(self.ann.transact(saveInstancedItems=[item("i", 2, "x" * 1000)]), 409)
        self.refused(self.ann.transact(addStackedItems=stacks("A", note="x" * 1000)), 409)
        body = {"characterId": self.ann.character, **item("i", 2, "x" * 1000)}
        self.refused(self.asks("POST", "/inventory/instanceditem", json=body), 409)
        self.assertEqual(self.ann.instances()["i"], item("i"))

    def test_a_lowered_bound_lets_a_character_shrink(self) -> None:
        self.start(INVENTORY_MAX_ITEMS="2")
        self.set_size(Size(9, 900))
        self.refused(self.ann.add("A", 1), 409)
        self.set_size(Size(1, 90))
        self.assertEqual(self.ann.add("A", 1).status, 200)
        self.set_size(Size(9, 900))
        self.assertEqual(self.ann.take("A", 1).status, 200)

    def set_size(self, size: Size) -> None:
        """Store an inventory size that need not match the character's items."""
        name, policy = self.ann.character, Policy()
        self.game.ledger.run(lambda tx: SqlInventory(tx).grow(name, NOTHING, size, policy))

    def test_the_stored_size_equals_the_contents_down_to_nothing(self) -> None:
        self.start()
        self.ann.transact(
            addStackedItems=[*stacks("A", "Ä", more="x"), *stacks("A", "B")],
            addInstancedItems=[item("i"), item("j")],
        )
        self.ann.transact(addStackedItems=stacks("A", more="longer than before"))
        self.ann.transact(saveInstancedItems=[item("i", 2, '{"a": 1}')])
        self.ann.add("A", 0)
        self.assertEqual(self.size().items, 5)
        self.ann.transact(
            removeStackedItems=[{"catalogId": name, "quantity": 99} for name in ("A", "Ä", "B")],
            removeInstancedItems=[{"instanceId": "i"}, {"instanceId": "j"}, {"instanceId": "k"}],
        )
        self.assertEqual((self.ann.stacks(), self.ann.instances()), ({}, {}))
        self.assertEqual(self.size(), Size(0, 0))


class DocumentBoundTests(Bounded):
    def test_a_document_may_be_as_long_as_the_setting_says(self) -> None:
        self.start(CHARACTER_MAX_BYTES="20")
        for version, data, status in (
            (1, '{"a":"1234567890AB"}', 200),
            (2, '{"a":"1234567890ABC"}', 400),
            (3, '{"a":"1234567890Aä"}', 400),
        ):
            body = {"characterId": self.ann.character, "updateVersion": version, "data": data}
            page = self.asks("POST", "/character", json=body)
            self.assertEqual(page.status, status, data)
        [character] = self.asks("GET", "/character").json
        self.assertEqual(
            (character["updateVersion"], character["data"]), (1, '{"a":"1234567890AB"}')
        )

    def test_a_loadout_over_its_size_limit_is_400_and_changes_nothing(self) -> None:
        self.start(LOADOUT_MAX_BYTES="100")
        path = f"/loadout/{self.ann.player.id}/{self.ann.character}"
        before = self.asks("GET", f"{path}/all").json
        for name in ("0", "persistent"):
            big = {"data": json.dumps({"a": "x" * 100})}
            self.refused(self.asks("POST", f"{path}/{name}", json=big), 400)
        self.assertEqual(self.asks("GET", f"{path}/all").json, before)
        small = {"data": '{"a": 1}'}
        self.assertEqual(self.asks("POST", f"{path}/0", json=small).status, 200)

    def test_breadcrumbs_over_their_size_limit_are_400(self) -> None:
        self.start(BREADCRUMBS_MAX_BYTES="20")
        path = f"/breadcrumbs/{self.ann.character}"
        page = self.asks("POST", path, json={"breadcrumbs": ["x" * 17], "updateVersion": 1})
        self.refused(page, 400)
        page = self.asks("POST", path, json={"breadcrumbs": ["x" * 16], "updateVersion": 1})
        self.assertEqual(page.status, 200)


class AchievementBoundTests(Bounded):
    def setUp(self) -> None:
        self.start(ACHIEVEMENTS_MAX="5", ENTITLEMENTS_DEFAULT="")

    def server(self, method: str, path: str, **sent: Any) -> Page:
        return self.ann.by_server(method, path.format(id=self.ann.player.id), **sent)

    def meet(self, name: str) -> Page:
        body = {"content_type": 1, "content_id": name}
        return self.asks("POST", f"/encountered-content/{self.ann.character}", json=body)

    def test_a_new_encounter_over_the_limit_is_409(self) -> None:
        for name in "abcde":
            self.assertEqual(self.meet(name).status, 200)
        self.refused(self.meet("f"), 409)
        self.assertEqual(self.meet("a").status, 200)
        path = f"/encountered-content/query/{self.ann.character}"
        page = self.asks("POST", path, json={"content_types": [2, 1, 2]})
        self.assertEqual(page.json["payload"]["content_types"][1]["content"], list("abcde"))
        self.refused(self.asks("POST", path, json={"content_types": [1, 1]}), 400)

    def test_a_new_cooldown_over_the_limit_is_409(self) -> None:
        path = "/cooldown/batch/{id}"
        five = {"cooldowns": {name: "" for name in "ABCDE"}}
        self.assertEqual(self.server("PUT", path, json=five).status, 200)
        self.refused(self.server("PUT", path, json={"cooldowns": {"A": "", "F": ""}}), 409)
        self.assertEqual(self.server("PUT", path, json={"cooldowns": {"A": ""}}).status, 200)
        self.assertEqual(self.server("PUT", "/cooldown/{id}/A").status, 200)
        self.refused(self.server("PUT", "/cooldown/{id}/F"), 409)
        page = self.asks("GET", f"/cooldown/{self.ann.player.id}")
        self.assertEqual(sorted(page.json["payload"]), list("ABCDE"))

    def test_a_new_objective_or_track_over_the_limit_is_409(self) -> None:
        def grant(*names: str, track: str = "T") -> Page:
            body = {
                "objectives": [{"objective_id": name, "value": 1} for name in names],
                "progress_tracks": [{"progression_id": track, "progress": 1}],
            }
            return self.server("POST", "/progression/{id}", json=body)

        self.assertEqual(grant(*"ABCDE").status, 200)
        self.assertEqual(grant("F", track="U").status, 409)
        self.assertEqual(grant("A").status, 200)
        for name in "UVWX":
            self.assertEqual(grant(track=name).status, 200)
        self.assertEqual(grant(track="Y").status, 409)

    def test_a_bounty_board_over_its_size_limit_is_409(self) -> None:
        self.start(BOUNTIES_MAX_BYTES="200")

        def update(name: str, slot: int, more: str = "", **draft: Any) -> int:
            bounty = {"bounty_id": name, "slot_index": slot, "drafted_timestamp": "x", "more": more}
            return self.server("POST", "/bounty/{id}", json={"bounties": [bounty], **draft}).status

        self.assertEqual(update("A", 1), 200)
        before = self.asks("GET", f"/bounty/{self.ann.player.id}").json
        self.assertEqual(update("B", 2, "x" * 200), 409)
        self.assertEqual(update("A", 1, "x" * 200), 409)
        self.assertEqual(update("B", 2, draft_data={"a": "x" * 200}), 409)
        self.assertEqual(self.asks("GET", f"/bounty/{self.ann.player.id}").json, before)
        self.assertEqual([update("B", 2), update("C", 3), update("C", 2)], [200, 409, 200])

    def test_a_new_entitlement_over_the_limit_is_409(self) -> None:
        def grant(name: str) -> int:
            return self.server("POST", "/entitlementv2/{id}", json={"entitlement": name}).status

        self.assertEqual([grant(name) for name in "ABCDEFA"], [200] * 5 + [409, 200])


class AllowanceTests(Bounded):
    """The limit ACCOUNT_BYTES_A_DAY on every route that stores a player's data."""

    def test_after_a_days_bytes_429_names_the_wait(self) -> None:
        self.start(ACCOUNT_BYTES_A_DAY="86400")
        bob = Owner.of(self.game, "Bob_1")
        self.assertEqual(self.ann.add("A", 1, source="x" * 85_500).status, 200)
        page = self.ann.add("A", 1)
        self.refused(page, 429)
        self.assertLessEqual(int(page.headers["retry-after"]), 512)
        here = self.ann.character
        document = {"characterId": here, "updateVersion": 1, "data": "{}"}
        loadout = f"/loadout/{self.ann.player.id}/{here}/0"
        for method, path, body in (
            ("PUT", "/character", {"name": "Zoe"}),
            ("POST", "/character", document),
            ("POST", "/inventory/instanceditem", {"characterId": here, **item("i")}),
            ("POST", loadout, {"data": "{}"}),
            ("POST", f"/breadcrumbs/{here}", {"breadcrumbs": [], "updateVersion": 1}),
            (
                "POST",
                f"/encountered-content/{here}",
                {"content_type": 1, "content_id": "a"},
            ),
        ):
            self.assertEqual(self.asks(method, path, json=body).status, 429, path)
        page = self.ann.by_server("PUT", f"/cooldown/batch/{self.ann.player.id}", {"cooldowns": {}})
        self.assertEqual(page.status, 429)
        self.assertEqual(self.ann.stacks(), {"A": 1})
        self.assertEqual(bob.add("A", 1).status, 200)
        self.game.clock.advance(600)
        self.assertEqual(self.ann.add("A", 1).status, 200)


class ItemLogTests(Bounded):
    """``ITEM_LOG_MAX_BYTES`` is so small that every transaction checks the log's size."""

    def logged(self, name: str) -> list[str]:
        def work(tx: Connection) -> list[str]:
            of = select(ITEM_LOG.c.source).where(ITEM_LOG.c.character_id == name)
            return list(tx.execute(of.order_by(ITEM_LOG.c.id)).scalars())

        return self.game.ledger.run(work)

    def earn(self, owner: Owner, *names: str) -> None:
        for name in names:
            page = owner.add("A", 1, transactionId=f"{owner.character[:8]}-{name}", source=name)
            self.assertEqual(page.status, 200)

    def test_the_oldest_rows_of_the_same_account_give_way(self) -> None:
        self.start(ITEM_LOG_MAX_BYTES="4000")
        bob = Owner.of(self.game, "Bob_1")
        self.earn(bob, "kept")
        self.earn(self.ann, *"abcdefghij")
        held = self.logged(self.ann.character)
        self.assertEqual(held, list("abcdefghij")[-len(held) :])
        self.assertIn(len(held), range(3, 8))  # each entry counts as 512 bytes or more
        self.assertEqual(self.logged(bob.character), ["kept"])

    def test_the_characters_of_an_account_share_its_bound(self) -> None:
        self.start(ITEM_LOG_MAX_BYTES="4000")
        bob, second = Owner.of(self.game, "Bob_1"), self.ann.another()
        self.earn(bob, "kept")
        self.earn(self.ann, *"abcdef")
        self.earn(second, *"ghijkl")
        held = self.logged(self.ann.character) + self.logged(second.character)
        self.assertEqual(held, list("abcdefghijkl")[-len(held) :])
        self.assertIn(len(held), range(3, 8))
        self.assertEqual(self.logged(bob.character), ["kept"])

    def test_a_recent_repeat_is_still_recognised(self) -> None:
        self.start(ITEM_LOG_MAX_BYTES="4000")
        self.earn(self.ann, *"abcdef")
        self.earn(self.ann, "f")
        self.assertEqual(self.ann.stacks(), {"A": 6})

    def test_an_item_log_below_its_limit_keeps_every_entry(self) -> None:
        self.start(ITEM_LOG_MAX_BYTES="20000")
        self.earn(self.ann, *"abcdefghij")
        self.assertEqual(self.logged(self.ann.character), list("abcdefghij"))

    def test_a_flooded_item_log_stays_near_its_limit(self) -> None:
        self.start()
        self.game.ledger.run(self.hoard)
        bytes_held = len(self.logged(self.ann.character)) * (LOG_ROW + 2_000)
        self.assertLess(bytes_held, 3 * 100_000)

    def hoard(self, tx: Connection) -> None:
        """Write far more than the limit, so that random trimming almost certainly happens."""
        inventory = SqlInventory(tx, 100_000)
        for number in range(400):
            changes = {"made": ["x" * 1_987]}  # 2,000 bytes as JSON
            note = Note(self.ann.character, f"t{number}", number, By.CLIENT, "", changes)
            inventory.note(note)
