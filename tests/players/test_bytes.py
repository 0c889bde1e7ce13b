"""The bytes of the simulated players: HTTP requests and replies, and WebSocket frames."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.players import requests
from svcserver.players.frames import CLOSE, TEXT, masked, split
from svcserver.players.http import Reply, ReplyReader, request


class RequestTests(SynchronousTestCase):
    def test_a_login_request_is_sent_as_a_form(self) -> None:
        sent = request(*requests.log_in("k=&"), {"Host": "h"})
        head, _, body = sent.partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"POST /account/api/oauth/token HTTP/1.1\r\nHost: h\r\n"))
        self.assertIn(b"Content-Type: application/x-www-form-urlencoded", head)
        self.assertIn(b"exchange_code=k%3D%26", body)

    def test_a_body_is_json_with_its_length(self) -> None:
        sent = request("PUT", "/x", {"a": "é"}, {})
        self.assertTrue(sent.endswith('Content-Length: 11\r\n\r\n{"a": "é"}'.encode()))

    def test_a_read_has_no_body(self) -> None:
        self.assertEqual(request("GET", "/x", None, {}), b"GET /x HTTP/1.1\r\n\r\n")


class ReplyTests(SynchronousTestCase):
    def test_replies_are_read_however_they_are_cut(self) -> None:
        first = b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\nX: y\r\n\r\n{"a":1}'
        second = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
        reader, replies = ReplyReader(), list[Reply]()
        for byte in first + second:
            if (reply := reader.feed(bytes((byte,)))) is not None:
                replies.append(reply)
        self.assertEqual(replies, [Reply(200, b'{"a":1}'), Reply(204, b"", closes=True)])
        self.assertEqual(replies[0].json, {"a": 1})
        self.assertTrue(reader.is_empty)


class FrameTests(SynchronousTestCase):
    def test_frames_of_every_size_are_read_however_they_are_cut(self) -> None:
        payloads = [b"", b"a" * 125, b"b" * 126, b"c" * 65_536]
        heads = [b"\x81\x00", b"\x81\x7d", b"\x81\x7e\x00\x7e", b"\x81\x7f" + (65_536).to_bytes(8)]
        data = (
            b"".join(head + item for head, item in zip(heads, payloads, strict=True)) + b"\x88\x00"
        )
        for cut in (1, 3, 130, len(data)):
            frames, rest = split(data[:cut])
            more, rest = split(rest + data[cut:])
            wanted = [*((TEXT, payload) for payload in payloads), (CLOSE, b"")]
            self.assertEqual((frames + more, rest), (wanted, b""))

    def test_frames_of_a_client_are_masked(self) -> None:
        self.assertEqual(masked(b"hi"), b"\x81\x82\0\0\0\0hi")
        self.assertEqual(masked(b"x" * 65_536)[:10], b"\x81\xff" + (65_536).to_bytes(8))
