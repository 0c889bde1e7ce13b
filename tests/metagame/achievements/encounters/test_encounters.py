"""Each route for encountered content. Spec: 1 §4 encountered content."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.achievements.encounters.feature import ContentTypes, Encounter, type_in_path
from svcserver.metagame.achievements.encounters.rules import check_reply
from tests.metagame.achievements.encounters.base import WithCharacter
from tests.support.proves import proves

PATH = "/encountered-content"


class EncounterTests(WithCharacter):
    @proves(
        "GET /encountered-content/:characterId/:contentType",
        "POST /encountered-content/:characterId",
    )
    def test_content_is_read_by_type_and_stored_once(self) -> None:
        for name in ("NPC_B", "NPC_A", "NPC_B"):
            body = {"content_type": 2, "content_id": name}
            page = self.asks("POST", f"{PATH}/hers", json=body)
            self.assertEqual(page.json, {"code": None, "message": "OK", "payload": {}})
        page = self.asks("GET", f"{PATH}/hers/2").json["payload"]
        entry = {"content": ["NPC_B", "NPC_A"], "content_type": 2}
        self.assertEqual(page, {"content_types": [entry], "success": True})

    @proves("POST /encountered-content/query/:characterId")
    def test_a_query_is_answered_in_the_requested_order(self) -> None:
        self.asks("POST", f"{PATH}/hers", json={"content_type": 1, "content_id": "M"})
        page = self.asks("POST", f"{PATH}/query/hers", json={"content_types": [3, 1]}).json
        types = page["payload"]["content_types"]
        self.assertEqual(types[0], {"content": [], "content_type": 3})
        self.assertEqual(types[1], {"content": ["M"], "content_type": 1})
        for body in ({}, [], {"content_types": 5}, {"content_types": ["1"]}):
            self.assertEqual(self.asks("POST", f"{PATH}/query/hers", json=body).status, 400)

    @proves(
        "GET /encountered-content/:characterId/:contentType",
        "POST /encountered-content/:characterId",
        "POST /encountered-content/query/:characterId",
    )
    def test_encounters_of_another_accounts_character_are_403(self) -> None:
        good = {"content_type": 1, "content_id": "M"}
        for who in ("his", "nobody"):
            for page in (
                self.asks("GET", f"{PATH}/{who}/1"),
                self.asks("POST", f"{PATH}/{who}", json=good),
                self.asks("POST", f"{PATH}/query/{who}", json={"content_types": [1]}),
            ):
                self.assertEqual((page.status, page.body), (403, b""))
        self.assertEqual(self.server("GET", f"{PATH}/hers/1").status, 403)
        self.assertEqual(self.game.browse("GET", f"{PATH}/hers/1").status, 401)

    @proves(
        "GET /encountered-content/:characterId/:contentType",
        "POST /encountered-content/:characterId",
    )
    def test_bad_types_and_ids_are_400(self) -> None:
        bad = [{}, [], {"content_type": 8, "content_id": "x"}, {"content_type": 1}]
        bad += [{"content_type": "1", "content_id": "x"}, {"content_type": 1, "content_id": ""}]
        for body in bad:
            self.assertEqual(self.asks("POST", f"{PATH}/hers", json=body).status, 400)
        self.assertEqual(self.asks("GET", f"{PATH}/hers/x").status, 400)


def encounter(body: Any) -> tuple[int, str]:
    sent = reader(Encounter)(body)
    return sent.content_type, sent.content_id


def types_asked(body: Any) -> list[int]:
    return list(reader(ContentTypes)(body).content_types)


class TypeTests(SynchronousTestCase):
    def test_a_content_type_outside_0_to_7_is_refused(self) -> None:
        for kind in (0, 7, 2.0):
            self.assertEqual(encounter({"content_type": kind, "content_id": "M"}), (kind, "M"))
        for bad in (-1, 8, True, 1.5, "1", None):
            sent = {"content_type": bad, "content_id": "M"}
            self.assertRaises(Malformed, encounter, sent)

    def test_up_to_a_thousand_types_of_up_to_four_digits_are_asked(self) -> None:
        self.assertEqual(types_asked({"content_types": [0, 9999.0]}), [0, 9999])
        self.assertEqual(len(types_asked({"content_types": [1] * 1000})), 1000)
        for bad in ([1] * 1001, [-1], [10_000], [True], [1.5], "1", None):
            self.assertRaises(Malformed, types_asked, {"content_types": bad})

    def test_a_type_in_a_path_has_one_to_four_digits(self) -> None:
        self.assertEqual([type_in_path(text) for text in ("0", "9999")], [0, 9999])
        for bad in ("", "10000", "-1", "1\n", "\u0661", "x"):
            self.assertRaises(Malformed, type_in_path, bad)

    def test_repeated_types_make_no_reply_beyond_the_bound(self) -> None:
        content = {1: ["a", "b"], 2: ["c"]}
        check_reply([1, 1], content, 4)
        self.assertRaises(Malformed, check_reply, [1, 1, 2], content, 4)
        check_reply([2, 2, 3], content, 2)

    def test_types_that_are_not_repeated_have_no_bound(self) -> None:
        check_reply([1, 2], {1: ["a", "b"], 2: ["c"]}, 1)
