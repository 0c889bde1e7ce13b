"""The allowlist helper: its routes, firewall rules, audit log and state file."""

import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from treq import content
from treq.testing import StubTreq
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.http_headers import Headers

from svcserver.allowlist.entries import Entries, OpenAddress
from svcserver.allowlist.firewall import DryRun, Nftables
from svcserver.allowlist.helper import Helper
from svcserver.allowlist.persistence import AddressLog, StateFile
from svcserver.allowlist.programs import Programs
from svcserver.allowlist.routes import AllowlistHandler
from svcserver.allowlist.scripts import PortRange
from svcserver.kernel.secrets import Secret
from svcserver.web.request import HttpRequest
from svcserver.web.site import HttpFactory
from tests.allowlist.support import SECRET, FakeSpawner
from tests.edge.wires import Wire
from tests.support.proves import proves

NOW = 1_790_000_000.0


class HelperCase(SynchronousTestCase):
    dry = False

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.reactor = FakeSpawner()
        self.reactor.advance(NOW)
        self.helper = self.make()

    def make(self, most: int = 256) -> Helper:
        now = self.reactor.seconds
        nft: Any = Nftables(Programs(self.reactor), "/usr/sbin/nft")
        self.audit_path = self.folder / "audit.log"
        helper = Helper(
            self.reactor,
            now,
            Entries(600, most),
            DryRun(nft) if self.dry else nft,
            PortRange(8770, 8777),
            AddressLog(self.audit_path, now),
            StateFile(self.folder / "state.json"),
        )
        self.handler = AllowlistHandler(helper, Secret(SECRET))
        return helper

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.audit_path.read_text().splitlines()]

    def ask(
        self,
        method: str = "POST",
        path: str = "/allow",
        body: bytes = b'{"ip":"203.0.113.7"}',
        *,
        secret: str | None = SECRET,
        peer: str = "127.0.0.1",
    ) -> tuple[int, Any]:
        headers = Headers({} if secret is None else {"x-allowlist-secret": [secret]})
        request = HttpRequest(method, path.encode(), b"", headers, peer, body)
        reply = self.handler.early(request, len(body)) if body else None
        if reply is None:
            reply = self.handler.answer(request)
        self.reply = reply
        assert isinstance(reply.body, bytes)
        return reply.status, json.loads(reply.body)


class AnswerTests(HelperCase):
    @proves("allowlist: POST /allow")
    def test_a_new_address_is_added_and_a_known_address_refreshed(self) -> None:
        body = {"ip": "203.0.113.7", "added": True, "ttlSeconds": 600}
        self.assertEqual(self.ask(), (200, body))
        self.assertEqual(self.ask(), (200, {**body, "added": False}))
        mapped = b'{"ip":"::ffff:203.0.113.7","more":1}'
        self.assertEqual(self.ask(body=mapped), (200, {**body, "added": False}))

    @proves("allowlist: POST /allow")
    def test_an_address_no_player_can_have_is_400_with_the_reason(self) -> None:
        for text, reason in (
            ('{"ip":null}', "not_a_string"),
            ("{}", "not_a_string"),
            ('{"ip":"any"}', "range_not_allowed"),
            ('{"ip":"10.0.0.1"}', "private"),
            ('{"ip":"0.0.0.0"}', "unspecified"),
        ):
            reply = self.ask(body=text.encode())
            self.assertEqual(reply, (400, {"error": "invalid_ip", "reason": reason}))

    @proves("allowlist: POST /withdraw")
    def test_a_withdrawal_takes_out_a_network_at_once(self) -> None:
        self.helper.start()
        self.reactor.spawned[-1].end()
        for ip in ("203.0.113.7", "203.0.113.8", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"):
            self.ask(body=b'{"ip":"%s"}' % ip.encode())
        self.reactor.advance(3)
        self.reactor.spawned[-1].end()
        for network, gone in (
            ("203.0.113.7", ["203.0.113.7"]),
            ("2001:db8::/64", ["2001:db8::1", "2001:db8::2"]),
            ("203.0.113.9", []),
        ):
            runs = len(self.reactor.spawned)
            body = b'{"network":"%s"}' % network.encode()
            self.assertEqual(self.ask(path="/withdraw", body=body), (200, {"withdrawn": gone}))
            if gone:
                script = self.reactor.spawned[-1].script
                self.assertFalse([ip for ip in gone if ip in script])
                self.assertIn("203.0.113.8", script)
                self.reactor.spawned[-1].end()
            self.assertEqual(len(self.reactor.spawned), runs + bool(gone))
        left = [item["ip"] for item in self.ask("GET", "/status", b"")[1]["entries"]]
        self.assertEqual(left, ["203.0.113.8", "2001:db8:0:1::1"])
        self.assertIn("withdrawn", [item["event"] for item in self.events()])

    @proves("allowlist: POST /withdraw")
    def test_a_withdrawal_without_network_removes_nothing(self) -> None:
        self.ask()
        for text in (
            "{}",
            '{"network":7}',
            '{"network":"0.0.0.0/0"}',
            '{"network":"203.0.113.0/24"}',
            '{"network":"203.0.113.7/64"}',
            '{"network":"::/0"}',
            '{"network":"any"}',
            '{"ip":"203.0.113.7"}',
        ):
            reply = self.ask(path="/withdraw", body=text.encode())
            self.assertEqual((reply[0], reply[1]["error"]), (400, "invalid_ip"), text)
        self.assertEqual(self.ask(path="/withdraw", body=b"[]")[0], 400)
        self.assertEqual(self.ask("GET", "/withdraw", b"")[0], 405)
        self.assertEqual(self.ask(path="/withdraw", secret=None)[0], 401)
        self.assertEqual(len(self.helper.entries), 1)

    @proves("allowlist: POST /allow", "limit: Allowlist: TTL, entries, body, ports")
    def test_beyond_the_maximum_is_503_and_a_refresh_still_works(self) -> None:
        self.helper = self.make(most=1)
        self.ask()
        reply = self.ask(body=b'{"ip":"203.0.113.8"}')
        self.assertEqual(reply, (503, {"error": "allowlist_full"}))
        self.assertEqual(self.ask()[0], 200)
        self.assertEqual(self.events()[-1]["event"], "full")

    @proves("allowlist: 400 bad_request non-JSON body")
    def test_a_body_that_is_no_json_object_is_400(self) -> None:
        for body in (b"", b"x", b"[]", b'"a"', b"{", b"NaN", b"[" * 1000, b'{"ip":"\xff"}'):
            self.assertEqual(self.ask(body=body), (400, {"error": "bad_request"}))

    @proves("allowlist: 413 larger body", "limit: Allowlist: TTL, entries, body, ports")
    def test_a_body_over_1024_bytes_is_413(self) -> None:
        fits = b'{"ip":"203.0.113.7"' + b" " * (1024 - 20) + b"}"
        self.assertEqual(len(fits), 1024)
        self.assertEqual(self.ask(body=fits)[0], 200)
        self.assertEqual(self.ask(body=fits + b" "), (413, {"error": "body_too_large"}))

    @proves("allowlist: 405 wrong method")
    def test_a_wrong_method_is_405_with_allow(self) -> None:
        for method, path, allow in (
            ("GET", "/allow", "POST"),
            ("POST", "/status", "GET, HEAD"),
            ("DELETE", "/allow", "POST"),
        ):
            reply = self.ask(method, path, b"")
            self.assertEqual(reply, (405, {"error": "method_not_allowed"}))
            self.assertEqual(self.reply.headers["Allow"], allow)

    @proves("allowlist: 401 missing or wrong secret", "credentials: Allowlist helper")
    def test_a_missing_or_wrong_secret_is_401_and_logged_once_a_minute(self) -> None:
        for secret in (None, "", "x" * 40, SECRET + "x", SECRET[:-1], "é"):
            reply = self.ask(secret=secret)
            self.assertEqual(reply, (401, {"error": "unauthorized"}))
        self.reactor.advance(60)
        self.ask(secret=None)
        self.assertEqual([item["event"] for item in self.events()], ["unauthorized"] * 2)

    @proves("allowlist: 404 other path")
    def test_an_unknown_path_is_404(self) -> None:
        for path in ("/", "/allow/", "/ALLOW", "/status/x", "/metrics"):
            self.assertEqual(self.ask("GET", path, b""), (404, {"error": "not_found"}))

    @proves("allowlist: 403 caller not on loopback", "credentials: Allowlist helper")
    def test_a_caller_not_on_loopback_is_403_before_everything_else(self) -> None:
        for peer in ("203.0.113.7", "10.0.0.1", "2001:db8::1", ""):
            self.assertEqual(self.ask(peer=peer, secret=None), (403, {"error": "forbidden"}))
            self.assertEqual(self.ask("GET", "/x", b"", peer=peer)[0], 403)
        self.assertEqual(self.ask(peer="::1")[0], 200)

    @proves("credentials: Allowlist helper")
    def test_checks_are_path_secret_method_size_then_json(self) -> None:
        large = b"x" * 2000
        self.assertEqual(self.ask("PUT", "/x", large, secret=None)[0], 404)
        self.assertEqual(self.ask("PUT", "/allow", large, secret=None)[0], 401)
        self.assertEqual(self.ask("PUT", "/allow", large)[0], 405)
        self.assertEqual(self.ask("POST", "/allow", large)[0], 413)
        self.assertEqual(self.ask("POST", "/allow", b"x")[0], 400)

    @proves("allowlist: 400 bad_request non-JSON body")
    @given(st.binary(max_size=1024))
    @settings(max_examples=100, deadline=None)
    def test_any_body_is_answered_with_200_or_400(self, body: bytes) -> None:
        self.assertIn(self.ask(body=body)[0], (200, 400))

    @proves("allowlist: 413 larger body")
    def test_over_the_wire_a_chunked_body_is_cut_at_the_limit(self) -> None:
        factory = HttpFactory(self.handler, self.reactor)
        channel = factory.buildProtocol(IPv4Address("TCP", "127.0.0.1", 1))
        transport = Wire(channel)
        channel.makeConnection(transport)
        head = f"POST /allow HTTP/1.1\r\nHost: localhost\r\nX-Allowlist-Secret: {SECRET}\r\n"
        channel.dataReceived(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        channel.dataReceived(b"800\r\n" + b"x" * 0x800 + b"\r\n")
        self.assertIn(b"413", transport.value())
        self.assertIn(b'{"error":"body_too_large"}', transport.value())
        transport.abortConnection()

    def test_a_stock_site_with_its_klein_app_answers_alike(self) -> None:
        site = StubTreq(self.handler.resource())
        self.ask()
        headers = {"x-allowlist-secret": SECRET}
        for method, path, body in (
            ("POST", "/allow", b'{"ip":"203.0.113.7"}'),
            ("POST", "/allow", b"{"),
            ("POST", "/allow", b"x" * 2000),
            ("GET", "/allow", b""),
            ("GET", "/status", b""),
            ("GET", "/nowhere", b""),
        ):
            url = f"http://127.0.0.1{path}"
            reply = self.successResultOf(site.request(method, url, headers=headers, data=body))
            answered = json.loads(self.successResultOf(content(reply)))
            self.assertEqual((reply.code, answered), self.ask(method, path, body))

    def test_a_displaced_address_is_in_the_audit_log(self) -> None:
        for number in range(17):
            self.ask(body=b'{"ip":"2001:db8::%x"}' % number)
        self.assertEqual(len(self.helper.entries), 16)
        line = [item for item in self.audit_path.read_text().splitlines() if "displaced" in item]
        self.assertEqual(len(line), 1)
        self.assertIn('"ip":"2001:db8::","by":"2001:db8::10"', line[0])


class StatusTests(HelperCase):
    @proves("thing: Allowlist entry", "allowlist: GET /status")
    def test_status_shows_everything_with_its_type(self) -> None:
        self.helper.start()
        self.assertIsNone(self.ask("GET", "/status", b"")[1]["lastApply"])
        self.reactor.spawned[-1].end()
        self.ask()
        status, body = self.ask("GET", "/status", b"")
        self.assertEqual(status, 200)
        self.assertEqual(
            body,
            {
                "dryRun": False,
                "allowPrivate": False,
                "ttlSeconds": 600,
                "ports": "8770-8777",
                "entries": [{"ip": "203.0.113.7", "expiresAt": "2026-09-21T14:23:20.000Z"}],
                "pending": True,
                "lastApply": {
                    "ok": True,
                    "enabled": False,
                    "ips": 0,
                    "at": "2026-09-21T14:13:20.000Z",
                },
                "backend": "nftables",
            },
        )

    @proves("allowlist: GET /status")
    def test_a_failed_run_shows_its_error(self) -> None:
        self.helper.start()
        self.reactor.spawned[-1].end(1, err="no table")
        last = self.ask("GET", "/status", b"")[1]["lastApply"]
        self.assertFalse(last["ok"])
        self.assertIn("no table", last["error"])
        self.assertEqual(self.events()[-1]["event"], "rule_failed")

    @proves("allowlist: GET /status")
    def test_head_is_answered_like_get(self) -> None:
        self.assertEqual(self.ask("HEAD", "/status", b"")[0], 200)


class LifeTests(HelperCase):
    def finish(self) -> None:
        for process in self.reactor.spawned:
            if process.pid is not None:
                process.end()

    @proves(
        "event: ports open for an address for 10 minutes",
        "limit: Allowlist: TTL, entries, body, ports",
        "allowlist: applying",
    )
    def test_an_entry_and_its_rule_end_a_ttl_after_the_report(self) -> None:
        self.helper.start()
        self.finish()
        self.reactor.advance(5)
        self.ask()
        self.finish()
        self.assertIn("203.0.113.7", self.reactor.spawned[-1].script)
        self.reactor.pump([1] * 599)
        self.assertEqual(len(self.helper.entries), 1)
        self.reactor.advance(1)
        self.assertEqual(len(self.helper.entries), 0)
        self.assertNotIn("203.0.113.7", self.reactor.spawned[-1].script)
        self.finish()
        words = [item["event"] for item in self.events()]
        self.assertEqual(
            words, ["start", "rule_applied", "added", "rule_applied", "expired", "rule_applied"]
        )

    @proves("event: ports open for an address for 10 minutes")
    def test_a_rule_that_a_reload_flushed_is_there_again_within_seconds(self) -> None:
        self.helper.start()
        self.finish()
        self.ask()
        self.reactor.pump([1] * 3)
        self.finish()
        self.reactor.pump([1] * 10)
        self.assertEqual(self.reactor.looks, 2)
        count = len(self.reactor.spawned)
        self.reactor.flushed = True
        self.reactor.pump([1] * 5)
        self.reactor.flushed = False
        self.assertEqual(len(self.reactor.spawned), count + 1)
        self.assertIn("203.0.113.7", self.reactor.spawned[-1].script)
        self.finish()
        self.reactor.pump([1] * 20)
        self.assertEqual(len(self.reactor.spawned), count + 1)
        words = [item["event"] for item in self.events()]
        self.assertEqual(words[-2:], ["rule_lost", "rule_applied"])

    @proves("allowlist: applying")
    def test_a_start_without_state_shuts_the_ports_at_once(self) -> None:
        self.helper.start()
        [process] = self.reactor.spawned
        self.assertIn("drop", process.script)
        self.assertNotIn("elements", process.script)

    @proves("allowlist: applying")
    def test_open_addresses_survive_a_restart(self) -> None:
        self.helper.start()
        self.finish()
        self.ask()
        again = self.make()
        again.start()
        self.assertIn("203.0.113.7", self.reactor.spawned[-1].script)
        self.assertEqual(self.events()[-1]["restored"], 1)

    @proves("allowlist: applying")
    def test_a_stop_waits_for_the_run_then_shuts_the_ports_and_saves(self) -> None:
        self.helper.start()
        self.finish()
        self.reactor.advance(5)
        self.ask()
        stopping = self.helper.stop()
        done = Deferred.fromCoroutine(stopping)
        count = len(self.reactor.spawned)
        self.assertNoResult(done)
        self.finish()
        self.assertEqual(len(self.reactor.spawned), count + 1)
        self.assertNotIn("203.0.113.7", self.reactor.spawned[-1].script)
        self.finish()
        self.successResultOf(done)
        self.assertEqual([item["event"] for item in self.events()][-2:], ["closed_ports", "stop"])
        saved = json.loads((self.folder / "state.json").read_bytes())
        self.assertEqual(saved["entries"][0]["ip"], "203.0.113.7")
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    @proves("allowlist: applying")
    def test_a_refresh_is_saved_within_half_a_minute(self) -> None:
        self.helper.start()
        self.ask()
        self.reactor.pump([1] * 10)
        self.ask()
        self.reactor.pump([1] * 31)
        [entry] = StateFile(self.folder / "state.json").load()
        self.assertEqual(entry.expires_at, NOW + 610)

    @proves("allowlist: applying", "allowlist: audit log and dry run")
    def test_files_are_private_and_contain_no_secret(self) -> None:
        self.helper.start()
        self.ask()
        self.ask(secret="wrong" + "x" * 40)
        for name in ("audit.log", "state.json"):
            path = self.folder / name
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
            self.assertNotIn(SECRET, path.read_text())

    @proves("allowlist: applying", "allowlist: audit log and dry run")
    def test_refused_input_is_logged_short_and_without_control_characters(self) -> None:
        self.ask(body=json.dumps({"ip": "a\x1b[31m\n" + "b" * 200}).encode())
        [event] = self.events()
        self.assertEqual((event["event"], event["reason"]), ("refused", "not_an_ip"))
        self.assertTrue(event["input"].isprintable())
        self.assertLessEqual(len(event["input"]), 60)


class DryRunTests(HelperCase):
    dry = True

    @proves("allowlist: audit log and dry run")
    def test_a_dry_run_does_all_but_call_the_firewall(self) -> None:
        self.helper.start()
        self.reactor.advance(5)
        self.ask()
        body = self.ask("GET", "/status", b"")[1]
        self.assertTrue(body["dryRun"])
        self.assertEqual(body["lastApply"]["ok"], True)
        self.assertEqual(self.reactor.spawned, [])
        words = [item["event"] for item in self.events()]
        self.assertEqual(
            words, ["start", "dry_run", "rule_applied", "added", "dry_run", "rule_applied"]
        )
        self.assertIn("203.0.113.7", self.events()[-2]["script"])


class KeepingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = Path(self.enterContext(tempfile.TemporaryDirectory())) / "state.json"

    @given(st.binary(max_size=200))
    @settings(max_examples=50, deadline=None)
    def test_no_state_file_breaks_the_start(self, text: bytes) -> None:
        self.path.write_bytes(text)
        self.assertIsInstance(StateFile(self.path).load(), list)

    def test_invalid_rows_are_ignored(self) -> None:
        rows: list[Any] = [{"ip": "a", "expiresAt": 5000}, {}, 7, {"ip": 1, "expiresAt": 1}]
        rows.append({"ip": "b", "expiresAt": True})
        self.path.write_text(json.dumps({"entries": rows}))
        self.assertEqual(StateFile(self.path).load(), [OpenAddress("a", 5)])

    def test_a_failed_write_of_state_or_audit_log_raises_nothing(self) -> None:
        nowhere = self.path / "x" / "y"
        StateFile(nowhere).save([OpenAddress("203.0.113.7", 5)], 0)
        AddressLog(nowhere, lambda: 0.0).write("start")

    def test_a_full_audit_log_is_rotated(self) -> None:
        with open(self.path, "wb") as file:
            file.truncate(16 * 1024 * 1024)
        AddressLog(self.path, lambda: 0.0).write("start")
        self.assertLess(self.path.stat().st_size, 100)
        self.assertTrue(self.path.with_name("state.json.1").exists())
