"""A logged-in session's rooms, messages, whispers, pings and limits."""

from attrs import evolve
from twisted.internet import defer

from svcserver.chat import stanza
from svcserver.chat.stanza import serialize
from svcserver.kernel.refusals import Unavailable
from svcserver.kernel.signals import Announced, Blocked
from tests.chat.fixture import DOMAIN, ChatFixture, account
from tests.chat.stanzas import CITY, ChatFixtureTests, message, not_acceptable, occupant
from tests.support.proves import proves


class MessageTests(ChatFixtureTests):
    @proves("chat: message type=groupchat")
    def test_a_line_reaches_every_occupant_the_sender_too_with_its_id(self) -> None:
        first, second = self.fixture.pair()
        self.assertEqual(first.say("City-1", 'a<&>"'), [message(first, 'a&lt;&amp;&gt;"')])
        self.assertEqual(second.take_texts(), [message(first, 'a&lt;&amp;&gt;"')])

    def test_only_the_body_is_kept(self) -> None:
        client = self.fixture.joined(1)
        replies = client.send(
            f'<message type="groupchat" to="{CITY}" id="m1" evil="1"><subject>s</subject>'
            "<body>x<b>y</b>z</body><active/></message>"
        )
        self.assertEqual(replies, [message(client, "xz")])

    @proves("chat: message type=groupchat")
    def test_an_account_that_blocked_the_sender_gets_no_line(self) -> None:
        first, second = self.fixture.pair()
        self.fixture.game.block(second.account, first.account)
        self.fixture.server.on_blocked(Blocked(second.account, first.account))
        self.assertEqual(first.say("City-1", "x"), [message(first, "x")])
        self.assertEqual(second.take_texts(), [])
        second.say("City-1", "y")
        self.assertEqual(first.take_texts(), [message(second, "y")])
        three = self.fixture.joined(3)
        first.say("City-1", "z")
        self.assertEqual(three.take_texts(), [message(first, "z")])

    def test_an_error_comes_from_the_room_without_nickname(self) -> None:
        client = self.fixture.bound(1)
        replies = client.send(
            f'<message type="groupchat" to="{CITY}/x" id="m1"><body>y</body></message>'
        )
        self.assertEqual(replies, [not_acceptable(client)])

    def test_an_unblock_counts_at_once(self) -> None:
        first, second = self.fixture.bound(1), self.fixture.bound(2)
        self.fixture.server.on_blocked(Blocked(second.account, first.account))
        self.assertEqual(first.whisper(second.account + "@x", "hi"), [])
        self.assertEqual(len(second.take_texts()), 1)

    @proves("chat: Undeliverable room message")
    def test_lines_from_outside_empty_or_long_are_not_acceptable(self) -> None:
        client = self.fixture.bound(1)
        self.assertEqual(client.say("City-1", "x"), [not_acceptable(client)])
        client.join("City-1")
        for body in ("", "x" * 2049, "x" * 32_768):
            self.assertEqual(client.say("City-1", body), [not_acceptable(client)])
        self.assertEqual(client.say("City-1", "é" * 2048), [message(client, "é" * 2048)])
        self.assertEqual(
            client.send(f'<message type="groupchat" to="{CITY}" id="m1"/>'),
            [not_acceptable(client)],
        )

    @proves("chat: Undeliverable room message")
    def test_over_the_message_rate_each_gets_its_error_and_nobody_is_cut(self) -> None:
        client = self.fixture.joined(1)
        lines = [line for n in range(400) for line in client.say("City-1", "x", f"i{n}")]
        self.assertEqual(len(lines), 400)
        self.assertEqual(lines[:8], [message(client, "x", f"i{n}") for n in range(8)])
        self.assertEqual(
            lines[8:], [not_acceptable(client, stanza_id=f"i{n}") for n in range(8, 400)]
        )
        self.assertEqual(client.end, "")

    def test_one_line_a_second_is_never_refused(self) -> None:
        client = self.fixture.joined(1)
        for _ in range(100):
            self.fixture.clock.advance(1)
            self.assertEqual(client.say("City-1", "x"), [message(client, "x")])

    def test_an_over_long_id_is_not_echoed(self) -> None:
        client = self.fixture.joined(1)
        self.assertNotIn(" id=", client.say("City-1", "x", "i" * 129)[0])

    @proves("chat: message type=chat (whisper)")
    def test_a_whisper_reaches_that_session_or_all(self) -> None:
        client = self.fixture.bound(1)
        twos = [self.fixture.bound(2, "a"), self.fixture.bound(2, "b")]
        for two in twos:
            two.take_texts()
        expected = (
            f'<message xmlns="jabber:client" type="chat" from="{client.jid}" to="{twos[1].jid}" '
            'id="w1"><body>hi</body></message>'
        )
        client.whisper(twos[1].jid, "hi")
        self.assertEqual((twos[0].take_texts(), twos[1].take_texts()), ([], [expected]))
        for to in (f"{account(2)}@{DOMAIN}", f"{account(2).lower()}@{DOMAIN}/gone"):
            self.assertEqual(client.whisper(to, "hi"), [])
            self.assertEqual([len(two.take_texts()) for two in twos], [1, 1])

    @proves("chat: message type=chat (whisper)")
    def test_whispers_that_cannot_be_delivered_vanish_silently(self) -> None:
        first, second = self.fixture.bound(1), self.fixture.bound(2)
        self.assertEqual(first.whisper(f"{account(9)}@{DOMAIN}", "x"), [])
        self.assertEqual(first.whisper(f"{account(1)}@{DOMAIN}", "x"), [])
        self.assertEqual(first.whisper(second.jid, ""), [])
        self.assertEqual(first.whisper(second.jid, "x" * 2049), [])
        self.fixture.game.block(first.account, second.account)
        self.fixture.server.on_blocked(Blocked(first.account, second.account))
        for sender, receiver in ((first, second), (second, first)):
            self.assertEqual(sender.whisper(receiver.jid, "x"), [])
            self.assertEqual(receiver.take_texts(), [])

    def test_whispers_share_the_message_rate(self) -> None:
        first, second = self.fixture.bound(1), self.fixture.bound(2)
        for _ in range(20):
            self.assertEqual(first.whisper(second.jid, "x"), [])
        self.assertEqual(len(second.take_texts()), 8)


class IqAndEndTests(ChatFixtureTests):
    @proves("chat: iq")
    def test_any_get_or_set_gets_an_empty_result(self) -> None:
        client = self.fixture.bound(1)
        for inner in ("", '<ping xmlns="urn:xmpp:ping"/>', '<query xmlns="jabber:iq:roster"/>'):
            for kind in ("get", "set"):
                replies = client.send(f'<iq type="{kind}" id="&lt;1">{inner}</iq>')
                self.assertEqual(replies, [serialize(stanza.result("<1"))])

    def test_results_errors_and_long_ids_are_ignored(self) -> None:
        client = self.fixture.bound(1)
        for odd in ('type="result" id="1"', 'type="error" id="1"', f'type="get" id="{"x" * 129}"'):
            self.assertEqual(client.send(f"<iq {odd}/>"), [])

    @proves("chat: close")
    def test_close_is_answered_and_ends(self) -> None:
        client = self.fixture.bound(1)
        self.assertEqual(client.send(serialize(stanza.CLOSE)), [serialize(stanza.CLOSE)])
        self.assertEqual(
            (client.wire.ended, client.end, len(self.fixture.server)), ([1000], "close", 0)
        )

    @proves("chat: ping after 50 s, end 100 s later", "limit: Chat")
    def test_silence_is_pinged_after_50_s_and_ended_100_s_later(self) -> None:
        client = self.fixture.bound(1)
        self.fixture.pass_time(49)
        self.assertEqual(client.take_texts(), [])
        self.fixture.pass_time(1)
        self.assertEqual(
            client.take_texts(),
            [
                f'<iq xmlns="jabber:client" type="get" id="sp1" from="{DOMAIN}" to="{client.jid}">'
                '<ping xmlns="urn:xmpp:ping"/></iq>'
            ],
        )
        self.fixture.pass_time(99)
        self.assertEqual(client.end, "")
        self.fixture.pass_time(1)
        self.assertEqual(client.end, "ping-timeout")

    @proves("chat: ping after 50 s, end 100 s later")
    def test_any_frame_answers_a_ping(self) -> None:
        client = self.fixture.bound(1)
        self.fixture.pass_time(120)
        client.send(" ")
        self.fixture.pass_time(140)
        self.assertEqual(client.end, "")

    def test_bad_input_after_login_never_closes(self) -> None:
        client = self.fixture.bound(1)
        for bad in (
            "",
            "garbage",
            "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
            "<?php ?>",
            "<unknown/>",
            "<presence type='subscribe' to='x'/>",
            "<presence to='///@@@'/>",
            "<message/>",
            "<message type='chat' to=''/>",
            "<message type='groupchat'/>",
            "<iq/>",
            "<a>" * 5000,
        ):
            client.send(bad)
        self.assertEqual(client.end, "")
        self.assertEqual(client.send('<iq type="get" id="1"/>'), [serialize(stanza.result("1"))])

    def test_stanzas_over_the_rate_are_dropped_and_then_abuse(self) -> None:
        client = self.fixture.bound(1)
        self.fixture.clock.advance(10)
        lines = [line for _ in range(100) for line in client.send('<iq type="get" id="1"/>')]
        self.assertEqual(len(lines), 60)
        for _ in range(959):
            client.send("<iq/>")
        self.assertEqual(client.end, "")
        for _ in range(2):
            client.send("<iq/>")
        self.assertEqual(client.end, "abuse")
        again = self.fixture.opened(1)
        self.assertIn("temporary-auth-failure", again.auth()[0])

    def test_a_thousand_lines_over_the_rate_are_answered(self) -> None:
        client = self.fixture.bound(1)
        self.fixture.clock.advance(10)
        answered = sum(len(client.say("City-1", "x")) for _ in range(1_100))
        self.assertEqual((answered, client.end), (1_060, ""))
        self.fixture.clock.advance(60)
        answered = sum(len(client.say("City-1", "x")) for _ in range(1_100))
        self.assertEqual((answered, client.end), (1_060, ""))

    def test_old_data_count_after_ten_seconds_of_a_silent_game(self) -> None:
        client = self.fixture.bound(1)
        self.fixture.clock.advance(2)
        self.fixture.game.silent = True
        client.join("City-1")
        self.fixture.clock.advance(9.9)
        self.assertEqual(client.take_texts(), [])
        self.fixture.clock.advance(0.1)
        self.assertEqual(client.take_texts(), [occupant(client, client, codes="110")])

    def test_a_database_that_is_away_logs_no_failure_for_each_reading(self) -> None:
        client = self.fixture.bound(1)
        self.fixture.clock.advance(2)
        away = Unavailable("the database cannot serve now")
        self.patch(type(self.fixture.game), "about", lambda *_: defer.fail(away))
        self.assertIn('code="110"', "".join(client.join("City-1")))  # decided by the cached account
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_an_inbox_is_bounded_while_the_game_is_silent(self) -> None:
        for line, limit in (('<iq type="get" id="1"/>', 128), (f"<a>{'x' * 50_000}</a>", 2)):
            self.fixture = ChatFixture()
            client = self.fixture.bound(1)
            self.fixture.clock.advance(2)
            self.fixture.game.silent = True
            client.join("City-1")
            for _ in range(200):
                client.send(line)
            self.assertEqual((len(client.session._inbox), client.end), (limit, ""))

    def test_shutdown_says_close_to_everyone(self) -> None:
        bound, new = self.fixture.bound(1), self.fixture.connect(2)
        self.fixture.server.shut()
        for client in (bound, new):
            self.assertEqual(
                (client.take_texts()[-1], client.wire.ended), (serialize(stanza.CLOSE), [1000])
            )

    def test_a_silent_game_delays_only_the_requesting_client(self) -> None:
        first, second = self.fixture.bound(1), self.fixture.bound(2)
        self.fixture.clock.advance(2)
        self.fixture.game.silent = True
        self.assertEqual(first.join("City-1"), [])
        self.assertEqual(first.send('<iq type="get" id="1"/>'), [])
        self.assertEqual(second.send('<iq type="get" id="1"/>'), [serialize(stanza.result("1"))])
        self.fixture.game.answer()
        self.assertEqual(
            first.take_texts(), [occupant(first, first, codes="110"), serialize(stanza.result("1"))]
        )


class MuteTests(ChatFixtureTests):
    @proves("a muted player's lines")
    def test_lines_are_refused_and_whispers_dropped_within_a_second(self) -> None:
        first, second = self.fixture.bound(1), self.fixture.bound(2)
        first.join("City-1")
        second.join("City-1")
        first.take_texts(), second.take_texts()
        self.mute(first.account, muted=True)
        self.assertEqual(first.say("City-1", "x"), [not_acceptable(first)])
        first.whisper(second.account + "@x", "hi")
        self.assertEqual(second.take_texts(), [])
        second.say("City-1", "y")
        self.assertEqual(first.take_texts(), [message(second, "y")])
        self.mute(first.account, muted=False)
        self.assertEqual(first.say("City-1", "z"), [message(first, "z")])

    @proves("a mute by addresses")
    def test_only_sessions_of_a_muted_network_are_refused(self) -> None:
        client = self.fixture.connect(1, address="2001:db8:1:2::7").log_in()
        same = self.fixture.connect(4, address="203.0.113.9").log_in()
        two = self.fixture.bound(2)
        for each in (client, two):
            each.join("City-1")
        same.join("City-1")
        client.take_texts(), two.take_texts(), same.take_texts()
        self.fixture.game.muted.add("2001:db8:1:2::/64")
        self.fixture.clock.advance(1)
        self.assertEqual(client.say("City-1", "x"), [not_acceptable(client)])
        client.whisper(two.account + "@x", "hi")
        self.assertEqual(two.take_texts(), [])
        self.assertEqual(same.say("City-1", "y"), [message(same, "y")])
        self.assertEqual(two.take_texts(), [message(same, "y")])
        client.take_texts()
        late = self.fixture.connect(3, address="2001:db8:1:2:ffff::1").log_in()
        late.join("City-1")
        self.assertEqual(late.say("City-1", "z"), [not_acceptable(late)])
        self.fixture.game.muted.clear()
        self.fixture.clock.advance(1)
        client.take_texts()
        self.assertEqual(client.say("City-1", "again"), [message(client, "again")])

    def mute(self, who: str, *, muted: bool) -> None:
        """Mute or unmute a player, and advance the clock until the chat applies it."""
        people = self.fixture.game.people
        people[who] = evolve(people[who], muted=muted)
        self.fixture.clock.advance(1)


class AnnouncementTests(ChatFixtureTests):
    @proves("an announcement in every room")
    def test_everyone_in_a_room_sees_the_servers_line(self) -> None:
        first, second, third = (self.fixture.bound(number) for number in (1, 2, 3))
        first.join("City-1")
        second.join("City-2")
        self.fixture.server.on_announced(Announced("a < b"))
        nick = "Server:UID-00000000-0000-0000-0000-000000000000:server"
        for hears, room in ((first, "City-1"), (second, "City-2")):
            [line] = hears.take_texts()
            self.assertIn(f'from="{room}@muc.{DOMAIN}/{nick}"', line)
            self.assertIn("<body>a &lt; b</body>", line)
        self.assertEqual(third.take_texts(), [])
