"""The players' chat client against a fake server."""

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.stanza import SASL, parse
from svcserver.players.chat import ANSWER_S, ChatClient, Line
from svcserver.players.frames import ChatReader
from svcserver.players.http import NoAnswer

SUCCESS = f'<success xmlns="{SASL}"/>'
FEATURES = '<stream:features xmlns:stream="http://etherx.jabber.org/streams"/>'
SEAT = "City-1@muc.d/Ada:UID-a:V2:x"
OWN = '<x xmlns="http://jabber.org/protocol/muc#user"><status code="110"/></x>'


@define
class Paper:
    """A fake transport that stores the sent bytes."""

    sent: list[str] = field(factory=list)
    closed: bool = False

    def send(self, text: str) -> None:
        self.sent.append(text)

    def close(self) -> None:
        self.closed = True


class ChatClientTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.paper, self.lines = Clock(), Paper(), list[Line]()
        self.client = ChatClient(self.clock, "UID-a", "Ada", "d", "V2:x", on_line=self.lines.append)
        self.client.opened(self.paper)

    def begin(self, work: Any) -> Deferred[Any]:
        return Deferred.fromCoroutine(work)

    def test_login_authenticates_binds_and_begins_a_session(self) -> None:
        done = self.begin(self.client.log_in("token"))
        answers = (FEATURES, SUCCESS, FEATURES, '<iq type="result" id="b1"/>')
        for answer in (*answers, '<iq type="result" id="s1"/>'):
            self.assertNoResult(done)
            self.client.arrived(answer)
        self.successResultOf(done)
        self.assertTrue(self.client.bound)
        names = [parse(text).name for text in self.paper.sent]
        self.assertEqual(names, ["open", "auth", "open", "iq", "iq"])
        self.assertIn(">AFVJRC1hAHRva2Vu<", self.paper.sent[1])  # \0UID-a\0token

    def test_a_refused_token_ends_the_session(self) -> None:
        done = self.begin(self.client.log_in("token"))
        self.client.arrived(FEATURES)
        self.client.arrived(f'<failure xmlns="{SASL}"/>')
        self.failureResultOf(done, NoAnswer)
        self.assertTrue(self.paper.closed)

    def test_silence_ends_the_session(self) -> None:
        done = self.begin(self.client.enter("City-1"))
        self.clock.advance(ANSWER_S)
        why = self.failureResultOf(done, NoAnswer).value
        line = "the server did not answer while Ada waited for a seat in City-1"
        self.assertEqual(str(why), line)
        with self.assertRaises(NoAnswer):
            self.client.send_to_room("City-1", "hello")

    def test_entering_waits_for_our_own_presence(self) -> None:
        done = self.begin(self.client.enter("City-1"))
        self.client.arrived('<presence from="City-1@muc.d/Bo:UID-b:V2:y"/>')
        self.assertNoResult(done)
        self.client.arrived(f'<presence from="{SEAT}">{OWN}</presence>')
        self.assertTrue(self.successResultOf(done))
        self.assertEqual(self.client.rooms, ["City-1"])
        self.client.arrived(f'<presence from="{SEAT}" type="unavailable">{OWN}</presence>')
        self.assertEqual(self.client.rooms, [])

    def test_a_closed_room_is_refused(self) -> None:
        done = self.begin(self.client.enter("City-1"))
        self.client.arrived(f'<presence from="{SEAT}" type="error"/>')
        self.assertFalse(self.successResultOf(done))

    def test_lines_and_whispers_are_read_as_they_were_written(self) -> None:
        text = '<body>a &lt;&amp;&gt; "b"</body>'
        self.client.arrived(f'<message type="groupchat" from="City-1@muc.d/Bo">{text}</message>')
        self.client.arrived(f"<message type='chat' from='UID-b@d/V2:y'>{text}</message>")
        self.assertEqual(
            self.lines,
            [Line(False, "City-1", "Bo", 'a <&> "b"'), Line(True, "UID-b", "V2:y", 'a <&> "b"')],
        )

    def test_a_refused_line_is_named(self) -> None:
        refused: list[str] = []
        self.client.on_refused = refused.append
        self.client.send_to_room("City-1", "hello")
        self.client.arrived('<message type="error" id="m1"/>')
        self.assertEqual((refused, self.client.refused), (["hello"], 1))

    def test_pings_are_answered(self) -> None:
        self.client.arrived('<iq type="get" id="p7"><ping xmlns="urn:xmpp:ping"/></iq>')
        self.assertEqual(self.paper.sent, ['<iq type="result" id="p7"/>'])

    def test_text_that_is_not_xml_ends_the_session(self) -> None:
        self.client.arrived("<presence>")
        self.assertTrue(self.paper.closed)


class ChatReaderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.paper, self.lines = Paper(), list[Line]()
        self.client = ChatClient(Clock(), "UID-a", "Ada", "d", on_line=self.lines.append)
        self.reader = ChatReader(self.client, self.paper)

    def test_frames_behind_the_upgrade_reach_the_client(self) -> None:
        line = b'<message type="chat" from="UID-b@d/r"><body>hi</body></message>'
        data = b"HTTP/1.1 101 Switching Protocols\r\n\r\n\x81" + bytes((len(line),)) + line
        self.reader.feed(data[:20])
        self.assertIsNone(self.client.transport)
        self.reader.feed(data[20:] + b"\x88\x00")
        self.assertEqual([line.text for line in self.lines], ["hi"])
        self.assertFalse(self.client.alive)

    def test_a_refused_upgrade_ends_the_session(self) -> None:
        done = Deferred.fromCoroutine(self.client.log_in("token"))
        self.reader.feed(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        why = self.failureResultOf(done, NoAnswer).value
        line = "the server refused the connection while Ada waited for the upgrade"
        self.assertEqual(str(why), line)
        self.assertTrue(self.paper.closed)
