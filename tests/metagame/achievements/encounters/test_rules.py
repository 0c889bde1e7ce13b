"""Content types at their edges. Spec: 1 §2 Encountered content."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.achievements.encounters.feature import (
    ContentTypes,
    Encounter,
    type_in_path,
)
from svcserver.metagame.achievements.encounters.rules import check_reply


def encounter(body: Any) -> tuple[int, str]:
    sent = reader(Encounter)(body)
    return sent.content_type, sent.content_id


def types_asked(body: Any) -> list[int]:
    return list(reader(ContentTypes)(body).content_types)


class TypeTests(SynchronousTestCase):
    def test_a_met_type_is_0_to_7(self) -> None:
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
        self.assertEqual([type_in_path(one) for one in ("0", "9999")], [0, 9999])
        for bad in ("", "10000", "-1", "1\n", "\u0661", "x"):
            self.assertRaises(Malformed, type_in_path, bad)

    def test_repeated_types_make_no_reply_beyond_the_bound(self) -> None:
        content = {1: ["a", "b"], 2: ["c"]}
        check_reply([1, 1], content, 4)
        self.assertRaises(Malformed, check_reply, [1, 1, 2], content, 4)
        check_reply([2, 2, 3], content, 2)

    def test_types_that_are_not_repeated_have_no_bound(self) -> None:
        check_reply([1, 2], {1: ["a", "b"], 2: ["c"]}, 1)
