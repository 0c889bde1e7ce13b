"""How many cooldowns an account may have, and which end by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Conflict
from svcserver.metagame.achievements.cooldowns.rules import start, start_all

ANN = AccountId("UID-ann")
ONCE = "0123456789ABCDEF" * 2
YESTERDAY, NOW = "2026-09-20T10:00:00.000Z", "2026-09-21T10:00:00.000Z"
OLD = "2026-09-20T09:59:59.999Z"


class Shelf:
    def __init__(self, **dates: str) -> None:
        self.dates = dates

    def all(self, account_id: AccountId) -> Mapping[str, str]:
        return dict(self.dates)

    def keep(self, account_id: AccountId, started: Mapping[str, str]) -> None:
        self.dates |= started

    def drop(self, account_id: AccountId, names: Sequence[str]) -> None:
        for name in names:
            del self.dates[name]


class CooldownTests(SynchronousTestCase):
    def start(self, shelf: Shelf, name: str, most: int = 9) -> None:
        start(shelf, ANN, name, NOW, YESTERDAY, most)

    def test_a_one_time_id_ends_after_a_day(self) -> None:
        shelf = Shelf(**{ONCE: OLD, ONCE[::-1]: YESTERDAY, "lasting": OLD, ONCE[:-1]: OLD})
        self.start(shelf, "new")
        kept = {ONCE[::-1]: YESTERDAY, "lasting": OLD, ONCE[:-1]: OLD, "new": NOW}
        self.assertEqual(shelf.dates, kept)

    def test_the_last_place_is_filled_and_no_more(self) -> None:
        shelf = Shelf(a=NOW)
        self.start(shelf, "b", most=2)
        self.assertRaises(Conflict, self.start, shelf, "c", 2)
        self.start(shelf, "a", most=2)
        self.assertRaises(Conflict, start_all, shelf, ANN, {"a": OLD, "c": OLD}, 2)
        start_all(shelf, ANN, {"a": OLD, "b": OLD}, 2)
        self.assertEqual(shelf.dates, {"a": OLD, "b": OLD})

    def test_what_ended_makes_room(self) -> None:
        shelf = Shelf(**{ONCE: OLD, "a": NOW})
        self.start(shelf, "b", most=2)
        self.assertEqual(sorted(shelf.dates), ["a", "b"])
