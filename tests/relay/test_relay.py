"""The relay: its permitted clients, its answers and its start."""

from hypothesis import given, settings
from hypothesis import strategies as st
from treq.testing import StubTreq
from twisted.internet.error import CannotListenError
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.tls import Mismatch
from svcserver.kernel.settings import BadSetting, load
from svcserver.relay import proxy_policy
from svcserver.relay.relaying import DEFAULT_PORT, HOST, PortBusy, RelayService, Target
from svcserver.relay.service import Guarded, Options, makeService
from svcserver.relay.settings import RelaySettings, target_of
from tests.edge.wires import relay
from tests.support.proves import proves
from tests.support.starting import start

FP = "0a" * 32
TARGET = Target("203.0.113.10", 443, FP)


def ask(
    *lines: bytes, peer: str = "127.0.0.1", upgrade: bool = False, own: bytes = b"127.0.0.1"
) -> bytes:
    extra = b"Connection: Upgrade\r\nUpgrade: websocket\r\n" if upgrade else b""
    edge = relay(own=own)
    wire = edge.connect(peer)
    wire.protocol.dataReceived(
        b"GET /x HTTP/1.1\r\n" + b"".join(line + b"\r\n" for line in lines) + extra + b"\r\n"
    )
    if not wire.value():
        assert edge.upstream.wires
        return b"forwarded"
    assert not edge.upstream.wires
    return wire.value()


class GuardTests(SynchronousTestCase):
    def refused(self, reply: bytes) -> None:
        self.assertTrue(reply.startswith(b"HTTP/1.1 403 Forbidden\r\n"), reply)
        self.assertTrue(reply.endswith(b'{"error":"forbidden"}'))

    @proves("relay: 403 forbidden")
    def test_callers_from_another_machine_are_refused(self) -> None:
        for peer in ("203.0.113.9", "10.0.0.1", "::2", "::ffff:10.0.0.1", "junk"):
            self.refused(ask(b"Host: localhost", peer=peer))
        for peer in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"):
            self.assertEqual(ask(b"Host: localhost", peer=peer), b"forwarded")

    @proves("relay: 403 forbidden")
    def test_requests_with_a_foreign_host_header_are_refused(self) -> None:
        for host in (
            b"127.0.0.1",
            b"localhost:1",
            b"LOCALHOST",
            b"[::1]:61000",
            b"127.0.0.1:61000",
        ):
            self.assertEqual(ask(b"Host: " + host), b"forwarded")
        for host in (b"evil.example", b"127.0.0.1.evil", b"localhost.", b"127.0.0.2", b"[::2]"):
            self.refused(ask(b"Host: " + host))
        self.refused(ask())
        self.refused(ask(b"Host: localhost", b"Host: localhost"))
        for host in (b"127.0.0.2", b"127.0.0.2:61000", b"localhost"):
            self.assertEqual(ask(b"Host: " + host, own=b"127.0.0.2"), b"forwarded")
        for host in (b"127.0.0.3", b"127.0.0.2.evil", b"127.0.0.2:x", b"127.0.0.2:1:1"):
            self.refused(ask(b"Host: " + host, own=b"127.0.0.2"))

    @proves("relay: 403 forbidden")
    def test_requests_and_upgrades_of_a_foreign_origin_are_refused(self) -> None:
        for origin in (b"http://localhost", b"https://127.0.0.1:61000", b"http://[::1]:5"):
            self.assertEqual(ask(b"Host: localhost", b"Origin: " + origin), b"forwarded")
        for origin in (b"http://evil.example", b"null", b"file://", b"http://localhost.evil", b""):
            for upgrade in (False, True):
                self.refused(ask(b"Host: localhost", b"Origin: " + origin, upgrade=upgrade))

    @proves("relay: 403 forbidden")
    def test_sec_fetch_marks_a_browser_unless_it_upgrades(self) -> None:
        for name in (b"Sec-Fetch-Site", b"sec-fetch-mode", b"SEC-FETCH-X"):
            self.refused(ask(b"Host: localhost", name + b": none"))
            self.assertEqual(ask(b"Host: localhost", name + b": none", upgrade=True), b"forwarded")

    @settings(max_examples=100, deadline=None)
    @given(st.text(max_size=40))
    def test_noise_is_never_loopback(self, noise: str) -> None:
        if proxy_policy.is_loopback(noise):
            self.assertTrue(noise.startswith(("127.", "::")) or "1" in noise)

    @proves("relay: 501 unsupported_transfer_encoding")
    def test_transfer_encoding_gzip_is_501(self) -> None:
        reply = ask(b"Host: localhost", b"Transfer-Encoding: gzip")
        self.assertTrue(reply.startswith(b"HTTP/1.1 501 "))
        self.assertTrue(reply.endswith(b'{"error":"unsupported_transfer_encoding"}'))


class StartTests(SynchronousTestCase):
    def settings(self, **environ: str) -> RelaySettings:
        return load(RelaySettings, environ)[0]

    @proves("relay: listens on 127.0.0.1:61000, SVC_RELAY_PORT for tests")
    def test_the_relay_listens_on_its_fixed_address(self) -> None:
        reactor = MemoryReactorClock()
        service = RelayService(reactor, TARGET, DEFAULT_PORT)
        service.startService()
        [(port, *_, host)] = reactor.tcpServers
        self.assertEqual((host, port), ("127.0.0.1", 61000))
        self.successResultOf(service.stopService())
        self.assertEqual(reactor.getDelayedCalls(), [])

    def test_outgoing_connections_may_have_an_address_of_their_own(self) -> None:
        reactor = MemoryReactorClock()
        service = RelayService(reactor, TARGET, bind="127.1.2.3")
        service.pool.take()
        [(host, port, _, timeout, bind)] = reactor.tcpClients
        self.assertEqual((host, port, timeout, bind), ("203.0.113.10", 443, 10.0, ("127.1.2.3", 0)))

    @proves("relay: 502 upstream_unreachable")
    def test_no_connection_in_time_is_given_up(self) -> None:
        reactor = MemoryReactorClock()
        taken = RelayService(reactor, TARGET).pool.take()
        reactor.advance(10)
        self.assertEqual(self.failureResultOf(taken).value.code, "upstream_unreachable")

    @proves("relay: 502 certificate_mismatch")
    def test_a_wrong_certificate_is_reported_once_with_its_fingerprint(self) -> None:
        reactor = MemoryReactorClock()
        pool = RelayService(reactor, TARGET).pool
        for _ in range(2):
            taken = pool.take()
            attempt = reactor.tcpClients[-1][2].wrappedFactory
            connection = attempt.buildProtocol(None)
            attempt.handshaken(connection, "ff" * 32)
            failure = self.failureResultOf(taken, Mismatch)
            self.assertEqual(
                (failure.value.status, failure.value.code), (502, "certificate_mismatch")
            )
        self.assertEqual(reactor.getDelayedCalls(), [])

    @proves("relay: settings and port_busy")
    def test_a_taken_port_is_port_busy(self) -> None:
        class Busy(MemoryReactorClock):
            def listenTCP(self, port: int, *_: object, **__: object) -> None:  # type: ignore[override]
                raise CannotListenError(HOST, port, OSError(98, "in use"))

        service = RelayService(Busy(), TARGET, DEFAULT_PORT)
        with self.assertRaises(PortBusy) as caught:
            service.startService()
        self.assertEqual(caught.exception.code, "port_busy")
        with self.assertRaisesRegex(SystemExit, "port_busy"):
            Guarded(service).startService()

    @proves("relay: listens on 127.0.0.1:61000, SVC_RELAY_PORT for tests")
    def test_the_port_setting_is_for_tests_and_else_ignored(self) -> None:
        self.assertEqual(self.settings(SVC_RELAY_PORT="61010").port, 61010)
        for bad in ("80", "065000", "70000", "x", "1e4", "-1", "99999999"):
            result, warnings = load(RelaySettings, {"SVC_RELAY_PORT": bad})
            self.assertEqual(result.port, 61000)
            self.assertEqual(len(warnings), 1)

    @proves("relay: settings and port_busy")
    def test_the_target_comes_from_the_invite_or_from_all_three_overrides(self) -> None:
        invite = f"svc://join?v=2&mode=public&host=a.example&fp={FP}&code=ABCD&name=n"
        result = target_of(self.settings(SVC_RELAY_INVITE=invite), None)
        self.assertEqual(result, Target("a.example", 443, FP))
        three = {"SVC_RELAY_HOST": "b", "SVC_RELAY_GATEWAY_PORT": "5", "SVC_RELAY_FINGERPRINT": FP}
        result = target_of(self.settings(SVC_RELAY_INVITE=invite, **three), None)
        self.assertEqual(result, Target("b", 5, FP))
        self.assertEqual(target_of(self.settings(), invite).host, "a.example")
        for some in ({}, {"SVC_RELAY_HOST": "b"}, {"SVC_RELAY_INVITE": "svc://join?v=1"}):
            with self.assertRaises(BadSetting) as caught:
                target_of(self.settings(**some), None)
            self.assertIn("SVC_RELAY_", str(caught.exception))

    @proves("relay: settings and port_busy")
    def test_bad_settings_name_the_variable(self) -> None:
        for name, value in (
            ("SVC_RELAY_FINGERPRINT", "x"),
            ("SVC_RELAY_HOST", "http://play.example"),
            ("SVC_RELAY_HOST", "play.example:443"),
            ("SVC_RELAY_HOST", "a..b"),
            ("SVC_RELAY_HOST", "::1"),
            ("SVC_RELAY_GATEWAY_PORT", "0"),
            ("SVC_RELAY_CONNECT_TIMEOUT_MS", "999"),
        ):
            with self.assertRaisesRegex(BadSetting, name):
                self.settings(**{name: value})

    def test_the_service_is_made_of_its_options(self) -> None:
        options = Options()
        options.settings, options.warnings = self.settings(SVC_RELAY_PORT="61011"), []
        options.target = TARGET
        reactor = MemoryReactorClock()
        top = makeService(options, reactor)
        start(top)
        self.assertEqual(reactor.tcpServers[0][0], 61011)
        self.successResultOf(top.stopService())

    @proves("METRICS_PORT of every service, on loopback only")
    def test_figures_are_shown_on_loopback_where_the_owner_wants_them(self) -> None:
        options, reactor = Options(), MemoryReactorClock()
        options.settings, options.warnings = self.settings(METRICS_PORT="61907"), []
        options.target = TARGET
        top = makeService(options, reactor)
        start(top)
        port, site, _, host = reactor.tcpServers[0]
        self.assertEqual((host, port), ("127.0.0.1", 61907))
        page = self.successResultOf(StubTreq(site.resource).get("http://127.0.0.1/metrics"))
        self.assertIn("svc_relay_connections 0.0", self.successResultOf(page.text()))
        self.successResultOf(top.stopService())
