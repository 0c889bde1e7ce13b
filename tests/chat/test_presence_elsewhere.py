"""Friends in different processes see each other's status, like friends in one process."""

from svcserver.chat import workers
from svcserver.chat.leases import ALIVE_S, LEASE_S
from svcserver.chat.settings import ChatSettings
from svcserver.kernel.signals import Blocked, FriendAccepted, Unfriended
from tests.chat.fixture import ChatFixture, account, resource
from tests.chat.test_presence import gone, presence_stanza
from tests.chat.test_workers import Base

AWAY = "<presence><show>away</show></presence>"
OFFLINE = '<presence type="unavailable"/>'
IS_AWAY = "<show>away</show>"


class ElsewhereTests(Base):
    def setUp(self) -> None:
        super().setUp()
        self.first, self.second = self.here.bound(1), self.there.bound(2)
        self.stranger = self.there.bound(3)
        self.stranger.send("<presence/>")

    def fixture(self) -> ChatFixture:
        fixture = ChatFixture(
            ChatSettings(presence=True), clock=self.clock, game=self.game, board=self.board
        )
        self.game.befriend(account(1), account(2))  # the new fixture has replaced all people
        return fixture

    def both_shown(self) -> None:
        for who in (self.first, self.second):
            who.send("<presence/>")
        for who in (self.first, self.second, self.stranger):
            who.take_texts()

    def test_announced_friends_receive_each_others_presence(self) -> None:
        self.assertEqual(self.first.send(AWAY), [])
        self.assertEqual(
            self.second.send("<presence/>"), [presence_stanza(self.first, self.second, IS_AWAY)]
        )
        self.assertEqual(self.first.take_texts(), [presence_stanza(self.second, self.first, "")])
        self.first.send("<presence><show>dnd</show></presence>")
        self.assertEqual(
            self.second.take_texts(), [presence_stanza(self.first, self.second, "<show>dnd</show>")]
        )
        self.assertEqual(self.stranger.take_texts(), [])

    def test_offline_is_followed_by_the_accounts_other_session(self) -> None:
        near, far = self.here.bound(1, resource(8)), None
        near.send("<presence/>")
        self.both_shown()
        self.assertEqual(self.first.send(OFFLINE), [])
        received = self.second.take_texts()
        self.assertEqual(
            received, [gone(self.first, self.second), presence_stanza(near, self.second, "")]
        )
        near.session.end("socket")
        self.assertEqual(self.second.take_texts(), [gone(near, self.second)])
        self.first.send("<presence/>")
        far = self.there.bound(1, resource(9))
        far.send("<presence/>")
        self.second.take_texts()
        far.session.end("socket")
        received = self.second.take_texts()
        self.assertEqual(
            received, [gone(far, self.second), presence_stanza(self.first, self.second, "")]
        )

    def test_ended_sessions_and_those_of_dead_processes_are_offline(self) -> None:
        self.both_shown()
        self.second.session.end("shutdown")
        self.assertEqual(self.first.take_texts(), [gone(self.second, self.first)])
        again = self.there.bound(2)
        again.send("<presence/>")
        self.first.take_texts()
        self.pass_time(LEASE_S + 3, self.here)
        self.assertEqual(self.first.take_texts(), [gone(again, self.first)])

    def test_a_friendship_shows_both_statuses_until_it_ends(self) -> None:
        self.both_shown()
        self.game.befriend(account(1), account(3))
        news = FriendAccepted(account(1), account(3), "2026-01-01T00:00:00.000Z")
        for fixture in (self.here, self.there):
            fixture.server.on_friend_accepted(news)
        pushed, shown = self.stranger.take_texts()
        self.assertIn("INBOUND", pushed)
        self.assertEqual(shown, presence_stanza(self.first, self.stranger, ""))
        self.assertEqual(
            self.first.take_texts()[1:], [presence_stanza(self.stranger, self.first, "")]
        )
        for fixture in (self.here, self.there):
            fixture.server.on_unfriended(Unfriended(account(1), account(3)))
        self.assertEqual(self.stranger.take_texts(), [gone(self.first, self.stranger)])
        self.assertEqual(self.first.take_texts(), [gone(self.stranger, self.first)])
        self.first.send(AWAY)
        self.first.session.end("socket")
        self.assertEqual((self.stranger.take_texts(), len(self.second.take_texts())), ([], 2))

    def test_blocked_accounts_see_no_status(self) -> None:
        self.both_shown()
        self.game.block(account(2), account(1))
        for fixture in (self.here, self.there):
            fixture.server.on_blocked(Blocked(account(2), account(1)))
        self.assertEqual(self.second.take_texts(), [gone(self.first, self.second)])
        self.first.take_texts()
        self.first.send(AWAY)
        self.first.session.end("socket")
        self.assertEqual(self.second.take_texts(), [])

    def test_a_status_during_an_outage_is_corrected(self) -> None:
        self.both_shown()
        self.board.away = True
        self.first.send(AWAY)
        self.assertEqual(self.second.take_texts(), [])
        self.board.away = False
        self.pass_time(ALIVE_S + 1)
        self.assertEqual(
            self.second.take_texts(), [presence_stanza(self.first, self.second, IS_AWAY)]
        )
        self.board.away = True
        self.first.send(OFFLINE)
        self.board.away = False
        self.pass_time(ALIVE_S + 1)
        self.assertEqual(self.second.take_texts(), [gone(self.first, self.second)])

    def test_a_process_that_comes_later_knows_the_statuses(self) -> None:
        self.both_shown()
        late = self.fixture()
        self.pass_time(2, self.here, self.there, late)
        self.second.session.end("socket")
        two = late.bound(2)
        self.assertEqual(two.send("<presence/>"), [presence_stanza(self.first, two, "")])

    def test_friends_see_nothing_if_other_processes_are_ignored(self) -> None:
        """Check that the tests above would fail without the other process's presences."""
        self.patch(workers.Workers, "_on_shown", lambda *_: None)
        self.here, self.there = self.fixture(), self.fixture()
        self.pass_time(2)
        self.first, self.second = self.here.bound(1), self.there.bound(2)
        self.stranger = self.there.bound(3)
        with self.assertRaises(self.failureException):
            self.test_announced_friends_receive_each_others_presence()
