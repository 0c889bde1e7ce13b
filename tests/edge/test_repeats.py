"""What the gateway sends again when its metagame ends before it has answered, and how marked."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.exchange import MAX_KEPT
from tests.edge.test_parking import H, running, status
from tests.edge.wires import Edge

MARK = b"x-svc-repeated"
RESTART_S = 0.3


def line(method: bytes, path: bytes, length: int | None = None, more: bytes = b"") -> bytes:
    said = b"" if length is None else b"Content-Length: %d\r\n" % length
    return b"%b %b HTTP/1.1\r\n%b%b%b\r\n" % (method, path, H, more, said)


def restart(edge: Edge) -> None:
    edge.upstream.end()
    edge.upstream.down = False
    edge.clock.pump([0.1] * round(RESTART_S * 10))


def marks(edge: Edge) -> list[list[bytes]]:
    """Of each request that came, all that is said of its being a repeat."""
    return [
        [value for name, value in one.headers if name.lower() == MARK]
        for one in edge.upstream.seen()
    ]


class RepeatsTests(SynchronousTestCase):
    def test_put_and_delete_go_again_with_their_body_and_how_long_they_have_waited(self) -> None:
        for method, path, body in (
            (b"PUT", b"/party/invite", b'{"recipientPlayerId":"UID-1"}'),
            (b"PUT", b"/guild/rank/UID-1/member", None),
            (b"PUT", b"/PARTY//member/promote/UID-1/?a=b", b"{}"),
            (b"DELETE", b"/party/member", None),
            (b"DELETE", b"/slayerlink/links", b'{"slot":1}'),
            (b"DELETE", b"/friends/api/public/friends/UID-1/UID-2", b""),
        ):
            edge = running()
            wire = edge.connect()
            sent = line(method, path, None if body is None else len(body)) + (body or b"")
            wire.protocol.dataReceived(sent)
            edge.clock.advance(1.2)
            restart(edge)
            edge.upstream.serve()
            self.assertEqual(status(wire.take()), 200, path)
            first, again = edge.upstream.seen()[1:]
            self.assertEqual(marks(edge), [[], [], [b"1300"]], path)
            for one in (first, again):
                self.assertEqual((one.method, one.target, one.body), (method, path, body or b""))

    def test_a_third_try_has_waited_longer(self) -> None:
        edge = running()
        wire = edge.connect()
        wire.protocol.dataReceived(line(b"DELETE", b"/party/member"))
        edge.upstream.reset()  # the second ends, too
        edge.upstream.end()
        edge.clock.pump([0.1] * 20)
        edge.upstream.down = False
        edge.clock.pump([0.1] * 3)
        edge.upstream.serve()
        self.assertEqual(status(wire.take()), 200)
        tries = [int(said[0]) for said in marks(edge) if said]
        self.assertGreaterEqual(tries[-1], 2_000)
        self.assertEqual(tries, sorted(tries))

    def test_a_body_is_kept_up_to_a_bound(self) -> None:
        for length, tries in ((MAX_KEPT, 2), (MAX_KEPT + 1, 1)):
            edge = running()
            wire = edge.connect()
            wire.protocol.dataReceived(line(b"PUT", b"/party/invite", length))
            wire.protocol.dataReceived(b"x" * length)
            restart(edge)
            edge.upstream.serve()
            self.assertEqual(status(wire.take()), 200 if tries == 2 else 502)
            self.assertEqual(len(edge.upstream.seen()), 1 + tries)
            self.assertEqual({one.body for one in edge.upstream.seen()[1:]}, {b"x" * length})

    def test_no_client_can_set_the_mark(self) -> None:
        forged = (
            b"X-Svc-Repeated: 9\r\n",
            b"x-svc-repeated: 9\r\nX-SVC-REPEATED: 8\r\n",
            b"X-Svc-Repeated:\r\n",
            b"Connection: X-Svc-Repeated\r\nX-Svc-Repeated: 9\r\n",
        )
        for more in forged:
            edge = running()
            wire = edge.connect()
            wire.protocol.dataReceived(line(b"PUT", b"/party/invite", 2, more) + b"{}")
            restart(edge)
            edge.upstream.serve()
            self.assertEqual(status(wire.take()), 200)
            self.assertEqual(marks(edge), [[], [], [b"100"]], more)
            wire.protocol.dataReceived(line(b"GET", b"/balance", None, more))
            restart(edge)
            edge.upstream.serve()
            self.assertEqual(marks(edge)[3:], [[], []], more)  # what only reads needs none

    def test_nor_after_a_body(self) -> None:
        edge = running()
        wire = edge.connect()
        chunked = line(b"PUT", b"/party/invite", None, b"Transfer-Encoding: chunked\r\n")
        wire.protocol.dataReceived(chunked + b"2\r\n{}\r\n0\r\nX-Svc-Repeated: 9\r\n\r\n")
        edge.upstream.serve()
        self.assertEqual(marks(edge), [[], []])
        self.assertNotIn(b"epeated", b"".join(one.take() for one in edge.upstream.wires))

    def test_a_key_is_asked_for_once(self) -> None:
        for path in (b"/svc/api/Register", b"/launcher/new-key"):
            edge = running()
            wire = edge.connect()
            wire.protocol.dataReceived(line(b"POST", path, 2) + b"{}")
            restart(edge)
            edge.upstream.serve()
            self.assertEqual(status(wire.take()), 502, path)
            self.assertEqual(len(edge.upstream.seen()), 2)
