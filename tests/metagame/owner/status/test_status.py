"""Status, heartbeat and fixed replies. Spec: 1 §4."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.owner.status import WELCOME, StatusBanner
from tests.support.game import Game
from tests.support.proves import proves

NINE = ["show-status", "en", "fr", "it", "es", "de", "pt", "ru", "ja"]


class BannerTests(SynchronousTestCase):
    @proves("GET /svc-status", "status carries version, commit and a source link")
    def test_the_banner_has_eight_languages_and_the_version(self) -> None:
        game = Game(
            self,
            SERVER_NAME="My Host",
            SERVER_VERSION="1.2",
            GIT_COMMIT="abc",
            SOURCE_URL="https://x.invalid",
        )
        page = game.browse("GET", "/svc-status")
        self.assertEqual(list(page.json), [*NINE, "name", "version", "commit", "sourceUrl"])
        self.assertEqual(list(StatusBanner.__annotations__), list(page.json))
        self.assertIs(page.json["show-status"], True)
        for language in NINE[1:]:
            self.assertIn("My Host", page.json[language])
        self.assertEqual(
            [page.json[key] for key in ("name", "version", "commit", "sourceUrl")],
            ["My Host", "1.2", "abc", "https://x.invalid"],
        )

    @proves("GET /svc-status", "STATUS_EXTRA")
    def test_without_the_extras_the_banner_has_nine_fields(self) -> None:
        self.assertEqual(list(Game(self, STATUS_EXTRA="0").browse("GET", "/svc-status").json), NINE)

    def test_bad_names_fall_back_and_long_names_are_cut(self) -> None:
        self.assertEqual(
            Game(self, SERVER_NAME="x" * 99).browse("GET", "/svc-status").json["name"], "x" * 64
        )
        page = Game(self, SERVER_NAME="bad\x07", GIT_COMMIT="a b", SERVER_VERSION="é").browse(
            "GET", "/svc-status"
        )
        self.assertEqual((page.json["name"], page.json["commit"]), ("Game Server", "unknown"))
        self.assertNotEqual(page.json["version"], "é")

    def test_the_banner_type_lists_all_documented_members(self) -> None:
        self.assertEqual(sorted(StatusBanner.__required_keys__), sorted(["show-status", *WELCOME]))
        self.assertEqual(
            sorted(StatusBanner.__optional_keys__),
            ["commit", "name", "sourceUrl", "version"],
        )
        self.assertEqual([*WELCOME], ["en", "fr", "it", "es", "de", "pt", "ru", "ja"])
        for text in WELCOME.values():
            self.assertEqual(text.count("{name}"), 1)


FIXED: list[tuple[str, str, bool, int, Any]] = [
    ("POST", "/event", False, 200, {}),
    (
        "POST",
        "/account/migrate",
        True,
        200,
        {"migration_failed": False, "migration_finished": True},
    ),
    ("POST", "/profile/update", True, 200, None),
    ("GET", "/vivox/login", True, 404, None),
    ("POST", "/motd/", True, 204, None),
    ("POST", "/motd", True, 204, None),
    ("GET", "/motd/trigger?event_name=test", False, 204, None),
    ("GET", "/playertreatments/UID-x", True, 200, {"treatments": ["CohortTreatment.Dojo.B"]}),
    ("GET", "/eventstats/", True, 200, {"stats": []}),
    ("GET", "/all/", True, 200, {"code": None, "message": "OK", "payload": {"messages": []}}),
    ("GET", "/All", True, 200, {"code": None, "message": "OK", "payload": {"messages": []}}),
    (
        "GET",
        "/game_tuning/seasonal_event_schedule",
        False,
        200,
        {"code": None, "message": "OK", "payload": {"ScheduledItems": []}},
    ),
    (
        "GET",
        "/game_tuning/huntpass_xp_config",
        False,
        200,
        {
            "code": None,
            "message": "OK",
            "payload": {
                "EventConfigs": [],
                "GlobalConfig": {"DifficultyBias": 1, "GlobalMultiplier": 1, "MaxXPAwarded": 200},
            },
        },
    ),
    (
        "GET",
        "/creator",
        True,
        200,
        {"expirationDate": "2099-01-01T01:00:00.041Z", "slug": "NONE", "success": True},
    ),
    ("POST", "/inventory/some-character/some-list", True, 200, {"code": None, "message": ""}),
]


class FixedReplyTests(SynchronousTestCase):
    @proves(
        "GET /all/",
        "GET /creator",
        "GET /eventstats/",
        "GET /game_tuning/huntpass_xp_config",
        "GET /game_tuning/seasonal_event_schedule",
        "GET /motd/trigger",
        "GET /playertreatments/:userId",
        "GET /vivox/login",
        "POST /account/migrate",
        "POST /event",
        "POST /inventory/:characterId/:changeList",
        "POST /motd/",
        "POST /profile/update",
        "event 2: POST /event",
    )
    def test_each_fixed_route_replies_as_the_client_expects(self) -> None:
        game = Game(self)
        ann = game.player("Ann_1")
        for method, path, needs_token, status, body in FIXED:
            page = game.browse(method, path, token=ann.token)
            self.assertEqual(page.status, status, path)
            if body is None:
                self.assertEqual(page.body, b"", path)
            else:
                self.assertEqual(page.json, body, path)
            stranger = game.browse(method, path)
            self.assertEqual(stranger.status, 401 if needs_token else status, path)

    @proves("GET /motd/trigger", "MISC_ROUTES (GET /motd/trigger)")
    def test_without_misc_routes_the_motd_trigger_is_404(self) -> None:
        page = Game(self, MISC_ROUTES="0").browse("GET", "/motd/trigger")
        self.assertEqual((page.status, page.body), (404, b""))
