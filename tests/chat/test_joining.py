"""Joining rooms, leaving them, and who may not. Spec: 2 §4 Chat."""

from __future__ import annotations

from attrs import evolve
from twisted.logger import capturedLogs, formatEvent

from svcserver.chat.rooms import Rooms
from svcserver.chat.settings import Settings
from svcserver.kernel.signals import GuildChanged, PartyChanged, Renamed
from tests.chat.stanzas import TownTests, message, not_acceptable, occupant, refusal
from tests.chat.town import DOMAIN, Town, account, resource
from tests.support.proves import proves


class JoinTests(TownTests):
    @proves("chat: presence to a room (join)")
    def test_the_joiner_sees_the_others_then_the_others_the_joiner_then_itself_last(self) -> None:
        one, two, three = (self.town.bound(n) for n in (1, 2, 3))
        self.assertEqual(one.join("City-1"), [occupant(one, one, codes="110")])
        self.assertEqual(two.join("City-1"), [occupant(one, two), occupant(two, two, codes="110")])
        self.assertEqual(one.heard(), [occupant(two, one)])
        self.assertEqual(
            three.join("City-1"),
            [occupant(one, three), occupant(two, three), occupant(three, three, codes="110")],
        )

    @proves("chat: presence to a room (join)")
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

    @proves("chat: Rooms")
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

    @proves("chat: Join refusal: not-allowed")
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

    @proves("chat: Join refusal: not-member", "chat: Rooms")
    def test_a_party_room_is_for_its_members(self) -> None:
        one = self.town.bound(1)
        self.assertIn("<forbidden ", one.join("Party-7")[0])
        self.town.game.parties[account(1)] = "7"
        self.assertIn('code="110"', one.join("Party-7")[-1])

    @proves("chat: Join refusal: not-member", "chat: Rooms")
    def test_a_guild_room_is_for_its_members_and_knows_new_ones_at_once(self) -> None:
        one = self.town.bound(1)
        self.assertIn("<forbidden ", one.join("Guild-g")[0])
        self.town.game.people[account(1)] = evolve(self.town.game.people[account(1)], guild="g")
        self.assertIn('code="110"', one.join("Guild-g")[-1])

    @proves("state: Chat connection")
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
        self.town.server.on_party_changed(PartyChanged("7", (two.account,)))
        room = f"Party-7@muc.{DOMAIN}"
        self.assertEqual(two.heard(), [occupant(two, two, room=room, codes="110 307", gone=True)])
        self.assertEqual(one.heard(), [occupant(two, one, room=room, codes="307", gone=True)])
        self.town.server.on_guild_changed(GuildChanged("g", (two.account,)))
        room = f"Guild-g@muc.{DOMAIN}"
        self.assertEqual(two.heard(), [occupant(two, two, room=room, codes="110 307", gone=True)])
        self.assertEqual(one.heard(), [occupant(two, one, room=room, codes="307", gone=True)])

    def test_who_is_in_no_guild_or_of_one_that_is_gone_leaves_its_room(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        for who in (one, two):
            person = self.town.game.people[who.account]
            self.town.game.people[who.account] = evolve(person, guild="g")
        self.town.clock.advance(2)
        room = f"Guild-g@muc.{DOMAIN}"
        for who in (one, two):
            who.join("Guild-g")
        one.heard()
        for news in (GuildChanged("h", ()), GuildChanged("", ("nobody",))):
            self.town.server.on_guild_changed(news)
        self.assertEqual((one.heard(), two.heard()), ([], []))
        self.town.server.on_guild_changed(GuildChanged("", (two.account,)))
        self.assertEqual(two.heard(), [occupant(two, two, room=room, codes="110 307", gone=True)])
        self.assertEqual(one.heard(), [occupant(two, one, room=room, codes="307", gone=True)])
        self.town.server.on_guild_changed(GuildChanged("g", ()))
        self.assertEqual(one.heard(), [occupant(one, one, room=room, codes="110 307", gone=True)])

    def test_membership_is_swept_every_minute(self) -> None:
        one = self.town.bound(1)
        self.town.game.people[account(1)] = evolve(self.town.game.people[account(1)], guild="g")
        one.join("Guild-g")
        self.town.game.people[account(1)] = evolve(self.town.game.people[account(1)], guild=None)
        self.town.pass_time(62)
        self.assertTrue(any('code="307"' in said for said in one.heard()))

    @proves("state: Chat connection")
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

    def test_former_members_of_a_guild_hear_no_line_either(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        for who in (one, two):
            person = self.town.game.people[who.account]
            self.town.game.people[who.account] = evolve(person, guild="g")
            who.join("Guild-g")
        self.town.game.people[two.account] = evolve(person, guild=None)
        self.town.clock.advance(2)
        two.whisper(one.jid, "still here")  # for which the game is asked
        two.heard()
        self.assertIn("<body>hi</body>", one.say("Guild-g", "hi")[-1])
        room = f"Guild-g@muc.{DOMAIN}"
        self.assertEqual(two.heard(), [occupant(two, two, room=room, codes="110 307", gone=True)])

    @proves("chat: Rooms")
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
        one, game, server = self.town.bound(1), self.town.game, self.town.server
        game.parties[account(1)] = "7"
        one.join("Party-7")

        def settle(game: object, who: str) -> None:
            self.patch(type(game), "party_of", lambda *_: None)
            server.on_party_changed(PartyChanged("7", (who,)))

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

    @proves("chat: Join refusal: nickname")
    def test_each_nickname_fault_is_forbidden(self) -> None:
        one = self.town.bound(1)
        for nick in (
            f"Player1:{account(2)}:{resource(1)}",
            f"Player1:{account(1)}:{resource(2)}",
            f"Pl ayer1:{account(1)}:{resource(1)}",
            f"Player2:{account(1)}:{resource(1)}",
        ):
            self.assertEqual(one.join("City-1", nick), [refusal(one, nick, "forbidden", "auth")])

    def test_who_names_no_nickname_is_refused_by_the_room_itself(self) -> None:
        one = self.town.bound(1)
        [said] = one.send(f'<presence to="City-1@muc.{DOMAIN}"/>')
        self.assertIn(f'from="City-1@muc.{DOMAIN}" ', said)
        self.assertIn('<x xmlns="http://jabber.org/protocol/muc"', said)

    def test_who_is_no_member_is_forbidden(self) -> None:
        one = self.town.bound(1)
        for room in ("Party-7", "Guild-8"):
            said = refusal(one, one.nick, "forbidden", "auth", f"{room}@muc.{DOMAIN}")
            self.assertEqual(one.join(room), [said])

    @proves("chat: CHAT_NICK_CHECK=log", "chat: Join refusal: conflict")
    def test_with_nick_check_log_they_only_are_logged_and_a_taken_one_is_a_conflict(self) -> None:
        self.town = Town(Settings(nick_check="log"))
        one, two = self.town.bound(1), self.town.bound(2)
        with capturedLogs() as events:
            self.assertIn('code="110"', one.join("City-1", "x y")[0])
        said = [formatEvent(one) for one in events]
        self.assertTrue(any(one.endswith(": not enforced") for one in said), said)
        self.assertEqual(two.join("City-1", "x y"), [refusal(two, "x y", "conflict", "cancel")])
        for nick in ("", "x" * 1024):
            self.assertIn("<forbidden ", two.join("City-1", nick)[0])
        self.assertIn('code="110"', two.join("City-1", "x" * 1023)[-1])

    def test_the_old_and_the_new_name_both_pass_after_a_renaming(self) -> None:
        one = self.town.bound(1)
        self.town.game.people[account(1)] = evolve(self.town.game.people[account(1)], name="New")
        self.town.server.on_renamed(Renamed(account(1), "New"))
        self.assertIn('code="110"', one.join("City-1")[-1])
        said = one.join("City-1", f"New:{account(1)}:{resource(1)}")[-1]
        self.assertTrue("New:" in said and 'code="110"' in said, said)

    @proves("chat: Join refusal: limit")
    def test_too_many_joins_rooms_or_occupants_are_a_limit(self) -> None:
        one = self.town.bound(1)
        said = [one.join(f"City-{n}")[0] for n in range(31)]
        self.assertTrue(all('code="110"' in line for line in said[:30]))
        self.assertIn('<error type="wait"><service-unavailable ', said[30])
        self.town.clock.advance(5)
        self.assertIn("<service-unavailable ", one.join("City-77")[0])
        self.town = Town(rooms=Rooms(max_rooms=1, max_occupants=2))
        two, three, four = (self.town.bound(n) for n in (2, 3, 4))
        two.join("City-1")
        three.join("City-1")
        self.assertIn("<service-unavailable ", four.join("City-1")[0])
        self.assertIn("<service-unavailable ", four.join("City-2")[0])

    @proves("chat: Join refusal: limit")
    def test_a_thousand_rooms_of_256_and_a_full_one_takes_its_own_again(self) -> None:
        rooms = self.town.server.rooms
        self.assertEqual((rooms.max_rooms, rooms.max_occupants), (1_000, 256))
        self.town = Town(rooms=Rooms(max_occupants=2))
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
        self.assertEqual((len(self.town.server.rooms), self.town.server.rooms.keys()), (0, []))
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

    @proves("chat: Join refusal: not-allowed")
    def test_an_address_that_is_no_room_is_refused_as_it_was_sent(self) -> None:
        one = self.town.bound(1)
        for to in (f"muc.{DOMAIN}", f"@muc.{DOMAIN}", f"a@b@muc.{DOMAIN}"):
            said = one.send(f'<presence to="{to}/n"/>')
            self.assertEqual(said, [refusal(one, "n", "not-allowed", "cancel", to)])

    @proves("chat: presence type=unavailable to a room (leave)")
    def test_leaving_tells_the_others_and_the_leaver(self) -> None:
        one, two = self.town.bound(1), self.town.bound(2)
        one.join("City-1")
        two.join("City-1")
        one.heard()
        self.assertEqual(two.leave("City-1"), [occupant(two, two, codes="110", gone=True)])
        self.assertEqual(one.heard(), [occupant(two, one, gone=True)])
        self.assertEqual(two.leave("City-1"), [])

    @proves("chat: presence type=unavailable or connection ends")
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
