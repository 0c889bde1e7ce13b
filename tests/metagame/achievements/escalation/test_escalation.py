"""The escalation routes in the modes stub, real and strict. Spec: 1 §4 Escalation."""

from typing import Any

from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Conflict, Malformed
from svcserver.metagame.achievements.escalation import feature, rules
from svcserver.metagame.achievements.escalation.feature import SeasonSave
from svcserver.metagame.achievements.escalation.rules import SeasonState
from tests.metagame.achievements.progression.base import Achieving
from tests.support.proves import proves

TALENT = "ESC_TALENT_S1_TIER1_UPGRADEONE"
SECOND_TIER = "ESC_TALENT_S1_TIER2_UPGRADEONE"


def season(level: Any = 3, xp: Any = 140, version: Any = 1, **more: Any) -> dict[str, Any]:
    return {
        "escalation_level": level,
        "next_level_xp": xp,
        "talents_progress": [],
        "unlock_progress": [],
        "update_version": version,
    } | more


def talents(*pairs: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"rank": rank, "talent_id": name} for name, rank in pairs]


def rewards(*names: str, collected: Any = True) -> list[dict[str, Any]]:
    return [{"collected": collected, "reward_id": name} for name in names]


class StubTests(Achieving):
    @proves("GET /escalation/:season/:userId")
    def test_the_stub_gives_every_credential_the_same_fixed_reply(self) -> None:
        path = f"/escalation/ANYTHING/{self.ben.id}"
        page = self.asks("GET", path).json
        fixed = season(99999, 99999, 1)
        self.assertEqual(page, {"code": None, "message": "OK", "payload": fixed})
        self.assertEqual(self.server("GET", path).json, page)
        self.assertEqual(self.game.browse("GET", path).status, 401)

    @proves("POST /escalation/:season/:userId", "ESCALATION_MODE")
    def test_the_escalation_stub_has_no_route_that_saves(self) -> None:
        page = self.server("POST", f"/escalation/ESC_SEASON_1/{self.ann.id}", json=season())
        self.assertEqual((page.status, page.body), (404, b""))


class RealTests(Achieving):
    environ = {"ESCALATION_MODE": "real"}  # noqa: RUF012

    def setUp(self) -> None:
        super().setUp()
        self.path = f"/escalation/ESC_SEASON_1/{self.ann.id}"

    def save(self, *values: Any, **more: Any):
        return self.server("POST", self.path, json=season(*values, **more))

    def check_refused(self, status: int, *values: Any, **more: Any) -> None:
        page = self.save(*values, **more)
        self.assertEqual(page.status, status, more)
        self.assertEqual((page.json["code"], page.json["payload"]), (str(status), None))

    @proves("GET /escalation/:season/:userId")
    def test_a_read_creates_nothing(self) -> None:
        self.check_marks("GET", self.path, own=True)
        for _ in range(2):
            self.assertEqual(self.asks("GET", self.path).json["payload"], season(0, 0, 0))
        unknown = self.asks("GET", f"/escalation/ESC_SEASON_6/{self.ann.id}")
        self.assertEqual((unknown.status, unknown.json["code"]), (404, "404"))

    @proves("POST /escalation/:season/:userId", "ESCALATION_MODE")
    def test_a_save_is_stored_in_canonical_form(self) -> None:
        self.check_marks("POST", self.path, json=season())
        sent = talents((SECOND_TIER, 0), (TALENT, 2))
        page = self.save(5, 0, 7, talents_progress=sent, unlock_progress=rewards("ESC_Reward_3"))
        payload = page.json["payload"]
        self.assertEqual(payload["talents_progress"], talents((TALENT, 2)))
        self.assertEqual(payload["unlock_progress"], rewards("ESC_Reward_3"))
        self.assertEqual(self.asks("GET", self.path).json["payload"], payload)

    @proves("POST /escalation/:season/:userId")
    def test_unknown_accounts_and_seasons_are_404_a_disabled_season_409(self) -> None:
        for path, status in (
            ("/escalation/ESC_SEASON_9/UID-no", 404),
            (f"/escalation/ESC_SEASON_6/{self.ann.id}", 404),
            (f"/escalation/ESC_SEASON_5/{self.ann.id}", 409),
        ):
            page = self.server("POST", path, json=[])
            self.assertEqual((page.status, page.json["code"]), (status, str(status)))
        frost = self.asks("GET", f"/escalation/ESC_SEASON_5/{self.ann.id}")
        self.assertEqual(frost.status, 200)
        self.assertEqual([event[1] for event in self.events()], [404, 404, 409])

    @proves("POST /escalation/:season/:userId")
    def test_malformed_saves_are_400_and_change_nothing(self) -> None:
        for values in ((26,), (-1,), ("3",), (True,), (3, -1), (3, 2**31), (3, 1, 0), (3, 1, None)):
            self.check_refused(400, *values)
        for more in (
            {"talents_progress": None},
            {"unlock_progress": {}},
            {"talents_progress": ["x"]},
            {"talents_progress": talents(("ESC_TALENT_S2_TIER1_UPGRADEONE", 1))},
            {"talents_progress": talents((TALENT, 1), (TALENT, 1))},
            {"talents_progress": talents((TALENT, 4))},
            {"unlock_progress": rewards("ESC_Reward_1")},
            {"unlock_progress": rewards("ESC_Reward_2", "ESC_Reward_2")},
            {"unlock_progress": rewards("ESC_Reward_2", collected=1)},
        ):
            self.check_refused(400, **more)
        self.assertEqual(self.server("POST", self.path, json=[]).status, 400)
        self.assertEqual(self.asks("GET", self.path).json["payload"], season(0, 0, 0))

    @proves("POST /escalation/:season/:userId")
    def test_a_changed_save_without_a_newer_version_is_409(self) -> None:
        first = self.save(3, 140, 5).json
        self.assertEqual(self.save(3, 140, 5).json, first)
        self.check_refused(409, 3, 141, 5)
        self.check_refused(409, 3, 141, 4)
        self.assertEqual(self.save(4, 0, 50).status, 200)

    @proves("POST /escalation/:season/:userId")
    def test_a_save_with_lower_progress_is_409(self) -> None:
        self.save(3, 140, 1)
        self.check_refused(409, 2, 599, 2)
        self.check_refused(409, 3, 139, 2)

    @proves("POST /escalation/:season/:userId")
    def test_the_fixed_values_of_the_stub_are_refused_below_the_top(self) -> None:
        self.check_refused(409, 25, 99_999, 1)
        self.assertEqual(self.save(25, 99_998, 1).status, 200)
        self.assertEqual(self.save(25, 99_999, 2).status, 200)

    @proves("POST /escalation/:season/:userId")
    def test_a_collected_reward_stays_collected(self) -> None:
        self.save(8, 0, 1, unlock_progress=rewards("ESC_Reward_2"))
        self.check_refused(409, 8, 0, 2)
        self.check_refused(409, 8, 0, 2, unlock_progress=rewards("ESC_Reward_2", collected=False))

    @proves("POST /escalation/:season/:userId", "ESCALATION_STRICT")
    def test_soft_breaks_are_stored_with_a_note(self) -> None:
        self.run_twice()
        with capturedLogs() as events:
            self.assertEqual(self.save(0, 500, 1).status, 200)
        self.assertIn("more XP", self.events()[-1][2])
        notes = [event["note"] for event in events if event.get("account") == self.ann.id]
        self.assertEqual(notes, ["more XP than the level takes"])

    @proves("POST /escalation/:season/:userId", "event 3: progression event log")
    def test_every_save_is_logged_as_an_event_with_its_status(self) -> None:
        self.save(3, 1, 1)
        self.save(3, 1, 1)
        self.save(2, 1, 2)
        self.save("x")
        self.assertEqual([event[1] for event in self.events()], [200, 200, 409, 400])


class StrictTests(Achieving):
    environ = {"ESCALATION_MODE": "real", "ESCALATION_STRICT": "1"}  # noqa: RUF012

    @proves("POST /escalation/:season/:userId", "ESCALATION_STRICT")
    def test_soft_breaks_are_409(self) -> None:
        path = f"/escalation/ESC_SEASON_1/{self.ann.id}"
        for sent in (
            season(0, 500, 1),
            season(1, 0, 1, talents_progress=talents((TALENT, 2))),
            season(9, 0, 1, talents_progress=talents((TALENT, 3), (SECOND_TIER, 1))),
            season(4, 0, 1, unlock_progress=rewards("ESC_Reward_3")),
        ):
            self.assertEqual(self.server("POST", path, json=sent).status, 409)
        fine = season(9, 0, 1, talents_progress=talents((TALENT, 3)))
        self.assertEqual(self.server("POST", path, json=fine).status, 200)
        self.assertEqual(self.server("POST", path, json=season(25, 50_000, 2)).status, 200)


class StubAccountTests(Achieving):
    environ = {"ESCALATION_MODE": "real", "PROGRESSION_MODE": "stub"}  # noqa: RUF012

    @proves("GET /escalation/:season/:userId")
    def test_an_account_with_fixed_progression_gets_the_fixed_reply(self) -> None:
        path = f"/escalation/x/{self.ann.id}"
        self.assertEqual(self.asks("GET", path).json["payload"], season(99999, 99999, 1))
        self.assertEqual(self.server("POST", path, json=season()).status, 404)


class SaveTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.notes, self.registry = list[str](), feature.load()
        self.stored: SeasonState | None = None

    def save(self, body: Any) -> SeasonState:
        season = rules.open_season(self.registry, "ESC_SEASON_1")
        sent = rules.canonical(season, self.registry, reader(SeasonSave)(body).values())
        if rules.accept(self.stored, sent, season, self.registry, self.notes, strict=True):
            self.stored = sent
        return self.stored

    def test_a_repeat_is_not_stored_again(self) -> None:
        first = self.save(season())
        self.assertIs(self.save(season()), first)
        self.assertEqual(self.notes, ["a repeat: nothing written"])

    def test_a_newer_version_with_equal_progress_is_stored(self) -> None:
        self.save(season(version=1))
        self.assertEqual(self.save(season(version=2)).version, 2)
        self.assertEqual(self.notes, [])

    def test_a_reward_may_be_collected_from_its_level_on(self) -> None:
        needed = rules.open_season(self.registry, "ESC_SEASON_1").rewards["ESC_Reward_2"]
        sent = season(needed, 0, 1, unlock_progress=rewards("ESC_Reward_2"))
        self.assertEqual(self.save(sent).level, needed)
        self.stored = None
        sent = season(needed - 1, 0, 1, unlock_progress=rewards("ESC_Reward_2"))
        with self.assertRaisesRegex(Conflict, f"needs level {needed}"):
            self.save(sent)

    def test_a_version_above_the_clients_largest_number_is_refused(self) -> None:
        self.assertEqual(self.save(season(version=2147483647)).version, 2147483647)
        self.assertRaises(Malformed, self.save, season(version=2147483648))
