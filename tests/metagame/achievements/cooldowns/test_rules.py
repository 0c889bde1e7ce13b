"""What a batch of cooldowns may hold. Spec: 1 §4 PUT /cooldown/batch."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.achievements.cooldowns.feature import CooldownBatch
from svcserver.metagame.achievements.cooldowns.rules import expired


def read_batch(body: Any, now: str) -> dict[str, str]:
    return reader(CooldownBatch)(body).started(now)  # type: ignore[no-any-return]


class BatchTests(SynchronousTestCase):
    def read(self, date: Any) -> dict[str, str]:
        one = {"cooldown_id": "A", "cooldown_started_date": date}
        return read_batch({"cooldowns": [one]}, "now")

    def test_a_missing_date_is_now(self) -> None:
        for date in (None, ""):
            self.assertEqual(self.read(date), {"A": "now"})
        self.assertEqual(read_batch({"cooldowns": [{"cooldown_id": "A"}]}, "now"), {"A": "now"})

    def test_a_date_is_a_printable_text_of_64_characters(self) -> None:
        self.assertEqual(self.read("x" * 64), {"A": "x" * 64})
        for date in ("x" * 65, "a\nb", 5, [], True):
            self.assertRaises(Malformed, self.read, date)

    def test_an_object_of_dates_is_a_batch_too(self) -> None:
        self.assertEqual(
            read_batch({"cooldowns": {"A": "x", "B": ""}}, "now"), {"A": "x", "B": "now"}
        )

    def test_one_time_ids_of_32_hex_digits_expire(self) -> None:
        lasting = ("A1" * 15, "A1" * 17, "a1" * 16, "A1" * 16 + "\n", "x")
        started = dict.fromkeys((*lasting, "A1" * 16), "2026-09-20T09:59:59.999Z")
        started["B2" * 16] = "2026-09-20T10:00:00.000Z"
        self.assertEqual(expired(started, "2026-09-20T10:00:00.000Z"), ["A1" * 16])
