"""Every line is counted where it must arrive: what a bad chat server would have to answer for."""

from __future__ import annotations

import re
from collections import Counter

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.play.chat import LATE_S, LINE, Chat
from svcserver.ctl.play.chat_client import ANSWER_S, ChatClient, ChatProtocol
from svcserver.ctl.play.failed import PlayFailed
from svcserver.ctl.play.player import Player
from svcserver.ctl.play.timings import Timings
from svcserver.ctl.play.wire import Wire
from svcserver.deploy.simulator import EMPTY_S, Guests

TO = re.compile(r'to="([^"@]+)@[^"]*".*<body>(.*)</body>')


@define(eq=False)
class Server:
    """A chat server on paper; ``copies`` of each line reach whom they should, or not."""

    copies: int = 1
    astray: bool = False  # whispers reach everybody
    refuses: bool = False
    wires: dict[str, ChatProtocol] = field(factory=dict)  # by account

    def join(self, client: ChatClient) -> None:
        wire = self.wires[client.player.account] = ChatProtocol()
        wire.state = ChatProtocol.STATE_OPEN
        wire.listener = client.listener
        setattr(wire, "sendMessage", lambda frame: self.heard(client, frame.decode()))  # noqa: B010
        client._wire = wire

    def heard(self, speaker: ChatClient, frame: str) -> None:
        found = TO.search(frame)
        if found is None:
            return
        to, text = found.groups()
        whisper = 'type="chat"' in frame
        who = f"{speaker.player.account}@d/{speaker.resource}"
        source = who if whisper else f"{to}@muc.d/{speaker.nick}"
        said = f'<message type="groupchat" from="{source}"><body>{text}</body></message>'
        if self.refuses:
            self.wires[speaker.player.account].onMessage(b'<message type="error"/>', False)
            return
        for account, wire in list(self.wires.items()):
            if not whisper or self.astray or account == to:
                for _ in range(self.copies):
                    wire.onMessage(said.encode(), False)


class TalkTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.timings = Timings()

    def evening(self, server: Server) -> Deferred[int]:
        chat = Chat(self.clock, self.timings, "tag1")
        players = [self.player(name) for name in ("Ada", "Bo", "Cleo")]
        for one in players:
            client = chat.clients[one.account] = ChatClient(self.clock, one, chat._heard)
            chat._wanted[one.account] = Counter()
            server.join(client)
        for one in players:
            chat.say(one, players, "City-tag1")
        chat.whisper(players[0], players[1])
        settled = Deferred.fromCoroutine(chat.settle())
        self.clock.pump([LATE_S] * int(ANSWER_S / LATE_S + 10))
        return settled

    def player(self, name: str) -> Player:
        player = Player(self.clock, Wire(self.clock, "http://svc.invalid"), name)
        player.account = f"UID-{name.lower()}"
        return player

    def fault(self, server: Server) -> str:
        why = self.failureResultOf(self.evening(server), PlayFailed).value
        self.assertEqual(why.link, "chat")
        return str(why)

    def test_each_line_once_and_a_whisper_by_one(self) -> None:
        self.assertEqual(self.successResultOf(self.evening(Server())), 3 * 3 + 1)
        self.assertEqual([one.count for one in self.timings.figures()], [10])
        self.assertEqual(self.timings.figures()[0].operation, LINE)

    def test_a_lost_line_is_missed(self) -> None:
        self.assertIn("waited for a line", self.fault(Server(copies=0)))

    def test_a_doubled_line_is_seen(self) -> None:
        self.assertIn("heard 3 lines too many and 0 too few", self.fault(Server(copies=2)))

    def test_a_whisper_that_others_hear_is_seen(self) -> None:
        self.assertIn("heard 1 lines too many", self.fault(Server(astray=True)))

    def test_a_refused_line_is_seen(self) -> None:
        server = Server()
        server.refuses = True
        self.assertIn("waited for a line", self.fault(server))

    def test_lines_of_strangers_do_not_count(self) -> None:
        server = Server()
        settled = self.evening(server)
        line = '<message type="groupchat" from="City-tag1@d/x"><body>hi</body></message>'
        server.wires["UID-bo"].onMessage(line.encode(), False)
        self.assertEqual(self.successResultOf(settled), 10)


class GuestsTests(SynchronousTestCase):
    def test_a_game_server_is_left_when_the_last_has_said_goodbye(self) -> None:
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
