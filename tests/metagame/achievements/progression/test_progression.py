"""Each progression route. Spec: 1 §4 Progression."""

from twisted.logger import capturedLogs

from svcserver.metagame.achievements.progression import config
from tests.metagame.achievements.progression.base import Achieving
from tests.support.proves import proves

SEASON, LEVEL = "season09b", "MasteryTrack_PlayerLevel"


class ReadTests(Achieving):
    @proves("GET /progression/config")
    def test_the_configuration_has_ten_tracks_in_order(self) -> None:
        page = self.asks("GET", "/progression/config").json
        ids = [path["progression_id"] for path in page["payload"]["paths"]]
        self.assertEqual((page["code"], len(ids), ids[:2]), (None, 10, [SEASON, LEVEL]))
        season = page["payload"]["paths"][0]
        self.assertEqual(season["requirements"][1], {"rank_id": 1, "xp_required": 100})
        self.assertEqual(len(season["free_rewards"]), 50)
        self.assertEqual(season["prestige"]["xp_per_level"], 100)
        self.assertEqual(self.game.browse("GET", "/progression/config").status, 401)

    @proves("GET /progression/:userId")
    def test_every_track_is_there_before_it_was_ever_written(self) -> None:
        path = f"/progression/{self.ann.id}"
        self.check_marks("GET", path, own=True)
        page = self.asks("GET", path).json
        self.assertEqual((page["code"], len(page["payload"])), (200, 10))
        zero = {
            "phx_account_id": self.ann.id,
            "progression_id": SEASON,
            "progress": 0,
            "confirmed_fremium_rank": 0,
            "confirmed_premium_rank": 0,
            "confirmed_date": "1970-01-01T00:00:00.000Z",
        }
        self.assertEqual(page["payload"][0], zero)
        self.assertEqual(self.server("GET", "/progression/UID-nobody").status, 200)

    @proves("GET /progression/:userId/:progressionId")
    def test_one_track_is_404_until_stored(self) -> None:
        path = f"/progression/{self.ann.id}/{SEASON}"
        self.check_marks("GET", path, own=True)
        self.assertEqual(self.asks("GET", path).status, 404)
        self.server("POST", f"{path}/10")
        page = self.asks("GET", path).json
        self.assertEqual((page["code"], page["payload"]["progress"]), ("OK", 10))

    @proves(
        "GET /progression/objectives/:userId", "GET /progression/objectives/:userId/:objectiveId"
    )
    def test_objectives_are_an_array_and_an_unknown_objective_is_zeros(self) -> None:
        path = f"/progression/objectives/{self.ann.id}"
        self.check_marks("GET", path, own=True)
        self.check_marks("GET", f"{path}/x", own=True)
        self.assertEqual(self.asks("GET", path).json["payload"], [])
        unknown = self.asks("GET", f"{path}/x").json["payload"]
        self.assertEqual((unknown["progress"], unknown["completed_count"]), (0, 0))
        self.assertEqual(self.asks("GET", path).json["payload"], [])


class GrantTests(Achieving):
    def grant(self, *tracks: tuple[object, object], **more: object):
        body = {"progress_tracks": [{"progression_id": a, "progress": b} for a, b in tracks]}
        return self.server("POST", f"/progression/{self.ann.id}", json=body | more)

    def progress(self, track: str = SEASON) -> int:
        tracks = self.asks("GET", f"/progression/{self.ann.id}").json["payload"]
        return next(record["progress"] for record in tracks if record["progression_id"] == track)

    @proves("POST /progression/:userId")
    def test_only_a_game_server_grants(self) -> None:
        self.check_marks("POST", f"/progression/{self.ann.id}", json={})

    @proves("POST /progression/:userId")
    def test_increments_add_up_and_each_track_is_answered_once(self) -> None:
        page = self.grant((SEASON, 100), (SEASON, "50"), (LEVEL, 1.9), (SEASON, -500)).json
        self.assertEqual(page["code"], "OK")
        got = [
            (record["progression_id"], record["progress"])
            for record in page["payload"]["progress_tracks"]
        ]
        self.assertEqual(got, [(SEASON, 150), (LEVEL, 1)])
        self.assertEqual(page["payload"]["objectives"], [])

    @proves("POST /progression/:userId", "limit: Progression grant cap per request per track")
    def test_the_cap_cuts_the_addition_of_one_request(self) -> None:
        self.grant((SEASON, 4000), (SEASON, 4000))
        self.assertEqual(self.progress(), 5000)
        self.assertIn("cut to 5000", self.events()[-1][2])

    @proves("POST /progression/:userId")
    def test_malformed_entries_are_skipped_and_unknown_tracks_stored(self) -> None:
        self.game.described.odd = True
        page = self.grant((None, 1), ("", 2), ("x", True), ("x", None), ("Unknown_Track", 3))
        self.assertEqual(len(page.json["payload"]["progress_tracks"]), 1)
        self.assertEqual(self.progress("Unknown_Track"), 3)

    @proves("POST /progression/:userId", "event 3: progression event log")
    def test_an_empty_grant_is_fine_and_a_wrong_shape_400(self) -> None:
        empty = self.server("POST", f"/progression/{self.ann.id}", json={}).json
        self.assertEqual(empty["payload"], {"progress_tracks": [], "objectives": []})
        for body in ([], {"progress_tracks": {}}, {"objectives": "x"}):
            page = self.server("POST", f"/progression/{self.ann.id}", json=body)
            self.assertEqual((page.status, page.body), (400, b""))
        self.assertEqual(self.server("POST", "/progression/UID-nobody", json={}).status, 404)
        self.assertEqual([event[1] for event in self.events()], [200, 400, 400, 400, 404])

    @proves("POST /progression/:userId", "limit: Retry guard window", "PROGRESSION_REPLAY_WINDOW_S")
    def test_a_retry_gets_the_stored_reply_and_adds_nothing(self) -> None:
        first = self.grant((SEASON, 100))
        self.assertEqual(self.grant((SEASON, 100)).body, first.body)
        self.game.clock.advance(4.9)
        self.assertEqual(self.grant((SEASON, 100)).body, first.body)
        self.assertEqual((self.progress(), len(self.events())), (100, 3))
        self.game.clock.advance(0.1)
        self.grant((SEASON, 100))
        self.assertEqual(self.progress(), 200)

    @proves("POST /progression/:userId")
    def test_a_cut_or_lowered_value_is_logged_once_if_the_ledger_retries(self) -> None:
        self.grant(objectives=[{"objective_id": "O", "value": 5}])
        self.run_twice()
        with capturedLogs() as events:
            self.grant((SEASON, 5001), objectives=[{"objective_id": "O", "value": 3}])
            self.grant((SEASON, 5001), objectives=[{"objective_id": "O", "value": 3}])  # a retry
            self.server("POST", f"/progression/{self.ann.id}/{LEVEL}/5001")
        notes = [event["note"] for event in events if event.get("account") == self.ann.id]
        cut, lowered = f"{SEASON}: 5001 cut to 5000", "O: lowered from 5 to 3"
        self.assertEqual(notes, [cut, lowered, f"{LEVEL}: 5001 cut to 5000"])

    def test_a_clock_that_is_set_back_costs_no_grant(self) -> None:
        self.grant((SEASON, 100))
        self.game.clock.rightNow -= 3600
        self.grant((SEASON, 100))
        self.assertEqual(self.progress(), 200)

    @proves("POST /progression/:userId")
    def test_any_other_track_write_ends_the_retry_guard(self) -> None:
        self.grant((SEASON, 100))
        self.server("POST", f"/progression/{self.ann.id}/{LEVEL}/1")
        self.grant((SEASON, 100))
        self.grant((SEASON, 7))
        self.grant((SEASON, 100))
        self.server("POST", f"/progression/{self.ann.id}/{SEASON}/1/confirm/public")
        self.grant((SEASON, 100))
        self.assertEqual(self.progress(), 407)

    @proves("POST /progression/:userId")
    def test_objectives_are_absolute_and_a_lower_value_is_stored_as_sent(self) -> None:
        self.grant(objectives=[{"objective_id": "O", "value": 5, "completed_count": 1}])
        page = self.grant(objectives=[{"objective_id": "O", "value": 3}])
        objective = page.json["payload"]["objectives"][0]
        self.assertEqual((objective["progress"], objective["completed_count"]), (3, 1))
        self.assertIn("lowered", self.events()[-1][2])
        stored = self.asks("GET", f"/progression/objectives/{self.ann.id}").json["payload"]
        self.assertEqual([entry["objective_id"] for entry in stored], ["O"])

    @proves("POST /progression/:userId")
    def test_a_relayed_token_of_another_is_kept_for_the_urls_account(self) -> None:
        body = {"progress_tracks": [{"progression_id": SEASON, "progress": 5}]}
        self.server("POST", f"/progression/{self.ann.id}", json=body, token=self.ben.token)
        self.assertEqual(self.progress(), 5)

    @proves("POST /progression/:userId/:progressionId/:amount")
    def test_a_path_grant_adds_only_positive_amounts_to_a_track(self) -> None:
        path = f"/progression/{self.ann.id}/{SEASON}"
        self.check_marks("POST", f"{path}/5")
        for amount, total in (("5", 5), ("-3", 5), ("9999", 5005)):
            page = self.server("POST", f"{path}/{amount}").json
            self.assertEqual((page["code"], page["payload"]["progress"]), ("OK", total))
        for amount in ("x", "1.5", "99999999999", "4294967296"):
            self.assertEqual(self.server("POST", f"{path}/{amount}").status, 400)
        self.assertEqual(self.server("POST", f"/progression/UID-no/{SEASON}/5").status, 404)


class ConfirmTests(Achieving):
    def setUp(self) -> None:
        super().setUp()
        self.path = f"/progression/{self.ann.id}/{SEASON}"
        self.server("POST", f"{self.path}/1000")

    def confirm(self, rank: object, kind: str, track: str = SEASON):
        return self.server("POST", f"/progression/{self.ann.id}/{track}/{rank}/confirm/{kind}")

    @proves("POST /progression/:userId/:progressionId/:rank/confirm/:kind")
    def test_only_a_game_server_confirms(self) -> None:
        self.check_marks("POST", f"{self.path}/1/confirm/public")

    @proves("POST /progression/:userId/:progressionId/:rank/confirm/:kind")
    def test_a_rank_rises_to_the_earned_rank_and_never_falls(self) -> None:
        for rank, confirmed in ((3, 3), (99, 10), (2, 10)):
            payload = self.confirm(rank, "public").json["payload"]
            self.assertEqual(payload["confirmed_fremium_rank"], confirmed)
        self.assertNotEqual(payload["confirmed_date"], "1970-01-01T00:00:00.000Z")
        self.assertEqual(payload["confirmed_premium_rank"], 0)

    @proves("POST /progression/:userId/:progressionId/:rank/confirm/:kind")
    def test_a_premium_rank_requires_the_premium_entitlement(self) -> None:
        page = self.confirm(2, "premium").json
        self.assertEqual(page["payload"]["confirmed_premium_rank"], 2)
        self.server("DELETE", f"/entitlement/{self.ann.id}/season09b_premium")
        self.assertEqual(self.confirm(3, "premium").status, 403)
        self.assertEqual(self.confirm(1, "premium", LEVEL).json["payload"]["progress"], 0)

    @proves("POST /progression/:userId/:progressionId/:rank/confirm/:kind")
    def test_a_confirmation_of_a_bad_rank_or_track_is_refused(self) -> None:
        self.assertEqual(self.confirm("x", "public").status, 400)
        self.assertEqual(self.confirm(1, "gold").status, 400)
        self.assertEqual(self.confirm(1, "public", "Nope").status, 404)

    @proves("POST /progression/:userId/:progressionId/:rank/confirm/:kind")
    def test_a_confirmed_rank_grants_no_entitlement(self) -> None:
        self.confirm(10, "premium")
        names = self.asks("GET", "/entitlementsv2").json["entitlements"]
        self.assertEqual(len(names), 3)


class ConfirmGrantsTests(Achieving):
    environ = {"PROGRESSION_CONFIRM_ENTITLEMENTS": "1"}  # noqa: RUF012

    @proves(
        "POST /progression/:userId/:progressionId/:rank/confirm/:kind",
        "PROGRESSION_CONFIRM_ENTITLEMENTS",
    )
    def test_newly_confirmed_ranks_grant_their_permanent_entitlements(self) -> None:
        path = f"/progression/{self.ann.id}/{SEASON}"
        self.server("POST", f"{path}/1000")
        self.server("POST", f"{path}/6/confirm/premium")
        held = self.asks("GET", "/entitlementsv2").json["entitlements"]
        names = [entitlement["name"] for entitlement in held]
        self.assertIn("ent_cchd_hp09b_commando_00", names)
        self.assertEqual(len(names), 4)


class ConfirmOffTests(Achieving):
    environ = {"PROGRESSION_CONFIRM": "off"}  # noqa: RUF012

    @proves("POST /progression/:userId/:progressionId/:rank/confirm/:kind", "PROGRESSION_CONFIRM")
    def test_the_confirm_route_is_404_if_it_is_switched_off(self) -> None:
        path = f"/progression/{self.ann.id}/{SEASON}/1/confirm/public"
        self.assertEqual(self.server("POST", path).status, 404)


class ResetTests(Achieving):
    @proves("DELETE /progression/:userId/:progressionId")
    def test_without_the_switch_only_an_admin_resets_a_track(self) -> None:
        path = f"/progression/{self.ann.id}/{SEASON}"
        self.server("POST", f"{path}/10")
        self.assertEqual(self.game.browse("DELETE", path).status, 401)
        self.assertEqual(self.asks("DELETE", path).status, 403)
        self.assertEqual(self.server("DELETE", path).status, 403)
        self.assertEqual(self.game.browse("DELETE", path, key=self.ann.key).status, 403)
        self.assertEqual(self.game.browse("DELETE", path, key="UUK_no").status, 401)
        admin = self.game.player("Owner", admin=True)
        page = self.game.browse("DELETE", path, key=admin.key).json
        self.assertEqual((page["code"], page["payload"]["progress"]), ("OK", 0))
        self.assertEqual(self.asks("GET", path).status, 404)
        unknown = f"/progression/{self.ann.id}/Nope"
        self.assertEqual(self.game.browse("DELETE", unknown, key=admin.key).status, 404)


class ResetAllowedTests(Achieving):
    environ = {"PROGRESSION_ALLOW_DELETE": "1"}  # noqa: RUF012

    @proves("DELETE /progression/:userId/:progressionId", "PROGRESSION_ALLOW_DELETE")
    def test_with_the_switch_a_game_server_resets_a_track(self) -> None:
        path = f"/progression/{self.ann.id}/{SEASON}"
        self.server("POST", f"{path}/10")
        self.assertEqual(self.server("DELETE", path).json["payload"]["progress"], 0)


class StubTests(Achieving):
    environ = {"PROGRESSION_MODE": "stub"}  # noqa: RUF012

    @proves(
        "GET /huntpass/:userId",
        "GET /progression/:userId",
        "GET /progression/objectives/:userId",
        "GET /progression/objectives/:userId/:objectiveId",
        "POST /progression/:userId",
        "PROGRESSION_MODE",
    )
    def test_every_route_has_its_fixed_reply(self) -> None:
        me = self.ann.id
        tracks = self.asks("GET", f"/progression/{self.ben.id}").json
        first = tracks["payload"][0]
        self.assertEqual((tracks["code"], len(tracks["payload"])), (None, 10))
        self.assertEqual((first["phx_account_id"], first["progress"]), (me, 99999999))
        self.assertEqual(first["confirmed_fremium_rank"], 99999999)
        self.assertEqual(tracks["payload"][1]["confirmed_fremium_rank"], 50)
        named = {track["progression_id"] for track in tracks["payload"]}
        self.assertEqual(named, set(config.load(None, "season09b").paths))
        page = self.server("POST", f"/progression/{me}", json={})
        self.assertEqual((page.status, page.body), (400, b""))
        objectives = self.asks("GET", f"/progression/objectives/{me}").json["payload"]
        self.assertEqual((objectives["objectives"], len(objectives["progress_tracks"])), ([], 9))
        track = self.asks("GET", f"/progression/objectives/{me}/x").json["payload"]
        self.assertEqual((track["progress"], track["created_date"][:4]), (9999999, "1970"))
        self.assertIsNone(self.asks("GET", f"/huntpass/{me}").json["code"])

    @proves(
        "DELETE /entitlement/:userId/:entitlement",
        "DELETE /progression/:userId/:progressionId",
        "GET /progression/:userId/:progressionId",
        "POST /bounty/delete/:userId",
        "POST /huntpass/:userId",
        "POST /progression/:userId/:progressionId/:amount",
        "POST /progression/:userId/:progressionId/:rank/confirm/:kind",
        "PUT /cooldown/:userId/:cooldownId",
        "PROGRESSION_MODE",
    )
    def test_real_only_routes_are_404_before_any_credential(self) -> None:
        me = self.ann.id
        for method, path in (
            ("GET", f"/progression/{me}/{SEASON}"),
            ("POST", f"/progression/{me}/{SEASON}/5"),
            ("POST", f"/progression/{me}/{SEASON}/5/confirm/public"),
            ("DELETE", f"/progression/{me}/{SEASON}"),
            ("POST", f"/huntpass/{me}"),
            ("DELETE", f"/entitlement/{me}/x"),
            ("PUT", f"/cooldown/{me}/x"),
            ("POST", f"/bounty/delete/{me}"),
        ):
            page = self.game.browse(method, path)
            self.assertEqual((page.status, page.body), (404, b""), path)


class RealAccountTests(Achieving):
    environ = {  # noqa: RUF012
        "PROGRESSION_MODE": "stub",
        "PROGRESSION_REAL_ACCOUNTS": " UID-a , UID-b",
    }

    @proves("PROGRESSION_REAL_ACCOUNTS")
    def test_listed_accounts_keep_real_progression(self) -> None:
        page = self.server("GET", "/progression/UID-b").json
        self.assertEqual((page["code"], page["payload"][0]["progress"]), (200, 0))


class HuntPassTests(Achieving):
    @proves("GET /huntpass/:userId", "POST /huntpass/:userId")
    def test_the_hunt_pass_is_the_default_until_a_pass_is_selected(self) -> None:
        path = f"/huntpass/{self.ann.id}"
        self.check_marks("GET", path, own=True)
        self.check_marks("POST", path, json={})
        self.assertEqual(
            self.asks("GET", path).json, {"code": "OK", "message": "OK", "payload": SEASON}
        )
        page = self.server("POST", path, json={"progression_id": LEVEL})
        self.assertEqual(page.json["payload"], LEVEL)
        self.assertEqual(self.asks("GET", path).json["payload"], LEVEL)
        for body in ({}, [], {"progression_id": "Nope"}, {"progression_id": 5}):
            self.assertEqual(self.server("POST", path, json=body).status, 400)
        page = self.server("POST", "/huntpass/UID-no", json={"progression_id": LEVEL})
        self.assertEqual(page.status, 404)


class GuardOffTests(Achieving):
    environ = {"PROGRESSION_REPLAY_WINDOW_S": "0", "PROGRESSION_GRANT_CAP": "30"}  # noqa: RUF012

    @proves("PROGRESSION_REPLAY_WINDOW_S")
    def test_a_repeated_grant_counts_each_time(self) -> None:
        body = {"progress_tracks": [{"progression_id": SEASON, "progress": 40}]}
        for total in (30, 60):
            page = self.server("POST", f"/progression/{self.ann.id}", json=body).json
            self.assertEqual(page["payload"]["progress_tracks"][0]["progress"], total)


class HostileTests(Achieving):
    def test_ten_thousand_entries_are_one_answer(self) -> None:
        entries = [{"progression_id": SEASON, "progress": 1}] * 10_000
        objectives = [{"objective_id": "O", "value": value} for value in range(10_000)]
        body = {"progress_tracks": entries, "objectives": objectives}
        page = self.server("POST", f"/progression/{self.ann.id}", json=body).json["payload"]
        self.assertEqual(page["progress_tracks"][0]["progress"], 5000)
        self.assertEqual(page["objectives"][0]["progress"], 9999)

    def test_huge_numbers_stay_in_the_clients_range(self) -> None:
        body = {"objectives": [{"objective_id": "O", "value": 2**60, "completed_count": 2**60}]}
        page = self.server("POST", f"/progression/{self.ann.id}", json=body).json["payload"]
        objective = page["objectives"][0]
        self.assertEqual(
            (objective["progress"], objective["completed_count"]), (2**31 - 1, 2**31 - 1)
        )

    def test_odd_ids_in_the_path_are_refused(self) -> None:
        for track in ("a" * 200, "%00", "%0A"):
            path = f"/progression/{self.ann.id}/{track}/5"
            self.assertIn(self.server("POST", path).status, (400, 404))
        self.assertIn(self.server("POST", "/progression/%00", json={}).status, (400, 404))
