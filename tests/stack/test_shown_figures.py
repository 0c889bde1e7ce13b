"""Every service shows the metrics that an owner under attack needs.

Three services have their own tests: the metagame in
``tests/metagame/owner/health/test_figures.py``, the gateway in ``tests/gateway/test_limits.py``,
and the chat in ``tests/chat/test_login.py``. ``tests/live/attacks/test_figures.py`` tests all
metrics together on real services.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from treq.testing import StubTreq
from twisted.internet.address import IPv4Address
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.allowlist import service as allowlist
from svcserver.content import service as content
from svcserver.deploy import service as deploy
from svcserver.relay import service as relay
from svcserver.web.channel import MAX_UNREAD
from tests.content.support import make, write
from tests.edge.wires import Wire
from tests.support.proves import proves

SHOWN = 61_950
SECRET = "s" * 32
HOST = b"Host: localhost\r\n"
PAGE = HOST + b"Origin: http://evil.example\r\n"
REBOUND = b"Host: evil.example\r\n"
LINES = 'svc_{name}_dropped_log_lines_total{{reason="unread"}} 0.0'


def ask(line: bytes, fields: bytes = HOST, body: bytes = b"") -> bytes:
    """Return a request as bytes."""
    length = b"Content-Length: %d\r\n" % len(body) if body else b""
    return line + b" HTTP/1.1\r\n" + fields + length + b"\r\n" + body


class Attacked:
    """A service in memory, and its METRICS_PORT."""

    def __init__(self, case: FiguresTests, service: ModuleType, environ: Mapping[str, str]) -> None:
        case.patch(os, "environ", {**environ, "METRICS_PORT": str(SHOWN)})
        options, self.case, self.reactor = service.Options(), case, MemoryReactorClock()
        options.parseOptions([])
        self.top = service.makeService(options, self.reactor)
        self.top.privilegedStartService()

    def send(self, raw: bytes, peer: str = "127.0.0.1") -> bytes:
        """Send bytes on a new connection and return the reply."""
        [factory] = [server[1] for server in self.reactor.tcpServers if server[0] != SHOWN]
        factory.doStart()
        self.case.addCleanup(factory.doStop)
        protocol = factory.buildProtocol(IPv4Address("TCP", peer, 1))
        wire = Wire(protocol, peer)
        protocol.makeConnection(wire)
        self.case.addCleanup(wire.abortConnection)
        protocol.dataReceived(raw)
        return wire.value()

    def statuses(self, *raws: bytes) -> list[int]:
        return [int(self.send(raw).split(b" ", 2)[1]) for raw in raws]

    def shown(self) -> str:
        [site] = [server[1] for server in self.reactor.tcpServers if server[0] == SHOWN]
        request = StubTreq(site.resource).get("http://127.0.0.1/metrics")
        page = self.case.successResultOf(request)
        return str(self.case.successResultOf(page.text()))


class FiguresTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def assert_shown(self, attacked: Attacked, name: str, figures: Mapping[str, int]) -> None:
        page = attacked.shown()
        for figure, count in figures.items():
            self.assertIn(f"svc_{name}_{figure} {count}.0\n", page)
        self.assertIn(LINES.format(name=name), page)

    @proves("METRICS_PORT of every service, on loopback only")
    def test_the_content_server_counts_its_refusals_in_its_metrics(self) -> None:
        (self.folder / "game").mkdir()
        entry = write(self.folder / "game", "a", b"x")
        (self.folder / "manifest.json").write_bytes(make("1", [entry]).dump())
        environ = {"CONTENT_GAME_DIR": str(self.folder / "game"), "GATEWAY_SECRET": SECRET}
        attacked = Attacked(self, content, environ)
        news = b"GET /content/v1/news"
        self.assertEqual(
            attacked.statuses(
                ask(news, REBOUND),
                ask(b"GET /content/v1/files/a"),
                ask(b"GET /admin"),
                ask(b"GET /x y"),
                ask(b"GET /content/v1/manifest"),
            ),
            [403, 401, 404, 400, 200],
        )
        counts = {f'refusals_total{{reason="{why}"}}': 1 for why in ("host", "401", "404")}
        counts['refusals_total{reason="unreadable"}'] = 1
        unread = attacked.top.counters  # the limit of unread answers is also counted there
        [factory] = [server[1] for server in attacked.reactor.tcpServers if server[0] != SHOWN]
        self.assertIs(factory.unread.counters, unread)
        self.assertLessEqual(factory.unread.most, MAX_UNREAD)
        self.assert_shown(attacked, "content", counts)

    @proves("METRICS_PORT of every service, on loopback only")
    def test_the_allowlist_helper_counts_refusals_in_its_metrics(self) -> None:
        environ = {
            "ALLOWLIST_DRY_RUN": "1",
            "ALLOWLIST_SECRET": SECRET,
            "ALLOWLIST_AUDIT_LOG": str(self.folder / "audit.log"),
            "ALLOWLIST_STATE_FILE": str(self.folder / "state.json"),
        }
        attacked = Attacked(self, allowlist, environ)
        key = b"X-Allowlist-Secret: " + SECRET.encode() + b"\r\n"
        status = b"GET /status"
        self.assertEqual(
            attacked.statuses(
                ask(status),
                ask(status, PAGE + key),
                ask(status, REBOUND + key),
                ask(b"POST /allow", HOST + key, b"{" * 2_000),
                ask(b"POST /allow", HOST + key, b"{}"),
                ask(status, HOST + key),
            ),
            [401, 403, 403, 413, 400, 200],
        )
        reasons = ("401", "origin", "host", "413", "400")
        counts = {f'refusals_total{{reason="{why}"}}': 1 for why in reasons}
        self.assert_shown(attacked, "allowlist", counts)

    @proves("METRICS_PORT of every service, on loopback only")
    def test_the_deploy_server_counts_its_refusals_in_its_metrics(self) -> None:
        program = self.folder / "game"
        program.touch(0o755)
        environ = {"GAMESERVER_BINARY_PATH": str(program), "PORT_RANGE_BEGIN": "8770"}
        attacked = Attacked(self, deploy, {**environ, "PORT_RANGE_END": "8777", "PORT": "61001"})
        listed = b"GET /gameservers"
        self.assertEqual(
            attacked.statuses(
                ask(listed, PAGE),
                ask(listed, HOST + b"X-Forwarded-For: 203.0.113.7\r\n"),
                ask(b"GET /else"),
                b"nonsense\r\n\r\n",
                ask(listed),
            ),
            [403, 403, 404, 400, 200],
        )
        reasons = ("origin", "proxied", "404", "unreadable")
        counts = {f'refusals_total{{reason="{why}"}}': 1 for why in reasons}
        self.assert_shown(attacked, "deploy", counts)

    @proves("METRICS_PORT of every service, on loopback only")
    def test_the_relay_counts_its_refusals_in_its_metrics(self) -> None:
        environ = {
            "SVC_RELAY_HOST": "203.0.113.10",
            "SVC_RELAY_FINGERPRINT": "0a" * 32,
            "SVC_RELAY_GATEWAY_PORT": "443",
        }
        attacked = Attacked(self, relay, environ)
        attacked.top.startService()
        self.addCleanup(attacked.top.stopService)
        statuses = attacked.statuses(ask(b"GET /x", PAGE), ask(b"GET /x", REBOUND))
        self.assertEqual(statuses, [403, 403])
        refusals = [line for line in attacked.shown().splitlines() if "refusals_total{" in line]
        self.assertEqual(sum(float(line.rpartition(" ")[2]) for line in refusals), 2)
        self.assert_shown(attacked, "relay", {})
