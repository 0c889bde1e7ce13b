"""Rooms, messages, whispers, pings and limits of a logged-in session."""

from __future__ import annotations

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat import stanza
from svcserver.chat.rooms import Rooms
from svcserver.chat.settings import Settings
from svcserver.kernel.signals import Blocked, GuildChanged, PartyChanged, Renamed
from tests.chat.town import DOMAIN, Client, Town, account, resource

CITY = f"City-1@muc.{DOMAIN}"


def occupant(
    of: Client, to: Client, *, room: str = CITY, codes: str = "", gone: bool = False
) -> str:
    kind, role = (' type="unavailable"', "none") if gone else ("", "participant")
    marks = "".join(f'<status code="{code}"/>' for code in codes.split())
    return (
        f'<presence xmlns="jabber:client"{kind} from="{room}/{of.nick}" to="{to.jid}">'
        f'<x xmlns="http://jabber.org/protocol/muc#user">'
        f'<item affiliation="none" role="{role}" jid="{of.jid}"/>{marks}</x></presence>'
    )


def refusal(to: Client, nick: str, condition: str, kind: str, room: str = CITY) -> str:
    return (
        f'<presence xmlns="jabber:client" type="error" from="{room}/{nick}" to="{to.jid}">'
        f'<x xmlns="http://jabber.org/protocol/muc"/><error type="{kind}">'
        f'<{condition} xmlns="urn:ietf:params:xml:ns:xmpp-stanzas"/></error></presence>'
    )


def message(sender: Client, text: str, stanza_id: str = "m1") -> str:
    return (
        f'<message xmlns="jabber:client" type="groupchat" id="{stanza_id}" '
        f'from="{CITY}/{sender.nick}"><body>{text}</body></message>'
    )


def not_acceptable(to: Client, room: str = CITY, stanza_id: str = "m1") -> str:
    return (
        f'<message xmlns="jabber:client" type="error" id="{stanza_id}" from="{room}" '
        f'to="{to.jid}"><error type="modify">'
        '<not-acceptable xmlns="urn:ietf:params:xml:ns:xmpp-stanzas"/></error></message>'
    )


class TownTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.town = Town()


class JoinTests(TownTests):
    def test_the_joiner_sees_the_others_then_the_others_the_joiner_then_itself_last(self) -> None:
        one, two, three = (self.town.bound(n) for n in (1, 2, 3))
        self.assertEqual(one.join("City-1"), [occupant(one, one, codes="110")])
        self.assertEqual(two.join("City-1"), [occupant(one, two), occupant(two, two, codes="110")])
        self.assertEqual(one.heard(), [occupant(two, one)])
        self.assertEqual(
            three.join("City-1"),
            [occupant(one, three), occupant(two, three), occupant(three, three, codes="110")],
        )

    def test_an_older_connection_of_the_account_leaves_first_and_is_told_nothing(self) -> None:
        old, new, other = self.town.bound(1), self.town.bound(1, "new"), self.town.bound(2)
        old.join("City-1")
        other.join("City-1")
        old.heard()
        self.assertEqual(
            new.join("City-1"), [occupant(other, new), occupant(new, new, codes="110")]
        )
        self.assertEqual(old.heard(), [])
        self.assertEqual(other.heard(), [occupant(old, other, gone=True), occupant(new, other)])
        self.assertEqual(old.say("City-1", "x"), [not_acceptable(old)])

    def test_joining_again_welcomes_only_the_joiner(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        one.join("City-1")
        two.join("City-1")
        one.heard()
        self.assertEqual(two.join("City-1"), [occupant(one, two), occupant(two, two, codes="110")])
        self.assertEqual(one.heard(), [])

    def test_another_nickname_of_the_same_session_leaves_first(self) -> None:
        one = self.town.bound(1)
        one.join("City-1")
        said = one.join("City-1", one.nick.replace("Player1", "Pl%61yer1"))
        self.assertEqual(said[0], occupant(one, one, codes="110", gone=True))
        self.assertIn("Pl%61yer1:", said[1])

    def test_the_alias_is_another_room_and_the_host_is_echoed_as_sent(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        one.join("City-1", host=f"conference.{DOMAIN}")
        said = two.join("City-1", host=f"MUC.{DOMAIN}")
        self.assertEqual(len(said), 1)
        self.assertIn(f'from="City-1@MUC.{DOMAIN}/', said[0])

    def test_players_behind_other_relays_meet_each_under_its_own_domain(self) -> None:
        one, far = self.town.bound(1), self.town.connect(2)
        far.open("127.0.0.1:61010")
        far.auth()
        far.bind()
        one.join("City-1")
        far.join("City-1", host="muc.127.0.0.1:61010")
        room = "City-1@muc.127.0.0.1:61010"
        said = far.send(f'<message type="groupchat" to="{room}" id="m1"><body>hi</body></message>')
        self.assertIn('from="City-1@muc.127.0.0.1:61010/', said[0])
        self.assertEqual(one.heard()[-1], message(far, "hi"))

    def test_names_the_client_never_builds_and_other_domains_are_not_allowed(self) -> None:
        one = self.town.bound(1)
        self.assertEqual(
            one.join("Bad"), [refusal(one, one.nick, "not-allowed", "cancel", f"Bad@muc.{DOMAIN}")]
        )
        for room, host in (
            ("City-1", "muc.elsewhere"),
            ("City-1", DOMAIN),
            ("Hunt-", f"muc.{DOMAIN}"),
        ):
            self.assertIn("<not-allowed ", one.join(room, host=host)[0])

    def test_a_party_room_is_for_its_members(self) -> None:
        one = self.town.bound(1)
        self.assertIn("<forbidden ", one.join("Party-7")[0])
        self.town.game.parties[account(1)] = "7"
        self.assertIn('code="110"', one.join("Party-7")[-1])

    def test_a_guild_room_is_for_its_members_and_knows_new_ones_at_once(self) -> None:
        one = self.town.bound(1)
        self.assertIn("<forbidden ", one.join("Guild-g")[0])
        self.town.game.people[account(1)] = evolve(self.town.game.people[account(1)], guild="g")
        self.assertIn('code="110"', one.join("Guild-g")[-1])

    def test_leaving_a_party_or_guild_removes_with_307(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        for who in (one, two):
            self.town.game.parties[who.account] = "7"
            person = self.town.game.people[who.account]
            self.town.game.people[who.account] = evolve(person, guild="g")
        self.town.clock.advance(2)
        for who in (one, two):
            who.join("Party-7")
            who.join("Guild-g")
        one.heard()
        del self.town.game.parties[two.account]
        self.town.hall.on_party_changed(PartyChanged("7", (two.account,)))
        room = f"Party-7@muc.{DOMAIN}"
        self.assertEqual(two.heard(), [occupant(two, two, room=room, codes="110 307", gone=True)])
        self.assertEqual(one.heard(), [occupant(two, one, room=room, codes="307", gone=True)])
        self.town.hall.on_guild_changed(GuildChanged("g", (two.account,)))
        room = f"Guild-g@muc.{DOMAIN}"
        self.assertEqual(two.heard(), [occupant(two, two, room=room, codes="110 307", gone=True)])
        self.assertEqual(one.heard(), [occupant(two, one, room=room, codes="307", gone=True)])

    def test_membership_is_swept_every_minute(self) -> None:
        one = self.town.bound(1)
        self.town.game.people[account(1)] = evolve(self.town.game.people[account(1)], guild="g")
        one.join("Guild-g")
        self.town.game.people[account(1)] = evolve(self.town.game.people[account(1)], guild=None)
        self.town.pass_time(62)
        self.assertTrue(any('code="307"' in said for said in one.heard()))

    def test_who_is_active_elsewhere_is_swept_too(self) -> None:
        one = self.town.bound(1)
        self.town.game.parties[account(1)] = "7"
        one.join("Party-7")
        one.join("City-1")
        del self.town.game.parties[account(1)]
        self.town.pass_time(55)
        one.say("City-1", "x")
        self.assertFalse(any('code="307"' in said for said in one.heard()))
        self.town.pass_time(6)
        self.assertTrue(any('code="307"' in said for said in one.heard()))

    def test_former_members_are_evicted_before_a_line_is_said(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        for who in (one, two):
            self.town.game.parties[who.account] = "7"
            who.join("Party-7")
        one.heard()
        del self.town.game.parties[two.account]
        room = f"Party-7@muc.{DOMAIN}"
        self.assertEqual(
            one.say("Party-7", "secret")[0], occupant(two, one, room=room, codes="307", gone=True)
        )
        self.assertEqual(two.heard(), [occupant(two, two, room=room, codes="110 307", gone=True)])

    def test_asking_for_a_party_may_bring_the_news_that_it_was_left(self) -> None:
        one, game, hall = self.town.bound(1), self.town.game, self.town.hall
        game.parties[account(1)] = "7"
        one.join("Party-7")

        def settle(game: object, who: str) -> None:
            self.patch(type(game), "party_of", lambda *_: None)
            hall.on_party_changed(PartyChanged("7", (who,)))

        self.patch(type(game), "party_of", settle)
        self.town.pass_time(61)
        self.assertEqual(sum('code="307"' in said for said in one.heard()), 1)

    def test_a_former_member_who_speaks_gets_the_error_and_is_evicted(self) -> None:
        one = self.town.bound(1)
        self.town.game.parties[account(1)] = "7"
        one.join("Party-7")
        del self.town.game.parties[account(1)]
        said = one.say("Party-7", "x")
        self.assertIn("<not-acceptable ", said[0])
        self.assertIn('code="307"', said[1])

    def test_each_nickname_fault_is_forbidden(self) -> None:
        one = self.town.bound(1)
        for nick in (
            f"Player1:{account(2)}:{resource(1)}",
            f"Player1:{account(1)}:{resource(2)}",
            f"Pl ayer1:{account(1)}:{resource(1)}",
            f"Player2:{account(1)}:{resource(1)}",
        ):
            self.assertEqual(one.join("City-1", nick), [refusal(one, nick, "forbidden", "auth")])

    def test_with_nick_check_log_they_only_are_logged_and_a_taken_one_is_a_conflict(self) -> None:
        self.town = Town(Settings(nick_check="log"))
        one, two = self.town.bound(1), self.town.bound(2)
        self.assertIn('code="110"', one.join("City-1", "x y")[0])
        self.assertEqual(two.join("City-1", "x y"), [refusal(two, "x y", "conflict", "cancel")])
        for nick in ("", "x" * 1024):
            self.assertIn("<forbidden ", two.join("City-1", nick)[0])
        self.assertIn('code="110"', two.join("City-1", "x" * 1023)[-1])

    def test_the_old_and_the_new_name_both_pass_after_a_renaming(self) -> None:
        one = self.town.bound(1)
        self.town.game.people[account(1)] = evolve(self.town.game.people[account(1)], name="New")
        self.town.hall.on_renamed(Renamed(account(1), "New"))
        self.assertIn('code="110"', one.join("City-1")[-1])
        said = one.join("City-1", f"New:{account(1)}:{resource(1)}")[-1]
        self.assertTrue("New:" in said and 'code="110"' in said, said)

    def test_too_many_joins_rooms_or_occupants_are_a_limit(self) -> None:
        one = self.town.bound(1)
        said = [one.join(f"City-{n}")[0] for n in range(31)]
        self.assertTrue(all('code="110"' in line for line in said[:30]))
        self.assertIn('<error type="wait"><service-unavailable ', said[30])
        self.town.clock.advance(5)
        self.assertIn("<service-unavailable ", one.join("City-77")[0])
        self.town.hall.rooms = Rooms(max_rooms=1, max_occupants=2)
        two, three, four = (self.town.bound(n) for n in (2, 3, 4))
        two.join("City-1")
        three.join("City-1")
        self.assertIn("<service-unavailable ", four.join("City-1")[0])
        self.assertIn("<service-unavailable ", four.join("City-2")[0])

    def test_a_thousand_rooms_of_256_and_a_full_one_takes_its_own_again(self) -> None:
        rooms = self.town.hall.rooms
        self.assertEqual((rooms.max_rooms, rooms.max_occupants), (1_000, 256))
        self.town.hall.rooms = Rooms(max_occupants=2)
        for number in (1, 2):
            self.town.bound(number).join("City-1")
        self.assertIn("<service-unavailable ", self.town.bound(3).join("City-1")[0])
        again = self.town.bound(1, "other")
        said = again.join("City-1", f"Player1:{account(1)}:other")
        self.assertIn('code="110"', said[-1])

    def test_nothing_is_kept_of_a_room_that_everyone_has_left(self) -> None:
        self.town = Town(Settings(nick_check="log"))
        one, two = self.town.bound(1), self.town.bound(2)
        one.join("City-1", "x")
        one.leave("City-1")
        self.assertEqual((len(self.town.hall.rooms), self.town.hall.rooms.keys()), (0, []))
        two.join("City-1")
        one.join("City-1", "x")
        one.leave("City-1")
        self.assertIn('code="110"', two.join("City-1", "x")[-1])

    def test_a_join_needs_its_mark_only_on_other_hosts(self) -> None:
        one = self.town.bound(1)
        plain = '<presence to="{}/{}"/>'
        for host in (f"muc.{DOMAIN}", f"Conference.{DOMAIN}"):
            said = one.send(plain.format(f"City-1@{host}", one.nick))
            self.assertIn('code="110"', said[-1])
        self.assertEqual(one.send(plain.format(f"City-1@{DOMAIN}", one.nick)), [])

    def test_an_address_that_is_no_room_is_refused_as_it_was_sent(self) -> None:
        one = self.town.bound(1)
        for to in (f"muc.{DOMAIN}", f"@muc.{DOMAIN}", f"a@b@muc.{DOMAIN}"):
            said = one.send(f'<presence to="{to}/n"/>')
            self.assertEqual(said, [refusal(one, "n", "not-allowed", "cancel", to)])

    def test_leaving_tells_the_others_and_the_leaver(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        one.join("City-1")
        two.join("City-1")
        one.heard()
        self.assertEqual(two.leave("City-1"), [occupant(two, two, codes="110", gone=True)])
        self.assertEqual(one.heard(), [occupant(two, one, gone=True)])
        self.assertEqual(two.leave("City-1"), [])

    def test_a_lost_connection_and_a_broadcast_unavailable_leave_every_room(self) -> None:
        one, two, three = (self.town.bound(n) for n in (1, 2, 3))
        for who in (one, two, three):
            who.join("City-1")
        one.heard()
        two.session.lost()
        three.send('<presence type="unavailable"/>')
        self.assertEqual(
            one.heard(), [occupant(two, one, gone=True), occupant(three, one, gone=True)]
        )


class MessageTests(TownTests):
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

    def test_who_blocked_the_sender_does_not_hear_it(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        one.join("City-1")
        two.join("City-1")
        one.heard()
        self.town.game.block(two.account, one.account)
        self.town.hall.on_blocked(Blocked(two.account, one.account))
        self.assertEqual(one.say("City-1", "x"), [message(one, "x")])
        self.assertEqual(two.heard(), [])
        two.say("City-1", "y")
        self.assertEqual(one.heard(), [message(two, "y")])
        three = self.town.bound(3)
        three.join("City-1")
        one.say("City-1", "z")
        self.assertEqual(three.heard(), [message(one, "z")])

    def test_an_unblock_counts_at_once(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        self.town.hall.on_blocked(Blocked(two.account, one.account))
        self.assertEqual(one.whisper(two.account + "@x", "hi"), [])
        self.assertEqual(len(two.heard()), 1)

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

    def test_whispers_that_cannot_be_delivered_vanish_silently(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        self.assertEqual(one.whisper(f"{account(9)}@{DOMAIN}", "x"), [])
        self.assertEqual(one.whisper(f"{account(1)}@{DOMAIN}", "x"), [])
        self.assertEqual(one.whisper(two.jid, ""), [])
        self.assertEqual(one.whisper(two.jid, "x" * 2049), [])
        self.town.game.block(one.account, two.account)
        self.town.hall.on_blocked(Blocked(one.account, two.account))
        for sender, receiver in ((one, two), (two, one)):
            self.assertEqual(sender.whisper(receiver.jid, "x"), [])
            self.assertEqual(receiver.heard(), [])

    def test_whispers_share_the_message_rate(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        for _ in range(20):
            self.assertEqual(one.whisper(two.jid, "x"), [])
        self.assertEqual(len(two.heard()), 8)


class IqAndEndTests(TownTests):
    def test_any_get_or_set_gets_an_empty_result(self) -> None:
        one = self.town.bound(1)
        for inner in ("", '<ping xmlns="urn:xmpp:ping"/>', '<query xmlns="jabber:iq:roster"/>'):
            for kind in ("get", "set"):
                said = one.send(f'<iq type="{kind}" id="&lt;1">{inner}</iq>')
                self.assertEqual(said, [stanza.result("<1")])

    def test_results_errors_and_long_ids_are_ignored(self) -> None:
        one = self.town.bound(1)
        for odd in ('type="result" id="1"', 'type="error" id="1"', f'type="get" id="{"x" * 129}"'):
            self.assertEqual(one.send(f"<iq {odd}/>"), [])

    def test_close_is_answered_and_ends(self) -> None:
        one = self.town.bound(1)
        self.assertEqual(one.send(stanza.CLOSE), [stanza.CLOSE])
        self.assertEqual((one.wire.ended, one.end, len(self.town.hall)), ([1000], "close", 0))

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
        self.assertEqual(one.send('<iq type="get" id="1"/>'), [stanza.result("1")])

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
        self.assertEqual(len(self.flushLoggedErrors()), 1)

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
        self.town.hall.shut()
        for one in (bound, new):
            self.assertEqual((one.heard()[-1], one.wire.ended), (stanza.CLOSE, [1000]))

    def test_a_silent_game_delays_only_the_one_who_asked(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        self.town.clock.advance(2)
        self.town.game.silent = True
        self.assertEqual(one.join("City-1"), [])
        self.assertEqual(one.send('<iq type="get" id="1"/>'), [])
        self.assertEqual(two.send('<iq type="get" id="1"/>'), [stanza.result("1")])
        self.town.game.answer()
        self.assertEqual(one.heard(), [occupant(one, one, codes="110"), stanza.result("1")])
