"""The statuses that friends see of each other, and random and hostile use of the whole chat."""

from hypothesis import settings as bounds
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.ports import About
from svcserver.chat.settings import ChatSettings
from svcserver.kernel.signals import Blocked, FriendAccepted, Unfriended
from tests.chat.fixture import ChatFixture, Client, account
from tests.support.proves import proves

AWAY = "<presence><show>away</show><status>off &amp; on</status></presence>"


def presence_stanza(of: Client, to: Client, inner: str) -> str:
    head = f'<presence xmlns="jabber:client" from="{of.jid}" to="{to.jid}"'
    return f"{head}>{inner}</presence>" if inner else f"{head}/>"


def gone(of: Client, to: Client) -> str:
    return f'<presence xmlns="jabber:client" type="unavailable" from="{of.jid}" to="{to.jid}"/>'


class PresenceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.fixture = ChatFixture(ChatSettings(presence=True))
        self.fixture.game.befriend(account(1), account(2))
        self.first, self.second, self.stranger = (self.fixture.bound(n) for n in (1, 2, 3))

    @proves("chat: broadcast presence")
    def test_announced_friends_receive_show_and_status(self) -> None:
        self.stranger.send("<presence/>")
        self.assertEqual(self.first.send(AWAY), [])
        inner = "<show>away</show><status>off &amp; on</status>"
        self.assertEqual(
            self.second.send("<presence/>"), [presence_stanza(self.first, self.second, inner)]
        )
        self.assertEqual(self.first.take_texts(), [presence_stanza(self.second, self.first, "")])
        self.assertEqual(self.stranger.take_texts(), [])

    def test_repeats_other_shows_and_long_status_texts_are_not_sent(self) -> None:
        self.second.send("<presence/>")
        self.first.send(AWAY)
        self.second.take_texts()
        self.first.send(AWAY)
        self.assertEqual(self.second.take_texts(), [])
        self.first.send(f"<presence><show>x</show><status>{'x' * 4097}</status></presence>")
        self.assertEqual(self.second.take_texts(), [presence_stanza(self.first, self.second, "")])

    @proves("chat: presence type=unavailable or connection ends")
    def test_friends_see_the_session_that_remains_online(self) -> None:
        another = self.fixture.bound(1, "other")
        for who in (self.second, self.first, another):
            who.send("<presence/>")
            who.take_texts()
        self.second.take_texts()
        self.first.send('<presence type="unavailable"/>')
        self.assertEqual(
            self.second.take_texts(),
            [gone(self.first, self.second), presence_stanza(another, self.second, "")],
        )
        another.session.on_connection_lost()
        self.assertEqual(self.second.take_texts(), [gone(another, self.second)])

    @proves("chat: broadcast presence")
    def test_sessions_of_one_account_get_no_presence_of_each_other(self) -> None:
        another = self.fixture.bound(1, "other")
        self.first.take_texts()
        self.first.send("<presence/>")
        self.assertEqual((another.send("<presence/>"), self.first.take_texts()), ([], []))

    def test_changes_over_the_rate_go_out_later_the_newest_only(self) -> None:
        self.second.send("<presence/>")
        for n in range(10):
            self.first.send(f"<presence><status>{n}</status></presence>")
        self.assertEqual(len(self.second.take_texts()), 5)
        self.fixture.pass_time(3)
        self.assertEqual(
            self.second.take_texts(),
            [presence_stanza(self.first, self.second, "<status>9</status>")],
        )

    @proves("chat: presence type=unavailable or connection ends")
    def test_a_delayed_change_is_not_sent_after_going_offline(self) -> None:
        self.second.send("<presence/>")
        for _ in range(6):
            self.first.send("<presence/>")
            self.first.send('<presence type="unavailable"/>')
        self.second.take_texts()
        self.fixture.pass_time(5)
        self.assertEqual(self.second.take_texts(), [])

    @proves("chat: broadcast presence")
    def test_blocked_friends_receive_no_presence(self) -> None:
        self.second.send("<presence/>")
        self.fixture.game.block(account(2), account(1))
        self.fixture.clock.advance(2)
        self.first.send("<presence/>")
        self.assertEqual((self.first.take_texts(), self.second.take_texts()), ([], []))

    @proves("event 4: chat pushes only with CHAT_PRESENCE=1", "event: Chat pushes")
    def test_an_accepted_request_is_pushed_and_shows_both_statuses(self) -> None:
        for who in (self.first, self.stranger):
            who.send("<presence/>")
        self.fixture.server.on_friend_accepted(
            FriendAccepted(account(1), account(3), "2026-09-21T10:00:00.000Z")
        )
        push, presence = self.first.take_texts()
        self.assertEqual(
            push,
            '<message xmlns="jabber:client" from="xmpp-admin@127.0.0.1:61000" '
            f'to="{self.first.jid}"><body>'
            '{"type":"com.epicgames.friends.core.apiobjects.Friend","payload":'
            f'{{"accountId":"{account(3)}","status":"ACCEPTED","direction":"OUTBOUND",'
            '"created":"2026-09-21T10:00:00.000Z"},"timestamp":"2026-09-21T14:13:20.000Z"}'
            "</body></message>",
        )
        self.assertEqual(presence, presence_stanza(self.stranger, self.first, ""))
        push, presence = self.stranger.take_texts()
        self.assertIn('"direction":"INBOUND"', push)
        self.assertEqual(presence, presence_stanza(self.first, self.stranger, ""))

    @proves("event: Chat pushes")
    def test_friends_after_a_lifted_block_see_each_other(self) -> None:
        for who in (self.first, self.second, self.first):
            who.send("<presence/>")
        self.fixture.server.on_blocked(Blocked(account(2), account(1)))
        self.first.take_texts(), self.second.take_texts()
        self.fixture.server.on_friend_accepted(FriendAccepted(account(1), account(2), ""))
        for me, another in ((self.first, self.second), (self.second, self.first)):
            push, presence = me.take_texts()
            self.assertIn("ACCEPTED", push)
            self.assertEqual(presence, presence_stanza(another, me, ""))
        self.first.send(AWAY)
        self.assertIn("<show>away</show>", self.second.take_texts()[0])

    @proves("event: Chat pushes")
    def test_a_change_read_before_its_news_is_sent_once(self) -> None:
        for news in (
            Unfriended(account(1), account(2)),
            Unfriended(account(2), account(1)),
            Blocked(account(1), account(2)),
        ):
            for reader in (0, 1):
                self.setUp()
                pair = (self.first, self.second)
                for who in (self.first, self.second, self.first):
                    who.send("<presence/>")
                self.first.take_texts(), self.second.take_texts()
                for number in (1, 2):
                    self.fixture.game.people[account(number)] = About(f"Player{number}")
                if isinstance(news, Blocked):
                    self.fixture.game.block(news.by, news.whom)
                self.fixture.clock.advance(2)
                # the chat reads the account again for this line
                replies = pair[reader].say("City-1", "x")
                if isinstance(news, Blocked):
                    self.fixture.server.on_blocked(news)
                else:
                    self.fixture.server.on_unfriended(news)
                self.assertEqual(len(replies), 2)
                self.assertEqual(replies[0], gone(pair[1 - reader], pair[reader]))
                self.assertEqual(pair[reader].take_texts(), [])
                self.assertEqual(
                    pair[1 - reader].take_texts(), [gone(pair[reader], pair[1 - reader])]
                )

    @proves("event: Chat pushes")
    def test_unfriend_or_block_sends_each_the_other_offline_once(self) -> None:
        for news in (Unfriended(account(1), account(2)), Blocked(account(2), account(1))):
            self.setUp()
            for who in (self.first, self.second, self.first):
                who.send("<presence/>")
            self.first.take_texts(), self.second.take_texts()
            if isinstance(news, Unfriended):
                self.fixture.server.on_unfriended(news)
                self.fixture.server.on_unfriended(news)
            else:
                self.fixture.server.on_blocked(news)
            self.assertEqual(self.first.take_texts(), [gone(self.second, self.first)])
            self.assertEqual(self.second.take_texts(), [gone(self.first, self.second)])

    @proves("chat: broadcast presence")
    def test_the_news_of_a_friendship_counts_before_it_is_read(self) -> None:
        for who in (self.first, self.stranger):
            who.send("<presence/>")
        self.fixture.server.on_friend_accepted(FriendAccepted(account(1), account(3), ""))
        for me, another in ((self.first, self.stranger), (self.stranger, self.first)):
            another.take_texts()
            me.send(AWAY)
            self.assertIn("<show>away</show>", another.take_texts()[-1])
        self.fixture.server.on_unfriended(Unfriended(account(1), account(3)))
        for me, another in ((self.first, self.stranger), (self.stranger, self.first)):
            another.take_texts()
            me.send("<presence/>")
            self.assertEqual(another.take_texts(), [])

    def test_news_of_absent_friends_changes_no_delivery(self) -> None:
        for number in range(10, 30):
            self.fixture.game.befriend(account(1), account(number))
        self.fixture.server.on_friend_accepted(FriendAccepted(account(1), account(40), ""))
        self.fixture.server.on_unfriended(Unfriended(account(1), account(10)))
        self.fixture.server.on_unfriended(Unfriended(account(11), account(1)))
        self.fixture.server.on_blocked(Blocked(account(12), account(1)))
        self.fixture.clock.advance(2)
        self.second.send("<presence/>")
        self.first.take_texts()
        self.first.send(AWAY)
        self.assertEqual(len(self.second.take_texts()), 1)

    @proves("chat: presence type=unavailable or connection ends")
    def test_a_session_without_status_ends_unseen(self) -> None:
        self.second.send("<presence/>")
        self.first.session.on_connection_lost()
        self.assertEqual(self.second.take_texts(), [])

    def test_shutdown_sends_no_presence(self) -> None:
        for who in (self.first, self.second):
            who.send("<presence/>")
        self.first.take_texts()
        self.fixture.server.shut()
        self.assertEqual(len(self.first.take_texts()), 1)

    @proves("event 4: chat pushes only with CHAT_PRESENCE=1", "chat: broadcast presence")
    def test_without_the_switch_presence_is_dropped(self) -> None:
        self.fixture = ChatFixture()
        self.fixture.game.befriend(account(1), account(2))
        first, second = self.fixture.bound(1), self.fixture.bound(2)
        first.send(AWAY)
        self.assertEqual((second.send(AWAY), first.take_texts()), ([], []))
        self.fixture.server.on_friend_accepted(FriendAccepted(account(1), account(2), ""))
        self.assertEqual(first.take_texts(), [])


class Evening(RuleBasedStateMachine):
    """Players who connect, leave, join rooms and talk in random order."""

    def __init__(self) -> None:
        super().__init__()
        self.fixture = ChatFixture(ChatSettings(presence=True))
        self.clients: list[Client] = []
        self.made = 0

    def pick(self, at: int) -> Client | None:
        live = [client for client in self.clients if not client.end]
        return live[at % len(live)] if live else None

    @rule(number=st.integers(1, 4))
    def come(self, number: int) -> None:
        self.made += 1
        client = self.fixture.connect(number, f"r{self.made}")
        client.open()
        if "success" in client.auth()[0]:
            client.bind()
            self.clients.append(client)

    @rule(at=st.integers(0, 9), room=st.sampled_from(["City-1", "Party-7", "Hunt-1", "Bad"]))
    def join(self, at: int, room: str) -> None:
        if (client := self.pick(at)) is not None:
            assert client.join(room), "a join is always answered"

    @rule(at=st.integers(0, 9), room=st.sampled_from(["City-1", "Party-7"]))
    def leave(self, at: int, room: str) -> None:
        if (client := self.pick(at)) is not None:
            client.leave(room)

    @rule(at=st.integers(0, 9), room=st.sampled_from(["City-1", "Party-7"]))
    def say(self, at: int, room: str) -> None:
        if (client := self.pick(at)) is None:
            return
        for listener in self.clients:
            listener.take_texts()
        (reply,) = [line for line in client.say(room, "hello") if line.startswith("<message")]
        inside = [
            occupant.session.account
            for occupant in self.fixture.server.rooms.occupants(f"{room}@muc")
        ]
        others = [peer for peer in self.clients if peer is not client and peer.take_texts()]
        if 'type="error"' in reply:
            assert all("hello" not in "".join(peer.wire.sent) for peer in others)
        else:
            assert client.account in inside
            assert sorted(peer.account for peer in others) == sorted(set(inside) - {client.account})

    @rule(number=st.integers(1, 4), party=st.sampled_from(["7", "8"]))
    def change_party(self, number: int, party: str) -> None:
        self.fixture.game.parties[account(number)] = party

    @rule(at=st.integers(0, 9), text=st.text(alphabet="<>/ab&;'\" ", max_size=12))
    def babble(self, at: int, text: str) -> None:
        if (client := self.pick(at)) is not None:
            client.send(text)
            assert not client.end

    @rule(at=st.integers(0, 9))
    def go(self, at: int) -> None:
        if (client := self.pick(at)) is not None:
            client.session.on_connection_lost()

    @rule(seconds=st.integers(1, 70))
    def wait(self, seconds: int) -> None:
        self.fixture.pass_time(seconds)

    @invariant()
    def rooms_and_sessions_agree(self) -> None:
        server = self.fixture.server
        seated = {
            occupant
            for key in server.rooms.keys()  # noqa: SIM118
            for occupant in server.rooms.occupants(key)
        }
        held = {
            occupant for client in self.clients for occupant in client.session.in_rooms.values()
        }
        assert seated == held
        assert all(not client.session.in_rooms for client in self.clients if client.end)
        live = [client for client in self.clients if not client.end]
        for number in range(1, 5):
            assert sum(client.number == number for client in live) <= 2
        assert len(server) >= len(live)
        assert len(server.people) == len({client.account for client in live})


TestEvening = Evening.TestCase
TestEvening.settings = bounds(max_examples=40, stateful_step_count=40, deadline=None)
