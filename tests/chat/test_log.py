"""The content of log lines, and what they never contain."""

from __future__ import annotations

from typing import Any

from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.session import outline
from svcserver.chat.settings import ChatSettings
from svcserver.chat.stanza import parse
from svcserver.kernel.counters import Counted
from svcserver.kernel.signals import Blocked
from tests.chat.fixture import DOMAIN, ChatFixture, Client, account, resource
from tests.support.proves import proves


class LogTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.lines: list[str] = []

        def observe(event: dict[str, Any]) -> None:
            self.lines.append(str(formatEvent(event)))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)

    def test_a_session_is_logged_from_connect_to_close(self) -> None:
        fixture = ChatFixture()
        client = fixture.joined(1)
        client.say("City-1", "hello")
        client.whisper(f"{account(9)}@{DOMAIN}", "psst")
        client.session.on_connection_lost()
        uid, room = account(1), f"City-1@muc.{DOMAIN}"
        self.assertEqual(
            self.lines,
            [
                "connect c=1 from=127.0.0.1 via=direct",
                f"login ok c=1 uid={uid}",
                f"bound c=1 uid={uid} resource={resource(1)} domain={DOMAIN} sessions=1",
                f"join room={room} uid={uid} name=Player1 occupants=1",
                f"message room={room} uid={uid} len=5 to=1",
                f"whisper from={uid} to={account(9)} len=4 reason=offline",
                f"leave room={room} uid={uid} reason=disconnect",
                f"closed c=1 uid={uid} reason=socket after=0s",
            ],
        )

    def test_a_repeated_refused_join_is_logged_once(self) -> None:
        client = ChatFixture().bound(1)
        for number in range(9):
            client.join(f"Party-{number}")
            client.join("x" * 200)
        refused = [line for line in self.lines if line.startswith("join refused")]
        self.assertEqual(len(refused), 2)
        self.assertIn("room=" + "x" * 80 + " uid=", refused[1])

    def test_a_flood_of_bad_logins_is_sampled_and_counted(self) -> None:
        fixture = ChatFixture()
        for number in range(500):
            stranger = fixture.opened(1, address=f"203.0.{number % 250}.9")
            stranger.auth("expired")
            stranger.session.on_connection_lost()
        flood, dropped = len(self.lines), Counted.DROPPED_LOG_LINES
        self.assertLess(flood, 450)
        self.assertEqual(
            fixture.server.counters.by_reason(dropped), {"chat_refusals": 1500 - flood}
        )
        fixture.pass_time(60)
        friend = fixture.connect(2, address="198.51.100.7").log_in()
        self.assertIn(f"via=gateway omitted={1500 - flood}", "\n".join(self.lines))
        friend.session.on_connection_lost()
        self.assertIn(f"uid={account(2)} reason=socket", self.lines[-1])

    def test_a_key_sent_as_the_name_of_a_login_is_not_logged(self) -> None:
        stranger = ChatFixture().connect(1)
        stranger.open()
        stranger.auth("expired", who="UUK_" + "0a" * 20)
        self.assertIn("login refused c=1 reason=expired uid=<key>", self.lines)

    def test_the_log_names_the_reason_for_leaving_a_room(self) -> None:
        fixture = ChatFixture()
        client, game = fixture.bound(1), fixture.game
        for number in (1, 2, 3):
            client.join(f"City-{number}")
        client.leave("City-1")
        another = fixture.bound(1, "other")
        another.join("City-2", f"Player1:{account(1)}:other")
        client.send('<presence type="unavailable"/>')
        game.parties[account(1)] = "7"
        client.join("Party-7")
        del game.parties[account(1)]
        client.join("Party-7")
        left = [line.split() for line in self.lines if line.startswith("leave ")]
        self.assertEqual(
            [(room.partition("@")[0], why) for _, room, _, why in left],
            [
                ("room=City-1", "reason=left"),
                ("room=City-2", "reason=replaced"),
                ("room=City-3", "reason=left"),
                ("room=Party-7", "reason=evicted"),
            ],
        )

    def test_each_kind_of_room_and_each_reason_has_its_own_line(self) -> None:
        client = ChatFixture().bound(1)
        for room in ("Party-1", "Guild-1", "City-1"):
            for nick in (client.nick, "x", "x"):
                client.join(room, nick)
        refused = [line.split()[2:] for line in self.lines if line.startswith("join refused")]
        rooms = [room.partition("@")[0] for room, *_ in refused]
        self.assertEqual(rooms, ["room=Party-1", "room=Guild-1", "room=City-1"])

    def test_a_whisper_without_a_body_is_logged_with_length_0(self) -> None:
        client = ChatFixture().bound(1)
        client.send(f'<message type="chat" to="{account(2)}@{DOMAIN}"/>')
        self.assertIn(f"whisper from={account(1)} to={account(2)} len=0 reason=body", self.lines)

    def test_whisper_outcomes_and_blocked_lines_are_logged(self) -> None:
        fixture = ChatFixture()
        first, second = fixture.bound(1), fixture.bound(2)
        fixture.bound(2, "other")
        first.join("City-1")
        second.join("City-1")
        to = f"{account(2)}@{DOMAIN}"
        first.whisper(to, "to both")
        first.whisper(second.jid, "to one")
        first.whisper(f"{account(1)}@{DOMAIN}", "to itself")
        first.say("City-1", "x")
        fixture.server.on_blocked(Blocked(account(2), account(1)))
        fixture.game.block(account(2), account(1))
        first.whisper(to, "blocked")
        first.say("City-1", "x")
        self.assertEqual(
            [line.split()[-1] for line in self.lines if line.startswith("whisper")],
            ["delivered=2", "delivered=1", "reason=self", "reason=blocked"],
        )
        self.assertEqual(
            [line.partition("len=1 ")[2] for line in self.lines if line.startswith("message")],
            ["to=2", "to=1 blocked=1"],
        )

    def test_a_refused_join_is_logged_again_after_ten_minutes(self) -> None:
        fixture = ChatFixture()
        client = fixture.bound(1)
        for seconds, count in ((0, 1), (599.5, 1), (0.5, 2)):
            fixture.clock.advance(seconds)
            client.join("Party-1")
            refused = [line for line in self.lines if line.startswith("join refused")]
            self.assertEqual(len(refused), count)

    def refused(self, client: Client, token: str, who: str | None = None) -> str:
        client.open()
        client.auth(token, who=who)
        [line] = [item for item in self.lines if item.startswith("login refused")]
        self.lines.clear()
        return line.partition("reason=")[2]

    @proves("chat: Refused login")
    def test_login_refusals_have_their_reason(self) -> None:
        for token, reason in (
            ("expired", f"expired uid={account(1)}"),
            ("x", f"bad-token uid={account(1)}"),
            ("x" * 8_192, f"bad-token uid={account(1)}"),
            ("x" * 8_193, "bad-format uid="),
            ("", "bad-format uid="),
            ("token y", f"uid-mismatch uid={account(1)}"),
        ):
            self.assertEqual(self.refused(ChatFixture().connect(1), token), reason)
        stranger = f"no-account uid={account(999)}"
        client = ChatFixture().connect(1)
        self.assertEqual(self.refused(client, f"token {account(999)}", account(999)), stranger)

    @proves("chat: Refused login")
    def test_waits_are_logged_throttled_and_a_silent_game_unavailable(self) -> None:
        fixture, address = ChatFixture(), "203.0.113.9"
        for _ in range(10):
            client = fixture.connect(1, address=address)
            self.refused(client, "x")
            client.session.on_connection_lost()
        for number in (1, 2):
            held = fixture.connect(number, address=address)
            self.assertEqual(self.refused(held, "x"), f"throttled uid={account(number)}")
        fixture.game.silent = True
        client = fixture.opened(3)
        client.auth()
        fixture.clock.advance(10)
        self.assertEqual(self.lines[-1], f"login refused c=13 reason=unavailable uid={account(3)}")

    def test_a_player_behind_the_gateway_is_named_by_address(self) -> None:
        ChatFixture().connect(1, address="203.0.113.9")
        self.assertEqual(self.lines, ["connect c=1 from=203.0.113.9 via=gateway"])

    def test_the_trace_shows_neither_tokens_nor_texts(self) -> None:
        client = ChatFixture(ChatSettings(trace=True)).bound(1)
        client.join("City-1")
        client.say("City-1", "hello")
        trace = "\n".join(self.lines)
        self.assertIn("trace c=1 in <auth", trace)
        self.assertIn("[redacted]", trace)
        self.assertIn("<body>[5 chars]</body>", trace)
        self.assertNotIn("hello", trace)
        self.assertNotIn("AFVJRC0w", trace)  # base64 of NUL UID-0

    def test_texts_hidden_in_cdata_or_children_stay_hidden(self) -> None:
        for hidden in ("<body><![CDATA[secret]]></body>", "<auth><a>secret</a></auth>"):
            self.assertNotIn("secret", outline(parse(f"<m>{hidden}</m>")))
