from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, select, update
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.belongings.characters.store import CHARACTERS
from svcserver.metagame.belongings.inventory.store import ITEM_LOG
from svcserver.metagame.belongings.shop.store import PURCHASE_TOKENS, forget_purchases
from tests.support.belongings import Owner
from tests.support.effort import tried
from tests.support.game import GAME_SERVER_KEY, Game
from tests.support.proves import proves

IRON = "bundle_armour_iron"
CLAW = "single_weapon_kats_claw"
SHEEN = "single_dye_sheen_glossy"
TOKENS = "bundle_currency_bounty_small"


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.start()

    def start(self, **environ: str) -> None:
        self.game = Game(self, **{"STORE": "free", **environ})
        self.ann, self.bob = Owner.of(self.game, "Ann_1"), Owner.of(self.game, "Bob_1")

    def get(self, path: str, owner: Owner | None = None) -> Any:
        return self.game.browse("GET", path, token=(owner or self.ann).player.token)

    def listed(self, tag: str = "webstore") -> list[dict[str, Any]]:
        page = self.get(f"/product/skus/public?requiredTags={tag}")
        self.assertEqual(page.status, 200)
        offers: list[dict[str, Any]] = page.json
        return offers

    def token(self, sku: str = CLAW, owner: Owner | None = None) -> str:
        page = self.get(f"/token/platinum/{sku}", owner)
        self.assertEqual(page.status, 200, page.body)
        token: str = page.json["purchaseToken"]
        return token

    def redeem(self, token: str, owner: Owner | None = None, currency: str = "platinum") -> Any:
        return self.game.browse(
            "POST",
            f"/notification/{currency}?token={token}",
            token=(owner or self.ann).player.token,
        )

    def refused(self, page: Any, status: int) -> None:
        self.assertEqual(page.status, status)
        self.assertEqual((page.json["code"], list(page.json)), (str(status), ["code", "message"]))


class ClosedTests(Case):
    @proves("STORE=off", "STORE")
    def test_a_closed_store_is_400_and_has_no_purchase_routes(self) -> None:
        for mode in ("off", "", "cheap"):
            self.start(STORE=mode)
            self.refused(self.get("/product/skus/public?requiredTags=webstore"), 400)
            page = self.game.browse("GET", "/product/skus/public")
            self.assertEqual((page.status, page.body), (401, b""))
            for method, path in (
                ("GET", f"/product/sku/{IRON}"),
                ("GET", f"/token/platinum/{IRON}"),
                ("POST", "/notification/platinum?token=x"),
            ):
                page = self.game.browse(method, path)
                self.assertEqual((page.status, page.body), (404, b""))

    @proves("STORE")
    def test_the_switch_ignores_letter_case(self) -> None:
        self.start(STORE="FREE")
        self.assertEqual(self.get(f"/product/sku/{IRON}").status, 200)


class ListingTests(Case):
    @proves("GET /product/sku/:skuId", "GET /product/skus/public", "STORE_REPEATABLE_TOKENS")
    def test_the_store_lists_199_offers_and_one_more_with_its_switch(self) -> None:
        self.assertEqual(len(self.listed()), 199)
        self.refused(self.get(f"/product/sku/{TOKENS}"), 404)
        self.refused(self.get(f"/token/platinum/{TOKENS}"), 404)
        self.start(STORE_REPEATABLE_TOKENS="1")
        self.assertEqual(len(self.listed()), 200)
        self.assertEqual(self.get(f"/product/sku/{TOKENS}").json["displayName"], "20 Bounty Tokens")

    @proves("GET /product/sku/:skuId")
    def test_an_offer_has_its_22_fields(self) -> None:
        page = self.get(f"/product/sku/{CLAW}")
        self.assertEqual(
            page.json,
            {
                "id": CLAW,
                "displayName": "Kats Claw",
                "displayDescription": "Free.",
                "displayPriority": 1989,
                "tags": ["webstore", "skin_weapon_eb"],
                "platinumPrice": 0,
                "platinumSalePrice": None,
                "cellDustPrice": None,
                "prestigePrice": None,
                "event01Price": None,
                "steelMarksPrice": None,
                "gildedMarksPrice": None,
                "items": [{"catalogId": "WP_EB_KATSCLAW", "quantity": 1}],
                "entitlements": [],
                "maxAllowed": 1,
                "remaining": 1,
                "loadoutSlots": None,
                "availableFrom": None,
                "availableTo": None,
                "timeAvailabilityReason": None,
                "platformOfferId": None,
                "missingEntitlementNames": None,
            },
        )

    @proves("GET /product/skus/public")
    def test_a_tag_lists_its_offers_and_only_unknown_tags_are_logged(self) -> None:
        [elite] = self.listed("season09b_pass")
        self.assertEqual((elite["id"], elite["items"]), ("season09b_premium", None))
        self.assertEqual(elite["entitlements"], [{"name": "season09b_premium", "duration": 0}])
        with capturedLogs() as events:
            for tag in ("season09b_rank", "loadout_slots", "fountain_daily_free_bundle"):
                self.assertEqual(self.listed(tag), [])
        self.assertFalse([event for event in events if "tag" in event])
        with capturedLogs() as events:
            self.assertEqual(self.listed("nonsense"), [])
        self.assertEqual([event["tag"] for event in events if "tag" in event], ["nonsense"])

    @proves("GET /product/skus/public")
    def test_a_missing_empty_or_repeated_tag_is_400(self) -> None:
        for query in ("", "?requiredTags=", "?requiredTags=a&requiredTags=b", "?other=1"):
            page = self.get(f"/product/skus/public{query}")
            self.refused(page, 400)
            self.assertEqual(page.json["message"], "missing requiredTags query parameter")

    def test_no_tab_of_the_store_screen_is_empty(self) -> None:
        self.start(STORE_REPEATABLE_TOKENS="1")
        tags = {tag for offer in self.listed() for tag in offer["tags"]}
        weapons = {f"skin_weapon_{kind}" for kind in ("ac", "eb", "dp", "ih", "ga", "ms", "cb")}
        personal = {"stylekit", "character", "flaresigil", "fabric", "standard"}
        others = {"feature", "your_offers", "supplies_boost", "supplies_supplies", "dye_tint"}
        others |= {"skin_armour", "skin_lantern", "social_arrival", "social_emote", "dye_armour"}
        self.assertEqual(
            tags, weapons | {f"personality_{name}" for name in personal} | others | {"webstore"}
        )

    @proves("GET /product/skus/public")
    def test_remaining_falls_when_every_item_is_held(self) -> None:
        items = [entry["catalogId"] for entry in self.get(f"/product/sku/{IRON}").json["items"]]
        for item in items[:-1]:
            self.ann.add(item, 1)
        self.assertEqual(self.get(f"/product/sku/{IRON}").json["remaining"], 1)
        self.ann.add(items[-1], 1)
        self.assertEqual(self.get(f"/product/sku/{IRON}").json["remaining"], 0)
        shown = {offer["id"]: offer["remaining"] for offer in self.listed()}
        self.assertEqual([sku for sku, left in shown.items() if not left], [IRON])
        self.refused(self.get(f"/token/platinum/{IRON}"), 409)

    def test_the_pass_is_owned_through_the_default_entitlements(self) -> None:
        self.assertEqual(self.listed("season09b_pass")[0]["remaining"], 0)
        self.refused(self.get("/token/platinum/season09b_premium"), 409)
        self.start(ENTITLEMENTS_DEFAULT="")
        self.assertEqual(self.listed("season09b_pass")[0]["remaining"], 1)

    @proves("GET /product/skus/public")
    def test_shop_routes_require_the_players_token(self) -> None:
        for method, path in (
            ("GET", "/product/skus/public?requiredTags=webstore"),
            ("GET", f"/product/sku/{IRON}"),
            ("GET", f"/token/platinum/{IRON}"),
            ("POST", "/notification/platinum?token=x"),
        ):
            self.assertEqual(self.game.browse(method, path).status, 401)
            page = self.game.browse(method, path, game_server=GAME_SERVER_KEY)
            self.assertEqual((page.status, page.body), (403, b""))


class PurchaseTests(Case):
    @proves(
        "purchase token issued: redeemed",
        "purchase token redeemed: again",
        "POST /notification/:currency",
    )
    def test_a_purchase_grants_its_items_once(self) -> None:
        token = self.token(IRON)
        self.assertRegex(token, "^[a-f0-9]{64}$")
        for _ in range(3):
            page = self.redeem(token)
            self.assertEqual((page.status, page.body), (204, b""))
        held = {"AR_IRON_HELM": 1, "AR_IRON_CHEST": 1, "AR_IRON_ARMS": 1, "AR_IRON_LEGS": 1}
        self.assertEqual(self.ann.stacks(), held)
        columns = (ITEM_LOG.c.caller, ITEM_LOG.c.source)
        rows = self.game.ledger.run(lambda tx: tx.execute(select(*columns)).all())
        self.assertEqual([tuple(row) for row in rows], [("store", f"store:{IRON}")])

    @proves("thing: Store purchase token")
    def test_only_the_hash_of_a_token_is_kept(self) -> None:
        token = self.token()
        rows = self.game.ledger.run(lambda tx: tx.execute(select(PURCHASE_TOKENS)).all())
        self.assertNotIn(token, str(rows))
        self.assertEqual(rows[0].character_id, self.ann.character)

    def test_single_items_are_granted_stateless(self) -> None:
        self.redeem(self.token(CLAW))
        [item] = self.ann.instances().values()
        self.assertEqual((item["catalogId"], item["updateVersion"]), ("WP_EB_KATSCLAW", 0))
        self.assertRegex(item["instanceId"], "^[a-f0-9]{32}$")

    @proves("POST /notification/:currency")
    def test_held_items_are_skipped(self) -> None:
        self.ann.add("AR_IRON_HELM", 1)
        self.redeem(self.token(IRON))
        self.assertEqual(set(self.ann.stacks().values()), {1})

    @proves("POST /notification/:currency")
    def test_entitlements_are_granted_for_ever(self) -> None:
        self.redeem(self.token(SHEEN))
        self.assertEqual(self.get(f"/product/sku/{SHEEN}").json["remaining"], 0)
        self.game.clock.advance(10**8)
        token = self.game.parts.tokens.sign(self.ann.player.id)
        page = self.game.browse("GET", f"/product/sku/{SHEEN}", token=token)
        self.assertEqual(page.json["remaining"], 0)

    def test_a_second_token_for_a_purchased_offer_grants_nothing(self) -> None:
        first, second = self.token(), self.token()
        self.assertEqual((self.redeem(first).status, self.redeem(second).status), (204, 204))
        self.assertEqual(len(self.ann.instances()), 1)

    @proves("STORE_REPEATABLE_TOKENS")
    def test_the_repeatable_bundle_is_granted_each_time(self) -> None:
        self.start(STORE_REPEATABLE_TOKENS="1")
        for _ in range(3):
            self.redeem(self.token(TOKENS))
        self.assertEqual(self.ann.stacks(), {"TOKEN_BOUNTY_DRAFT_PREMIUM": 60})

    @proves(
        "purchase token none: GET /token/platinum/:skuId",
        "GET /token/:currency/:skuId",
        "Store refusals",
    )
    def test_a_token_is_refused_for_currency_offer_then_character(self) -> None:
        for currency in ("PLATINUM", "notes", "Platinum"):
            self.refused(self.get(f"/token/{currency}/nothing"), 400)
        self.refused(self.get("/token/platinum/nothing"), 404)
        nobody = Owner(self.game, self.game.player("Cid_1"), "")
        self.refused(self.get(f"/token/platinum/{IRON}", nobody), 409)
        self.assertEqual(self.get(f"/product/sku/{IRON}", nobody).json["remaining"], 1)

    @proves(
        "purchase token none: GET /token/platinum/:skuId",
        "GET /token/:currency/:skuId",
        "limit: Purchase token",
    )
    def test_sixty_tokens_in_ten_minutes_are_the_limit(self) -> None:
        for _ in range(60):
            token = self.token()
        self.refused(self.get(f"/token/platinum/{CLAW}"), 409)
        self.assertEqual(self.redeem(token).status, 204)
        # whatever happened to the purchased items
        self.refused(self.get(f"/token/platinum/{IRON}"), 409)
        self.assertEqual(self.get(f"/token/platinum/{CLAW}", self.bob).status, 200)
        self.game.clock.advance(600)
        self.token(IRON)

    @proves("POST /notification/:currency", "Store refusals")
    def test_a_bad_or_foreign_purchase_token_is_refused(self) -> None:
        token = self.token()
        self.refused(self.redeem(token, currency="notes"), 400)
        for bad in ("", "x", token.upper(), token + "0", token[1:], "%00" * 64):
            self.refused(self.redeem(bad), 400)
        self.refused(self.redeem(f"{token}&token={token}"), 400)
        self.refused(self.redeem(token, self.bob), 403)
        self.refused(self.redeem("0" * 64), 403)
        self.assertEqual(self.ann.instances(), {})

    @proves(
        "purchase token issued: expired",
        "purchase token redeemed: again",
        "POST /notification/:currency",
        "limit: Purchase token",
    )
    def test_ten_minutes_are_the_life_of_a_token(self) -> None:
        first, second = self.token(), self.token(IRON)
        self.game.clock.advance(600)
        self.assertEqual(self.redeem(first).status, 204)
        self.game.clock.advance(0.001)
        self.refused(self.redeem(second), 410)
        self.assertEqual(self.redeem(first).status, 204)  # a redeemed token stays redeemed

    @proves("POST /notification/:currency")
    def test_a_character_that_is_no_longer_the_accounts_is_403(self) -> None:
        token = self.token()
        move = update(CHARACTERS).where(CHARACTERS.c.id == self.ann.character)
        self.game.ledger.run(lambda tx: tx.execute(move.values(account_id=self.bob.player.id)))
        self.refused(self.redeem(token), 403)
        gone = delete(CHARACTERS).where(CHARACTERS.c.id == self.ann.character)
        self.game.ledger.run(lambda tx: tx.execute(gone))
        self.refused(self.redeem(token), 403)

    @proves("POST /notification/:currency")
    def test_a_changed_offer_is_409_and_grants_nothing(self) -> None:
        token = self.token()
        change = update(PURCHASE_TOKENS).values(offer_hash="0" * 64)
        self.game.ledger.run(lambda tx: tx.execute(change))
        self.refused(self.redeem(token), 409)
        change = update(PURCHASE_TOKENS).values(sku=TOKENS)
        self.game.ledger.run(lambda tx: tx.execute(change))
        self.refused(self.redeem(token), 409)
        self.assertEqual(self.ann.instances(), {})

    def test_a_refusal_of_the_inventory_core_is_409(self) -> None:
        self.start(STORE_REPEATABLE_TOKENS="1")
        self.ann.add("TOKEN_BOUNTY_DRAFT_PREMIUM", 2**53 - 1)
        token = self.token(TOKENS)
        self.refused(self.redeem(token), 409)
        self.ann.take("TOKEN_BOUNTY_DRAFT_PREMIUM", 100)
        self.assertEqual(self.redeem(token).status, 204)

    def test_expired_tokens_and_old_receipts_are_forgotten(self) -> None:
        token, _ = self.token(), self.token(IRON)
        self.redeem(token)
        now = self.game.clock.seconds()
        self.assertEqual(self.game.ledger.run(lambda tx: forget_purchases(tx, now + 601)), 1)
        late = now + 30 * 86_400 + 1
        self.assertEqual(self.game.ledger.run(lambda tx: forget_purchases(tx, late)), 1)

    def test_asking_again_forgets_the_accounts_own_expired_tokens(self) -> None:
        self.token()
        self.game.clock.advance(601)
        self.token()
        rows = self.game.ledger.run(lambda tx: tx.execute(select(PURCHASE_TOKENS)).all())
        self.assertEqual(len(rows), 1)

    @proves("purchase token issued: redeemed")
    @tried(25)
    @given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 200, 601])), max_size=10))
    def test_a_token_grants_exactly_once_in_any_order_of_steps(self, steps: Any) -> None:
        self.game.ledger.free()  # of the example before
        self.start(STORE_REPEATABLE_TOKENS="1")
        tokens, done = [], set()
        for action, wait in steps:
            self.game.clock.advance(wait)
            if action == 0 or not tokens:
                tokens.append(self.token(TOKENS))
                continue
            token = tokens[action % len(tokens)]
            if self.redeem(token, self.bob if action == 3 else None).status == 204:
                done.add(token)
        held = self.ann.stacks().get("TOKEN_BOUNTY_DRAFT_PREMIUM", 0)
        self.assertEqual(held, 20 * len(done))
        self.assertEqual(self.bob.stacks(), {})
