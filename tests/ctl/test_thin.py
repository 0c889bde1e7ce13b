"""The simple commands: cert, content, relay, allowlist, status. Spec: design §2."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event
from typing import Any
from unittest import mock

import click
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl import status_command
from svcserver.ctl.main import main
from svcserver.ctl.output import Failed
from svcserver.ctl.status_command import EVERY_S
from svcserver.edge.certificate import check_pair, read_pair
from svcserver.edge.invite import decode
from tests.ctl.command import Ran, svcctl
from tests.ctl.hosts import change, value
from tests.ctl.test_accounts import HostCase
from tests.support.proves import proves


class CertificateTests(HostCase):
    @proves("svcctl cert")
    def test_cert_make_and_cert_fingerprint_print_the_same(self) -> None:
        folder = self.folder / "new"
        made = svcctl("cert", "make", "--host", "h.example", "--out", folder, "--json")
        self.assertEqual(made.status, 0, made.err)
        read = svcctl("cert", "fingerprint", folder / "gateway-cert.pem")
        self.assertEqual(read.out.strip(), made.data["fingerprint"])

    @proves("svcctl cert")
    def test_make_never_overwrites_unasked(self) -> None:
        before = self.ctl("cert", "fingerprint").out
        for status in (0, 1):  # the next certificate is prepared only once
            self.assertEqual(self.ctl("cert", "make", "--host", "h.example").status, status)
        self.assertEqual(self.ctl("cert", "fingerprint").out, before)
        self.assertEqual(self.ctl("cert", "make", "--host", "h.example", "--force").status, 0)
        self.assertNotEqual(self.ctl("cert", "fingerprint").out, before)

    def test_the_next_certificate_is_made_and_switched_to(self) -> None:
        before = self.ctl("cert", "fingerprint").out.strip()
        old = decode(self.ctl("invite", "create", "--json").data["join"])
        made = self.ctl("cert", "make", "--host", "203.0.113.10", "--json").data
        self.assertTrue(made["next"])
        self.assertEqual(Path(made["key"]).stat().st_mode & 0o777, 0o600)
        meanwhile = decode(self.ctl("invite", "create", "--json").data["join"])
        self.assertEqual((old.fingerprint, old.next_fingerprint), (before, ""))
        self.assertEqual(
            (meanwhile.fingerprint, meanwhile.next_fingerprint), (before, made["fingerprint"])
        )
        ran = self.ctl("cert", "switch")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertEqual(self.ctl("cert", "fingerprint").out.strip(), made["fingerprint"])
        later = decode(self.ctl("invite", "create", "--json").data["join"])
        self.assertEqual((later.fingerprint, later.next_fingerprint), (made["fingerprint"], ""))
        self.assertEqual(value(self.folder, "relay", "SVC_RELAY_FINGERPRINT"), made["fingerprint"])
        again = self.ctl("cert", "switch")
        self.assertEqual(again.status, 1)
        self.assertIn("svcctl cert make", again.line)

    def test_an_interrupted_certificate_switch_is_completed(self) -> None:
        made = self.ctl("cert", "make", "--host", "203.0.113.10", "--json").data
        (self.folder / "gateway-cert-next.pem").rename(self.folder / "gateway-cert.pem")
        self.assertEqual(self.ctl("cert", "switch").status, 0)
        pair = read_pair(self.folder / "gateway-cert.pem", self.folder / "gateway-key.pem")
        check_pair(pair, datetime.now(UTC))
        self.assertEqual(pair.fingerprint, made["fingerprint"])

    def test_switch_refuses_a_certificate_without_its_key(self) -> None:
        before = self.ctl("cert", "fingerprint").out
        self.ctl("cert", "make", "--host", "203.0.113.10")
        (self.folder / "gateway-key-next.pem").unlink()
        ran = self.ctl("cert", "switch")
        self.assertEqual(ran.status, 1)
        self.assertIn("does not belong", ran.line)
        self.assertEqual(self.ctl("cert", "fingerprint").out, before)

    def test_the_fingerprint_of_a_file_without_certificate_fails(self) -> None:
        ran = svcctl("cert", "fingerprint", self.folder / "metagame.env")
        self.assertEqual(ran.status, 1)
        self.assertIn("not a PEM certificate", ran.line)
        self.assertEqual(svcctl("cert", "fingerprint", self.folder / "none").status, 1)


class ContentTests(HostCase):
    @proves("svcctl content")
    def test_verify_fails_if_a_file_differs_from_the_manifest(self) -> None:
        game, listed = self.folder / "files", self.folder / "list.json"
        game.mkdir()
        (game / "a.pak").write_bytes(b"abc")
        ran = svcctl("content", "manifest", game, "--out", listed, "--json")
        self.assertEqual((ran.data["files"], ran.data["bytes"]), (1, 3))
        good = svcctl("content", "verify", game, "--manifest", listed)
        self.assertEqual(good.status, 0, good.err)
        (game / "a.pak").write_bytes(b"abd")
        bad = svcctl("content", "verify", game, "--manifest", listed)
        self.assertEqual(bad.status, 1)
        self.assertIn("hash", bad.out)
        self.assertIn("1 files differ from the manifest", bad.line)

    @proves("svcctl content")
    def test_verify_without_arguments_checks_the_hosts_own_folder(self) -> None:
        self.assertEqual(self.ctl("content", "verify").status, 0)

    def test_no_folder_and_no_manifest_are_one_line(self) -> None:
        self.assertEqual(svcctl("content", "manifest", self.folder / "none").status, 1)
        ran = svcctl("content", "verify", self.folder / "game", "--manifest", "none.json")
        self.assertIn("none.json", ran.line)

    def test_no_progress_bar_in_a_file_or_log_even_with_colours(self) -> None:
        game = self.folder / "files"
        game.mkdir()
        (game / "a.pak").write_bytes(b"abc")
        with mock.patch.dict("os.environ", FORCE_COLOR="1"):
            ran = svcctl("content", "manifest", game, "--out", self.folder / "list.json")
        self.assertEqual((ran.status, ran.err), (0, ""))


class EdgeTests(HostCase):
    @proves("svcctl relay check")
    def test_relay_check_reports_a_gateway_that_does_not_answer(self) -> None:
        fingerprint = "0" * 64
        invite = (
            f"svc://join?v=2&mode=public&host=127.0.0.1&port=1&fp={fingerprint}&code=ABCD&name=N"
        )
        ran = svcctl("relay", "check", "--invite", invite)
        self.assertEqual(ran.status, 1)
        self.assertIn("upstream_unreachable", ran.line)
        self.assertNotIn("ABCD", ran.line)

    def test_relay_check_refuses_an_invalid_invite(self) -> None:
        ran = svcctl("relay", "check", "--invite", "svc://nonsense")
        self.assertEqual(ran.status, 1)
        self.assertIn("SVC_RELAY_INVITE", ran.line)


STATUS = {
    "name": "Game Server",
    "version": "1",
    "registration": "OPEN",
    "playersOnline": 1,
    "uptimeSeconds": 5,
    "limited": False,
    "players": [{"name": "Alpha", "where": "city", "instance": None}],
    "instances": [
        {"kind": "city", "title": "The City", "map": "m", "players": 1, "maxPlayers": None}
    ],
}


class StatusTests(HostCase):
    @contextmanager
    def metagame(self, reply: Any, status: int = 200) -> Iterator[list[str]]:
        keys: list[str] = []

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                keys.append(self.headers["x-svc-user-api-key"])
                self.send_response(404 if self.path.endswith("BackendHealth") else status)
                self.end_headers()
                self.wfile.write(json.dumps(reply).encode())

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing."""

        with HTTPServer(("127.0.0.1", 0), Answer) as server:
            path = self.folder / "metagame.env"
            port = server.server_address[1]
            path.write_text(path.read_text().replace("PORT=61000\n", f"PORT={port}\n"))
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                yield keys
            finally:
                server.shutdown()
                thread.join()

    @proves("svcctl status")
    def test_players_and_instances_are_shown(self) -> None:
        with self.metagame(STATUS) as keys:
            ran = self.ctl("status")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertRegex(ran.out, r"Alpha +city")
        self.assertIn("city The City", ran.out)
        self.assertEqual(set(keys), {(self.folder / "owner.key").read_text().strip()})

    @proves("svcctl status")
    def test_status_with_json_prints_the_reply_itself(self) -> None:
        with self.metagame(STATUS):
            self.assertEqual(self.ctl("status", "--json").data, {"status": STATUS, "health": None})

    @proves("svcctl status")
    def test_the_printed_health_omits_bans(self) -> None:
        """The health reply is older than bans, and always says that bans are unsupported."""
        health = {"eventLoop": {"p50Ms": 20.2}, "bans": {"supported": False, "count": None}}
        look = mock.Mock(return_value=(STATUS, health))
        with mock.patch.object(status_command, "fetch_status", look):
            out = self.ctl("status").out
            self.assertEqual(self.ctl("status", "--json").data["health"], health)
        self.assertIn("eventLoop.p50Ms: 20.2", out)
        self.assertNotIn("bans", out)

    @proves("svcctl status")
    def test_status_with_an_unknown_key_fails_with_a_reason(self) -> None:
        with self.metagame({**STATUS, "limited": True}):
            ran = self.ctl("status", "--key", "UUK_x")
        self.assertEqual(ran.status, 1)
        self.assertIn("does not know this key", ran.line)

    def test_status_reports_a_metagame_that_is_down_or_answers_500(self) -> None:
        with self.metagame([], 500):
            self.assertIn("answered 500", self.ctl("status").line)
        self.assertIn("is it running?", self.ctl("status").line)

    def test_an_invalid_metagame_port_is_an_error(self) -> None:
        for port in ("abc", "99999"):
            change(self.folder, "metagame", "PORT", port)
            for words in (("status",), ("drain", "status")):
                self.assertIn("the value of PORT is not a port number", self.ctl(*words).line)

    def test_a_foreign_server_on_the_port_is_named_as_such(self) -> None:
        with self.metagame({}, 404):
            line = self.ctl("status").line
        self.assertIn("another program uses port", line)

    def test_a_file_that_may_not_be_read_is_named_with_its_cause(self) -> None:
        for error, cure in (
            (PermissionError(13, "Permission denied"), "as the owner of the file"),
            (OSError(5, "Input/output error"), "its disk"),
        ):
            with mock.patch.object(Path, "read_text", side_effect=error):
                line = self.ctl("status").line
            self.assertIn("metagame.env cannot be read", line)
            self.assertIn(cure, line)

    def watch(self, rounds: int, between: Callable[[], object]) -> Ran:
        """Run ``--watch`` for this many rounds, then Ctrl-C; call ``between`` during each pause."""
        left = iter(range(rounds))

        def wait(event: Event, seconds: float) -> bool:
            self.assertEqual(seconds, EVERY_S)
            between()
            if next(left) == rounds - 1:
                raise KeyboardInterrupt
            return False

        with mock.patch.object(Event, "wait", wait):
            return self.ctl("status", "--watch")

    @proves("svcctl status --watch")
    def test_watching_asks_again_and_ends_with_ctrl_c(self) -> None:
        with self.metagame(STATUS) as keys:
            ran = self.watch(3, lambda: None)
            self.assertEqual(len(keys), 6)  # status and health, three times
        self.assertEqual(ran.status, 0, ran.err)
        self.assertIn("Alpha", ran.out)

    @proves("svcctl status --watch")
    def test_watching_outlives_a_restart_of_the_metagame(self) -> None:
        with self.metagame(STATUS), mock.patch.object(status_command, "fetch_status") as look:
            look.side_effect = [(STATUS, None), Failed("the metagame does not answer")]
            ran = self.watch(2, lambda: None)
        self.assertEqual(ran.status, 0, ran.err)
        self.assertIn("the metagame does not answer", ran.out)

    def test_watching_with_a_wrong_key_ends_at_once(self) -> None:
        with self.metagame({**STATUS, "limited": True}):
            ran = self.ctl("status", "--watch", "--key", "UUK_x")
        self.assertEqual(ran.status, 1)
        self.assertIn("does not know this key", ran.line)


class EveryCommandTests(SynchronousTestCase):
    @proves("every command takes --config, --env-file, --json")
    def test_every_command_takes_the_hosts_options_and_json(self) -> None:
        for path, command in commands():
            names = {option for parameter in command.params for option in parameter.opts}
            self.assertIn("--json", names, path)
            if path not in (
                "init",
                "demo",
                "up",
                "db copy",
            ):  # these commands create or name their own hosts
                self.assertLessEqual({"--config", "--env-file"}, names, path)

    def test_every_command_prints_its_help(self) -> None:
        for path, _ in commands():
            ran = svcctl(*path.split(), "--help")
            self.assertEqual(ran.status, 0, path)

    @proves("every command takes --config, --env-file, --json")
    def test_every_documented_command_exists(self) -> None:
        wanted = {
            "init", "account create", "account promote", "account demote", "account list",
            "gameserver-key add", "invite create", "invite list", "invite revoke", "db upgrade",
            "db check", "db backup", "db restore", "content manifest", "content verify",
            "cert make", "cert fingerprint", "cert switch",
            "keys rotate", "keys retire", "status", "relay check", "allowlist close-ports",
            "play", "demo", "doctor", "openapi",
        }  # fmt: skip
        self.assertLessEqual(wanted, {path for path, _ in commands()})


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command with its full name."""
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        inner = getattr(command, "commands", None)
        if inner is None:
            yield name, command
        else:
            yield from ((f"{name} {child}", command) for child, command in inner.items())
