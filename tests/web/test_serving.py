"""The start of a service (ports first, ``ready`` last), and its stop (the database last)."""

from typing import Any
from unittest import mock

from attrs import define, field
from twisted.application.service import MultiService, Service
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.counters import Counters
from svcserver.web import serving
from svcserver.web.metrics import metrics
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer
from svcserver.web.serving import DRAIN_S, GARBAGE, Listening, OrderedServices
from svcserver.web.site import HttpFactory
from tests.edge.wires import Wire
from tests.support.proves import proves
from tests.support.starting import start


@define(eq=False, slots=False)
class Part(Service):
    """A service that records when it is stopped; the test decides when the stop completes."""

    name: str
    reported: list[str]
    stopped: Deferred[None] = field(factory=Deferred)

    def stopService(self) -> Deferred[None]:
        Service.stopService(self)
        self.reported.append(self.name)
        return self.stopped


class CollectorTests(SynchronousTestCase):
    def test_objects_of_a_started_service_are_frozen(self) -> None:
        # otherwise each garbage collection would visit all permanent objects
        collector = self.enterContext(mock.patch.object(serving, "gc"))
        self.enterContext(mock.patch.object(serving, "raise_file_limit"))
        before: list[Any] = []

        class Held(Service):
            def startService(self) -> None:
                super().startService()
                before.extend(collector.mock_calls)

        top = serving.TopService(mock.Mock())
        Held().setServiceParent(top)
        start(top)
        self.addCleanup(top.stopService)
        self.assertEqual(before, [])  # garbage is collected only after the start of the parts
        wanted = [mock.call.collect(), mock.call.freeze(), mock.call.set_threshold(*GARBAGE)]
        self.assertEqual(collector.mock_calls, wanted)


class InTurnTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reported: list[str] = []
        self.parts = [Part(name, self.reported) for name in ("database", "board", "listener")]
        self.top = OrderedServices()
        for part in self.parts:
            part.setServiceParent(self.top)
        start(self.top)

    def test_a_part_stops_when_all_after_it_have_ended(self) -> None:
        gone = self.top.stopService()
        for reported in (["listener"], ["listener", "board"], ["listener", "board", "database"]):
            self.assertEqual(self.reported, reported)
            self.assertNoResult(gone)
            self.parts[3 - len(reported)].stopped.callback(None)
        self.successResultOf(gone)

    def test_a_part_that_fails_to_stop_is_logged_and_skipped(self) -> None:
        gone = self.top.stopService()
        self.parts[2].stopped.errback(OSError("no"))
        for part in self.parts[1::-1]:
            part.stopped.callback(None)
        self.successResultOf(gone)
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)


@define
class Slow:
    """A handler that answers when the test allows it."""

    max_json: int = 100
    work: list[Deferred[Answer]] = field(factory=list)

    def early(self, request: HttpRequest, length: int | None) -> Answer | None:
        return None

    def page(self, status: int, why: BaseException | None) -> Answer:
        return Answer(status)

    def answer(self, request: HttpRequest) -> Deferred[Answer]:
        self.work.append(Deferred())
        return self.work[-1]


class ListeningTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor, self.front = MemoryReactorClock(), Slow()
        self.factory = HttpFactory(self.front, self.reactor)
        self.part = Listening(self.reactor, "game", 61000, "127.0.0.1", self.factory)
        self.addCleanup(self.factory.doStop)

    def ask(self) -> Wire:
        channel = self.factory.buildProtocol(IPv4Address("TCP", "127.0.0.1", 1))
        wire = Wire(channel)
        channel.makeConnection(wire)
        channel.dataReceived(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
        return wire

    def test_on_stop_a_running_request_gets_its_answer(self) -> None:
        start(self.part)
        self.factory.doStart()
        wire = self.ask()
        gone = self.part.stopService()
        self.reactor.advance(DRAIN_S / 2)
        self.assertNoResult(gone)
        self.front.work[0].callback(Answer(200, b"x"))
        self.reactor.advance(0.05)
        self.successResultOf(gone)
        self.assertTrue(wire.value().startswith(b"HTTP/1.1 200 "))

    def test_a_stop_waits_for_answers_only_until_its_deadline(self) -> None:
        start(self.part)
        self.factory.doStart()
        self.ask()
        gone = self.part.stopService()
        self.reactor.pump([0.05] * (int(DRAIN_S / 0.05) + 1))
        self.successResultOf(gone)

    def test_a_part_that_never_listened_stops_at_once(self) -> None:
        self.successResultOf(self.part.stopService())


class TakenTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = MemoryReactorClock()
        self.taken = 61000
        real = self.reactor.listenTCP

        def listen(port: int, *args: Any, **kwargs: Any) -> Any:
            if port == self.taken:
                raise CannotListenError("127.0.0.1", port, OSError("in use"))
            return real(port, *args, **kwargs)

        self.patch(self.reactor, "listenTCP", listen)

    def top(self) -> MultiService:
        made = MultiService()
        factory = HttpFactory(Slow(), self.reactor)
        Listening(self.reactor, "game", 61000, "127.0.0.1", factory).setServiceParent(made)
        metrics(self.reactor, "game", 61900, {}, Counters()).setServiceParent(made)
        return made

    @proves("METRICS_PORT of every service, on loopback only")
    def test_a_taken_port_ends_the_start_before_anything_is_ready(self) -> None:
        for port, variable in ((61000, "PORT or BIND_HOST"), (61900, "METRICS_PORT")):
            self.taken = port
            with capturedLogs() as events:
                caught = self.assertRaises(SystemExit, start, self.top())
            line = f"svc-game: Could not listen on 127.0.0.1:{port}: in use; change {variable},"
            self.assertTrue(str(caught).startswith(line), str(caught))
            self.assertEqual(events, [])

    def test_each_server_logs_under_its_name_that_it_is_ready(self) -> None:
        self.taken = 0
        with capturedLogs() as events:
            start(self.top())
        self.assertEqual([event["name"] for event in events], ["game", "game-metrics"])
