"""Each breadcrumb route. Spec: 1 §4 breadcrumbs."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.digits import MAX_VERSION, MAX_WHOLE
from svcserver.kernel.refusals import Conflict, Malformed
from svcserver.metagame.achievements.breadcrumbs.rules import check, check_size
from tests.metagame.achievements.encounters.base import WithCharacter
from tests.metagame.attempts.base import GameFixture, PlayerRequest, case
from tests.support.proves import proves

PATH = "/breadcrumbs/hers"


@case("POST /breadcrumbs/<character_id>", 409)
def saved_again(fixture: GameFixture) -> PlayerRequest:
    body = {"updateVersion": 3, "breadcrumbs": []}
    return fixture.ann, f"POST /breadcrumbs/{fixture.character(fixture.ann)}", body


class BreadcrumbTests(WithCharacter):
    def save(self, version: object, listed: object = ()):
        body = {"breadcrumbs": list(listed), "updateVersion": version}
        return self.asks("POST", PATH, json=body)

    @proves("GET /breadcrumbs/:characterId")
    def test_a_character_without_breadcrumbs_has_an_empty_list_version_0(self) -> None:
        payload = {"breadcrumbs": [], "updateVersion": 0}
        page = self.asks("GET", PATH).json
        self.assertEqual(page, {"code": None, "message": "OK", "payload": payload})

    @proves("POST /breadcrumbs/:characterId")
    def test_the_whole_list_is_replaced_and_the_version_must_rise(self) -> None:
        crumb = {"breadcrumb_id": "Item", "timestamp": 1745622414.0, "odd": None}
        self.assertEqual(self.save(0).status, 200)
        self.assertEqual(self.save(4, [crumb]).json["payload"]["breadcrumbs"], [crumb])
        for version in (0, 3, 4):
            page = self.save(version)
            self.assertEqual((page.status, page.body), (409, b""))
        self.assertEqual(self.asks("GET", PATH).json["payload"]["breadcrumbs"], [crumb])

    @proves("GET /breadcrumbs/:characterId", "POST /breadcrumbs/:characterId")
    def test_another_players_character_is_403_and_bad_bodies_400(self) -> None:
        body = {"breadcrumbs": [], "updateVersion": 1}
        for method in ("GET", "POST"):
            self.assertEqual(self.asks(method, "/breadcrumbs/his", json=body).status, 403)
            self.assertEqual(self.game.browse(method, PATH, json=body).status, 401)
        for bad in ({}, [], {"breadcrumbs": {}, "updateVersion": 1}):
            self.assertEqual(self.asks("POST", PATH, json=bad).status, 400)
        for version in ("1", True, None, 1.5, -1, 2**53, 10**30):
            self.assertIn(self.save(version).status, (400,))
        self.assertEqual(self.save(2**53 - 1).status, 409)


class RuleTests(SynchronousTestCase):
    def test_a_list_has_at_most_the_bytes_of_the_setting(self) -> None:
        check_size(10, 10)
        self.assertRaises(Malformed, check_size, 11, 10)

    def test_the_version_rises_but_for_the_first_save(self) -> None:
        check(None, 0)
        check(3, 4)
        self.assertRaises(Conflict, check, 3, 3)

    def test_a_version_above_the_maximum_is_refused(self) -> None:
        check(None, MAX_VERSION)
        for stored in (None, 3, MAX_WHOLE):
            self.assertRaises(Conflict, check, stored, MAX_VERSION + 1)
        for stored in (MAX_VERSION, MAX_WHOLE):  # an earlier release accepted any version
            check(stored, 4)
