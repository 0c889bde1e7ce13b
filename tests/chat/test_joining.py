"""Joining and leaving rooms, and rejected attempts. Spec: 2 §4 Chat."""

from attrs import evolve
from twisted.logger import capturedLogs, formatEvent

from svcserver.chat.rooms import Rooms
from svcserver.chat.settings import ChatSettings
from svcserver.kernel.signals import GuildChanged, PartyChanged, Renamed
from tests.chat.fixture import DOMAIN, ChatFixture, account, resource
from tests.chat.stanzas import ChatFixtureTests, evicted, message, not_acceptable, occupant, refusal
from tests.support.proves import proves

GUILD = frozenset({("Guild", "g")})


class JoinTests(ChatFixtureTests):
    @proves("chat: presence to a room (join)")
    def test_a_joiner_sees_the_others_then_itself_last(self) -> None:
        first, second, third = (self.fixture.bound(n) for n in (1, 2, 3))
        self.assertEqual(first.join("City-1"), [occupant(first, first, codes="110")])
        self.assertEqual(
            second.join("City-1"), [occupant(first, second), occupant(second, second, codes="110")]
        )
        self.assertEqual(first.take_texts(), [occupant(second, first)])
        self.assertEqual(
            third.join("City-1"),
            [occupant(first, third), occupant(second, third), occupant(third, third, codes="110")],
        )

    @proves("chat: presence to a room (join)")
    def test_an_older_session_of_the_account_leaves_silently(self) -> None:
        old, new, another = (
            self.fixture.bound(1),
            self.fixture.bound(1, "new"),
            self.fixture.bound(2),
        )
        old.join("City-1")
        another.join("City-1")
        old.take_texts()
        self.assertEqual(
            new.join("City-1"), [occupant(another, new), occupant(new, new, codes="110")]
        )
        self.assertEqual(old.take_texts(), [])
        self.assertEqual(
            another.take_texts(), [occupant(old, another, gone=True), occupant(new, another)]
        )
        self.assertEqual(old.say("City-1", "x"), [not_acceptable(old)])

    def test_joining_again_welcomes_only_the_joiner(self) -> None:
        first, second = self.fixture.pair()
        self.assertEqual(
            second.join("City-1"), [occupant(first, second), occupant(second, second, codes="110")]
        )
        self.assertEqual(first.take_texts(), [])

    def test_a_session_leaves_the_room_before_it_takes_another_nickname(self) -> None:
        client = self.fixture.joined(1)
        replies = client.join("City-1", client.nick.replace("Player1", "Pl%61yer1"))
        self.assertEqual(replies[0], occupant(client, client, codes="110", gone=True))
        self.assertIn("Pl%61yer1:", replies[1])

    @proves("chat: Rooms")
    def test_the_alias_is_another_room_and_the_host_is_echoed_as_sent(self) -> None:
        first, second = self.fixture.bound(1), self.fixture.bound(2)
        first.join("City-1", host=f"conference.{DOMAIN}")
        replies = second.join("City-1", host=f"MUC.{DOMAIN}")
        self.assertEqual(len(replies), 1)
        self.assertIn(f'from="City-1@MUC.{DOMAIN}/', replies[0])

    def test_players_behind_other_relays_meet_each_under_its_own_domain(self) -> None:
        client, far = self.fixture.bound(1), self.fixture.connect(2)
        far.open("127.0.0.1:61010")
        far.auth()
        far.bind()
        client.join("City-1")
        far.join("City-1", host="muc.127.0.0.1:61010")
        room = "City-1@muc.127.0.0.1:61010"
        replies = far.send(
            f'<message type="groupchat" to="{room}" id="m1"><body>hi</body></message>'
        )
        self.assertIn('from="City-1@muc.127.0.0.1:61010/', replies[0])
        self.assertEqual(client.take_texts()[-1], message(far, "hi"))

    @proves("chat: Join refusal: not-allowed")
    def test_invalid_room_names_and_domains_are_not_allowed(self) -> None:
        client = self.fixture.bound(1)
        self.assertEqual(
            client.join("Bad"),
            [refusal(client, client.nick, "not-allowed", "cancel", f"Bad@muc.{DOMAIN}")],
        )
        for room, host in (
            ("City-1", "muc.elsewhere"),
            ("City-1", DOMAIN),
            ("Hunt-", f"muc.{DOMAIN}"),
        ):
            self.assertIn("<not-allowed ", client.join(room, host=host)[0])

    @proves("chat: Join refusal: not-member", "chat: Rooms")
    def test_a_party_room_is_for_its_members(self) -> None:
        client = self.fixture.bound(1)
        self.assertIn("<forbidden ", client.join("Party-7")[0])
        self.fixture.game.parties[account(1)] = "7"
        self.assertIn('code="110"', client.join("Party-7")[-1])

    @proves("chat: Join refusal: not-member", "chat: Rooms")
    def test_a_guild_room_admits_members_only_and_new_members_at_once(self) -> None:
        client = self.fixture.bound(1)
        self.assertIn("<forbidden ", client.join("Guild-g")[0])
        self.fixture.game.people[account(1)] = evolve(
            self.fixture.game.people[account(1)], rooms=GUILD
        )
        self.assertIn('code="110"', client.join("Guild-g")[-1])

    @proves("state: Chat connection")
    def test_leaving_a_party_or_guild_removes_with_307(self) -> None:
        first, second = self.fixture.bound(1), self.fixture.bound(2)
        for who in (first, second):
            self.fixture.game.parties[who.account] = "7"
            person = self.fixture.game.people[who.account]
            self.fixture.game.people[who.account] = evolve(person, rooms=GUILD)
        self.fixture.clock.advance(2)
        for who in (first, second):
            who.join("Party-7")
            who.join("Guild-g")
        first.take_texts()
        del self.fixture.game.parties[second.account]
        self.fixture.server.on_party_changed(PartyChanged("7", (second.account,)))
        room = f"Party-7@muc.{DOMAIN}"
        self.assertEqual(second.take_texts(), [evicted(second, second, room)])
        self.assertEqual(first.take_texts(), [evicted(second, first, room)])
        self.fixture.server.on_guild_changed(GuildChanged("g", (second.account,)))
        room = f"Guild-g@muc.{DOMAIN}"
        self.assertEqual(second.take_texts(), [evicted(second, second, room)])
        self.assertEqual(first.take_texts(), [evicted(second, first, room)])

    def test_leaving_or_dissolving_a_guild_removes_from_its_room(self) -> None:
        first, second = self.fixture.bound(1), self.fixture.bound(2)
        for who in (first, second):
            person = self.fixture.game.people[who.account]
            self.fixture.game.people[who.account] = evolve(person, rooms=GUILD)
        self.fixture.clock.advance(2)
        room = f"Guild-g@muc.{DOMAIN}"
        for who in (first, second):
            who.join("Guild-g")
        first.take_texts()
        for news in (GuildChanged("h", ()), GuildChanged("", ("nobody",))):
            self.fixture.server.on_guild_changed(news)
        self.assertEqual((first.take_texts(), second.take_texts()), ([], []))
        self.fixture.server.on_guild_changed(GuildChanged("", (second.account,)))
        self.assertEqual(second.take_texts(), [evicted(second, second, room)])
        self.assertEqual(first.take_texts(), [evicted(second, first, room)])
        self.fixture.server.on_guild_changed(GuildChanged("g", ()))
        self.assertEqual(first.take_texts(), [evicted(first, first, room)])

    def test_membership_is_swept_every_minute(self) -> None:
        client = self.fixture.bound(1)
        self.fixture.game.people[account(1)] = evolve(
            self.fixture.game.people[account(1)], rooms=GUILD
        )
        client.join("Guild-g")
        self.fixture.game.people[account(1)] = evolve(
            self.fixture.game.people[account(1)], rooms=frozenset()
        )
        self.fixture.pass_time(62)
        self.assertTrue(any('code="307"' in text for text in client.take_texts()))

    @proves("state: Chat connection")
    def test_sessions_active_in_other_rooms_are_swept(self) -> None:
        client = self.fixture.bound(1)
        self.fixture.game.parties[account(1)] = "7"
        client.join("Party-7")
        client.join("City-1")
        del self.fixture.game.parties[account(1)]
        self.fixture.pass_time(55)
        client.say("City-1", "x")
        self.assertFalse(any('code="307"' in text for text in client.take_texts()))
        self.fixture.pass_time(6)
        self.assertTrue(any('code="307"' in text for text in client.take_texts()))

    def test_former_members_of_a_guild_are_evicted_before_a_line(self) -> None:
        first, second = self.fixture.bound(1), self.fixture.bound(2)
        for who in (first, second):
            person = self.fixture.game.people[who.account]
            self.fixture.game.people[who.account] = evolve(person, rooms=GUILD)
            who.join("Guild-g")
        self.fixture.game.people[second.account] = evolve(person, rooms=frozenset())
        self.fixture.clock.advance(2)
        second.whisper(first.jid, "still here")  # the chat asks the game about this whisper
        second.take_texts()
        self.assertIn("<body>hi</body>", first.say("Guild-g", "hi")[-1])
        room = f"Guild-g@muc.{DOMAIN}"
        self.assertEqual(second.take_texts(), [evicted(second, second, room)])

    @proves("chat: Rooms")
    def test_former_members_are_evicted_before_a_line(self) -> None:
        first, second = self.fixture.bound(1), self.fixture.bound(2)
        for who in (first, second):
            self.fixture.game.parties[who.account] = "7"
            who.join("Party-7")
        first.take_texts()
        del self.fixture.game.parties[second.account]
        room = f"Party-7@muc.{DOMAIN}"
        self.assertEqual(
            first.say("Party-7", "secret")[0],
            evicted(second, first, room),
        )
        self.assertEqual(second.take_texts(), [evicted(second, second, room)])

    def test_a_party_left_during_the_question_for_it_evicts_once(self) -> None:
        client, game, server = self.fixture.bound(1), self.fixture.game, self.fixture.server
        game.parties[account(1)] = "7"
        client.join("Party-7")

        def settle(game: object, who: str) -> None:
            self.patch(type(game), "party_of", lambda *_: None)
            server.on_party_changed(PartyChanged("7", (who,)))

        self.patch(type(game), "party_of", settle)
        self.fixture.pass_time(61)
        self.assertEqual(sum('code="307"' in text for text in client.take_texts()), 1)

    def test_a_line_of_a_former_member_is_refused_and_evicts_the_member(self) -> None:
        client = self.fixture.bound(1)
        self.fixture.game.parties[account(1)] = "7"
        client.join("Party-7")
        del self.fixture.game.parties[account(1)]
        replies = client.say("Party-7", "x")
        self.assertIn("<not-acceptable ", replies[0])
        self.assertIn('code="307"', replies[1])

    @proves("chat: Join refusal: nickname")
    def test_each_nickname_fault_is_forbidden(self) -> None:
        client = self.fixture.bound(1)
        for nick in (
            f"Player1:{account(2)}:{resource(1)}",
            f"Player1:{account(1)}:{resource(2)}",
            f"Pl ayer1:{account(1)}:{resource(1)}",
            f"Player2:{account(1)}:{resource(1)}",
        ):
            self.assertEqual(
                client.join("City-1", nick), [refusal(client, nick, "forbidden", "auth")]
            )

    def test_a_join_without_nickname_is_refused_by_the_room(self) -> None:
        client = self.fixture.bound(1)
        [reply] = client.send(f'<presence to="City-1@muc.{DOMAIN}"/>')
        self.assertIn(f'from="City-1@muc.{DOMAIN}" ', reply)
        self.assertIn('<x xmlns="http://jabber.org/protocol/muc"', reply)

    def test_a_non_member_is_forbidden(self) -> None:
        client = self.fixture.bound(1)
        for room in ("Party-7", "Guild-8"):
            expected = refusal(client, client.nick, "forbidden", "auth", f"{room}@muc.{DOMAIN}")
            self.assertEqual(client.join(room), [expected])

    @proves("chat: CHAT_NICK_CHECK=log", "chat: Join refusal: conflict")
    def test_nick_check_log_only_logs_faults_and_refuses_conflicts(self) -> None:
        self.fixture = ChatFixture(ChatSettings(nick_check="log"))
        first, second = self.fixture.bound(1), self.fixture.bound(2)
        with capturedLogs() as events:
            self.assertIn('code="110"', first.join("City-1", "x y")[0])
        lines = [formatEvent(event) for event in events]
        self.assertTrue(
            any(line.endswith(": allowed, because CHAT_NICK_CHECK is log") for line in lines), lines
        )
        self.assertEqual(
            second.join("City-1", "x y"), [refusal(second, "x y", "conflict", "cancel")]
        )
        for nick in ("", "x" * 1024):
            self.assertIn("<forbidden ", second.join("City-1", nick)[0])
        self.assertIn('code="110"', second.join("City-1", "x" * 1023)[-1])

    def test_the_old_and_the_new_name_both_pass_after_a_renaming(self) -> None:
        client = self.fixture.bound(1)
        self.fixture.game.people[account(1)] = evolve(
            self.fixture.game.people[account(1)], name="New"
        )
        self.fixture.server.on_renamed(Renamed(account(1), "New"))
        self.assertIn('code="110"', client.join("City-1")[-1])
        replies = client.join("City-1", f"New:{account(1)}:{resource(1)}")[-1]
        self.assertTrue("New:" in replies and 'code="110"' in replies, replies)

    @proves("chat: Join refusal: limit")
    def test_too_many_joins_rooms_or_occupants_are_a_limit(self) -> None:
        client = self.fixture.bound(1)
        lines = [client.join(f"City-{n}")[0] for n in range(31)]
        self.assertTrue(all('code="110"' in line for line in lines[:30]))
        self.assertIn('<error type="wait"><service-unavailable ', lines[30])
        self.fixture.clock.advance(5)
        self.assertIn("<service-unavailable ", client.join("City-77")[0])
        self.fixture = ChatFixture(rooms=Rooms(max_rooms=1, max_occupants=2))
        two, three, four = (self.fixture.bound(n) for n in (2, 3, 4))
        two.join("City-1")
        three.join("City-1")
        self.assertIn("<service-unavailable ", four.join("City-1")[0])
        self.assertIn("<service-unavailable ", four.join("City-2")[0])

    @proves("chat: Join refusal: limit")
    def test_rooms_are_limited_and_a_full_room_readmits_occupants(self) -> None:
        rooms = self.fixture.server.rooms
        self.assertEqual((rooms.max_rooms, rooms.max_occupants), (1_000, 256))
        self.fixture = ChatFixture(rooms=Rooms(max_occupants=2))
        for number in (1, 2):
            self.fixture.bound(number).join("City-1")
        self.assertIn("<service-unavailable ", self.fixture.bound(3).join("City-1")[0])
        again = self.fixture.bound(1, "other")
        replies = again.join("City-1", f"Player1:{account(1)}:other")
        self.assertIn('code="110"', replies[-1])

    def test_nothing_is_kept_of_a_room_that_everyone_has_left(self) -> None:
        self.fixture = ChatFixture(ChatSettings(nick_check="log"))
        first, second = self.fixture.bound(1), self.fixture.bound(2)
        first.join("City-1", "x")
        first.leave("City-1")
        self.assertEqual(
            (len(self.fixture.server.rooms), self.fixture.server.rooms.keys()), (0, [])
        )
        second.join("City-1")
        first.join("City-1", "x")
        first.leave("City-1")
        self.assertIn('code="110"', second.join("City-1", "x")[-1])

    def test_a_plain_presence_joins_only_on_the_hosts_of_rooms(self) -> None:
        client = self.fixture.bound(1)
        plain = '<presence to="{}/{}"/>'
        for host in (f"muc.{DOMAIN}", f"Conference.{DOMAIN}"):
            replies = client.send(plain.format(f"City-1@{host}", client.nick))
            self.assertIn('code="110"', replies[-1])
        self.assertEqual(client.send(plain.format(f"City-1@{DOMAIN}", client.nick)), [])

    @proves("chat: Join refusal: not-allowed")
    def test_an_address_that_is_no_room_is_refused_as_it_was_sent(self) -> None:
        client = self.fixture.bound(1)
        for to in (f"muc.{DOMAIN}", f"@muc.{DOMAIN}", f"a@b@muc.{DOMAIN}"):
            replies = client.send(f'<presence to="{to}/n"/>')
            self.assertEqual(replies, [refusal(client, "n", "not-allowed", "cancel", to)])

    @proves("chat: presence type=unavailable to a room (leave)")
    def test_leaving_a_room_is_announced_to_the_others_and_the_leaver(self) -> None:
        first, second = self.fixture.pair()
        self.assertEqual(second.leave("City-1"), [occupant(second, second, codes="110", gone=True)])
        self.assertEqual(first.take_texts(), [occupant(second, first, gone=True)])
        self.assertEqual(second.leave("City-1"), [])

    @proves("chat: presence type=unavailable or connection ends")
    def test_disconnect_and_unavailable_leave_every_room(self) -> None:
        first, second, third = (self.fixture.bound(n) for n in (1, 2, 3))
        for who in (first, second, third):
            who.join("City-1")
        first.take_texts()
        second.session.on_connection_lost()
        third.send('<presence type="unavailable"/>')
        self.assertEqual(
            first.take_texts(),
            [occupant(second, first, gone=True), occupant(third, first, gone=True)],
        )
