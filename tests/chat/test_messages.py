"""Rooms, messages, whispers, pings and limits of a logged-in session."""

from __future__ import annotations

from attrs import evolve
from twisted.internet import defer

from svcserver.chat import stanza
from svcserver.chat.stanza import serialize
from svcserver.kernel.refusals import Unavailable
from svcserver.kernel.signals import Announced, Blocked
from tests.chat.stanzas import CITY, TownTests, message, not_acceptable, occupant
from tests.chat.town import DOMAIN, Town, account
from tests.support.proves import proves


class MessageTests(TownTests):
    @proves("chat: message type=groupchat")
    def test_a_line_reaches_every_occupant_the_sender_too_with_its_id(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        one.join("City-1")
        two.join("City-1")
        one.heard()
        self.assertEqual(one.say("City-1", 'a<&>"'), [message(one, 'a&lt;&amp;&gt;"')])
        self.assertEqual(two.heard(), [message(one, 'a&lt;&amp;&gt;"')])

    def test_only_the_body_is_kept(self) -> None:
        one = self.town.bound(1)
        one.join("City-1")
        said = one.send(
            f'<message type="groupchat" to="{CITY}" id="m1" evil="1"><subject>s</subject>'
            "<body>x<b>y</b>z</body><active/></message>"
        )
        self.assertEqual(said, [message(one, "xz")])

    @proves("chat: message type=groupchat")
    def test_who_blocked_the_sender_does_not_hear_it(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        one.join("City-1")
        two.join("City-1")
        one.heard()
        self.town.game.block(two.account, one.account)
        self.town.server.on_blocked(Blocked(two.account, one.account))
        self.assertEqual(one.say("City-1", "x"), [message(one, "x")])
        self.assertEqual(two.heard(), [])
        two.say("City-1", "y")
        self.assertEqual(one.heard(), [message(two, "y")])
        three = self.town.bound(3)
        three.join("City-1")
        one.say("City-1", "z")
        self.assertEqual(three.heard(), [message(one, "z")])

    def test_an_error_comes_from_the_room_whatever_nickname_was_addressed(self) -> None:
        one = self.town.bound(1)
        said = one.send(f'<message type="groupchat" to="{CITY}/x" id="m1"><body>y</body></message>')
        self.assertEqual(said, [not_acceptable(one)])

    def test_an_unblock_counts_at_once(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        self.town.server.on_blocked(Blocked(two.account, one.account))
        self.assertEqual(one.whisper(two.account + "@x", "hi"), [])
        self.assertEqual(len(two.heard()), 1)

    @proves("chat: Undeliverable room message")
    def test_not_in_the_room_empty_or_long_is_not_acceptable(self) -> None:
        one = self.town.bound(1)
        self.assertEqual(one.say("City-1", "x"), [not_acceptable(one)])
        one.join("City-1")
        for body in ("", "x" * 2049, "x" * 32_768):
            self.assertEqual(one.say("City-1", body), [not_acceptable(one)])
        self.assertEqual(one.say("City-1", "é" * 2048), [message(one, "é" * 2048)])
        self.assertEqual(
            one.send(f'<message type="groupchat" to="{CITY}" id="m1"/>'), [not_acceptable(one)]
        )

    @proves("chat: Undeliverable room message")
    def test_over_the_message_rate_each_gets_its_error_and_nobody_is_cut(self) -> None:
        one = self.town.bound(1)
        one.join("City-1")
        said = [line for n in range(400) for line in one.say("City-1", "x", f"i{n}")]
        self.assertEqual(len(said), 400)
        self.assertEqual(said[:8], [message(one, "x", f"i{n}") for n in range(8)])
        self.assertEqual(said[8:], [not_acceptable(one, stanza_id=f"i{n}") for n in range(8, 400)])
        self.assertEqual(one.end, "")

    def test_one_line_a_second_is_never_refused(self) -> None:
        one = self.town.bound(1)
        one.join("City-1")
        for _ in range(100):
            self.town.clock.advance(1)
            self.assertEqual(one.say("City-1", "x"), [message(one, "x")])

    def test_an_over_long_id_is_not_echoed(self) -> None:
        one = self.town.bound(1)
        one.join("City-1")
        self.assertNotIn(" id=", one.say("City-1", "x", "i" * 129)[0])

    @proves("chat: message type=chat (whisper)")
    def test_a_whisper_reaches_that_session_or_all(self) -> None:
        one = self.town.bound(1)
        twos = [self.town.bound(2, "a"), self.town.bound(2, "b")]
        for two in twos:
            two.heard()
        said = (
            f'<message xmlns="jabber:client" type="chat" from="{one.jid}" to="{twos[1].jid}" '
            'id="w1"><body>hi</body></message>'
        )
        one.whisper(twos[1].jid, "hi")
        self.assertEqual((twos[0].heard(), twos[1].heard()), ([], [said]))
        for to in (f"{account(2)}@{DOMAIN}", f"{account(2).lower()}@{DOMAIN}/gone"):
            self.assertEqual(one.whisper(to, "hi"), [])
            self.assertEqual([len(two.heard()) for two in twos], [1, 1])

    @proves("chat: message type=chat (whisper)")
    def test_whispers_that_cannot_be_delivered_vanish_silently(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        self.assertEqual(one.whisper(f"{account(9)}@{DOMAIN}", "x"), [])
        self.assertEqual(one.whisper(f"{account(1)}@{DOMAIN}", "x"), [])
        self.assertEqual(one.whisper(two.jid, ""), [])
        self.assertEqual(one.whisper(two.jid, "x" * 2049), [])
        self.town.game.block(one.account, two.account)
        self.town.server.on_blocked(Blocked(one.account, two.account))
        for sender, receiver in ((one, two), (two, one)):
            self.assertEqual(sender.whisper(receiver.jid, "x"), [])
            self.assertEqual(receiver.heard(), [])

    def test_whispers_share_the_message_rate(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        for _ in range(20):
            self.assertEqual(one.whisper(two.jid, "x"), [])
        self.assertEqual(len(two.heard()), 8)


class IqAndEndTests(TownTests):
    @proves("chat: iq")
    def test_any_get_or_set_gets_an_empty_result(self) -> None:
        one = self.town.bound(1)
        for inner in ("", '<ping xmlns="urn:xmpp:ping"/>', '<query xmlns="jabber:iq:roster"/>'):
            for kind in ("get", "set"):
                said = one.send(f'<iq type="{kind}" id="&lt;1">{inner}</iq>')
                self.assertEqual(said, [serialize(stanza.result("<1"))])

    def test_results_errors_and_long_ids_are_ignored(self) -> None:
        one = self.town.bound(1)
        for odd in ('type="result" id="1"', 'type="error" id="1"', f'type="get" id="{"x" * 129}"'):
            self.assertEqual(one.send(f"<iq {odd}/>"), [])

    @proves("chat: close")
    def test_close_is_answered_and_ends(self) -> None:
        one = self.town.bound(1)
        self.assertEqual(one.send(serialize(stanza.CLOSE)), [serialize(stanza.CLOSE)])
        self.assertEqual((one.wire.ended, one.end, len(self.town.server)), ([1000], "close", 0))

    @proves("chat: ping after 50 s, end 100 s later", "limit: Chat")
    def test_silence_is_pinged_after_50_s_and_ended_100_s_later(self) -> None:
        one = self.town.bound(1)
        self.town.pass_time(49)
        self.assertEqual(one.heard(), [])
        self.town.pass_time(1)
        self.assertEqual(
            one.heard(),
            [
                f'<iq xmlns="jabber:client" type="get" id="sp1" from="{DOMAIN}" to="{one.jid}">'
                '<ping xmlns="urn:xmpp:ping"/></iq>'
            ],
        )
        self.town.pass_time(99)
        self.assertEqual(one.end, "")
        self.town.pass_time(1)
        self.assertEqual(one.end, "ping-timeout")

    @proves("chat: ping after 50 s, end 100 s later")
    def test_any_frame_answers_a_ping(self) -> None:
        one = self.town.bound(1)
        self.town.pass_time(120)
        one.send(" ")
        self.town.pass_time(140)
        self.assertEqual(one.end, "")

    def test_bad_input_after_login_never_closes(self) -> None:
        one = self.town.bound(1)
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
            one.send(bad)
        self.assertEqual(one.end, "")
        self.assertEqual(one.send('<iq type="get" id="1"/>'), [serialize(stanza.result("1"))])

    def test_over_the_stanza_rate_stanzas_are_dropped_and_a_thousand_of_them_are_abuse(
        self,
    ) -> None:
        one = self.town.bound(1)
        self.town.clock.advance(10)
        said = [line for _ in range(100) for line in one.send('<iq type="get" id="1"/>')]
        self.assertEqual(len(said), 60)
        for _ in range(959):
            one.send("<iq/>")
        self.assertEqual(one.end, "")
        for _ in range(2):
            one.send("<iq/>")
        self.assertEqual(one.end, "abuse")
        client = self.town.connect(1)
        client.open()
        self.assertIn("temporary-auth-failure", client.auth()[0])

    def test_a_thousand_lines_too_many_are_answered_in_a_minute_the_rest_is_dropped(self) -> None:
        one = self.town.bound(1)
        self.town.clock.advance(10)
        answered = sum(len(one.say("City-1", "x")) for _ in range(1_100))
        self.assertEqual((answered, one.end), (1_060, ""))
        self.town.clock.advance(60)
        answered = sum(len(one.say("City-1", "x")) for _ in range(1_100))
        self.assertEqual((answered, one.end), (1_060, ""))

    def test_what_is_known_of_an_account_is_read_again_after_a_second(self) -> None:
        one = self.town.bound(1)
        one.join("City-1")
        asked = self.town.game.asked
        one.say("City-1", "x")
        self.assertEqual(self.town.game.asked, asked)
        self.town.clock.advance(1)
        one.say("City-1", "x")
        one.say("City-1", "x")
        self.assertEqual(self.town.game.asked, asked + 1)

    def test_when_the_game_is_silent_what_was_known_counts_after_ten_seconds(self) -> None:
        one = self.town.bound(1)
        self.town.clock.advance(2)
        self.town.game.silent = True
        one.join("City-1")
        self.town.clock.advance(9.9)
        self.assertEqual(one.heard(), [])
        self.town.clock.advance(0.1)
        self.assertEqual(one.heard(), [occupant(one, one, codes="110")])

    def test_a_database_that_is_away_logs_no_failure_for_each_reading(self) -> None:
        one = self.town.bound(1)
        self.town.clock.advance(2)
        away = Unavailable("the database cannot serve now")
        self.patch(type(self.town.game), "about", lambda *_: defer.fail(away))
        self.assertIn('code="110"', "".join(one.join("City-1")))  # by what was known
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_little_is_kept_of_what_comes_while_the_game_is_asked(self) -> None:
        for line, kept in (('<iq type="get" id="1"/>', 128), (f"<a>{'x' * 50_000}</a>", 2)):
            self.town = Town()
            one = self.town.bound(1)
            self.town.clock.advance(2)
            self.town.game.silent = True
            one.join("City-1")
            for _ in range(200):
                one.send(line)
            self.assertEqual((len(one.session._inbox), one.end), (kept, ""))

    def test_shutdown_says_close_to_everyone(self) -> None:
        bound, new = self.town.bound(1), self.town.connect(2)
        self.town.server.shut()
        for one in (bound, new):
            self.assertEqual((one.heard()[-1], one.wire.ended), (serialize(stanza.CLOSE), [1000]))

    def test_a_silent_game_delays_only_the_one_who_asked(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        self.town.clock.advance(2)
        self.town.game.silent = True
        self.assertEqual(one.join("City-1"), [])
        self.assertEqual(one.send('<iq type="get" id="1"/>'), [])
        self.assertEqual(two.send('<iq type="get" id="1"/>'), [serialize(stanza.result("1"))])
        self.town.game.answer()
        self.assertEqual(
            one.heard(), [occupant(one, one, codes="110"), serialize(stanza.result("1"))]
        )


class MuteTests(TownTests):
    @proves("a muted player's lines")
    def test_lines_are_refused_and_whispers_dropped_within_a_second(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        one.join("City-1")
        two.join("City-1")
        one.heard(), two.heard()
        self.mute(one.account, muted=True)
        self.assertEqual(one.say("City-1", "x"), [not_acceptable(one)])
        one.whisper(two.account + "@x", "hi")
        self.assertEqual(two.heard(), [])
        two.say("City-1", "y")
        self.assertEqual(one.heard(), [message(two, "y")])
        self.mute(one.account, muted=False)
        self.assertEqual(one.say("City-1", "z"), [message(one, "z")])

    @proves("a mute by addresses")
    def test_whoever_writes_from_a_muted_network_is_refused_and_others_are_not(self) -> None:
        one = self.town.connect(1, address="2001:db8:1:2::7").log_in()
        same = self.town.connect(4, address="203.0.113.9").log_in()
        two = self.town.bound(2)
        for each in (one, two):
            each.join("City-1")
        same.join("City-1")
        one.heard(), two.heard(), same.heard()
        self.town.game.muted.add("2001:db8:1:2::/64")
        self.town.clock.advance(1)
        self.assertEqual(one.say("City-1", "x"), [not_acceptable(one)])
        one.whisper(two.account + "@x", "hi")
        self.assertEqual(two.heard(), [])
        self.assertEqual(same.say("City-1", "y"), [message(same, "y")])
        self.assertEqual(two.heard(), [message(same, "y")])
        one.heard()
        late = self.town.connect(3, address="2001:db8:1:2:ffff::1").log_in()
        late.join("City-1")
        self.assertEqual(late.say("City-1", "z"), [not_acceptable(late)])
        self.town.game.muted.clear()
        self.town.clock.advance(1)
        one.heard()
        self.assertEqual(one.say("City-1", "again"), [message(one, "again")])

    def mute(self, who: str, *, muted: bool) -> None:
        """As the game says it a second later."""
        people = self.town.game.people
        people[who] = evolve(people[who], muted=muted)
        self.town.clock.advance(1)


class AnnouncementTests(TownTests):
    @proves("an announcement in every room")
    def test_everyone_in_a_room_sees_the_servers_line(self) -> None:
        one, two, three = (self.town.bound(number) for number in (1, 2, 3))
        one.join("City-1")
        two.join("City-2")
        self.town.server.on_announced(Announced("a < b"))
        nick = "Server:UID-00000000-0000-0000-0000-000000000000:server"
        for hears, room in ((one, "City-1"), (two, "City-2")):
            [line] = hears.heard()
            self.assertIn(f'from="{room}@muc.{DOMAIN}/{nick}"', line)
            self.assertIn("<body>a &lt; b</body>", line)
        self.assertEqual(three.heard(), [])
