"""Where stack and svc-watch knock, and what they take for an answer."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from twisted.internet.error import ConnectionDone
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.host_creation import create_host
from svcserver.stack import watch
from svcserver.stack.alerts import watching
from svcserver.stack.alerts.posting import Posting
from svcserver.stack.alerts.watching import EVERY_S
from svcserver.stack.components import components
from svcserver.stack.doors import KNOCK_S, OWN, Doors, door
from tests.support.proves import proves


class DoorTests(SynchronousTestCase):
    def test_the_port_of_figures_comes_first_then_the_services_own(self) -> None:
        self.assertEqual(door("gateway", {"METRICS_PORT": "9100"}), ("127.0.0.1", 9100))
        self.assertEqual(door("gateway", {}), ("127.0.0.1", 443))
        self.assertEqual(door("metagame", {"BIND_HOST": "::", "PORT": "5"}), ("::1", 5))
        self.assertEqual(
            door("content", {"BIND_HOST": "100.64.0.9, 127.0.0.1", "PORT": "x"}),
            ("100.64.0.9", 61002),
        )

    def test_every_component_of_a_host_has_a_door(self) -> None:
        with TemporaryDirectory() as scratch:
            create_host(Path(scratch, "host"), "127.0.0.1", "Olga")
            self.assertEqual({one.kind for one in components(Path(scratch, "host"))}, set(OWN))


class KnockTests(SynchronousTestCase):
    def setUp(self) -> None:
        scratch = TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        (self.folder / "metagame.env").write_text("METRICS_PORT=9100\n")
        (self.folder / "gateway.env").write_text("METRICS_PORT=9101\n")
        self.reactor = MemoryReactorClock()
        self.doors = Doors(self.reactor, components(self.folder))

    def test_who_opens_listens_and_who_is_silent_does_not(self) -> None:
        looked = self.doors.look()
        for host, port, factory, *_ in self.reactor.tcpClients:
            self.assertEqual(host, "127.0.0.1")
            if port == 9100:
                opened = factory.buildProtocol(None)
                opened.makeConnection(StringTransport())
                opened.dataReceived(b"HTTP/1.1 404 Not Found")
        self.reactor.advance(KNOCK_S)
        self.successResultOf(looked)
        self.assertEqual(self.doors.open, {"metagame"})

    def knock(self, name: str, answer: bytes | None) -> None:
        """A look in which all but ``name`` are away; ``answer`` None: it closes."""
        self.reactor.tcpClients.clear()
        looked = self.doors.look()
        for _, port, factory, *_ in self.reactor.tcpClients:
            if port == {"metagame": 9100, "gateway": 9101}[name]:
                opened = factory.buildProtocol(None)
                wire = StringTransport()
                opened.makeConnection(wire)
                self.assertIn(b"GET /metrics", wire.value())
                if answer is None:
                    opened.connectionLost(Failure(ConnectionDone()))
                elif answer:
                    opened.dataReceived(answer)
        self.reactor.advance(KNOCK_S)
        self.successResultOf(looked)
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    @proves("a service that is frozen is down")
    def test_who_takes_a_connection_and_says_nothing_is_frozen(self) -> None:
        self.knock("metagame", b"HTTP/1.1 200 OK")
        self.assertEqual(self.doors.open, {"metagame"})
        self.knock("metagame", b"")
        self.assertEqual(self.doors.open, set())
        self.knock("gateway", None)  # TLS ends what is none
        self.assertEqual(self.doors.open, {"gateway"})

    @proves("svc-watch: alerts of services that no svc-stack runs")
    def test_the_watcher_tells_of_a_service_that_does_not_listen(self) -> None:
        options = watch.Options()
        options.parseOptions(["--config", str(self.folder)])
        told: list[str] = []
        self.patch(watching, "DOWN_S", 0.0)
        self.patch(Posting, "tell", lambda _, one: told.append(one.title))
        top = watch.makeService(options, self.reactor)
        for part in top:
            part.startService()
            self.addCleanup(part.stopService)
        for _ in range(int(2 * EVERY_S)):
            self.reactor.advance(1)
        self.assertIn("gateway is down", told)
