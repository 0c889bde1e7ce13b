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

    def test_only_members_may_enter_the_rooms_of_parties_and_guilds(self) -> None:
        people = People(ToldGame(parties={account(1): "7"}))
        person = people.arrive(account(1), About("Ann", guild="8"), 0.0)
        mine = {"Party-7", "Guild-8"}
        for name in ("Party-7", "Party-8", "Guild-7", "Guild-8", "City-7", "Hunt-8", "General"):
            room = room_of(name, "muc.h", "h")
            assert room is not None
            may = name in mine or not name.startswith(("Party", "Guild"))
            self.assertIs(people.member(person, room), may, name)
