"""Which rooms are whose. Spec: 2 §4 Chat."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.kinds import KINDS
from svcserver.chat.names import room_of
from svcserver.chat.people import People
from svcserver.chat.ports import About
from tests.chat.town import ToldGame, account


class KindTests(SynchronousTestCase):
    def test_a_room_is_named_after_each_kind(self) -> None:
        for name, kind in KINDS.items():
            room = room_of(f"{name}-7" if kind.hyphen else f"{name}7", "muc.h", "h")
            assert room is not None, name
            self.assertEqual((room.kind, room.id), (name, "7" if kind.hyphen else ""))

    def test_only_members_may_enter_a_room_that_is_not_for_everyone(self) -> None:
        people = People(ToldGame(parties={account(1): "7"}))
        person = people.arrive(account(1), About("Ann", guild="8"), 0.0)
        mine = {"Party-7", "Guild-8"}
        for name, kind in KINDS.items():
            for number in (7, 8):
                room = room_of(f"{name}-{number}" if kind.hyphen else name, "muc.h", "h")
                assert room is not None, name
                may = kind.mine is None or f"{name}-{number}" in mine
                self.assertIs(people.member(person, room), may, name)
            self.assertEqual(kind.mine is not None, any(one.startswith(name) for one in mine))

    def test_only_a_guild_is_read_anew_before_anybody_is_refused(self) -> None:
        self.assertEqual([name for name, kind in KINDS.items() if kind.read], ["Guild"])
