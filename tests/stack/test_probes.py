"""The stack's and svc-watch's probes of the services, and the replies that they accept."""

from pathlib import Path
from tempfile import TemporaryDirectory

from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.host_creation import create_host
from svcserver.stack import watch
from svcserver.stack.alerts import watching
from svcserver.stack.alerts.sending import AlertSender
from svcserver.stack.alerts.service import EVERY_S
from svcserver.stack.children import Children
from svcserver.stack.components import Component, components
from svcserver.stack.probes import ADDRESSES, PROBE_S, FreezeMonitor, Probes, probe_address
from tests.stack.spawner import Spawner
from tests.support.proves import proves


class ProbeAddressTests(SynchronousTestCase):
    def test_metrics_port_precedes_the_services_own(self) -> None:
        self.assertEqual(probe_address("gateway", {"METRICS_PORT": "9100"}), ("127.0.0.1", 9100))
        self.assertEqual(probe_address("gateway", {}), ("127.0.0.1", 443))
        self.assertEqual(probe_address("metagame", {"BIND_HOST": "::", "PORT": "5"}), ("::1", 5))
        self.assertEqual(
            probe_address("content", {"BIND_HOST": "100.64.0.9, 127.0.0.1", "PORT": "x"}),
            ("100.64.0.9", 61002),
        )

    def test_every_component_of_a_host_has_an_address(self) -> None:
        with TemporaryDirectory() as scratch:
            create_host(Path(scratch, "host"), "127.0.0.1", "Olga")
            self.assertEqual(
                {component.kind for component in components(Path(scratch, "host"))}, set(ADDRESSES)
            )


class ProbeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(TemporaryDirectory()))
        (self.folder / "metagame.env").write_text("METRICS_PORT=9100\n")
        (self.folder / "gateway.env").write_text("METRICS_PORT=9101\n")
        self.reactor = MemoryReactorClock()
        self.probes = Probes(self.reactor, components(self.folder))

    def test_component_that_replies_is_answering(self) -> None:
        looked = self.probes.probe_all()
        for host, port, factory, *_ in self.reactor.tcpClients:
            self.assertEqual(host, "127.0.0.1")
            if port == 9100:
                opened = factory.buildProtocol(None)
                opened.makeConnection(StringTransport())
                opened.dataReceived(b"HTTP/1.1 404 Not Found")
        self.reactor.advance(PROBE_S)
        self.successResultOf(looked)
        self.assertEqual(self.probes.answering, {"metagame"})

    def probe(self, name: str, answer: bytes | None) -> None:
        """Probe while only the service ``name`` answers.

        If ``answer`` is None, the service closes the connection instead.
        """
        self.reactor.tcpClients.clear()
        looked = self.probes.probe_all()
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
        self.reactor.advance(PROBE_S)
        self.successResultOf(looked)
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    @proves("a service that is frozen is down")
    def test_component_that_accepts_but_stays_silent_is_frozen(self) -> None:
        self.probe("metagame", b"HTTP/1.1 200 OK")
        self.assertEqual(self.probes.answering, {"metagame"})
        self.probe("metagame", b"")
        self.assertEqual(self.probes.answering, set())
        self.probe("gateway", None)  # TLS ends a connection whose bytes are no TLS
        self.assertEqual(self.probes.answering, {"gateway"})

    @proves("svc-watch: alerts of services that no svc-stack runs")
    def test_watch_reports_a_service_that_does_not_listen(self) -> None:
        options = watch.Options()
        options.parseOptions(["--config", str(self.folder)])
        titles: list[str] = []
        self.patch(watching, "DOWN_S", 0.0)
        self.patch(AlertSender, "send", lambda _, alert: titles.append(alert.title))
        top = watch.makeService(options, self.reactor)
        for part in top:
            part.startService()
            self.addCleanup(part.stopService)
        for _ in range(int(2 * EVERY_S)):
            self.reactor.advance(1)
        self.assertIn("gateway is down", titles)


FROZEN_S = 90.0


class FakeProbes(Probes):
    """Probes whose results the test sets."""

    def probe_all(self) -> Deferred[None]:
        return succeed(None)


class FrozenTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = Spawner()
        names = ("metagame", "gateway", "relay")
        wanted = [Component(name, Path(f"/h/{name}.env")) for name in names]
        self.children = Children(self.reactor, wanted, lambda name, line: None, {}, "/h")
        self.probes = FakeProbes(self.reactor, wanted)
        self.monitor = FreezeMonitor(self.reactor, self.children, self.probes, FROZEN_S)
        self.children.startService()
        for number in range(len(names)):
            self.reactor.advance(1)
            self.reactor.spawned[number].says("ready")
        self.probes.answering = {"metagame", "gateway"}

    def look(self, seconds: float) -> None:
        """Check the services for this many seconds, as often as the stack does."""
        for _ in range(int(seconds / EVERY_S)):
            self.reactor.advance(EVERY_S)
            self.successResultOf(self.monitor.check())

    def signals(self) -> list[list[str]]:
        return [process.signals for process in self.reactor.spawned]

    @proves("a service that is frozen is down")
    def test_silent_component_is_down_then_killed_and_restarted(self) -> None:
        self.look(FROZEN_S)
        self.assertEqual(self.monitor.ready(), {"metagame", "gateway", "relay"})
        self.probes.answering.discard("gateway")
        self.look(FROZEN_S)
        self.assertEqual(self.monitor.ready(), {"metagame", "relay"})
        self.assertEqual(self.signals(), [[], [], []])
        self.look(EVERY_S)
        self.assertEqual(self.signals(), [[], ["KILL"], []])
        self.reactor.advance(1)
        self.assertEqual(self.reactor.names[3:], ["gateway"])
        # the service is not ready yet, which the code that waits for it reports
        self.look(2 * FROZEN_S)
        self.assertEqual(self.reactor.spawned[3].signals, [])

    def test_one_answer_in_time_is_enough(self) -> None:
        for _ in range(4):
            self.probes.answering.discard("metagame")
            self.look(FROZEN_S - EVERY_S)
            self.probes.answering.add("metagame")
            self.look(EVERY_S)
        self.assertEqual(self.signals(), [[], [], []])
