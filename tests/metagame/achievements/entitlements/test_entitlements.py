"""The entitlement routes. Spec: 1 §4 GET /entitlementsv2 and its writes."""

from svcserver.metagame.achievements.entitlements.feature import SqlEntitlements
from tests.metagame.achievements.progression.base import Achieving
from tests.support.proves import proves

DEFAULTS = ["season09b_premium", "season_free_any", "season_premium_any"]
HOUR = 3600


class EntitlementTests(Achieving):
    def names(self) -> list[str]:
        return [
            entitlement["name"]
            for entitlement in self.asks("GET", "/entitlementsv2").json["entitlements"]
        ]

    def give(self, name: str, *hours: object):
        body = {"entitlement": name} | ({"duration": hours[0]} if hours else {})
        return self.server("POST", f"/entitlementv2/{self.ann.id}", json=body)

    @proves("GET /entitlementsv2")
    def test_defaults_are_there_at_first_use_with_a_date_that_stays(self) -> None:
        self.assertEqual(self.names(), DEFAULTS)
        before = self.asks("GET", "/entitlementsv2").body
        self.game.clock.advance(HOUR)
        self.assertEqual(self.asks("GET", "/entitlementsv2").body, before)

    def test_a_token_without_account_sees_defaults_and_stores_nothing(self) -> None:
        token = self.game.parts.tokens.sign("UID-gone")
        page = self.game.browse("GET", "/entitlementsv2", token=token)
        self.assertEqual(
            [entitlement["name"] for entitlement in page.json["entitlements"]], DEFAULTS
        )
        stored = self.game.ledger.run(lambda tx: SqlEntitlements(tx).all("UID-gone"))
        self.assertEqual(stored, {})

    @proves("GET /entitlementsv2")
    def test_a_game_server_without_a_token_gets_the_empty_list(self) -> None:
        self.assertEqual(self.server("GET", "/entitlementsv2").json["payload"], [])
        page = self.server("GET", "/entitlementsv2", token=self.ann.token)
        self.assertEqual(len(page.json["entitlements"]), 3)
        self.assertEqual(self.game.browse("GET", "/entitlementsv2").status, 401)

    @proves("POST /entitlementv2/:userId")
    def test_a_timed_grant_ends_and_hours_add_up_while_it_runs(self) -> None:
        self.check_marks("POST", f"/entitlementv2/{self.ann.id}", json={})
        listed = self.give("X", 1).json["entitlements"]
        self.assertEqual(len(listed), 4)
        self.give("X", 1)
        self.game.clock.advance(2 * HOUR - 1)
        self.assertIn("X", self.names())
        self.game.clock.advance(1)
        self.assertNotIn("X", self.names())
        self.give("X")
        self.give("X", 1)
        self.game.clock.advance(9 * HOUR)
        self.assertIn("X", self.names())

    @proves("DELETE /entitlement/:userId/:entitlement")
    def test_a_revoked_default_stays_revoked_until_granted(self) -> None:
        path = f"/entitlement/{self.ann.id}/season09b_premium"
        self.check_marks("DELETE", path)
        page = self.server("DELETE", path)
        self.assertEqual((page.status, page.json), (200, {}))
        self.assertNotIn("season09b_premium", self.names())
        self.give("season09b_premium")
        self.assertIn("season09b_premium", self.names())
        self.assertEqual(self.server("DELETE", f"/entitlement/{self.ann.id}/never").json, {})

    @proves("POST /entitlementv2/:userId")
    def test_bad_grants_change_nothing(self) -> None:
        bad = [{}, [], {"entitlement": 5}, {"entitlement": ""}, {"entitlement": "a" * 129}]
        bad += [{"entitlement": "X", "duration": duration} for duration in (-1, "1", True, 1e300)]
        for body in bad:
            page = self.server("POST", f"/entitlementv2/{self.ann.id}", json=body)
            self.assertEqual((page.status, page.body), (400, b""), body)
        page = self.server("POST", "/entitlementv2/UID-no", json={"entitlement": "X"})
        self.assertEqual(page.status, 404)
        self.assertEqual(self.names(), DEFAULTS)

    def test_another_feature_grants_in_its_own_transaction(self) -> None:
        now = self.game.clock.seconds()

        def work(tx):
            SqlEntitlements(tx).grant(self.ann.id, "Y", 0, "store:sku", now)
            return SqlEntitlements(tx, ("D",)).active(self.ann.id, now)

        self.assertEqual(self.game.ledger.run(work), {"Y", "D"})


class NoDefaultsTests(Achieving):
    environ = {"ENTITLEMENTS_DEFAULT": ""}  # noqa: RUF012

    @proves("GET /entitlementsv2")
    def test_an_empty_setting_means_none(self) -> None:
        self.assertEqual(self.asks("GET", "/entitlementsv2").json, {"entitlements": []})


class StubTests(Achieving):
    environ = {"PROGRESSION_MODE": "stub"}  # noqa: RUF012

    @proves("GET /entitlementsv2", "POST /entitlementv2/:userId")
    def test_entitlement_stubs_reply_with_an_empty_list(self) -> None:
        empty = {"code": None, "message": "OK", "payload": []}
        self.assertEqual(self.asks("GET", "/entitlementsv2").json, empty)
        page = self.asks("POST", f"/entitlementv2/{self.ann.id}", json={"entitlement": "X"})
        self.assertEqual(page.json, empty)
