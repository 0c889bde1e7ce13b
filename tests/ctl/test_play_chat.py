"""The simulated chat client detects lines that are lost, duplicated or sent to the wrong player."""

from collections.abc import Coroutine
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.stanza import child, content, element, parse, serialize
from svcserver.ctl.play.chat import BACK_S, LATE_S, LINE, LOOK_S, RECONNECTION, Chat
from svcserver.ctl.play.player import Player
from svcserver.ctl.play.story import PROGRESS_S, PlayFailed, Story
from svcserver.ctl.play.timings import Timings
from svcserver.ctl.play.wire import HttpWire
from svcserver.deploy.simulator import EMPTY_S, Guests
from svcserver.players.chat import ANSWER_S, ChatClient


@define(eq=False)
class Server:
    """A fake chat server that can deliver a line several times, or to everybody."""

    copies: int = 1
    astray: bool = False  # whispers reach everybody
    refuses: bool = False
    refuses_all: bool = False  # no connection is accepted
    interrupts: int = 0  # how many more log-ins a restart closes
    deaf: bool = False  # lines are lost
    only: str = ""  # the only account that receives lines
    clients: dict[str, ChatClient] = field(factory=dict)  # by account

    def join(self, client: ChatClient) -> None:
        self.clients[client.account] = client
        client.opened(Session(self, client))

    async def connect(self, client: ChatClient, player: Player) -> None:
        if self.refuses_all:
            raise PlayFailed("chat", "nothing listens")
        if self.interrupts:
            self.interrupts -= 1
            client.ended()
            raise PlayFailed("chat", "closed")
        self.join(client)

    def close(self, account: str) -> None:
        self.clients.pop(account).ended()

    def handle_frame(self, speaker: ChatClient, frame: str) -> None:
        node = parse(frame)
        to, text = node["to"].partition("@")[0], content(child(node, "body"))
        if self.deaf:
            return
        if self.refuses:
            speaker.arrived('<message type="error" id="m1"/>')
            return
        is_whisper = node["type"] == "chat"
        who = f"{speaker.account}@d/{speaker.resource}"
        source = who if is_whisper else f"{to}@muc.d/{speaker.nick}"
        body = element(None, "body", text)
        line = serialize(element(None, "message", body, type=node["type"], from_=source))
        for account, client in list(self.clients.items()):
            if self.only not in ("", account):
                continue
            if not is_whisper or self.astray or account == to:
                for _ in range(self.copies):
                    client.arrived(line)


@define
class Session:
    """A client's connection to the fake server."""

    server: Server
    client: ChatClient

    def send(self, text: str) -> None:
        self.server.handle_frame(self.client, text)

    def close(self) -> None:
        """Do nothing."""


class TalkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.timings = Timings()

    def evening(self, server: Server) -> Deferred[int]:
        chat = Chat(self.clock, self.timings, "tag1")
        players = [self.player(name) for name in ("Ada", "Bo", "Cleo")]
        for player in players:
            member = chat.add(player)
            server.join(member.client)
            member.here = True
        for player in players:
            self.do(chat.send_to_players(player, players, "City-tag1"))
        self.do(chat.whisper(players[0], players[1]))
        settled = Deferred.fromCoroutine(chat.settle())
        self.clock.pump([LATE_S] * int(ANSWER_S / LATE_S + 10))
        return settled

    def do(self, work: Coroutine[Any, Any, Any]) -> None:
        self.successResultOf(Deferred.fromCoroutine(work))

    def player(self, name: str) -> Player:
        player = Player(self.clock, HttpWire(self.clock, "http://svc.invalid"), name)
        player.account = f"UID-{name.lower()}"
        return player

    def fault(self, server: Server) -> str:
        why = self.failureResultOf(self.evening(server), PlayFailed).value
        self.assertEqual(why.link, "chat")
        return str(why)

    def test_every_line_and_whisper_that_arrives_once_is_counted(self) -> None:
        self.assertEqual(self.successResultOf(self.evening(Server())), 3 * 3 + 1)
        self.assertEqual([figure.count for figure in self.timings.figures()], [10])
        self.assertEqual(self.timings.figures()[0].operation, LINE)

    def test_a_lost_line_is_missed(self) -> None:
        self.assertIn("waited for a line", self.fault(Server(copies=0)))

    def test_a_doubled_line_is_seen(self) -> None:
        self.assertIn("received 3 lines too many and 0 too few", self.fault(Server(copies=2)))

    def test_a_whisper_that_others_hear_is_seen(self) -> None:
        self.assertIn("received 1 lines too many", self.fault(Server(astray=True)))

    def test_a_refused_line_is_seen(self) -> None:
        server = Server()
        server.refuses = True
        self.assertIn("waited for a line", self.fault(server))

    def test_a_closed_connection_is_made_again_and_its_lines_counted(self) -> None:
        server, chat, players = self.logged_in_players()
        server.deaf = True
        self.do(chat.send_to_players(players[0], players, "City-tag1"))
        server.close(players[0].account)
        server.deaf = False
        self.assertFalse(chat.members[players[0].account].here)
        saying = Deferred.fromCoroutine(chat.send_to_players(players[0], players, "City-tag1"))
        settled = Deferred.fromCoroutine(chat.settle())
        self.clock.pump([LOOK_S] * 50)
        self.successResultOf(saying)
        self.assertEqual(self.successResultOf(settled), 3)
        self.assertEqual((chat.reconnections, chat.missed), (1, 3))
        self.assertIn("1 chat connection ended and came back", chat.interruptions())
        counts = {figure.operation: figure.count for figure in self.timings.figures()}
        self.assertEqual(counts[RECONNECTION], 1)

    def test_an_echoed_line_must_reach_all_connected_players(self) -> None:
        server, chat, players = self.logged_in_players()
        server.only = players[0].account
        self.do(chat.send_to_players(players[0], players, "City-tag1"))
        server.close(players[0].account)
        settled = Deferred.fromCoroutine(chat.settle())
        self.clock.pump([LOOK_S] * int(ANSWER_S / LOOK_S + 50))
        why = self.failureResultOf(settled, PlayFailed).value
        self.assertIn("Bo waited for a line", str(why))

    def test_a_chat_that_stays_away_ends_the_session(self) -> None:
        server, chat, players = self.logged_in_players()
        server.refuses_all = True
        server.close(players[0].account)
        settled = Deferred.fromCoroutine(chat.settle())
        self.clock.pump([LOOK_S] * int(BACK_S / LOOK_S + 50))
        why = self.failureResultOf(settled, PlayFailed).value
        self.assertIn("nothing listens", str(why))

    def test_a_first_login_that_a_restart_closes_is_made_again(self) -> None:
        # four log-ins of three players, so one player is interrupted twice
        server = Server(interrupts=4)
        chat = Chat(self.clock, self.timings, "tag1", server.connect)
        players = [self.player(name) for name in ("Ada", "Bo", "Cleo")]
        entered = Deferred.fromCoroutine(chat.log_in(players))
        self.assertNoResult(entered)
        self.clock.pump([LOOK_S] * 30)
        self.successResultOf(entered)
        self.assertEqual(chat.reconnections, 3)
        self.do(chat.send_to_players(players[0], players, "City-tag1"))
        settled = Deferred.fromCoroutine(chat.settle())
        self.clock.pump([LOOK_S] * 10)
        self.assertEqual(self.successResultOf(settled), 3)
        self.assertIn("3 chat connections ended and came back", chat.interruptions())

    def test_a_first_login_that_the_chat_refuses_ends_the_session(self) -> None:
        chat = Chat(self.clock, self.timings, "tag1", Server(refuses_all=True).connect)
        entered = Deferred.fromCoroutine(chat.log_in([self.player("Ada")]))
        why = self.failureResultOf(entered, PlayFailed).value
        self.assertIn("nothing listens", str(why))

    def test_a_connection_that_the_client_ended_is_no_restart(self) -> None:
        _, chat, players = self.logged_in_players()
        chat.members[players[0].account].client.arrived("<unreadable")
        settled = Deferred.fromCoroutine(chat.settle())
        self.clock.pump([LOOK_S] * 50)
        why = self.failureResultOf(settled, PlayFailed).value
        self.assertEqual(str(why), "chat: the server sent invalid XML while Ada was in the chat")
        self.assertEqual(chat.reconnections, 0)

    def logged_in_players(self) -> tuple[Server, Chat, list[Player]]:
        """Return a server, a chat and three players, who are logged in to the chat."""
        server = Server()
        chat = Chat(self.clock, self.timings, "tag1", server.connect)
        players = [self.player(name) for name in ("Ada", "Bo", "Cleo")]
        self.do(chat.log_in(players))
        return server, chat, players

    def test_lines_of_strangers_do_not_count(self) -> None:
        server = Server()
        settled = self.evening(server)
        line = '<message type="groupchat" from="City-tag1@d/x"><body>hi</body></message>'
        server.clients["UID-bo"].arrived(line)
        self.assertEqual(self.successResultOf(settled), 10)


class GuestsTests(SynchronousTestCase):
    def test_a_game_server_is_empty_after_the_last_player_leaves(self) -> None:
        guests = Guests()
        self.assertFalse(guests.gone(1e9))
        for name in (b"a", b"b"):
            guests.note(b"svc hello " + name, 1)
        guests.note(b"svc goodbye a", 2)
        guests.note(b"svc goodbye stranger", 2)
        self.assertFalse(guests.gone(1e9))
        guests.note(b"svc goodbye b", 3)
        self.assertFalse(guests.gone(3 + EMPTY_S))
        self.assertTrue(guests.gone(3.1 + EMPTY_S))
        guests.note(b"svc hello a", 4)
        self.assertFalse(guests.gone(1e9))


class StoryTests(SynchronousTestCase):
    def test_a_long_step_shows_its_progress_until_it_is_over(self) -> None:
        clock, shown = Clock(), list[str]()
        story = Story(shown.append, clock.seconds)
        story.begin("registering", 3, clock)
        story.done()
        clock.advance(PROGRESS_S)
        story.done()
        clock.advance(PROGRESS_S)
        story.add("all have registered")
        clock.advance(5 * PROGRESS_S)
        lines = [line.partition("s  ")[2] for line in shown]
        self.assertEqual(
            lines, ["... registering: 1 of 3", "... registering: 2 of 3", "all have registered"]
        )
        self.assertEqual(story.lines, ["all have registered"])
        self.assertEqual(clock.getDelayedCalls(), [])
