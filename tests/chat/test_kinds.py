"""The kinds of rooms and their owners. Spec: 2 §4 Chat."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.kinds import KINDS
from svcserver.chat.names import room_of
from svcserver.chat.people import People
from svcserver.chat.ports import About
from tests.chat.fixture import FakeGame, account

# in a room of each kind that is not for everyone; a new one adds its own here
ABOUT, PARTIES = About("Ann", rooms=frozenset({("Guild", "8")})), {account(1): "7"}
MINE = {"Party-7", "Guild-8"}


class KindTests(SynchronousTestCase):
    def test_a_room_is_named_after_each_kind(self) -> None:
        for name, kind in KINDS.items():
            room = room_of(f"{name}-7" if kind.hyphen else f"{name}7", "muc.h", "h")
            assert room is not None, name
            self.assertEqual((room.kind, room.id), (name, "7" if kind.hyphen else ""))

    def test_only_members_may_enter_a_room_that_is_not_for_everyone(self) -> None:
        people = People(FakeGame(parties=PARTIES))
        person = people.arrive(account(1), ABOUT, 0.0)
        for name, kind in KINDS.items():
            for number in (7, 8):
                room = room_of(f"{name}-{number}" if kind.hyphen else name, "muc.h", "h")
                assert room is not None, name
                may = kind.may_enter is None or f"{name}-{number}" in MINE
                self.assertIs(people.member(person, room), may, name)
            closed = kind.may_enter is not None
            self.assertEqual(
                closed, any(item.startswith(name) for item in MINE), f"give {name} a case"
            )

    def test_only_kinds_that_use_account_data_are_marked_by_about(self) -> None:
        game = FakeGame(parties=PARTIES)
        for name, kind in KINDS.items():
            may = kind.may_enter
            answers = may is not None and {
                any(may(game, account(1), item, room) for room in "78")
                for item in (ABOUT, About("Ann"))
            }
            self.assertIs(kind.by_about, answers == {True, False}, name)
