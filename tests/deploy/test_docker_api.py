"""The client for a Docker engine's API, with an engine in memory."""

import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from treq.testing import StubTreq
from twisted.internet.defer import Deferred, succeed
from twisted.internet.protocol import Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from svcserver.deploy.docker_api import CALL_S, DockerApi, EngineError, tls_options
from svcserver.deploy.settings import DeploySettings, check, engine_address
from svcserver.kernel import json
from svcserver.kernel.settings import BadSetting, load
from tests.support.authority import Authority


class FakeEngine(Resource):
    """An engine that records requests; ``replies`` maps a path to a status and a body."""

    isLeaf = True

    def __init__(self, **version: str) -> None:
        super().__init__()
        self.requests: list[tuple[str, str, bytes]] = []
        self.replies: dict[str, tuple[int, bytes]] = {"/version": (200, json.dump(version))}

    def render(self, request: Any) -> Any:
        path = request.path.decode()
        self.requests.append(
            (request.method.decode(), request.uri.decode(), request.content.read())
        )
        if path not in self.replies:
            return NOT_DONE_YET
        status, body = self.replies[path]
        request.setResponseCode(status)
        return body


class EndlessReply:
    """A reply whose body never ends."""

    code = 200

    def __init__(self) -> None:
        self.connection = StringTransport()

    def deliverBody(self, protocol: Protocol) -> None:
        protocol.makeConnection(self.connection)
        protocol.dataReceived(b"[")


class DockerApiTests(SynchronousTestCase):
    def make(self, newest: str = "1.41", oldest: str = "1.12") -> DockerApi:
        self.clock = Clock()
        self.engine = FakeEngine(ApiVersion=newest, MinAPIVersion=oldest)
        self.treq = StubTreq(self.engine)
        return DockerApi(self.treq, self.clock)

    def call(self, api: DockerApi, *words: Any, **more: Any) -> Deferred[Any]:
        reply = Deferred.fromCoroutine(api.call(*words, **more))
        self.treq.flush()
        return reply

    def test_version_is_negotiated_once(self) -> None:
        for newest, oldest, used in (
            ("1.41", "1.12", "1.41"),
            ("1.47", "1.24", "1.41"),
            ("1.52", "1.44", "1.44"),
        ):
            api = self.make(newest, oldest)
            self.engine.replies[f"/v{used}/info"] = (200, b"{}")
            for _ in range(2):
                self.assertEqual(self.successResultOf(self.call(api, "GET", "/info")), {})
            self.assertEqual(
                [uri for _, uri, _ in self.engine.requests],
                ["/version", *[f"/v{used}/info"] * 2],
            )

    def test_engine_without_jobs_is_named_with_the_cure(self) -> None:
        api = self.make("1.40")
        failure = self.failureResultOf(self.call(api, "GET", "/info"), EngineError)
        self.assertIn("Install Docker 20.10", str(failure.value))

    def test_body_and_filters_are_sent_as_json(self) -> None:
        api = self.make()
        self.engine.replies["/v1.41/tasks"] = (200, b"[]")
        filters = {"label": ["svc.host=a:1"]}
        self.successResultOf(self.call(api, "POST", "/tasks", {"a": 1}, filters, version="7"))
        method, uri, body = self.engine.requests[-1]
        self.assertEqual((method, body), ("POST", b'{"a":1}'))
        self.assertIn("version=7&filters=%7B%22label%22", uri)

    def test_refusal_has_the_engine_s_message_and_status(self) -> None:
        api = self.make()
        self.engine.replies["/v1.41/services/a"] = (404, b'{"message":"service a not found"}')
        failure = self.failureResultOf(self.call(api, "DELETE", "/services/a"), EngineError)
        self.assertEqual((failure.value.status, str(failure.value)), (404, "service a not found"))

    def test_call_without_an_answer_fails_at_its_deadline(self) -> None:
        api = self.make()
        reply = self.call(api, "GET", "/nodes")
        self.clock.advance(CALL_S - 0.1)
        self.assertNoResult(reply)
        self.clock.advance(0.2)
        self.assertEqual(self.failureResultOf(reply, EngineError).value.status, 0)

    def test_endless_reply_is_closed_at_the_deadline(self) -> None:
        api, endless = self.make(), EndlessReply()
        api.version, api.http = "1.41", mock.Mock(request=lambda *_, **__: succeed(endless))
        reply = Deferred.fromCoroutine(api.call("GET", "/nodes"))
        self.clock.advance(CALL_S)
        self.assertEqual(self.failureResultOf(reply, EngineError).value.status, 0)
        self.assertTrue(endless.connection.disconnecting)

    def test_reply_that_is_no_json_or_too_long_is_an_error(self) -> None:
        api = self.make()
        for body in (b"<html>", b" " * (33 * 1024 * 1024)):
            self.engine.replies["/v1.41/nodes"] = (200, body)
            failure = self.failureResultOf(self.call(api, "GET", "/nodes"), EngineError)
            self.assertEqual(failure.value.status, 0)

    def test_refused_event_stream_is_an_error(self) -> None:
        api = self.make()
        api.version = "1.41"
        self.engine.replies["/v1.41/events"] = (400, b"")
        stream = Deferred.fromCoroutine(api.follow_events({}, self.fail))
        self.treq.flush()
        self.failureResultOf(stream, EngineError)


class TlsAddressTests(SynchronousTestCase):
    def test_address_is_a_socket_or_tcp_with_a_port(self) -> None:
        for text, address in (
            ("unix:///run/docker.sock", "/run/docker.sock"),
            ("/run/docker.sock", "/run/docker.sock"),
            ("tcp://10.0.0.1:2376", "tcp://10.0.0.1:2376"),
            ("tcp://[::1]:2376", "tcp://[::1]:2376"),
        ):
            self.assertEqual(engine_address(text), address)
        wrong = ("", "docker", "tcp://10.0.0.1", "tcp://:2376", "tcp://a:b", "http://a:1")
        for text in (*wrong, "tcp://a:70000", "tcp://[::1:2376"):
            self.assertRaises(ValueError, engine_address, text)

    def test_tcp_without_certificates_is_refused_at_the_start(self) -> None:
        environ = {"PORT": "1", "GAMESERVER_ENGINE": "swarm", "DOCKER_HOST": "tcp://a:2375"}
        settings, _ = load(DeploySettings, environ)
        error = self.assertRaises(BadSetting, check, settings)
        self.assertIn("Set DOCKER_CERT_PATH", str(error))

    def test_certificates_that_do_not_fit_are_named(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        authority = Authority(folder)
        self.assertIn("cert.pem cannot be read", self.refusal(folder))
        certificate, key = authority.certificate("127.0.0.1")
        shutil.copy(certificate, folder / "cert.pem")
        shutil.copy(authority.certificate("127.0.0.2")[1], folder / "key.pem")
        self.assertIn("DOCKER_CERT_PATH", self.refusal(folder))
        shutil.copy(key, folder / "key.pem")
        self.assertIsNotNone(tls_options("127.0.0.1", str(folder)))
        (folder / "ca.pem").write_text("nonsense")
        self.assertIn("DOCKER_CERT_PATH", self.refusal(folder))

    def refusal(self, folder: Path) -> str:
        return str(self.assertRaises(BadSetting, tls_options, "127.0.0.1", str(folder)))
