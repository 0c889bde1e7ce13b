"""The gateway's log lines about requests, and the secrets they omit."""

import io
import json
from typing import Any

from OpenSSL import SSL
from twisted.logger import Logger, LogLevel, capturedLogs
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svcserver.gateway.policy import Bucket, Route
from svcserver.kernel.counters import Counted
from svcserver.kernel.rates import Rate
from svcserver.web.logs import JsonLines
from tests.edge.wires import gateway, run
from tests.support.proves import proves

H = b"Host: localhost\r\n"


class LineTests(SynchronousTestCase):
    def events(self, data: bytes, **how: Any) -> list[dict[str, Any]]:
        with capturedLogs() as events:
            gateway(**how).ask(data, "203.0.113.9")
        return [event for event in events if event["log_format"] == "request"]

    @proves("gateway: log lines and redaction")
    def test_a_request_has_one_line_with_every_field(self) -> None:
        head = b"POST /heartbeat?token=x HTTP/1.1\r\nUser-Agent: g UUK_abcd\r\nAuthorization: a\r\n"
        [event] = self.events(head + H + b"Content-Length: 3\r\n\r\nabc")
        wanted = {"ip": "203.0.113.9", "method": "POST", "target": "/heartbeat?token=<redacted>"}
        wanted |= {"route": "metagame", "status": 200, "bytesIn": 3, "bytesOut": 2, "ms": 0}
        wanted |= {"ua": "g <key>"}
        self.assertEqual({name: event[name] for name in wanted}, wanted)
        self.assertNotIn("reason", event)
        self.assertNotIn("Authorization", str(event))

    @proves("gateway: log lines and redaction")
    def test_a_refused_request_is_logged_with_its_reason(self) -> None:
        for data, reason in (
            (b"GET /svc/api/x HTTP/1.1\r\n" + H + b"\r\n", "admin_route"),
            (
                b"GET /x HTTP/1.1\r\nX-Svc-GameServer-ApiKey: k\r\n" + H + b"\r\n",
                "gameserver_key_header",
            ),
            (b"GET /.. HTTP/1.1\r\n" + H + b"\r\n", "bad_path"),
            (b"GET * HTTP/1.1\r\n" + H + b"\r\n", "bad_request"),
            (b"TRACE / HTTP/1.1\r\n" + H + b"\r\n", "method_not_allowed"),
            (b"POST / HTTP/1.1\r\nContent-Length: 999999\r\n" + H + b"\r\n", "body_too_large"),
        ):
            [event] = self.events(data)
            self.assertEqual((event["reason"], event["route"]), (reason, event["route"]))

    def line(self, events: list[dict[str, Any]], kind: str = "request") -> dict[str, Any]:
        [event] = [event for event in events if event["log_format"] == kind]
        return event

    @proves("gateway: log lines and redaction")
    def test_an_upstream_failure_is_logged_with_its_reason(self) -> None:
        ask = b"GET /x HTTP/1.1\r\n" + H + b"\r\n"
        for how, status, reason in (
            (lambda edge, wire: None, 504, "upstream_timeout"),
            (lambda edge, wire: edge.upstream.reset(), 502, "upstream_reset"),
            (lambda edge, wire: edge.upstream.say(b"nonsense\r\n\r\n"), 502, "upstream_broken"),
        ):
            edge = gateway()
            wire = edge.connect()
            with capturedLogs() as events:
                wire.protocol.dataReceived(ask)
                how(edge, wire)
                run(edge.clock, 123)
            line = self.line(events)
            self.assertEqual((line["status"], line["reason"]), (status, reason))
            self.assertEqual(line["route"], "metagame")
        edge.upstream.down = True
        with capturedLogs() as events:
            edge.ask(ask)
        self.assertEqual(self.line(events)["reason"], "upstream_bad_gateway")

    def test_a_rate_limited_request_is_logged_with_its_bucket(self) -> None:
        edge = gateway(rates={Bucket.GENERAL: Rate(1, 1)})
        ask = b"GET /x HTTP/1.1\r\n" + H + b"\r\n"
        edge.ask(ask)
        with capturedLogs() as events:
            edge.ask(ask)
        line = self.line(events)
        self.assertEqual((line["status"], line["reason"]), (429, "rate_limited:general"))
        self.assertEqual(line["route"], "gateway")

    def test_a_flood_of_refusals_is_sampled_and_the_rest_counted(self) -> None:
        edge = gateway(rates={Bucket.GENERAL: Rate(1, 1)})
        ask = b"GET /x HTTP/1.1\r\n" + H + b"\r\n"
        edge.ask(ask)
        with capturedLogs() as events:
            for _ in range(2_000):
                edge.ask(ask)
        lines = [event for event in events if event["log_format"] == "request"]
        self.assertLess(len(lines), 100)
        self.assertNotIn("omitted", lines[0])
        counted = edge.policy.counters.by_reason(Counted.DROPPED_LOG_LINES)["refusals"]
        self.assertEqual(counted, 2_000 - len(lines))
        with capturedLogs() as events:
            edge.ask(ask, "203.0.113.9")  # another address has its own limit of log lines
            edge.ask(ask, "203.0.113.9")
        first, second = (event for event in events if event["log_format"] == "request")
        self.assertEqual((first["status"], first["omitted"]), (200, counted))
        self.assertEqual(second["status"], 429)
        self.assertNotIn("omitted", second)

    def test_a_client_that_leaves_is_marked(self) -> None:
        edge = gateway()
        wire = edge.connect()
        with capturedLogs() as events:
            wire.protocol.dataReceived(b"GET /x HTTP/1.1\r\n" + H + b"\r\n")
            wire.abortConnection()
        self.assertTrue(self.line(events)["aborted"])

    @proves("gateway: log lines and redaction")
    def test_a_tunnel_has_its_line_when_it_closes(self) -> None:
        edge = gateway()
        wire = edge.connect()
        with capturedLogs() as events:
            wire.protocol.dataReceived(b"GET // HTTP/1.1\r\nUpgrade: websocket\r\n" + H + b"\r\n")
            chat = edge.upstreams[Route.WS]
            chat.say(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\nabc")
            wire.protocol.dataReceived(b"hello")
            self.assertEqual([event for event in events if "request" in event["log_format"]], [])
            wire.abortConnection()
        line = self.line(events, "websocket closed")
        self.assertEqual((line["route"], line["status"]), ("ws", 101))
        self.assertEqual((line["bytesIn"], line["bytesOut"]), (5, 3))

    @proves("gateway: log lines and redaction")
    def test_a_tls_failure_is_a_line_for_developers_once_a_minute(self) -> None:
        edge, failed = gateway(), Failure(SSL.Error([("SSL routines", "", "http request")]))
        policy = edge.policy
        edge.factory.on_lost = policy.left
        with capturedLogs() as events:
            for seconds in (0, 1, 60):
                edge.clock.advance(seconds)
                policy.admit("203.0.113.9")
                edge.connect("203.0.113.9").protocol.connectionLost(failed)
            policy.admit("203.0.113.10")
            edge.connect("203.0.113.10").loseConnection()
        event = [event for event in events if event["log_format"] == "TLS failed"]
        self.assertEqual([event["ip"] for event in event], ["203.0.113.9"] * 2)
        self.assertEqual({event["log_level"] for event in event}, {LogLevel.debug})
        self.assertEqual(policy.counts.total, 0)

    @proves("gateway: log lines and redaction")
    def test_lines_are_json_and_warnings_go_to_the_other_stream(self) -> None:
        out, errors = io.StringIO(), io.StringIO()
        lines = JsonLines(out, as_json=True, level="info", err=errors)
        log = Logger(observer=lines, namespace="x")
        log.info("request", ip="a", status=200)
        log.warn("careful")
        log.debug("never")
        result = json.loads(out.getvalue())
        self.assertEqual(
            (result["level"], result["message"], result["ip"]), ("info", "request", "a")
        )
        self.assertIn("time", result)
        self.assertEqual(json.loads(errors.getvalue())["level"], LogLevel.warn.name)
