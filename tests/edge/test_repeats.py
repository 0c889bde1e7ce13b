"""Requests that the gateway sends again because its metagame ended before answering."""

import random
from tracemalloc import get_traced_memory, start, stop
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.parking import PARK_S, Parking
from svcserver.edge.retry import MAX_KEPT
from svcserver.edge.spread import Spread, members_of
from svcserver.gateway.policy import Route
from svcserver.kernel.counters import Counted
from svcserver.kernel.headers import ATTEMPT, REQUEST_ID
from tests.edge.test_parking import H, running
from tests.edge.wires import Edge, Upstream, gateway, status

RESTART_S = 0.3


def line(method: bytes, path: bytes, length: int | None = None, more: bytes = b"") -> bytes:
    length_line = b"" if length is None else b"Content-Length: %d\r\n" % length
    return b"%b %b HTTP/1.1\r\n%b%b%b\r\n" % (method, path, H, more, length_line)


def restart(edge: Edge) -> None:
    edge.upstream.end()
    edge.upstream.down = False
    edge.clock.pump([0.1] * round(RESTART_S * 10))


def sent(edge: Edge, name: bytes) -> list[list[bytes]]:
    """Return the values of one header in each received request."""
    return [
        [value for field, value in request.headers if field.lower() == name]
        for request in edge.upstream.take_requests()
    ]


def attempts(edge: Edge) -> list[list[bytes]]:
    """Return the attempt number in each received request."""
    return sent(edge, ATTEMPT)


def ids(edge: Edge) -> list[list[bytes]]:
    """Return the id of each received request."""
    return sent(edge, REQUEST_ID)


class RepeatsTests(SynchronousTestCase):
    def test_a_changing_request_is_repeated_with_body_id_and_number(self) -> None:
        for method, path, body in (
            (b"POST", b"/any/new/route", b"{}"),
            (b"PATCH", b"/any/new/route", b"{}"),
            (b"PUT", b"/party/invite", b'{"recipientPlayerId":"UID-1"}'),
            (b"PUT", b"/guild/rank/UID-1/member", None),
            (b"PUT", b"/PARTY//member/promote/UID-1/?a=b", b"{}"),
            (b"DELETE", b"/party/member", None),
            (b"DELETE", b"/slayerlink/links", b'{"slot":1}'),
            (b"DELETE", b"/friends/api/public/friends/UID-1/UID-2", b""),
        ):
            edge = running()
            wire = edge.connect()
            request = line(method, path, None if body is None else len(body)) + (body or b"")
            wire.protocol.dataReceived(request)
            restart(edge)
            edge.upstream.serve()
            self.assertEqual(status(wire.take()), 200, path)
            first, again = edge.upstream.take_requests()[1:]
            self.assertEqual(attempts(edge), [[], [], [b"2"]], path)
            none, one_id, same_id = ids(edge)
            self.assertEqual((none, one_id), ([], same_id))
            self.assertRegex(one_id[0], rb"\A[0-9a-f]{32}\Z")
            for entry in (first, again):
                self.assertEqual(
                    (entry.method, entry.target, entry.body), (method, path, body or b"")
                )

    def test_a_third_attempt_is_the_last(self) -> None:
        edge = running()
        wire = edge.send(line(b"DELETE", b"/party/member"))
        edge.upstream.reset()  # the second metagame ends as well
        edge.upstream.end()
        edge.clock.pump([0.1] * 20)
        edge.upstream.down = False
        edge.clock.pump([0.1] * 3)
        edge.upstream.serve()
        self.assertEqual(status(wire.take()), 200)
        numbers = [values for values in attempts(edge) if values]
        self.assertEqual((numbers[0], numbers[-1]), ([b"2"], [b"3"]))
        self.assertEqual(len({values[0] for values in ids(edge) if values}), 1)

    def test_each_delete_request_gets_a_unique_id_and_a_get_gets_none(self) -> None:
        edge = running()
        for _ in range(20):
            edge.ask(line(b"DELETE", b"/party/member"))
            edge.ask(line(b"GET", b"/balance"))
        result = ids(edge)
        self.assertEqual([len(reply) for reply in result], [0, *[1, 0] * 20])
        self.assertEqual(len({reply[0] for reply in result if reply}), 20)

    def test_a_body_is_kept_up_to_a_bound(self) -> None:
        for length, tries in ((MAX_KEPT, 2), (MAX_KEPT + 1, 1)):
            edge = running()
            wire = edge.send(line(b"PUT", b"/party/invite", length))
            wire.protocol.dataReceived(b"x" * length)
            restart(edge)
            edge.upstream.serve()
            self.assertEqual(status(wire.take()), 200 if tries == 2 else 502)
            self.assertEqual(len(edge.upstream.take_requests()), 1 + tries)
            self.assertEqual(
                {request.body for request in edge.upstream.take_requests()[1:]}, {b"x" * length}
            )

    def test_no_client_can_set_an_id_or_a_number(self) -> None:
        forged = (
            b"X-Svc-Request-Id: 9\r\nX-Svc-Attempt: 9\r\n",
            b"x-svc-attempt: 9\r\nX-SVC-ATTEMPT: 8\r\nX-SVC-Request-ID: 9\r\n",
            b"X-Svc-Attempt:\r\nX-Svc-Request-Id:\r\n",
            b"Connection: X-Svc-Attempt, X-Svc-Request-Id\r\nX-Svc-Attempt: 9\r\n",
        )
        for more in forged:
            edge = running()
            wire = edge.send(line(b"PUT", b"/party/invite", 2, more) + b"{}")
            restart(edge)
            edge.upstream.serve()
            self.assertEqual(status(wire.take()), 200)
            self.assertEqual(attempts(edge), [[], [], [b"2"]], more)
            self.assertEqual([len(values) for values in ids(edge)], [0, 1, 1], more)
            self.assertNotIn([b"9"], ids(edge))
            wire.protocol.dataReceived(line(b"GET", b"/balance", None, more))
            restart(edge)
            edge.upstream.serve()
            for result in (attempts(edge), ids(edge)):
                # a request that only reads needs no id and no attempt number
                self.assertEqual(result[3:], [[], []], more)

    def test_no_client_can_set_a_number_in_a_trailer(self) -> None:
        edge = running()
        wire = edge.connect()
        chunked = line(b"PUT", b"/party/invite", None, b"Transfer-Encoding: chunked\r\n")
        wire.protocol.dataReceived(chunked + b"2\r\n{}\r\n0\r\nX-Svc-Attempt: 9\r\n\r\n")
        edge.upstream.serve()
        self.assertEqual(attempts(edge), [[], []])
        self.assertNotIn(b"ttempt", b"".join(wire.take() for wire in edge.upstream.wires))

    def test_a_request_that_may_be_done_gets_no_retry_after(self) -> None:
        """A client's retry would have a new id, so the request could be executed twice."""
        for said_first, stays, code in (
            (line(b"PUT", b"/character", 2) + b"{}", 502, b"bad_gateway"),
            (line(b"DELETE", b"/party/member"), 502, b"bad_gateway"),
            (line(b"GET", b"/balance"), 503, b"upstream_restarting"),
        ):
            edge = running()
            wire = edge.send(said_first)
            edge.upstream.end()
            edge.clock.pump([0.1] * round(PARK_S * 10 + 2))
            reply = wire.take()
            self.assertEqual(status(reply), stays)
            self.assertIn(b'{"error":"%b"}' % code, reply)
            self.assertEqual(b"Retry-After" in reply, stays == 503)

    def test_a_refused_second_attempt_of_a_change_has_no_retry_after(self) -> None:
        for said_first, stays in (
            (line(b"PUT", b"/character", 2) + b"{}", False),
            (line(b"GET", b"/balance"), True),
        ):
            edge = running()
            wire = edge.send(said_first)
            restart(edge)
            edge.upstream.take_requests()
            edge.upstream.say(
                b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"
            )
            reply = wire.take()
            self.assertEqual(status(reply), 503)
            self.assertEqual(b"Retry-After" in reply, stays)

    def test_a_request_that_was_never_sent_gets_retry_after(self) -> None:
        edge = running()
        edge.upstream.end()
        wire = edge.send(line(b"PUT", b"/character", 2) + b"{}")
        edge.clock.pump([0.1] * round(PARK_S * 10 + 2))
        reply = wire.take()
        self.assertEqual(status(reply), 503)
        self.assertIn(b"Retry-After: 2\r\n", reply)

    def test_a_body_in_tiny_pieces_takes_no_more_room(self) -> None:
        edge = running()
        wire = edge.send(line(b"PUT", b"/party/invite", MAX_KEPT))
        edge.upstream.take_requests()
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
    """Return a gateway with several metagame processes, each of which has answered once."""
    edge = gateway()
    several = [Upstream(edge.clock) for _ in range(count)]
    parking = Parking(edge.clock, "the metagame", Deferred)
    pools = [worker.pool for worker in several]
    for pool in pools:
        pool.parking = parking
    spread = Spread(edge.clock, members_of(pools), parking, random.Random(1))
    edge.policy.upstreams = {Route.METAGAME: spread}
    return edge, several


def ended_by(edge: Edge, several: list[Upstream], request: bytes) -> tuple[bytes, int]:
    """Send a request; every process that receives it ends.

    Return the client's answer, and how many processes ended.
    """
    wire = edge.send(request)
    ended = 0
    for _ in several:
        for worker in [worker for worker in several if worker.take_requests() and not worker.down]:
            worker.end()
            ended += 1
    return wire.take(), ended


class FatalTests(SynchronousTestCase):
    def test_a_fatal_request_ends_two_processes_at_most(self) -> None:
        request, ended = ended_by(*workers(), line(b"DELETE", b"/party/member"))
        self.assertEqual((status(request), ended), (502, 2))

    def test_a_get_is_tried_on_a_third_process(self) -> None:
        edge, several = workers()
        request, ended = ended_by(edge, several, line(b"GET", b"/balance"))
        self.assertEqual((status(request), ended), (502, 3))

    def test_one_process_is_asked_again_when_it_is_back(self) -> None:
        edge = running()
        wire = edge.send(line(b"DELETE", b"/party/member"))
        for _ in range(2):
            restart(edge)
        edge.upstream.serve()
        self.assertEqual(status(wire.take()), 200)
        self.assertEqual(len(attempts(edge)), 4)


class FigureTests(SynchronousTestCase):
    """The owner sees which requests were repeated, and with which result."""

    def repeated(self, edge: Edge, fate: str) -> list[Any]:
        """Send a request during which the metagame ends; return what was logged about the retry."""
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

    def test_repeats_are_counted_by_result_and_logged_with_tries(self) -> None:
        for fate, status_ in (("answered", 200), ("lost", 502), ("gone", 0)):
            edge = running()
            events = self.repeated(edge, fate)
            [event] = [event for event in events if event["log_format"] == "request"]
            self.assertEqual((event["status"], event["tries"]), (status_, 2), fate)
            counted = edge.policy.counters.by_reason(Counted.REPEATED)
            self.assertEqual(counted, {f"metagame:{fate}": 1})

    def test_a_request_sent_once_to_a_lost_metagame_is_no_repeat(self) -> None:
        edge = running()
        wire = edge.connect()
        with capturedLogs() as events:
            wire.protocol.dataReceived(line(b"POST", b"/party", 2) + b"{}")
            edge.upstream.end()
            edge.clock.pump([0.1] * round(PARK_S * 10 + 2))
        self.assertEqual(status(wire.take()), 502)
        [event] = [event for event in events if event["log_format"] == "request"]
        self.assertNotIn("tries", event)
        self.assertFalse([event for event in events if "was sent again" in event["log_format"]])
        self.assertEqual(edge.policy.counters.total(Counted.REPEATED), 0)

    def test_a_repeated_request_is_logged_at_most_once_a_minute(self) -> None:
        edge = running()
        result = []
        for pause_s in (0.0, 1.0, 60.0):
            edge.clock.advance(pause_s)
            events = self.repeated(edge, "answered")
            result.append([event for event in events if "was sent again" in event["log_format"]])
        self.assertEqual([len(event) for event in result], [1, 0, 1])
        [reply] = result[0]
        shown = [reply[name] for name in ("fate", "method", "target", "route", "tries", "status")]
        requests = ["answered", "DELETE", "/party/member?a=b", "metagame", 2, 200]
        self.assertEqual(shown, requests)

    def test_a_request_that_is_sent_once_is_not_counted_or_logged(self) -> None:
        edge = running()
        with capturedLogs() as events:
            edge.ask(line(b"DELETE", b"/party/member"))
        self.assertEqual([event["log_format"] for event in events], ["request"])
        self.assertNotIn("tries", events[0])
        self.assertEqual(edge.policy.counters.total(Counted.REPEATED), 0)
