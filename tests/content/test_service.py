"""Settings and start-up checks of the content server."""

import json
import os
import tempfile
from pathlib import Path
from unittest import mock

from treq.testing import StubTreq
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.content import service
from svcserver.content.manifest import make
from svcserver.content.settings import ContentSettings, check
from svcserver.kernel.settings import BadSetting, load, variables
from svcserver.web.serving import NOTICE_S
from tests.content.support import write
from tests.support.proves import proves
from tests.support.starting import start


class ServiceCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder = self.root / "game"
        self.folder.mkdir()
        self.good = {"CONTENT_GAME_DIR": str(self.folder)}
        entries = [write(self.folder, name, b"x") for name in ("a", "b", "c")]
        (self.root / "manifest.json").write_bytes(make("1", entries).dump())

    def options(self, **more: str) -> service.Options:
        options = service.Options()
        options.settings, options.warnings = load(ContentSettings, {**self.good, **more})
        check(options.settings)
        return options


class SettingsTests(ServiceCase):
    @proves("settings of the content server")
    def test_absent_and_blank_variables_give_the_defaults(self) -> None:
        settings, warnings = load(ContentSettings, self.good)
        self.assertEqual(warnings, [])
        self.assertEqual((settings.port, settings.bind_hosts), (61002, ("127.0.0.1",)))
        self.assertEqual(settings.metagame_url, "http://127.0.0.1:61000")
        self.assertEqual(settings.manifest_file, self.root / "manifest.json")
        self.assertEqual((settings.streams_per_account, settings.streams_total), (6, 48))
        self.assertEqual(settings.auth_cache_s, 300)
        self.assertIsNone(settings.branding_dir)
        self.assertIsNone(settings.news_file)
        self.assertFalse(settings.allow_any_bind)
        self.assertEqual((settings.metrics_port, settings.log_level), (None, "info"))
        blank = {name: " " for name in variables(ContentSettings) if name != "CONTENT_GAME_DIR"}
        self.assertEqual(load(ContentSettings, {**blank, **self.good}), (settings, []))

    @proves("limit: Content streams")
    def test_values_at_their_bounds_are_accepted(self) -> None:
        for name, values in {
            "PORT": ["1", "65535"],
            "CONTENT_MAX_STREAMS_PER_ACCOUNT": ["1", "64"],
            "CONTENT_MAX_STREAMS_TOTAL": ["1", "1024"],
            "CONTENT_AUTH_CACHE_SECONDS": ["0", "3600"],
            "CONTENT_NEWS_FILE": [str(self.root / "later.json")],
        }.items():
            for value in values:
                self.assertEqual(self.options(**{name: value}).warnings, [])

    def test_an_unknown_log_level_is_info_with_a_warning(self) -> None:
        result = self.options(LOG_LEVEL="loud")
        self.assertEqual(result.settings.log_level, "info")
        self.assertIn("LOG_LEVEL", result.warnings[0])
        self.assertEqual(self.options(LOG_LEVEL="WARN").settings.log_level, "warn")

    @proves("settings of the content server")
    def test_every_bad_value_stops_the_start_and_is_named(self) -> None:
        for name, values in {
            "PORT": ["0", "x", "65536"],
            "BIND_HOST": ["example.org", "127.0.0.1,,x", ",", "1.2.3"],
            "METAGAME_URL": [
                "127.0.0.1:61000",
                "ftp://x",
                "http://",
                "http://a b",
                "http://x:99999",
            ],
            "CONTENT_GAME_DIR": ["", "/no/such/folder"],
            "CONTENT_MANIFEST": [str(self.folder)],
            "CONTENT_GAME_PROGRAM": [
                "/bin/sh",
                "../a",
                "a/../b",
                "a\\b",
                "C:/a",
                "a//b",
            ],
            "CONTENT_BRANDING_DIR": ["/no/such/folder"],
            "CONTENT_NEWS_FILE": [str(self.folder)],
            "CONTENT_MAX_STREAMS_PER_ACCOUNT": ["0", "65"],
            "CONTENT_MAX_STREAMS_TOTAL": ["0", "1025"],
            "CONTENT_AUTH_CACHE_SECONDS": ["-1", "3601", "x"],
            "METRICS_PORT": ["0"],
        }.items():
            for value in values:
                with self.assertRaises(BadSetting) as caught:
                    self.options(**{name: value})
                self.assertIn(name, str(caught.exception))

    @proves("settings of the content server")
    def test_only_private_addresses_are_bound_without_the_switch(self) -> None:
        hosts = "127.0.0.1,localhost,::1,100.64.0.9,fd7a:115c:a1e0::9"
        result = self.options(BIND_HOST=hosts).settings.bind_hosts
        self.assertEqual(result, ("127.0.0.1", "::1", "100.64.0.9", "fd7a:115c:a1e0::9"))
        for host in ("0.0.0.0", "::", "10.0.0.1", "203.0.113.1", "127.0.0.1,192.168.0.1"):
            with self.assertRaises(BadSetting) as caught:
                self.options(BIND_HOST=host)
            self.assertIn("CONTENT_ALLOW_ANY_BIND", str(caught.exception))
            self.options(BIND_HOST=host, CONTENT_ALLOW_ANY_BIND="1")

    @proves("settings of the content server")
    def test_trailing_slashes_of_the_metagame_url_are_dropped(self) -> None:
        result = self.options(METAGAME_URL="https://game.example:1234//").settings
        self.assertEqual(result.metagame_url, "https://game.example:1234")


class StartTests(ServiceCase):
    @proves("settings of the content server")
    def test_the_server_listens_on_every_configured_address(self) -> None:
        reactor = MemoryReactorClock()
        top = service.makeService(self.options(BIND_HOST="127.0.0.1,100.64.0.9"), reactor)
        start(top)
        self.assertEqual([item[3] for item in reactor.tcpServers], ["127.0.0.1", "100.64.0.9"])
        stopped = top.stopService()
        reactor.advance(NOTICE_S)
        self.successResultOf(stopped)

    def test_a_hostile_name_of_the_manifest_is_shown_escaped(self) -> None:
        settings = self.options(CONTENT_MANIFEST=str(self.root / "\x1b]0;owned\x07\n")).settings
        error = self.assertRaises(SystemExit, service.open_game_files, settings)
        self.assertTrue(str(error).isprintable(), str(error))

    @proves("settings of the content server")
    def test_a_broken_manifest_ends_the_start_with_one_line(self) -> None:
        path = self.root / "manifest.json"
        for broken in (b"", b"{}", b'{"files":[]}', None):
            if broken is None:
                path.unlink()
            else:
                path.write_bytes(broken)
            with self.assertRaises(SystemExit) as caught:
                service.makeService(self.options(), MemoryReactorClock())
            line = str(caught.exception)
            self.assertIn("CONTENT_MANIFEST", line)
            self.assertIn("svcctl content manifest", line)
            self.assertNotIn("\n", line)

    @proves("content: 503 file_unavailable", "settings of the content server")
    def test_missing_and_mismatched_files_are_listed(
        self,
    ) -> None:
        (self.folder / "a").unlink()
        (self.folder / "b").write_bytes(b"longer")
        game_files = service.open_game_files(self.options().settings)
        with capturedLogs() as events:
            game_files.check()
        self.assertEqual((game_files.missing, game_files.mismatched), (["a"], ["b"]))
        warnings = [event for event in events if event["log_level"] is LogLevel.warn]
        self.assertEqual(
            [(event["count"], event["paths"]) for event in warnings], [(1, "a"), (1, "b")]
        )
        self.assertEqual((events[0]["good"], events[0]["all"]), (1, 3))
        game_files.open(game_files.manifest.files["c"]).close()

    @proves("settings of the content server")
    def test_a_manifest_at_a_configured_path_is_read(self) -> None:
        target = self.root / "other.json"
        os.rename(self.root / "manifest.json", target)
        game_files = service.open_game_files(self.options(CONTENT_MANIFEST=str(target)).settings)
        self.assertEqual(json.loads(game_files.manifest.dump())["totalBytes"], 3)

    @proves("settings of the content server")
    def test_a_program_outside_the_manifest_is_warned_of(self) -> None:
        for name, news in (("b", "b"), ("B", ""), ("game.exe", ""), ("", "")):
            settings = self.options(CONTENT_GAME_PROGRAM=name).settings
            game_files = service.open_game_files(settings)
            with capturedLogs() as events:
                desk = service.make_handler(settings, game_files, mock.Mock(), MemoryReactorClock())
            self.assertEqual(desk.program, news)
            self.assertEqual(len(events), 1 if name and not news else 0)

    @proves("METRICS_PORT of the content server")
    def test_metrics_listen_on_loopback_where_they_are_wanted(self) -> None:
        reactor = MemoryReactorClock()
        top = service.makeService(self.options(METRICS_PORT="61902"), reactor)
        start(top)
        port, site, _, host = reactor.tcpServers[-1]
        self.assertEqual((host, port), ("127.0.0.1", 61902))
        stub = StubTreq(site.resource)
        page = self.successResultOf(stub.get("http://127.0.0.1:61902/metrics"))
        text = self.successResultOf(page.text())
        self.assertIn("svc_content_downloads_running 0.0", text)
        self.assertIn("svc_content_bytes_sent_total 0.0", text)
        self.assertEqual(self.successResultOf(stub.get("http://127.0.0.1/x")).code, 404)
        stopped = top.stopService()
        reactor.advance(NOTICE_S)
        self.successResultOf(stopped)
