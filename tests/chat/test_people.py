"""The players online, and which result is kept if an account is looked up twice concurrently."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.people import People
from svcserver.chat.ports import About
from svcserver.kernel.signals import Blocked
from tests.chat.fixture import ChatFixture, FakeGame, account


class PeopleTests(SynchronousTestCase):
    def test_an_account_is_found_in_any_case_while_connected(self) -> None:
        people = People(FakeGame())
        person = people.arrive(account(1), About("Ann"), 1.0)
        self.assertIs(people.find(account(1).lower()), person)
        self.assertIs(people.arrive(account(1), About("Anna"), 2.0), person)
        self.assertEqual((person.about.name, person.read_at, len(people)), ("Ann", 1.0, 1))
        people.drop(person)
        self.assertIsNone(people.find(account(1).lower()))
        self.assertEqual((len(people), people.all()), (0, []))
        again = people.arrive(account(1), About("Ann"), 3.0)
        people.drop(person)
        self.assertIs(people.find(account(1).lower()), again)

    def test_news_during_a_read_is_newer_than_its_answer(self) -> None:
        fixture = ChatFixture()
        first, second = fixture.bound(1), fixture.bound(2)
        fixture.clock.advance(2)
        fixture.game.silent = True
        first.whisper(second.jid, "hi")
        fixture.server.on_blocked(Blocked(account(2), account(1)))
        fixture.game.answer()
        self.assertEqual(second.take_texts(), [])
        person = fixture.server.people.get(account(1))
        assert person is not None
        self.assertEqual(person.about.blocked_by, {account(2)})
        self.assertEqual(person.read_at, 0)

    def test_an_answer_overtaken_by_a_later_answer_is_not_kept(self) -> None:
        fixture = ChatFixture()
        fixture.bound(1)
        person = fixture.server.people.get(account(1))
        assert person is not None
        fixture.game.silent = True
        for _ in range(2):
            fixture.server.readings.reread(person)
        (first, _), (second, _) = fixture.game.waiting
        second.callback(About("Later"))
        first.callback(About("Earlier"))
        self.assertEqual(person.about.name, "Later")
