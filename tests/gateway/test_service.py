"""The gateway's start: every setting, the certificate and the secrets."""

import os
import socket
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from twisted.internet import endpoints
from twisted.internet.address import IPv6Address
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import capturedLogs
from twisted.python.systemd import ListenFDs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.certificate import Pair, make_pair, read_pair, write_pair
from svcserver.gateway.service import Options, makeService
from svcserver.gateway.settings import Address
from svcserver.web.serving import TopService
from tests.support.proves import proves
from tests.support.starting import start

SECRET = "0123456789abcdef0123456789abcdef"

# values of each variable with which the start fails
BAD_VALUES = {
    "GATEWAY_BIND": ["x", "300.0.0.1"],
    "GATEWAY_PORT": ["0", "65536", "x"],
    "GATEWAY_SECRET": ["-", "short", "a b" * 20, "x" * 257, "\u00e9" * 40],
    "ALLOWLIST_SECRET": ["-", "short"],
    "GATEWAY_METAGAME_URL": [
        "https://127.0.0.1:1",
        "http://10.0.0.1:1",
        "http://127.0.0.1",
        "http://127.0.0.1:1/x",
        "http://u@127.0.0.1:1",
        "http://example.org:1",
        "127.0.0.1:1",
        "http://127.0.0.1:99999",
    ],
    "GATEWAY_CONTENT_URL": ["x", ",", "http://127.0.0.1:1,http://127.0.0.1:1"],
    "GATEWAY_WS_URL": ["ws://127.0.0.1:1"],
    "ALLOWLIST_URL": ["http://8.8.8.8:1"],
    "ALLOWLIST_ADDITIONAL_URLS": ["http://127.0.0.1:1,x"],
    "GATEWAY_ALLOWLIST_REFRESH_SECONDS": ["4", "541"],
    "GATEWAY_MAX_BODY_BYTES": ["1023", "67108865"],
    "GATEWAY_MAX_CONNECTIONS": ["0"],
    "GATEWAY_MAX_CONNECTIONS_PER_IP": ["100001"],
    "GATEWAY_RATE_GENERAL": ["5", "0,1", "1.5,1", "1,0", "5,-1", "5,1e3", "5,x", "1,1,1"],
    "GATEWAY_RATE_CONTENT": ["1000001,1"],
    "GATEWAY_RATE_REGISTER": ["1,1000001"],
    "GATEWAY_RATE_NAME": ["0,1"],
    "GATEWAY_RATE_TOKEN": ["nan,nan"],
    "GATEWAY_RATE_CONNECT": [","],
    "GATEWAY_RATE_WS": ["1,inf"],
    "GATEWAY_HANDSHAKE_TIMEOUT_MS": ["999"],
    "GATEWAY_HEADERS_TIMEOUT_MS": ["120001"],
    "GATEWAY_REQUEST_TIMEOUT_MS": ["600001"],
    "GATEWAY_KEEPALIVE_TIMEOUT_MS": ["1"],
    "GATEWAY_IDLE_TIMEOUT_MS": ["3600001"],
    "GATEWAY_UPSTREAM_IDLE_TIMEOUT_MS": ["x"],
    "GATEWAY_WS_IDLE_TIMEOUT_MS": ["86400001"],
    "GATEWAY_SHUTDOWN_GRACE_MS": ["-1"],
}


def rsa_pair(bits: int) -> Pair:
    """Return a certificate and an RSA key, as an owner might provide them."""
    key = rsa.generate_private_key(65537, bits)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=90))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    return Pair(
        certificate,
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


class StartTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        certificate, key = write_pair(make_pair(["127.0.0.1"]), folder)
        self.environ = {
            "GATEWAY_CERT": str(certificate),
            "GATEWAY_KEY": str(key),
            "GATEWAY_SECRET": SECRET,
            "ALLOWLIST_SECRET": SECRET,
        }
        self.folder = folder

    def options(self, **changes: str) -> Options:
        environ = {**self.environ, **changes}
        self.patch(os, "environ", {k: v for k, v in environ.items() if v != "-"})
        options = Options()
        options.parseOptions([])
        return options

    def refused(self, **changes: str) -> str:
        with self.assertRaises(SystemExit) as caught:
            self.options(**changes)
        line = str(caught.exception)
        self.assertNotIn("\n", line)
        self.assertNotIn(SECRET, line)
        return line

    @proves(
        "limit: Gateway body",
        "limit: Gateway token buckets per IPv4 address or IPv6 /64",
        "settings of the gateway",
    )
    def test_defaults_equal_the_documented_defaults(self) -> None:
        settings = self.options().settings
        self.assertEqual((settings.bind, settings.port), ("0.0.0.0", 443))
        self.assertEqual(settings.metagame, (Address("127.0.0.1", 61000),))
        self.assertEqual(settings.content, (Address("127.0.0.1", 61002),))
        self.assertEqual(settings.chat, (Address("127.0.0.1", 61099),))
        rates = {bucket.value: (r.burst, r.per_minute) for bucket, r in settings.rates().items()}
        self.assertEqual(
            rates,
            {
                "general": (300, 180),
                "content": (600, 600),
                "register": (5, 0.2),
                "name": (30, 12),
                "token": (10, 1),
                "ws": (20, 12),
            },
        )
        self.assertEqual((settings.connect.burst, settings.connect.per_minute), (200, 300))
        self.assertEqual((settings.max_connections, settings.max_per_address), (2048, 128))
        limits = settings.limits()
        self.assertEqual(
            (limits.handshake_s, limits.headers_s, limits.request_s, limits.keep_alive_s),
            (10, 10, 30, 65),
        )
        self.assertEqual(
            (limits.idle_s, limits.upstream_idle_s, limits.tunnel_idle_s, limits.max_body),
            (120, 120, 300, 131_072),
        )
        self.assertEqual((settings.grace_s, settings.refresh_s), (10, 60))

    @proves(
        "gateway: upstreams plain http on this machine",
        "gateway: secret of 32 to 256 printable characters",
        "settings of the gateway",
    )
    def test_bad_values_end_the_start_naming_the_variable(self) -> None:
        for name, values in BAD_VALUES.items():
            for value in values:
                with self.subTest(name=name, value=value):
                    self.assertIn(name, self.refused(**{name: value}))

    @proves("settings of the gateway")
    def test_values_with_blanks_and_other_spellings_are_accepted(self) -> None:
        settings = self.options(
            GATEWAY_RATE_REGISTER=" 5 , 0.25 ",
            GATEWAY_METAGAME_URL="http://localhost:5/",
            GATEWAY_CONTENT_URL="http://[::1]:6, http://127.0.0.1:7",
            LOG_LEVEL="LOUD",
            GATEWAY_PORT=" ",
        ).settings
        self.assertEqual(settings.register.per_minute, 0.25)
        self.assertEqual(settings.metagame, (Address("127.0.0.1", 5),))
        self.assertEqual(
            [address.url() for address in settings.content],
            ["http://[::1]:6", "http://127.0.0.1:7"],
        )
        self.assertEqual((settings.log_level, settings.port), ("info", 443))

    @proves("event: GATEWAY_ALLOWLIST=0")
    def test_the_allowlist_may_be_off_and_then_needs_nothing(self) -> None:
        options = self.options(GATEWAY_ALLOWLIST="0", ALLOWLIST_SECRET="-", ALLOWLIST_URL="x")
        self.assertIsNone(options.allowlist)
        self.assertIn("GATEWAY_ALLOWLIST", options.warnings[0])

    @proves("gateway: certificate made and checked at start")
    def test_the_certificate_is_checked_before_anything_listens(self) -> None:
        second = self.folder / "other"
        write_pair(make_pair(["a"]), second)
        old = self.folder / "old"
        write_pair(make_pair(["a"], now=datetime(2000, 1, 1, tzinfo=UTC)), old)
        for changes, name, words in (
            ({"GATEWAY_CERT": "-"}, "GATEWAY_CERT", "not set"),
            ({"GATEWAY_CERT": "/nowhere"}, "GATEWAY_CERT", "cannot be read"),
            ({"GATEWAY_KEY": str(second / "gateway-key.pem")}, "GATEWAY_KEY", "does not belong"),
            (
                {
                    "GATEWAY_CERT": str(old / "gateway-cert.pem"),
                    "GATEWAY_KEY": str(old / "gateway-key.pem"),
                },
                "GATEWAY_CERT",
                "expired",
            ),
        ):
            line = self.refused(**changes)
            self.assertIn(name, line)
            self.assertIn(words, line)

    @proves("gateway: certificate made and checked at start")
    def test_a_key_too_short_for_tls_is_reported_before_listening(self) -> None:
        short = self.folder / "short"
        write_pair(rsa_pair(1024), short)
        files = {
            "GATEWAY_CERT": str(short / "gateway-cert.pem"),
            "GATEWAY_KEY": str(short / "gateway-key.pem"),
        }
        line = self.refused(**files)
        self.assertIn("GATEWAY_CERT", line)
        self.assertIn("too small", line)
        write_pair(rsa_pair(2048), short, force=True)
        self.assertEqual(self.options(**files).pair, read_pair(*map(Path, files.values())))

    def start(self, reactor: Any, **changes: str) -> TopService:
        top = makeService(self.options(**changes), reactor)
        start(top)
        return top

    @proves("gateway: TLS 1.2 or newer, self-signed, GATEWAY_BIND and GATEWAY_PORT")
    def test_the_gateway_listens_on_its_settings_address_and_stops(self) -> None:
        reactor = MemoryReactorClock()
        top = self.start(reactor, GATEWAY_BIND="127.0.0.1", GATEWAY_PORT="8443")
        [(port, *_, host)] = reactor.tcpServers
        self.assertEqual((host, port), ("127.0.0.1", 8443))
        self.successResultOf(top.stopService())
        self.assertEqual(reactor.getDelayedCalls(), [])

    def test_figures_are_shown_where_the_owner_wants_them(self) -> None:
        reactor = MemoryReactorClock()
        self.start(reactor, METRICS_PORT="9400")
        hosts = {address[0]: address[3] for address in reactor.tcpServers}
        self.assertEqual(set(hosts), {443, 9400})
        self.assertEqual(hosts[9400], "127.0.0.1")
        self.assertIn("METRICS_PORT", self.refused(METRICS_PORT="0"))

    @proves("gateway: TLS 1.2 or newer, self-signed, GATEWAY_BIND and GATEWAY_PORT")
    def test_a_socket_handed_over_is_used_instead(self) -> None:
        reactor, adopted = MemoryReactorClock(), []

        class Adopted:
            def getHost(self) -> IPv6Address:
                return IPv6Address("TCP", "::", 8443)

        def adopt(*args: Any) -> Adopted:
            adopted.append(args)
            return Adopted()

        reactor.adoptStreamPort = adopt  # type: ignore[assignment]
        for family in (socket.AF_INET, socket.AF_INET6):  # regardless of GATEWAY_BIND
            with socket.socket(family) as opened, capturedLogs() as events:
                passed = self.hand_over(opened)
                self.start(reactor)
            self.assertEqual(adopted.pop()[:2], (passed, family))
            self.assertEqual(reactor.tcpServers, [])
            [ready] = [event for event in events if event["log_format"] == "gateway ready"]
            self.assertEqual(ready["address"], "[::]:8443")

    def test_a_socket_handed_over_that_is_none_of_ours_ends_the_start(self) -> None:
        with socket.socket(socket.AF_UNIX) as opened:
            passed = self.hand_over(opened)
            with self.assertRaisesRegex(
                SystemExit, "svc-gateway: GATEWAY_PORT: .*not a TCP socket"
            ):
                self.start(MemoryReactorClock())
            os.close(passed)

    def hand_over(self, opened: socket.socket) -> int:
        """Pass a socket as systemd does; the gateway closes the descriptor when it starts."""
        passed = os.dup(opened.fileno())
        self.patch(endpoints._SystemdParser, "_sddaemon", ListenFDs([passed], ["https"]))
        return passed

    @proves("limit: Open connections per address / in total")
    def test_the_connection_limit_applies_before_the_tls_handshake(self) -> None:
        reactor = MemoryReactorClock()
        self.start(reactor, GATEWAY_MAX_CONNECTIONS_PER_IP="2")
        factory = reactor.tcpServers[0][1]

        class Address:
            host = "203.0.113.9"

        self.assertIsNotNone(factory.buildProtocol(Address()))
        self.assertIsNotNone(factory.buildProtocol(Address()))
        self.assertIsNone(factory.buildProtocol(Address()))
