"""The management routes of progression. Spec: 2 §4 Management API."""

from typing import Any

from tests.metagame.achievements.progression.base import Achieving
from tests.support.proves import proves

SEASON = "season09b"


class ManagementTests(Achieving):
    def setUp(self) -> None:
        super().setUp()
        self.owner = self.game.player("Owner", admin=True)

    def api(self, method: str, route: str, **sent: Any):
        return self.game.browse(method, f"/svc/api/{route}", key=self.owner.key, **sent)

    @proves(
        "GET /svc/api/Progression",
        "POST /svc/api/GrantEntitlement",
        "POST /svc/api/RevokeEntitlement",
        "POST /svc/api/SeedProgression",
    )
    def test_management_routes_require_an_admin_without_a_proxy(self) -> None:
        for method, route in (
            ("GET", "Progression?UserId=x"),
            ("POST", "SeedProgression"),
            ("POST", "GrantEntitlement"),
            ("POST", "RevokeEntitlement"),
        ):
            path = f"/svc/api/{route}"
            self.assertEqual(self.game.browse(method, path).status, 401)
            self.assertEqual(self.game.browse(method, path, key=self.ann.key).status, 403)
            proxied = self.game.browse(method, path, key=self.owner.key, headers={"Via": "1.1 x"})
            self.assertEqual((proxied.status, proxied.body), (403, b""))

    @proves("GET /svc/api/Progression")
    def test_the_report_shows_earned_ranks_and_writes_nothing(self) -> None:
        self.server("POST", f"/progression/{self.ann.id}/{SEASON}/250")
        self.server("POST", f"/progression/{self.ann.id}/Unknown/5")
        page = self.api("GET", f"Progression?UserId={self.ann.id}").json
        self.assertEqual((page["RealMode"], page["HuntPass"]), (True, SEASON))
        first, last = page["Tracks"][0], page["Tracks"][-1]
        self.assertEqual((first["earned_free_rank"], first["earned_premium_rank"]), (2, 2))
        self.assertEqual(page["Tracks"][1]["earned_premium_rank"], 0)
        self.assertIsNone(last["earned_free_rank"])
        self.assertEqual(len(page["Entitlements"]), 3)
        for route, status in (("Progression", 400), ("Progression?UserId=UID-no", 404)):
            refused = self.api("GET", route)
            self.assertEqual((refused.status, refused.body), (status, b""))

    @proves("POST /svc/api/SeedProgression")
    def test_grandfather_completes_all_tracks_and_fresh_resets_them(self) -> None:
        body = {"UserId": self.ann.id, "Mode": "grandfather"}
        page = self.api("POST", "SeedProgression", json=body).json
        season = page["Tracks"][0]
        self.assertEqual(list(page), ["UserId", "Mode", "RealMode", "Tracks"])
        self.assertEqual((season["progress"], season["confirmed_fremium_rank"]), (5000, 50))
        self.assertEqual(page["Tracks"][1]["confirmed_premium_rank"], 50)
        sent = {"objectives": [{"objective_id": "O", "value": 1}]}
        self.server("POST", f"/progression/{self.ann.id}", json=sent)
        page = self.api("POST", "SeedProgression", json=body | {"Mode": "fresh"}).json
        self.assertEqual({track["progress"] for track in page["Tracks"]}, {0})
        objectives = self.asks("GET", f"/progression/objectives/{self.ann.id}").json
        self.assertEqual(objectives["payload"], [])

    @proves(
        "POST /svc/api/SeedProgression",
        "other management routes, and credentials on all: a bare status",
    )
    def test_a_seed_refuses_other_modes_and_unknown_accounts(self) -> None:
        for body, status in (
            ({"UserId": self.ann.id, "Mode": "max"}, 400),
            ({"UserId": self.ann.id}, 400),
            ({"Mode": "fresh"}, 400),
            ([], 400),
            ({"UserId": "UID-no", "Mode": "fresh"}, 404),
        ):
            page = self.api("POST", "SeedProgression", json=body)
            self.assertEqual((page.status, page.body), (status, b""))

    @proves("POST /svc/api/GrantEntitlement", "POST /svc/api/RevokeEntitlement")
    def test_a_granted_entitlement_can_be_revoked_once(self) -> None:
        body = {"UserId": self.ann.id, "Entitlement": "X"}
        page = self.api("POST", "GrantEntitlement", json=body | {"Duration": 2}).json
        self.assertEqual(list(page), ["UserId", "Entitlements"])
        self.assertEqual(page["Entitlements"][0]["duration"], 2)
        page = self.api("POST", "RevokeEntitlement", json=body).json
        self.assertEqual((page["Revoked"], len(page["Entitlements"])), (True, 3))
        page = self.api("POST", "RevokeEntitlement", json=body).json
        self.assertFalse(page["Revoked"])
        page = self.api(
            "POST", "RevokeEntitlement", json=body | {"Entitlement": "season09b_premium"}
        ).json
        self.assertEqual((page["Revoked"], len(page["Entitlements"])), (True, 2))

    @proves(
        "POST /svc/api/GrantEntitlement",
        "POST /svc/api/RevokeEntitlement",
        "other management routes, and credentials on all: a bare status",
    )
    def test_incomplete_grants_are_400_and_unknown_accounts_404(self) -> None:
        for route in ("GrantEntitlement", "RevokeEntitlement"):
            for body, status in (
                ({"UserId": self.ann.id}, 400),
                ({"Entitlement": "X"}, 400),
                ({"UserId": "UID-no", "Entitlement": "X"}, 404),
            ):
                page = self.api("POST", route, json=body)
                self.assertEqual((page.status, page.body), (status, b""))
        body = {"UserId": self.ann.id, "Entitlement": "X", "Duration": -1}
        self.assertEqual(self.api("POST", "GrantEntitlement", json=body).status, 400)

    @proves("event 3: progression event log")
    def test_every_management_write_is_logged_as_an_event(self) -> None:
        body = {"UserId": self.ann.id, "Entitlement": "X", "Mode": "fresh"}
        for route in ("SeedProgression", "GrantEntitlement", "RevokeEntitlement"):
            self.api("POST", route, json=body)
        self.api("POST", "SeedProgression", json=body | {"Mode": "no"})
        events = [(account, status) for account, status, _ in self.events()]
        self.assertEqual(events, [(self.ann.id, status) for status in (200, 200, 200, 400)])
