"""Settings and start-up: a bad setting ends the service with one line about the setting."""

import os
import tempfile
from pathlib import Path

from attrs import evolve
from treq.testing import StubTreq
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.allowlist import service
from svcserver.allowlist.firewall import Paths
from svcserver.allowlist.scripts import PortRange
from svcserver.allowlist.settings import AllowlistSettings
from svcserver.kernel.settings import BadSetting, load, variables
from svcserver.web.serving import NOTICE_S
from tests.allowlist.support import SECRET
from tests.support.proves import proves
from tests.support.starting import start


class SettingsTests(SynchronousTestCase):
    good = {"ALLOWLIST_DRY_RUN": "1", "ALLOWLIST_SECRET": SECRET}  # noqa: RUF012

    @proves("limit: Allowlist: TTL, entries, body, ports", "settings of the allowlist helper")
    def test_absent_and_blank_variables_give_the_defaults(self) -> None:
        settings, warnings = load(AllowlistSettings, self.good)
        self.assertEqual(warnings, [])
        self.assertEqual((settings.bind_host, settings.port), ("127.0.0.1", 61005))
        self.assertEqual(
            (settings.ttl_s, settings.min_interval_ms, settings.max_entries), (600, 3000, 256)
        )
        self.assertEqual((settings.ports, settings.backend), (PortRange(8770, 8777), "auto"))
        self.assertEqual(settings.audit_log, "allowlist-audit.log")
        self.assertEqual(settings.state_file, "allowlist-state.json")
        self.assertFalse(settings.allow_private)
        self.assertNotIn(SECRET, repr(settings))
        self.assertEqual(settings.paths, Paths())
        self.assertEqual((settings.nft_set, settings.metrics_port), (None, None))
        self.assertEqual(settings.log_level, "info")
        blank = {name: " " for name in variables(AllowlistSettings) if name not in self.good}
        again = load(AllowlistSettings, {**blank, **self.good})[0]
        self.assertEqual(evolve(again, secret=settings.secret), settings)

    @proves("limit: Allowlist: TTL, entries, body, ports")
    def test_values_at_their_bounds_are_accepted(self) -> None:
        for name, values in {
            "ALLOWLIST_BIND": ["127.0.0.1", "::1"],
            "ALLOWLIST_SECRET": ["x" * 32, "!~" * 128],
            "ALLOWLIST_PORTS": ["1", "65535", "1-65535"],
            "ALLOWLIST_TTL_SECONDS": ["1", "86400"],
            "ALLOWLIST_MIN_INTERVAL_MS": ["50", "600000"],
            "ALLOWLIST_MAX_ENTRIES": ["1", "1000"],
            "ALLOWLIST_POWERSHELL": ["C:\\ps.exe"],
        }.items():
            for value in values:
                self.assertEqual(load(AllowlistSettings, {**self.good, name: value})[1], [])

    @proves("settings of the allowlist helper")
    def test_every_bad_value_stops_the_start_and_is_named(self) -> None:
        for name, values in {
            "ALLOWLIST_DRY_RUN": ["", "2", "yes", "true"],
            "ALLOWLIST_BIND": ["0.0.0.0", "localhost", "10.0.0.1"],
            "ALLOWLIST_PORT": ["0", "65536", "x"],
            "ALLOWLIST_SECRET": ["", "short", "x" * 257, "x" * 31 + " x"],
            "ALLOWLIST_PORTS": ["0", "9-8", "1-65536", "8770-", "a"],
            "ALLOWLIST_TTL_SECONDS": ["0", "86401", "1.5"],
            "ALLOWLIST_MIN_INTERVAL_MS": ["49", "600001"],
            "ALLOWLIST_MAX_ENTRIES": ["0", "1001"],
            "ALLOWLIST_BACKEND": ["ufw"],
            "ALLOWLIST_NFT": ["nft"],
            "ALLOWLIST_IPTABLES": ["./iptables"],
            "ALLOWLIST_IPSET": ["ipset"],
            "ALLOWLIST_POWERSHELL": ["powershell.exe"],
            "ALLOWLIST_NFT_SET": ["players", "inet filter", "inet filter a;b"],
            "METRICS_PORT": ["0"],
        }.items():
            for value in values:
                with self.assertRaises(BadSetting) as caught:
                    load(AllowlistSettings, {**self.good, name: value})
                self.assertIn(name, str(caught.exception))

    @proves("settings of the allowlist helper")
    def test_an_unknown_log_level_is_info(self) -> None:
        self.assertEqual(
            load(AllowlistSettings, {**self.good, "LOG_LEVEL": "loud"})[0].log_level, "info"
        )
        self.assertEqual(
            load(AllowlistSettings, {**self.good, "LOG_LEVEL": "WARN"})[0].log_level, "warn"
        )


class ServiceTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.environ = {
            "ALLOWLIST_DRY_RUN": "1",
            "ALLOWLIST_SECRET": SECRET,
            "ALLOWLIST_AUDIT_LOG": str(self.folder / "audit.log"),
            "ALLOWLIST_STATE_FILE": str(self.folder / "state.json"),
        }

    def options(self, **more: str) -> service.Options:
        options = service.Options()
        options.settings, options.warnings = load(AllowlistSettings, {**self.environ, **more})
        return options

    @proves(
        "allowlist: listens on loopback, needs administrator rights",
        "settings of the allowlist helper",
    )
    def test_the_helper_listens_on_loopback_and_stops_cleanly(self) -> None:
        reactor = MemoryReactorClock()
        top = service.makeService(self.options(), reactor)
        start(top)
        [(port, _, _, host)] = reactor.tcpServers
        self.assertEqual((host, port), ("127.0.0.1", 61005))
        stopped = top.stopService()
        reactor.advance(NOTICE_S)
        self.successResultOf(stopped)
        self.assertIn('"event":"stop"', (self.folder / "audit.log").read_text())

    def test_metrics_listen_on_loopback_where_they_are_wanted(self) -> None:
        reactor = MemoryReactorClock()
        top = service.makeService(self.options(METRICS_PORT="61905"), reactor)
        start(top)
        port, site, _, host = reactor.tcpServers[-1]
        self.assertEqual((host, port), ("127.0.0.1", 61905))
        page = self.successResultOf(StubTreq(site.resource).get("http://127.0.0.1/metrics"))
        text = self.successResultOf(page.text())
        self.assertIn("svc_allowlist_open_addresses 0.0", text)
        self.assertIn("svc_allowlist_last_run_failed 0.0", text)
        stopped = top.stopService()
        reactor.advance(NOTICE_S)
        self.successResultOf(stopped)

    @proves(
        "allowlist: listens on loopback, needs administrator rights",
        "settings of the allowlist helper",
    )
    def test_no_rights_without_dry_run_end_the_start_naming_the_switch(self) -> None:
        self.patch(service.firewalls, "may_change_firewall", lambda: False)
        self.patch(service.firewalls, "find", lambda name: f"/usr/sbin/{name}")
        with self.assertRaises(SystemExit) as caught:
            service.makeService(self.options(ALLOWLIST_DRY_RUN="0"), MemoryReactorClock())
        self.assertIn("ALLOWLIST_DRY_RUN", str(caught.exception))

    @proves("settings of the allowlist helper")
    def test_an_audit_log_that_cannot_be_written_ends_the_start(self) -> None:
        for name in ("ALLOWLIST_AUDIT_LOG", "ALLOWLIST_STATE_FILE"):
            with self.assertRaises(SystemExit) as caught:
                options = self.options(**{name: str(self.folder / "none" / "x")})
                service.makeService(options, MemoryReactorClock())
            self.assertIn(name, str(caught.exception))

    @proves("settings of the allowlist helper")
    def test_a_missing_variable_ends_the_start_with_one_line(self) -> None:
        path = self.folder / "allowlist.env"
        path.write_text("ALLOWLIST_PORT=61005\n")
        for name in list(os.environ):
            if name.startswith("ALLOWLIST_"):
                self.patch(os, "environ", {})
        with self.assertRaises(SystemExit) as caught:
            service.Options().parseOptions(["--env-file", str(path)])
        self.assertIn("ALLOWLIST_DRY_RUN", str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))
