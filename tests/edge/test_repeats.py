"""What the gateway sends again when its metagame ends before it has answered, and how marked."""

from __future__ import annotations

import random
from tracemalloc import get_traced_memory, start, stop
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.exchange import MAX_KEPT
from svcserver.edge.parking import PARK_S, Parking
from svcserver.edge.spread import Spread, members_of
from svcserver.gateway.policy import Route
from svcserver.kernel.counters import Counted
from tests.edge.test_parking import H, running, status
from tests.edge.wires import Edge, Upstream, gateway

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

    def test_how_long_it_has_waited_counts_from_its_head_not_from_the_connection(self) -> None:
        edge = running()
        wire = edge.connect()
        edge.clock.advance(8.0)
        wire.protocol.dataReceived(line(b"DELETE", b"/party/member"))
        restart(edge)
        self.assertEqual(marks(edge)[2:], [[b"100"]])

    def test_what_may_be_done_is_never_said_to_be_worth_asking_again(self) -> None:
        """Sent again by the client it would bear no mark, and be done twice."""
        for sent, stays, code in (
            (line(b"PUT", b"/character", 2) + b"{}", 502, b"bad_gateway"),
            (line(b"DELETE", b"/party/member"), 502, b"bad_gateway"),
            (line(b"GET", b"/balance"), 503, b"upstream_restarting"),
        ):
            edge = running()
            wire = edge.connect()
            wire.protocol.dataReceived(sent)
            edge.upstream.end()
            edge.clock.pump([0.1] * round(PARK_S * 10 + 2))
            said = wire.take()
            self.assertEqual(status(said), stays)
            self.assertIn(b'{"error":"%b"}' % code, said)
            self.assertEqual(b"Retry-After" in said, stays == 503)

    def test_nor_where_the_metagame_itself_refuses_the_second(self) -> None:
        for sent, stays in (
            (line(b"PUT", b"/character", 2) + b"{}", False),
            (line(b"GET", b"/balance"), True),
        ):
            edge = running()
            wire = edge.connect()
            wire.protocol.dataReceived(sent)
            restart(edge)
            edge.upstream.seen()
            edge.upstream.say(
                b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
            )
            said = wire.take()
            self.assertEqual(status(said), 503)
            self.assertEqual(b"Retry-After" in said, stays)

    def test_and_what_never_was_sent_is(self) -> None:
        edge = running()
        edge.upstream.end()
        wire = edge.connect()
        wire.protocol.dataReceived(line(b"PUT", b"/character", 2) + b"{}")
        edge.clock.pump([0.1] * round(PARK_S * 10 + 2))
        said = wire.take()
        self.assertEqual(status(said), 503)
        self.assertIn(b"Retry-After: 2\r\n", said)

    def test_a_body_in_tiny_pieces_takes_no_more_room(self) -> None:
        edge = running()
        wire = edge.connect()
        wire.protocol.dataReceived(line(b"PUT", b"/party/invite", MAX_KEPT))
        edge.upstream.seen()
        sink = edge.upstream.wires[-1]
        start()
        before = get_traced_memory()[0]
        for _ in range(MAX_KEPT // 2):
            wire.protocol.dataReceived(b"xy")
            sink.clear()
        taken = get_traced_memory()[0] - before
        stop()
        self.assertLess(taken, 2 * MAX_KEPT)


def workers(count: int = 3) -> tuple[Edge, list[Upstream]]:
    """A gateway with several processes of its metagame, all of which have answered."""
    edge = gateway()
    several = [Upstream(edge.clock) for _ in range(count)]
    parking = Parking(edge.clock, "the metagame", Deferred)
    pools = [one.pool for one in several]
    for pool in pools:
        pool.parking = parking
    spread = Spread(edge.clock, members_of(pools), parking, random.Random(1))
    edge.policy.upstreams = {Route.METAGAME: spread}
    return edge, several


def ended_by(edge: Edge, several: list[Upstream], sent: bytes) -> tuple[bytes, int]:
    """Send what ends each process that gets it; the answer, and how many have ended."""
    wire = edge.connect()
    wire.protocol.dataReceived(sent)
    ended = 0
    for _ in several:
        for one in [one for one in several if one.seen() and not one.down]:
            one.end()
            ended += 1
    return wire.take(), ended


class FatalTests(SynchronousTestCase):
    def test_what_may_end_a_process_ends_two_at_most(self) -> None:
        said, ended = ended_by(*workers(), line(b"DELETE", b"/party/member"))
        self.assertEqual((status(said), ended), (502, 2))

    def test_what_only_reads_is_asked_of_a_third(self) -> None:
        edge, several = workers()
        said, ended = ended_by(edge, several, line(b"GET", b"/balance"))
        self.assertEqual((status(said), ended), (502, 3))

    def test_one_process_is_asked_again_when_it_is_back(self) -> None:
        edge = running()
        wire = edge.connect()
        wire.protocol.dataReceived(line(b"DELETE", b"/party/member"))
        for _ in range(2):
            restart(edge)
        edge.upstream.serve()
        self.assertEqual(status(wire.take()), 200)
        self.assertEqual(len(marks(edge)), 4)


class FigureTests(SynchronousTestCase):
    """An owner sees what was sent again, and what came of it."""

    def repeated(self, edge: Edge, fate: str) -> list[Any]:
        """Ask, with one end on the way, and give what was logged of it."""
        wire = edge.connect()
        with capturedLogs() as events:
            wire.protocol.dataReceived(line(b"DELETE", b"/party/member?a=b"))
            if fate == "gone":
                edge.upstream.wires[-1].abortConnection()
                wire.abortConnection()
            elif fate == "lost":
                restart(edge)
                edge.upstream.end()
                edge.clock.pump([0.1] * round(PARK_S * 10 + 2))
            else:
                restart(edge)
                edge.upstream.serve()
        return events

    def test_each_is_counted_by_what_came_of_it_and_its_line_says_how_often(self) -> None:
        for fate, status_ in (("answered", 200), ("lost", 502), ("gone", 0)):
            edge = running()
            events = self.repeated(edge, fate)
            [said] = [one for one in events if one["log_format"] == "request"]
            self.assertEqual((said["status"], said["tries"]), (status_, 2), fate)
            counted = edge.policy.counters.by_reason(Counted.REPEATED)
            self.assertEqual(counted, {f"metagame:{fate}": 1})

    def test_what_was_sent_once_as_the_metagame_stayed_away_is_no_repeat(self) -> None:
        edge = running()
        wire = edge.connect()
        with capturedLogs() as events:
            wire.protocol.dataReceived(line(b"POST", b"/party", 2) + b"{}")
            edge.upstream.end()
            edge.clock.pump([0.1] * round(PARK_S * 10 + 2))
        self.assertEqual(status(wire.take()), 502)
        [said] = [one for one in events if one["log_format"] == "request"]
        self.assertNotIn("tries", said)
        self.assertFalse([one for one in events if "was sent again" in one["log_format"]])
        self.assertEqual(edge.policy.counters.total(Counted.REPEATED), 0)

    def test_a_line_says_what_was_asked_once_a_minute(self) -> None:
        edge = running()
        found = []
        for pause_s in (0.0, 1.0, 60.0):
            edge.clock.advance(pause_s)
            events = self.repeated(edge, "answered")
            found.append([one for one in events if "was sent again" in one["log_format"]])
        self.assertEqual([len(one) for one in found], [1, 0, 1])
        [said] = found[0]
        shown = [said[name] for name in ("fate", "method", "target", "route", "tries", "status")]
        asked = ["answered", "DELETE", "/party/member?a=b", "metagame", 2, 200]
        self.assertEqual(shown, asked)

    def test_what_is_sent_once_is_neither_counted_nor_said(self) -> None:
        edge = running()
        with capturedLogs() as events:
            edge.ask(line(b"DELETE", b"/party/member"))
        self.assertEqual([one["log_format"] for one in events], ["request"])
        self.assertNotIn("tries", events[0])
        self.assertEqual(edge.policy.counters.total(Counted.REPEATED), 0)
