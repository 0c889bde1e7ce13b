"""Each cooldown route. Spec: 1 §4 cooldowns."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.achievements.cooldowns.feature import CooldownBatch
from svcserver.metagame.achievements.cooldowns.rules import expired
from tests.metagame.achievements.progression.base import Achieving
from tests.support.proves import proves


class CooldownTests(Achieving):
    def read(self) -> object:
        return self.asks("GET", f"/cooldown/{self.ann.id}").json

    @proves("GET /cooldown/:userId")
    def test_an_account_without_cooldowns_gets_an_empty_object(self) -> None:
        self.check_marks("GET", f"/cooldown/{self.ann.id}", own=True)
        self.assertEqual(self.read(), {"code": 200, "message": "OK", "payload": {}})

    @proves("PUT /cooldown/batch/:userId")
    def test_a_batch_keeps_dates_exactly_as_sent(self) -> None:
        self.game.described.odd = True
        path = f"/cooldown/batch/{self.ann.id}"
        self.check_marks("PUT", path, json={"cooldowns": []})
        sent = [
            {"cooldown_id": "A", "cooldown_started_date": "2026-09-21T14:10:39+00:00"},
            {"cooldown_started_date": "no id"},
            {"cooldown_id": "B"},
            "junk",
        ]
        page = self.server("PUT", path, json={"cooldowns": sent}).json
        self.assertEqual(page["payload"]["A"], "2026-09-21T14:10:39+00:00")
        self.assertEqual(sorted(page["payload"]), ["A", "B"])
        self.assertEqual(self.read(), page)
        for body in (
            {},
            [],
            {"cooldowns": 5},
            {"cooldowns": [{**sent[0], "cooldown_started_date": 5}]},
        ):
            self.assertEqual(self.server("PUT", path, json=body).status, 400)
        self.assertEqual(self.read(), page)
        unknown = self.server("PUT", "/cooldown/batch/UID-no", json={"cooldowns": []})
        self.assertEqual(unknown.status, 404)

    @proves("PUT /cooldown/:userId/:cooldownId")
    def test_a_new_cooldown_deletes_day_old_one_time_ids(self) -> None:
        self.check_marks("PUT", f"/cooldown/{self.ann.id}/A")
        self.assertEqual(self.server("PUT", f"/cooldown/{self.ann.id}/{'A1' * 16}").json, {})
        self.game.clock.advance(86_401)
        self.server("PUT", f"/cooldown/{self.ann.id}/New")
        page = self.server("GET", f"/cooldown/{self.ann.id}").json
        self.assertEqual(list(page["payload"]), ["New"])

    @proves("PUT /cooldown/:userId/:cooldownId")
    def test_an_invalid_cooldown_id_in_a_path_is_400(self) -> None:
        for name in ("a%00b", "x" * 129):
            self.assertEqual(self.server("PUT", f"/cooldown/{self.ann.id}/{name}").status, 400)


class BoundTests(Achieving):
    environ = {"ACHIEVEMENTS_MAX": "2"}  # noqa: RUF012

    @proves("PUT /cooldown/:userId/:cooldownId")
    def test_an_expired_id_makes_room(self) -> None:
        path = f"/cooldown/{self.ann.id}"
        for name in ("A", "A1" * 16):
            self.assertEqual(self.server("PUT", f"{path}/{name}").status, 200)
        self.assertEqual(self.server("PUT", f"{path}/B").status, 409)
        self.game.clock.advance(86_401)
        self.assertEqual(self.server("PUT", f"{path}/B").status, 200)
        self.assertEqual(sorted(self.server("GET", path).json["payload"]), ["A", "B"])


class StubTests(Achieving):
    environ = {"PROGRESSION_MODE": "stub"}  # noqa: RUF012

    @proves("GET /cooldown/:userId", "PUT /cooldown/batch/:userId")
    def test_cooldown_stubs_reply_with_an_empty_object(self) -> None:
        self.game.described.odd = True
        empty = {"code": None, "message": "OK", "payload": {}}
        self.assertEqual(self.asks("GET", f"/cooldown/{self.ann.id}").json, empty)
        page = self.asks("PUT", f"/cooldown/batch/{self.ann.id}", json={})
        self.assertEqual(page.json, empty)


def read_batch(body: Any, now: str) -> dict[str, str]:
    return reader(CooldownBatch)(body).started(now)  # type: ignore[no-any-return]


class BatchTests(SynchronousTestCase):
    def read(self, date: Any) -> dict[str, str]:
        entry = {"cooldown_id": "A", "cooldown_started_date": date}
        return read_batch({"cooldowns": [entry]}, "now")

    def test_a_missing_date_is_now(self) -> None:
        for date in (None, ""):
            self.assertEqual(self.read(date), {"A": "now"})
        self.assertEqual(read_batch({"cooldowns": [{"cooldown_id": "A"}]}, "now"), {"A": "now"})

    def test_a_date_is_a_printable_text_of_64_characters(self) -> None:
        self.assertEqual(self.read("x" * 64), {"A": "x" * 64})
        for date in ("x" * 65, "a\nb", 5, [], True):
            self.assertRaises(Malformed, self.read, date)

    def test_a_batch_may_be_an_object_of_dates(self) -> None:
        self.assertEqual(
            read_batch({"cooldowns": {"A": "x", "B": ""}}, "now"), {"A": "x", "B": "now"}
        )

    def test_one_time_ids_of_32_hex_digits_expire(self) -> None:
        lasting = ("A1" * 15, "A1" * 17, "a1" * 16, "A1" * 16 + "\n", "x")
        started = dict.fromkeys((*lasting, "A1" * 16), "2026-09-20T09:59:59.999Z")
        started["B2" * 16] = "2026-09-20T10:00:00.000Z"
        self.assertEqual(expired(started, "2026-09-20T10:00:00.000Z"), ["A1" * 16])
