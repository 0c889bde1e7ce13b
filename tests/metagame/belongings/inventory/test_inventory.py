from twisted.logger import capturedLogs

from svcserver.kernel.digits import MAX_VERSION, MAX_WHOLE
from svcserver.metagame.belongings.inventory.store import forget_old
from tests.metagame.belongings.inventory.base import EMPTY, Case, sword
from tests.support.proves import proves


class ReadTests(Case):
    @proves("GET /inventory/:userId/:characterId")
    def test_an_untouched_inventory_is_two_empty_lists(self) -> None:
        expected = {"characterId": self.ann.character, "instancedItems": [], "stackedItems": []}
        self.assertEqual(self.ann.inventory(), expected)

    @proves("GET /inventory/:userId/:characterId")
    def test_a_player_gets_its_own_inventory_for_any_account_in_the_url(self) -> None:
        self.ann.add("ORE", 3)
        path = f"/inventory/{self.bob.player.id}/{self.ann.character}"
        page = self.game.browse("GET", path, token=self.ann.player.token)
        self.assertEqual(page.json["stackedItems"], [{"catalogId": "ORE", "quantity": 3}])

    @proves("GET /inventory/:userId/:characterId")
    def test_a_game_server_gets_the_inventory_of_the_urls_account(self) -> None:
        self.ann.add("ORE", 3)
        page = self.ann.by_server("GET", f"/inventory/{self.ann.player.id}/{self.ann.character}")
        self.assertEqual(page.json["stackedItems"], [{"catalogId": "ORE", "quantity": 3}])
        page = self.ann.by_server("GET", f"/inventory/{self.bob.player.id}/{self.ann.character}")
        self.assertEqual((page.status, page.body), (403, b""))

    @proves("GET /inventory/:userId/:characterId")
    def test_an_unknown_or_foreign_characters_inventory_is_403(self) -> None:
        for character in (self.bob.character, "nope", "%00"):
            path = f"/inventory/{self.ann.player.id}/{character}"
            page = self.game.browse("GET", path, token=self.ann.player.token)
            self.assertEqual((page.status, page.body), (403, b""))

    def test_every_route_wants_a_credential(self) -> None:
        for method, path in (
            ("GET", "/inventory/x/y"),
            ("POST", "/inventory"),
            ("POST", "/inventory/instanceditem"),
            ("POST", "/inventory/x/y"),
        ):
            self.assertEqual(self.game.browse(method, path).status, 401, path)

    @proves("POST /inventory/:characterId/:changeList")
    def test_a_migration_request_gets_an_empty_reply(self) -> None:
        path = f"/inventory/{self.ann.character}/12345"
        page = self.game.browse("POST", path, json={"a": 1}, token=self.ann.player.token)
        self.assertEqual((page.status, page.json), (200, {"code": None, "message": ""}))


class StackTests(Case):
    @proves("POST /inventory")
    def test_totals_are_reported_added_first_then_removed_only(self) -> None:
        self.ann.add("A", 5), self.ann.add("B", 5)
        page = self.ann.transact(
            addStackedItems=[{"catalogId": "B", "quantity": 2}, {"catalogId": "C", "quantity": 1}],
            removeStackedItems=[
                {"catalogId": "A", "quantity": 5},
                {"catalogId": "B", "quantity": 1},
            ],
        )
        totals = [
            {"catalogId": "B", "quantity": 6},
            {"catalogId": "C", "quantity": 1},
            {"catalogId": "A", "quantity": 0},
        ]
        self.assertEqual(page.json, {**EMPTY, "updatedStackedItems": totals})
        self.assertEqual(self.ann.stacks(), {"B": 6, "C": 1})

    @proves("POST /inventory")
    def test_without_the_switch_only_added_stacks_are_reported(self) -> None:
        self.start(INVENTORY_REPORT_REMOVALS="0")
        self.ann.add("A", 5)
        self.assertEqual(self.ann.take("A", 2).json, EMPTY)
        self.assertEqual(self.ann.stacks(), {"A": 3})

    @proves("POST /inventory")
    def test_an_overspend_is_clamped_and_logged(self) -> None:
        self.ann.add("A", 2)
        with capturedLogs() as events:
            page = self.ann.take("A", 5)
        self.assertEqual(page.json["updatedStackedItems"], [{"catalogId": "A", "quantity": 0}])
        self.assertEqual(self.ann.stacks(), {})
        self.assertTrue(any("overspent A by 3" in str(event.get("oddity")) for event in events))

    @proves("POST /inventory")
    def test_an_overspend_is_refused_with_the_switch(self) -> None:
        self.start(INVENTORY_REFUSE_OVERSPEND="1")
        self.ann.add("A", 2)
        page = self.ann.transact(
            transactionId="t-1",
            addStackedItems=[{"catalogId": "B", "quantity": 1}],
            removeStackedItems=[{"catalogId": "A", "quantity": 3}],
        )
        self.assertEqual((page.status, page.body), (409, b""))
        self.assertEqual(self.ann.stacks(), {"A": 2})
        self.assertEqual(self.ann.add("B", 1, transactionId="t-1").status, 200)  # usable again

    def test_a_removal_may_spend_items_added_in_the_same_transaction(self) -> None:
        self.start(INVENTORY_REFUSE_OVERSPEND="1")
        self.ann.add("A", 2)
        page = self.ann.transact(
            addStackedItems=[{"catalogId": "A", "quantity": 3}],
            removeStackedItems=[{"catalogId": "A", "quantity": 4}],
        )
        self.assertEqual(page.json["updatedStackedItems"], [{"catalogId": "A", "quantity": 1}])

    def test_entries_of_one_id_add_up_and_digit_texts_are_numbers(self) -> None:
        page = self.ann.transact(
            addStackedItems=[
                {"catalogId": "A", "quantity": "7"},
                {"catalogId": "A", "quantity": 1},
                {"catalogId": "Z", "quantity": 0},
            ]
        )
        totals = [{"catalogId": "A", "quantity": 8}, {"catalogId": "Z", "quantity": 0}]
        self.assertEqual(page.json["updatedStackedItems"], totals)
        self.assertEqual(self.ann.stacks(), {"A": 8})

    def test_further_keys_of_an_item_come_back(self) -> None:
        self.ann.transact(addStackedItems=[{"catalogId": "A", "quantity": 1, "shine": [1]}])
        self.ann.add("A", 1)
        item = {"catalogId": "A", "quantity": 2, "shine": [1]}
        self.assertEqual(self.ann.inventory()["stackedItems"], [item])

    def test_a_total_no_client_can_hold_is_400(self) -> None:
        self.assertEqual(self.ann.add("A", 2**53 - 1).status, 200)
        self.assertEqual(self.ann.add("A", 1).status, 400)
        self.assertEqual(self.ann.stacks(), {"A": 2**53 - 1})

    @proves("convention 4: unparseable JSON, HTML pages")
    def test_items_that_nest_too_deep_are_400(self) -> None:
        def nested(levels: int) -> bytes:
            deep = "[" * levels + "]" * levels
            item = f'{{"catalogId":"A","quantity":1,"x":{deep}}}'
            return f'{{"characterId":"{self.ann.character}","addStackedItems":[{item}]}}'.encode()

        def send(levels: int) -> int:
            page = self.game.browse(
                "POST", "/inventory", data=nested(levels), token=self.ann.player.token
            )
            return page.status

        self.assertEqual([send(levels) for levels in (100, 250, 300, 1000)], [200, 400, 400, 400])
        self.assertEqual(self.ann.stacks(), {"A": 1})

    @proves("thing: Inventory transaction")
    def test_ten_thousand_entries_are_one_transaction(self) -> None:
        listed = [{"catalogId": f"I_{n % 1500}", "quantity": 1} for n in range(10_000)]
        page = self.ann.transact(addStackedItems=listed, transactionId="many")
        self.assertEqual((page.status, len(page.json["updatedStackedItems"])), (200, 1500))
        self.assertEqual(sum(self.ann.stacks().values()), 10_000)
        self.assertEqual(self.ann.transact(addStackedItems=listed * 3).status, 400)

    @proves("thing: Inventory transaction")
    def test_wrong_shapes_are_400_and_change_nothing(self) -> None:
        self.ann.add("A", 1)
        for quantity in (-1, 1.5, None, True, "x", "-1", "", 2**53, 1e300, [], {}, "9" * 50):
            page = self.ann.transact(
                addStackedItems=[
                    {"catalogId": "B", "quantity": 1},
                    {"catalogId": "A", "quantity": quantity},
                ]
            )
            self.assertEqual((page.status, page.body), (400, b""), quantity)
        for name in ("addStackedItems", "removeStackedItems", "addInstancedItems"):
            for value in ("x", 7, {}, [1], [None], [[]], [{}], [{"catalogId": ""}]):
                self.assertEqual(self.ann.transact(**{name: value}).status, 400, (name, value))
        for catalog_id in (None, 7, "", "a\x00b", "x" * 257):
            item = {"catalogId": catalog_id, "quantity": 1}
            self.assertEqual(self.ann.transact(addStackedItems=[item]).status, 400)
        page = self.game.browse("POST", "/inventory", json=[], token=self.ann.player.token)
        self.assertEqual(page.status, 400)
        self.assertEqual(self.ann.stacks(), {"A": 1})
        self.assertEqual(len(self.log_lines()), 1)


class RepeatTests(Case):
    @proves("POST /inventory")
    def test_a_repeat_gets_the_stored_answer_even_with_other_lists(self) -> None:
        first = self.ann.add("A", 2, transactionId="t-1")
        self.assertEqual(self.ann.add("A", 2, transactionId="t-1").json, first.json)
        again = self.ann.transact(
            transactionId="t-1", addStackedItems=[{"catalogId": "B", "quantity": 9}]
        )
        self.assertEqual((again.status, again.json), (200, first.json))
        self.assertEqual(self.ann.transact(transactionId="t-1").json, first.json)
        self.assertEqual(self.ann.stacks(), {"A": 2})

    def test_ids_of_two_characters_are_independent(self) -> None:
        self.ann.add("A", 1, transactionId="t-1"), self.bob.add("A", 1, transactionId="t-1")
        self.assertEqual((self.ann.stacks(), self.bob.stacks()), ({"A": 1}, {"A": 1}))

    def test_an_empty_or_zero_transaction_id_does_not_deduplicate(self) -> None:
        self.game.described.odd = True
        nothing = ("", "0", "00000000-0000-0000-0000-000000000000", None, 7, [], "---")
        for sent in nothing:
            self.ann.add("A", 1, transactionId=sent)
        self.ann.add("A", 1)
        self.assertEqual(self.ann.stacks(), {"A": len(nothing) + 1})

    def test_long_and_odd_ids_are_distinguished(self) -> None:
        for sent in ("x" * 100, "x" * 101, "a\x00b", "a\x00c"):
            for _ in range(2):
                self.ann.add("A", 1, transactionId=sent)
        self.assertEqual(self.ann.stacks(), {"A": 4})

    def test_five_empty_lists_are_answered_and_not_stored(self) -> None:
        self.assertEqual(self.ann.transact(transactionId="t-1").json, EMPTY)
        self.assertEqual(self.log_lines(), [])
        self.ann.add("A", 1, transactionId="t-1")
        self.assertEqual(self.ann.stacks(), {"A": 1})

    def test_old_answers_are_forgotten_after_ninety_days(self) -> None:
        self.ann.add("A", 1, transactionId="t-1")
        now = self.game.clock.seconds()
        self.assertEqual(self.game.ledger.run(lambda tx: forget_old(tx, now + 89 * 86_400)), 0)
        self.assertEqual(self.game.ledger.run(lambda tx: forget_old(tx, now + 91 * 86_400)), 1)
        self.assertEqual(self.ann.stacks(), {"A": 1})


class InstanceTests(Case):
    @proves("thing: Inventory transaction")
    def test_added_items_are_echoed_and_held_as_sent(self) -> None:
        item = sword(1, '{"a": 1}', extra={"k": [1, None]})
        page = self.ann.transact(addInstancedItems=[item])
        self.assertEqual(page.json, {**EMPTY, "createdInstancedItems": [item]})
        self.assertEqual(self.ann.inventory()["instancedItems"], [item])

    def test_a_held_item_is_replaced_by_a_greater_version_alone(self) -> None:
        self.ann.transact(addInstancedItems=[sword(5)])
        for name in ("saveInstancedItems", "addInstancedItems"):
            for version in (0, 4, 5, None):
                page = self.ann.transact(
                    **{name: [sword(version, "x")]},
                    addStackedItems=[{"catalogId": "A", "quantity": 1}],
                )
                self.assertEqual((page.status, page.body), (409, b""), version)
        self.assertEqual((self.ann.stacks(), self.ann.instances()["i-1"]), ({}, sword(5)))
        page = self.ann.transact(saveInstancedItems=[sword(9, "{}")])
        self.assertEqual((page.status, page.json), (200, EMPTY))
        self.assertEqual(self.ann.instances()["i-1"], sword(9))

    def test_an_item_is_savable_with_any_stored_version(self) -> None:
        self.ann.transact(addInstancedItems=[sword(MAX_WHOLE)])
        for version, status in ((MAX_WHOLE, 409), (MAX_VERSION + 1, 409), (3, 200)):
            page = self.ann.transact(saveInstancedItems=[sword(version, "{}")])
            self.assertEqual(page.status, status, version)
        self.assertEqual(self.ann.instances()["i-1"], sword(3))

    def test_stateless_over_stateless_is_skipped_silently(self) -> None:
        self.ann.transact(addInstancedItems=[sword(0, None, mark=1)])
        self.assertEqual(self.ann.transact(addInstancedItems=[sword(0, None)]).status, 200)
        self.assertEqual(self.ann.instances()["i-1"]["mark"], 1)
        self.assertEqual(self.ann.transact(saveInstancedItems=[sword(1, "{}")]).status, 200)

    def test_a_stateless_item_with_another_version_is_400(self) -> None:
        for name in ("addInstancedItems", "saveInstancedItems"):
            self.assertEqual(self.ann.transact(**{name: [sword(1, None)]}).status, 400)

    def test_bad_items_are_400(self) -> None:
        for bad in (
            sword(-1),
            sword(1.5),
            sword("1"),
            sword(True),
            sword(1, 7),
            sword(1, {}),
            sword(name=""),
            sword(name="a\x00"),
            sword(catalogId=None),
            {"catalogId": "X"},
        ):
            self.assertEqual(self.ann.transact(addInstancedItems=[bad]).status, 400, bad)
        self.assertEqual(self.ann.instances(), {})

    def test_saving_an_unknown_item_adds_it(self) -> None:
        self.ann.transact(saveInstancedItems=[sword(3)])
        self.assertEqual(self.ann.instances(), {"i-1": sword(3)})

    def test_a_removal_takes_missing_equal_and_greater_versions(self) -> None:
        for gone in ({"instanceId": "i-1"}, sword(5), sword(6)):
            self.ann.transact(addInstancedItems=[sword(5)])
            page = self.ann.transact(removeInstancedItems=[gone])
            self.assertEqual(page.json, {**EMPTY, "removedInstancedItems": [gone]})
            self.assertEqual(self.ann.instances(), {})
        self.ann.transact(addInstancedItems=[sword(5)])
        self.assertEqual(self.ann.transact(removeInstancedItems=[sword(4)]).status, 409)
        self.assertEqual(self.ann.instances(), {"i-1": sword(5)})

    def test_removing_a_missing_item_is_ignored_and_logged(self) -> None:
        with capturedLogs() as events:
            page = self.ann.transact(removeInstancedItems=[{"instanceId": "i-9"}])
        self.assertEqual(page.status, 200)
        self.assertTrue(any("i-9" in str(event.get("oddity")) for event in events))

    def test_remove_comes_before_save_and_add(self) -> None:
        self.ann.transact(addInstancedItems=[sword(5)])
        page = self.ann.transact(
            removeInstancedItems=[{"instanceId": "i-1"}], addInstancedItems=[sword(1)]
        )
        self.assertEqual((page.status, self.ann.instances()), (200, {"i-1": sword(1)}))
        page = self.ann.transact(
            saveInstancedItems=[sword(2)], addInstancedItems=[sword(3), sword(4)]
        )
        self.assertEqual((page.status, self.ann.instances()), (200, {"i-1": sword(4)}))
