"""The recipients of lines and statuses in a room. Spec: 2 §4 Chat."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat import rooms
from svcserver.chat.effects import MAX_STATUS, PresenceStatus, status_of
from svcserver.chat.settings import ChatSettings
from svcserver.chat.stanza import parse
from svcserver.kernel.signals import FriendAccepted
from tests.chat.fixture import ChatFixture, account
from tests.chat.stanzas import ChatFixtureTests


class RoomTests(ChatFixtureTests):
    def test_room_limits_match_the_documentation(self) -> None:
        self.assertEqual((rooms.MAX_ROOMS, rooms.MAX_OCCUPANTS), (1000, 256))

    def test_a_block_hides_lines_only_from_the_blocking_occupant(self) -> None:
        self.fixture.game.block(account(2), account(1))
        first, second, third = (self.fixture.bound(number) for number in (1, 2, 3))
        for client in (first, second, third):
            client.join("City-1")
        self.assertEqual(len(self.fixture.server.rooms), 1)
        for client in (first, second, third):
            client.take_texts()
        first.say("City-1", "hello")
        self.assertEqual([len(client.take_texts()) for client in (second, third)], [0, 1])

    def test_a_nickname_is_free_again_when_its_holder_has_left(self) -> None:
        self.fixture = ChatFixture(ChatSettings(nick_check="log"))
        first, second, third = (self.fixture.bound(number) for number in (1, 2, 3))
        third.join("City-1")
        first.join("City-1", "same")
        self.assertIn("conflict", second.join("City-1", "same")[-1])
        first.session.on_connection_lost()
        self.assertIn("110", second.join("City-1", "same")[-1])


class StatusTests(SynchronousTestCase):
    def test_known_shows_are_kept_and_a_status_over_4096_is_dropped(self) -> None:
        for show in ("away", "chat", "dnd", "xa"):
            replies = status_of(parse(f"<presence><show>{show}</show></presence>"))
            self.assertEqual(replies, PresenceStatus(show, ""))
        self.assertEqual(status_of(parse("<presence/>")), PresenceStatus("", ""))
        for length, limit in ((MAX_STATUS, MAX_STATUS), (MAX_STATUS + 1, 0)):
            replies = status_of(parse(f"<presence><status>{'x' * length}</status></presence>"))
            self.assertEqual(len(replies.text), limit)

    def test_an_absent_new_friend_causes_no_error(self) -> None:
        fixture = ChatFixture(ChatSettings(presence=True))
        client = fixture.bound(1)
        for requests, accepted in ((1, 2), (2, 1)):
            news = FriendAccepted(account(requests), account(accepted), "then")
            fixture.server.presences.befriend(news, "now")
            self.assertEqual(len(client.take_texts()), 1)
