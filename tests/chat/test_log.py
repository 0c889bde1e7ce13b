"""What the log says, and what it never does."""

from __future__ import annotations

from typing import Any

from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.session import outline
from svcserver.chat.settings import Settings
from svcserver.chat.stanza import parse
from svcserver.kernel.counters import Counted
from svcserver.kernel.signals import Blocked
from tests.chat.town import DOMAIN, Client, Town, account, resource
from tests.support.proves import proves


class LogTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.lines: list[str] = []

        def observe(event: dict[str, Any]) -> None:
            self.lines.append(str(formatEvent(event)))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)

    def test_a_session_leaves_its_lines(self) -> None:
        town = Town()
        one = town.bound(1)
        one.join("City-1")
        one.say("City-1", "hello")
        one.whisper(f"{account(9)}@{DOMAIN}", "psst")
        one.session.lost()
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

    def test_a_refused_join_is_logged_once_per_kind_and_reason_in_ten_minutes(self) -> None:
        one = Town().bound(1)
        for number in range(9):
            one.join(f"Party-{number}")
            one.join("x" * 200)
        refused = [line for line in self.lines if line.startswith("join refused")]
        self.assertEqual(len(refused), 2)
        self.assertIn("room=" + "x" * 80 + " uid=", refused[1])

    def test_a_flood_of_bad_logins_has_some_lines_and_the_next_counts_the_rest(self) -> None:
        town = Town()
        for number in range(500):
            stranger = town.connect(1, address=f"203.0.{number % 250}.9")
            stranger.open()
            stranger.auth("expired")
            stranger.session.lost()
        flood, dropped = len(self.lines), Counted.DROPPED_LOG_LINES
        self.assertLess(flood, 450)
        self.assertEqual(town.server.counters.by_reason(dropped), {"chat_refusals": 1500 - flood})
        town.pass_time(60)
        friend = town.connect(2, address="198.51.100.7").log_in()
        self.assertIn(f"via=gateway omitted={1500 - flood}", "\n".join(self.lines))
        friend.session.lost()
        self.assertIn(f"uid={account(2)} reason=socket", self.lines[-1])

    def test_a_login_in_a_name_that_holds_a_secret_shows_none(self) -> None:
        stranger = Town().connect(1)
        stranger.open()
        stranger.auth("expired", who="UUK_" + "0a" * 20)
        self.assertIn("login refused c=1 reason=expired uid=<key>", self.lines)

    def test_why_a_room_was_left_is_named(self) -> None:
        town = Town()
        one, game = town.bound(1), town.game
        for number in (1, 2, 3):
            one.join(f"City-{number}")
        one.leave("City-1")
        other = town.bound(1, "other")
        other.join("City-2", f"Player1:{account(1)}:other")
        one.send('<presence type="unavailable"/>')
        game.parties[account(1)] = "7"
        one.join("Party-7")
        del game.parties[account(1)]
        one.join("Party-7")
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
        one = Town().bound(1)
        for room in ("Party-1", "Guild-1", "City-1"):
            for nick in (one.nick, "x", "x"):
                one.join(room, nick)
        refused = [line.split()[2:] for line in self.lines if line.startswith("join refused")]
        rooms = [room.partition("@")[0] for room, *_ in refused]
        self.assertEqual(rooms, ["room=Party-1", "room=Guild-1", "room=City-1"])

    def test_a_whisper_of_nothing_has_no_length(self) -> None:
        one = Town().bound(1)
        one.send(f'<message type="chat" to="{account(2)}@{DOMAIN}"/>')
        self.assertIn(f"whisper from={account(1)} to={account(2)} len=0 reason=body", self.lines)

    def test_what_became_of_a_whisper_and_who_did_not_hear_a_line(self) -> None:
        town = Town()
        one, two = town.bound(1), town.bound(2)
        town.bound(2, "other")
        one.join("City-1")
        two.join("City-1")
        to = f"{account(2)}@{DOMAIN}"
        one.whisper(to, "to both")
        one.whisper(two.jid, "to one")
        one.whisper(f"{account(1)}@{DOMAIN}", "to itself")
        one.say("City-1", "x")
        town.server.on_blocked(Blocked(account(2), account(1)))
        town.game.block(account(2), account(1))
        one.whisper(to, "blocked")
        one.say("City-1", "x")
        self.assertEqual(
            [line.split()[-1] for line in self.lines if line.startswith("whisper")],
            ["delivered=2", "delivered=1", "reason=self", "reason=blocked"],
        )
        self.assertEqual(
            [line.partition("len=1 ")[2] for line in self.lines if line.startswith("message")],
            ["to=2", "to=1 blocked=1"],
        )

    def test_a_refused_join_is_logged_again_after_ten_minutes(self) -> None:
        town = Town()
        one = town.bound(1)
        for seconds, count in ((0, 1), (599.5, 1), (0.5, 2)):
            town.clock.advance(seconds)
            one.join("Party-1")
            refused = [line for line in self.lines if line.startswith("join refused")]
            self.assertEqual(len(refused), count)

    def refused(self, client: Client, token: str, who: str | None = None) -> str:
        client.open()
        client.auth(token, who=who)
        [line] = [one for one in self.lines if one.startswith("login refused")]
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
            self.assertEqual(self.refused(Town().connect(1), token), reason)
        stranger = f"no-account uid={account(999)}"
        client = Town().connect(1)
        self.assertEqual(self.refused(client, f"token {account(999)}", account(999)), stranger)

    @proves("chat: Refused login")
    def test_those_held_back_are_throttled_and_a_silent_game_is_unavailable(self) -> None:
        town, address = Town(), "203.0.113.9"
        for _ in range(10):
            client = town.connect(1, address=address)
            self.refused(client, "x")
            client.session.lost()
        for number in (1, 2):
            held = town.connect(number, address=address)
            self.assertEqual(self.refused(held, "x"), f"throttled uid={account(number)}")
        town.game.silent = True
        client = town.connect(3)
        client.open()
        client.auth()
        town.clock.advance(10)
        self.assertEqual(self.lines[-1], f"login refused c=13 reason=unavailable uid={account(3)}")

    def test_a_player_behind_the_gateway_is_named_by_address(self) -> None:
        Town().connect(1, address="203.0.113.9")
        self.assertEqual(self.lines, ["connect c=1 from=203.0.113.9 via=gateway"])

    def test_the_trace_shows_neither_tokens_nor_texts(self) -> None:
        one = Town(Settings(trace=True)).bound(1)
        one.join("City-1")
        one.say("City-1", "hello")
        said = "\n".join(self.lines)
        self.assertIn("trace c=1 in <auth", said)
        self.assertIn("[redacted]", said)
        self.assertIn("<body>[5 chars]</body>", said)
        self.assertNotIn("hello", said)
        self.assertNotIn("AFVJRC0w", said)  # base64 of NUL UID-0

    def test_texts_hidden_in_cdata_or_children_stay_hidden(self) -> None:
        for hidden in ("<body><![CDATA[secret]]></body>", "<auth><a>secret</a></auth>"):
            self.assertNotIn("secret", outline(parse(f"<m>{hidden}</m>")))
