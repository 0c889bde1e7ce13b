"""The simulated client: the service that it blames for a fault, and the replies it accepts."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from klein import Klein
from treq.testing import StubTreq
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.play.datagram import GIVE_UP_S, HELLO, answer_of
from svcserver.ctl.play.evening import source_of
from svcserver.ctl.play.player import Player
from svcserver.ctl.play.story import PlayFailed, Story
from svcserver.ctl.play.wire import ANSWER_S, HttpWire
from svcserver.ctl.stack_process import ENDED, READY, broken_of


def answering(status: int, body: bytes) -> Any:
    app = Klein()

    @app.route("/", branch=True)
    def anything(request: Any) -> bytes:
        request.setResponseCode(status)
        return body

    return StubTreq(app.resource())


class WireTests(SynchronousTestCase):
    def wire(self, status: int, body: bytes) -> HttpWire:
        wire = HttpWire(Clock(), "http://svc.invalid")
        wire._http = answering(status, body)
        return wire

    def broken(self, status: int, body: bytes, path: str = "/character") -> PlayFailed:
        pending = Deferred.fromCoroutine(self.wire(status, body).send_request("GET", path))
        return self.failureResultOf(pending, PlayFailed).value

    def test_a_reply_has_its_status_and_json(self) -> None:
        reply = self.successResultOf(
            Deferred.fromCoroutine(self.wire(200, b'{"a":1}').send_request("GET", "/x"))
        )
        self.assertEqual((reply.status, reply.json), (200, {"a": 1}))

    def test_an_error_reply_names_the_service_at_fault(self) -> None:
        rows = [
            (401, b"", "/character", "metagame"),
            (502, b'{"error":"bad_gateway"}', "/character", "metagame"),
            (502, b'{"error":"bad_gateway"}', "/content/v1/news", "content"),
            (504, b'{"error":"upstream_timeout"}', "/character", "metagame"),
            (502, b'{"error":"upstream_unreachable"}', "/character", "gateway"),
            (502, b'{"error":"certificate_mismatch"}', "/content/v1/news", "gateway"),
            (429, b'{"error":"rate_limited"}', "/character", "gateway"),
        ]
        for status, body, path, link in rows:
            self.assertEqual(self.broken(status, body, path).link, link, body)

    @given(st.binary(max_size=60), st.sampled_from([400, 404, 500, 502]))
    @settings(max_examples=50, deadline=None)
    def test_any_error_reply_is_reported_with_its_status(self, body: bytes, status: int) -> None:
        self.assertIn(str(status), str(self.broken(status, body)))

    def test_a_reply_that_is_not_json_raises_play_failed(self) -> None:
        reply = self.successResultOf(
            Deferred.fromCoroutine(self.wire(200, b"<html>").send_request("GET", "/x"))
        )
        self.assertRaises(PlayFailed, lambda: reply.json)

    def test_a_request_without_an_answer_fails_after_a_timeout(self) -> None:
        app = Klein()
        app.route("/", branch=True)(lambda request: Deferred())
        clock = Clock()
        wire = HttpWire(clock, "http://svc.invalid")
        wire._http = StubTreq(app.resource())  # type: ignore[assignment]
        pending = Deferred.fromCoroutine(wire.send_request("GET", "/x"))
        clock.advance(ANSWER_S)
        self.assertEqual(self.failureResultOf(pending, PlayFailed).value.link, "metagame")
        self.assertEqual(clock.getDelayedCalls(), [])


class PlayerTests(SynchronousTestCase):
    def test_a_save_that_comes_back_changed_is_noticed(self) -> None:
        wire = HttpWire(Clock(), "http://svc.invalid")
        reply = json.dumps({"data": "{}", "updateVersion": 1}).encode()
        wire._http = answering(200, reply)
        player = Player(wire.reactor, wire, "Ada")
        why = self.failureResultOf(Deferred.fromCoroutine(player.save()), PlayFailed).value
        self.assertIn("came back changed", str(why))
        self.assertEqual((player.saves, player.version), (0, 0))

    def test_a_failed_launch_names_the_deploy_server(self) -> None:
        wire = HttpWire(Clock(), "http://svc.invalid")
        wire._http = answering(200, b'{"status":"FAILED"}')
        player = Player(wire.reactor, wire, "Ada")
        waited = Deferred.fromCoroutine(player.wait_for_server())
        self.assertEqual(self.failureResultOf(waited, PlayFailed).value.link, "deploy")

    def test_no_two_players_share_an_address(self) -> None:
        addresses = [source_of(at) for at in range(600)]
        self.assertEqual(len(set(addresses)), 600)
        for address in addresses:
            parts = [int(part) for part in address.split(".")]
            self.assertEqual((parts[0], max(parts) < 256), (127, True))


class Datagrams(Clock):
    """A fake reactor with UDP."""

    def listenUDP(self, port: int, protocol: Any, interface: str = "") -> Any:
        self.protocol, self.sent, self.interface = protocol, [], interface
        protocol.makeConnection(self)
        return self

    def write(self, data: bytes, address: tuple[str, int]) -> None:
        self.sent.append((data, address))

    def stopListening(self) -> Deferred[None]:
        self.protocol.doStop()
        done: Deferred[None] = Deferred()
        done.callback(None)
        return done


class DatagramTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = Datagrams()
        self.answer = Deferred.fromCoroutine(
            answer_of(self.reactor, "127.0.0.1", 8777, "127.1.2.3")
        )

    def test_hello_is_repeated_until_the_server_answers(self) -> None:
        self.reactor.pump([0.25] * 4)
        self.assertEqual(set(self.reactor.sent), {(HELLO, ("127.0.0.1", 8777))})
        self.assertGreater(len(self.reactor.sent), 3)
        self.reactor.protocol.datagramReceived(b"from elsewhere", ("127.0.0.1", 1))
        self.assertNoResult(self.answer)
        self.reactor.protocol.datagramReceived(b"yes", ("127.0.0.1", 8777))
        self.assertEqual(self.successResultOf(self.answer), b"yes")
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_silence_names_the_game_server(self) -> None:
        self.reactor.pump([0.25] * int(GIVE_UP_S * 4))
        self.assertEqual(self.failureResultOf(self.answer, PlayFailed).value.link, "game server")
        self.assertEqual(self.reactor.getDelayedCalls(), [])


class TellingTests(SynchronousTestCase):
    def test_each_line_of_the_report_has_the_time_since_the_start(self) -> None:
        clock, lines = Clock(), list[str]()
        story = Story(lines.append, clock.seconds)
        clock.advance(2.5)
        story.add("they came")
        self.assertEqual(lines, ["   2.5 s  they came"])

    def test_ready_and_failure_lines_of_the_stack_are_recognised(self) -> None:
        match = READY.search("t info x: stack ready: metagame, deploy")
        assert match is not None
        self.assertEqual(match[1], "metagame, deploy")
        line = (
            "t error x: deploy ended before it was ready (status 1): svc-deploy: no; "
            "it starts again in 1 s"
        )
        self.assertIn(ENDED, line)
        self.assertEqual(str(broken_of(line)), "deploy: svc-deploy: no")
        silent = line.replace("svc-deploy: no", "")
        self.assertEqual(str(broken_of(silent)), "deploy: status 1")
