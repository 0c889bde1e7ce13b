"""Access to the page and its requests; other origins, host names and users are rejected."""

import re
from typing import Any

from attrs import evolve
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from svcserver.http.connection import CONTINUE
from svcserver.kernel import json
from svcserver.kernel.secrets import Secret
from svcserver.launcher import words
from svcserver.launcher.key_files import write_key_file
from svcserver.launcher.one_instance import proof_of
from svcserver.launcher.page import PageHandler
from svcserver.launcher.page_guard import MOST_SESSIONS, PageSessions
from svcserver.launcher.page_server import (
    IDLE_S,
    MAX_BODY,
    MOST_CONNECTIONS,
    PageConnection,
    PageFactory,
    owner_in,
)
from tests.launcher.around import KEY, LauncherCase, invite_text

OWN = "127.0.0.1:4711"
PLACE = "play-example-org-443"
SCRIPTS = ("main", "api", "steps", "below", "dom")

KEY_FILE = {
    "name": "Friday Hunts",
    "host": "play.example.org",
    "port": 443,
    "fingerprint": "a1" * 32,
    "fingerprint2": "",
    "username": "Bo_1",
    "key": KEY,
}
"""What another PC has written."""


class Wire(StringTransport):
    """A connection in memory."""

    connected = True
    protocol: Any = None

    @property
    def open(self) -> bool:
        """True unless the launcher has closed the connection."""
        return self.connected and not self.disconnecting

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Do nothing."""

    def abortConnection(self) -> None:
        self.connected = False
        self.protocol.connectionLost(Failure(ConnectionDone()))

    def loseWriteConnection(self) -> None:
        self.loseConnection()


class PageCase(LauncherCase):
    def setUp(self) -> None:
        super().setUp()
        self.entrance = PageSessions()
        self.downloads = self.folder / "Downloads"
        self.page = PageHandler(self.launcher, self.entrance, self.folder, self.downloads)
        self.page.link = lambda: f"http://{OWN}/#{self.entrance.new_token()}"
        self.others: list[int] = []  # ports of another user's connections
        self.factory = PageFactory(
            self.clock, self.page.answer, lambda client, _: client in self.others
        )
        self.factory.own = OWN.encode()
        session = self.entrance.enter(self.entrance.new_token())
        assert session is not None
        self.session = session

    def send(self, raw: bytes, peer: str = "127.0.0.1") -> tuple[int, str, bytes]:
        connection = PageConnection(self.factory, peer)
        wire = Wire()
        connection.makeConnection(wire)
        connection.dataReceived(raw)
        head, _, body = wire.value().partition(b"\r\n\r\n")
        return int(head.split()[1]), head.decode(), body

    def ask(
        self, method: str, path: str, body: Any = None, *, peer: str = "127.0.0.1", **fields: str
    ) -> tuple[int, str, bytes]:
        """Send a request with the header fields that our page sends.

        ``fields`` replaces some of these header fields; an empty text omits a field.
        """
        data = body if isinstance(body, bytes) else json.dump(body) if body is not None else b""
        headers = {
            "Host": OWN,
            "Origin": f"http://{OWN}" if method == "POST" else "",
            "Sec-Download-Site": "same-origin",
            "Sec-Download-Mode": "cors",
            "X-Launcher-Session": self.session,
            "Content-Length": str(len(data)) if data else "",
            **{name.replace("_", "-"): value for name, value in fields.items()},
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value)
        return self.send(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + data, peer)


class GuardTests(PageCase):
    def test_our_own_page_is_answered(self) -> None:
        self.assertEqual(self.ask("GET", "/api/state")[0], 200)
        status, _, body = self.ask("POST", "/api/join", {"invite": invite_text()})
        self.assertEqual((status, json.parse(body)["id"]), (200, "play-example-org-443"))

    def test_states_are_numbered_in_their_order(self) -> None:
        first = self.ask("GET", "/api/state")
        joined = self.ask("POST", "/api/join", {"invite": invite_text()})
        host = json.parse(joined[2])["id"]
        agreed = self.ask("POST", f"/api/hosts/{host}/agree", {})
        numbers = [
            json.parse(first[2])["number"],
            *(json.parse(reply[2])["state"]["number"] for reply in (joined, agreed)),
            json.parse(self.ask("GET", "/api/state")[2])["number"],
        ]
        self.assertEqual(numbers, sorted({*numbers}))

    def test_another_origin_is_refused_even_with_the_session(self) -> None:
        for fields in (
            {"Origin": "https://evil.example"},
            {"Origin": "http://127.0.0.1:4712"},
            {"Origin": "http://localhost:4711"},
            {"Origin": "null"},
            {"Origin": "", "Sec_Fetch_Site": "cross-site"},
            {"Origin": "", "Sec_Fetch_Site": "same-origin"},
        ):
            got = self.ask("POST", "/api/join", {"invite": invite_text()}, **fields)
            self.assertEqual(got[0], 403, fields)
        for site in ("cross-site", "same-site"):
            self.assertEqual(self.ask("GET", "/api/state", Sec_Fetch_Site=site)[0], 403)
        self.assertEqual(self.launcher.members, {})

    def test_foreign_host_name_is_refused(self) -> None:
        for host in (
            "evil.example:4711",
            "localhost:4711",
            "127.0.0.1",
            "127.0.0.1:80",
            "[::1]:4711",
        ):
            self.assertEqual(self.ask("GET", "/", Host=host)[0], 403, host)
        self.assertEqual(self.send(b"GET / HTTP/1.1\r\n\r\n")[0], 400)

    def test_request_without_the_session_is_refused(self) -> None:
        self.joined()
        for session in ("", "0" * 64, self.session[:-1], self.session + "0"):
            for method, path in (
                ("GET", "/api/state"),
                ("POST", "/api/join"),
                ("POST", "/api/hosts/play-example-org-443/leave"),
                ("GET", "/api/hosts/play-example-org-443/pictures/0"),
            ):
                body = {"invite": invite_text()} if method == "POST" else None
                got = self.ask(method, path, body, X_Launcher_Session=session)
                self.assertEqual((got[0], got[2]), (403, b'{"error":"session"}'), path)
        self.assertEqual(len(self.launcher.members), 1)

    def test_another_machine_is_refused(self) -> None:
        self.assertEqual(self.ask("GET", "/", peer="192.0.2.7")[0], 403)

    def test_link_works_once_and_a_guess_never(self) -> None:
        token = self.entrance.new_token()
        self.assertEqual(self.ask("POST", "/api/enter", {"token": "0" * 64})[0], 403)
        status, _, body = self.ask("POST", "/api/enter", {"token": token}, X_Launcher_Session="")
        self.assertEqual(status, 200)
        self.assertTrue(self.entrance.knows(json.parse(body)["session"].encode()))
        self.assertEqual(self.ask("POST", "/api/enter", {"token": token})[0], 403)

    def test_link_does_not_work_for_another_user_of_this_pc(self) -> None:
        token = self.entrance.new_token()
        self.others.append(StringTransport().getPeer().port)
        status, _, body = self.ask("POST", "/api/enter", {"token": token}, X_Launcher_Session="")
        self.assertEqual((status, body), (403, b'{"error":"user"}'))
        self.others.clear()
        got = self.ask("POST", "/api/enter?x", {"token": token}, X_Launcher_Session="")
        self.assertEqual(got[0], 200)

    def test_owner_of_a_connection_is_read_from_the_kernel(self) -> None:
        head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
        line = "   {}: 0100007F:{} 0100007F:{} 01 00000000:00000000 00:00000000 00000000 {} 0 1 1\n"
        server = line.format(0, "1267", "A1B2", 7)
        old = head + server + line.format(1, "A1B2", "1267", 1001)
        mapped = head + old.replace("0100007F", "0000000000000000FFFF00000100007F")
        for tables in ((old, ""), (head, mapped)):
            self.assertEqual(owner_in(tables, 0xA1B2, 0x1267), 1001)
            self.assertIsNone(owner_in(tables, 0xA1B3, 0x1267))
        self.assertIsNone(owner_in(("", "nonsense\nmore\n"), 1, 2))

    def test_links_and_sessions_are_bounded(self) -> None:
        tokens = [self.entrance.new_token() for _ in range(MOST_SESSIONS + 5)]
        self.assertIsNone(self.entrance.enter(tokens[0]))
        for _ in range(MOST_SESSIONS + 5):
            self.entrance.enter(self.entrance.new_token())
        self.assertFalse(self.entrance.knows(self.session.encode()))

    def test_second_start_needs_the_secret_to_hand_over(self) -> None:
        self.page.secret = Secret("s" * 64)
        body_sent = {"secret": "guess", "invite": invite_text()}
        plain = {"Origin": "", "Sec_Fetch_Site": "", "Sec_Fetch_Mode": "", "X_Launcher_Session": ""}
        self.assertEqual(self.ask("POST", "/api/hand-over", body_sent, **plain)[0], 403)
        self.assertEqual(self.launcher.members, {})
        status, _, body = self.ask(
            "POST", "/api/hand-over", {**body_sent, "secret": "s" * 64}, **plain
        )
        self.assertEqual((status, len(self.launcher.members)), (200, 1))
        link = json.parse(body)["link"]
        self.assertIsNotNone(self.entrance.enter(link.partition("#")[2]))

    def test_unusable_link_is_explained_like_a_pasted_link(self) -> None:
        self.page.secret = Secret("s" * 64)
        for invite in ("svc://join?v=2", "https://example.org", "svc:" + "x" * 4000):
            pasted = json.parse(self.ask("POST", "/api/join", {"invite": invite})[2])["sentence"]
            body = {"secret": "s" * 64, "invite": invite}
            before = json.parse(self.ask("GET", "/api/state")[2])
            self.assertEqual(self.ask("POST", "/api/hand-over", body)[0], 200)
            state = json.parse(self.ask("GET", "/api/state")[2])
            self.assertEqual((state["refusal"], state["invited"]), (pasted, ""))
            self.assertGreater(state["opened"], before["opened"])
        self.ask("POST", "/api/join", {"invite": invite_text()})
        self.assertEqual(json.parse(self.ask("GET", "/api/state")[2])["refusal"], "")

    def test_name_in_an_invite_to_a_known_host_is_only_shown(self) -> None:
        host = self.registered({}).record.id
        reply = self.ask("POST", "/api/join", {"invite": invite_text(name="My Bank")})[2]
        state = json.parse(reply)["state"]
        self.assertEqual(
            (state["invited"], [shown["name"] for shown in state["hosts"]]),
            (host, ["Friday Hunts"]),
        )
        self.assertIn('calls the host "My Bank"', state["refusal"])

    def test_question_about_updates_is_answered_on_the_page(self) -> None:
        member = self.joined()
        for take, answer in ((True, "yes"), (False, "no"), ("yes", "no")):
            self.ask("POST", f"/api/hosts/{PLACE}/updates", {"take": take})
            self.assertEqual(member.record.updates, answer)

    def test_first_page_content_and_a_refused_restart_are_reported(self) -> None:
        served: list[bool] = []
        self.page.served = lambda: served.append(True)
        self.page.restart = lambda: words.RESTART_LATER
        self.ask("GET", "/api/state", X_Launcher_Session="wrong")
        self.assertEqual(served, [])
        self.ask("GET", "/api/state")
        self.assertEqual(served, [True])
        reply = json.parse(self.ask("POST", "/api/restart", {})[2])
        self.assertEqual(reply, {"sentence": words.RESTART_LATER})

    def test_second_start_gets_a_proof_before_it_hands_over(self) -> None:
        plain = {"Origin": "", "Sec_Fetch_Site": "", "Sec_Fetch_Mode": "", "X_Launcher_Session": ""}
        nonce = {"nonce": "7" * 64}
        self.assertEqual(self.ask("POST", "/api/running", nonce, **plain)[0], 400)
        self.page.secret = Secret("s" * 64)
        body = json.parse(self.ask("POST", "/api/running", nonce, **plain)[2])
        self.assertEqual(body["proof"], proof_of(self.page.secret, nonce["nonce"]))
        self.assertNotIn("s" * 64, str(body))
        for bad in ({"nonce": "7"}, {"nonce": 7}, {}):
            self.assertEqual(self.ask("POST", "/api/running", bad, **plain)[0], 400)

    def test_connections_are_limited_and_strangers_are_cut_first(self) -> None:
        self.factory.startFactory()
        self.addCleanup(self.factory.on_empty)
        first, own = self.connected()
        lines = f"Host: {OWN}\r\nX-Launcher-Session: {self.session}\r\n"
        first.dataReceived(f"GET /api/state HTTP/1.1\r\n{lines}\r\n".encode())
        others = [self.connected()[1] for _ in range(MOST_CONNECTIONS + 5)]
        self.assertTrue(own.connected)
        self.assertEqual([wire.connected for wire in others].count(False), 6)
        self.assertEqual([wire.connected for wire in others[:6]], [False] * 6)
        for _ in range(int(IDLE_S) + 5):
            self.clock.advance(1)
        self.assertEqual([wire for wire in (own, *others) if wire.open], [])

    def connected(self) -> tuple[PageConnection, Wire]:
        connection, wire = PageConnection(self.factory, "127.0.0.1"), Wire()
        wire.protocol = connection
        connection.makeConnection(wire)
        return connection, wire

    def test_reply_to_head_has_no_body_but_the_next_reply_has_a_body(self) -> None:
        connection, wire = self.connected()
        start = f"HEAD / HTTP/1.1\r\nHost: {OWN}\r\n\r\n".encode()
        connection.dataReceived(start)
        self.assertTrue(wire.value().endswith(b"\r\n\r\n"))
        self.assertNotIn(b"Content-Length: 0\r\n", wire.value())
        wire.clear()
        connection.dataReceived(b"odd\r\n\r\n")
        self.assertTrue(wire.value().endswith(b'{"error":"bad_request"}'))

    def test_a_client_that_waits_for_100_gets_it(self) -> None:
        connection, wire = self.connected()
        start = f"POST / HTTP/1.1\r\nHost: {OWN}\r\nOrigin: http://{OWN}\r\n"
        connection.dataReceived(
            start.encode() + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        )
        self.assertEqual(wire.value(), CONTINUE)
        connection.dataReceived(b"{}")
        self.assertEqual(wire.value().count(b"HTTP/1.1 "), 2)

    def test_faults_have_the_status_of_the_other_services(self) -> None:
        for fields, status in (("Expect: wonders", 417), ("X: " + "y" * 20_000, 431)):
            raw = f"GET / HTTP/1.1\r\nHost: {OWN}\r\n{fields}\r\n\r\n".encode()
            self.assertEqual(self.send(raw)[0], status)

    def test_hostile_requests_are_refused_and_never_a_fault(self) -> None:
        self.assertEqual(self.ask("POST", "/api/join", {"invite": "x" * MAX_BODY})[0], 413)
        for body in ([], {"invite": 7}, {}, {"invite": "a\0b"}):
            self.assertEqual(self.ask("POST", "/api/join", body)[0], 400, body)
        self.assertEqual(self.send(b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n")[0], 400)
        for path in (
            "/../main.py",
            "/api/hosts/x/agree",
            "/api/nothing",
            "/api/hosts//pictures/-1",
        ):
            self.assertIn(self.ask("GET", path)[0], (404, 405))
        self.assertEqual(self.ask("DELETE", "/api/state", Origin=f"http://{OWN}")[0], 405)


class PageTests(PageCase):
    def test_only_the_page_can_end_the_launcher(self) -> None:
        ended: list[bool] = []
        self.page.quit = lambda: ended.append(True)
        self.assertEqual(self.ask("POST", "/api/quit", {}, X_Launcher_Session="")[0], 403)
        self.assertEqual(self.ask("POST", "/api/quit", {}, Origin="https://evil.example")[0], 403)
        self.assertEqual(self.ask("GET", "/api/quit")[0], 404)
        self.assertEqual(ended, [])
        self.assertEqual(self.ask("POST", "/api/quit", {})[0], 200)
        self.assertEqual(ended, [True])

    def test_every_reply_has_the_security_headers(self) -> None:
        for path in ("/", "/main.js", "/api/state", "/nothing"):
            head = self.ask("GET", path)[1]
            for word in ("default-src 'none'", "frame-ancestors 'none'", "no-store", "nosniff"):
                self.assertIn(word, head)
            self.assertNotIn("Set-Cookie", head)

    def test_page_has_no_inline_script_and_no_foreign_sources(
        self,
    ) -> None:
        for name in ("/", *(f"/{name}.js" for name in SCRIPTS), "/page.css"):
            status, _, body = self.ask("GET", name)
            self.assertEqual(status, 200, name)
            self.assertIsNone(re.search(rb"https?://|innerHTML|style=|<script>", body), name)

    def test_page_receives_no_key_and_no_invite_code(self) -> None:
        member = self.registered({"a": b"1"})
        name = member.record.id
        replies = [self.ask("GET", "/api/state")]
        code = {"code": "ABCD-EFGH-JKMX"}
        replies.append(self.ask("POST", f"/api/hosts/{name}/correct-code", code))
        for act in ("agree", "check", "fetch", "stop", "play", "save-key"):
            replies.append(self.ask("POST", f"/api/hosts/{name}/{act}", {"thorough": True}))
        [file] = self.downloads.iterdir()  # the launcher itself has written this file
        content = file.read_bytes()
        self.assertIn(KEY.encode(), content)
        for sent in (content, content[:-9], content.replace(b"fingerprint", b"else")):
            replies += [self.ask("POST", f"/api/import{more}", sent) for more in ("", "/replace")]
        self.assertEqual([status for status, _, _ in replies], [200] * len(replies))
        text = b"".join(head.encode() + body for _, head, body in replies)
        self.assertNotIn(KEY.encode(), text)
        self.assertNotIn(b"ABCD-EFGH", text)

    def test_key_file_replaces_another_key_only_on_request(self) -> None:
        member = self.registered({})
        second = evolve(member.record, username="Bo_2")
        file = write_key_file(self.folder / "usb", second, Secret("UUK_" + "1" * 48)).read_bytes()
        reply = json.parse(self.ask("POST", "/api/import", file)[2])
        self.assertTrue(reply["other_key"])
        self.assertIn("You are already Bo_1 on Friday Hunts", reply["sentence"])
        saved = self.launcher.keys.get(member.record.id)
        assert saved is not None
        self.assertEqual(saved.reveal(), KEY)
        reply = json.parse(self.ask("POST", "/api/import/replace", file)[2])
        self.assertEqual(reply["id"], member.record.id)
        saved = self.launcher.keys.get(member.record.id)
        assert saved is not None
        self.assertEqual(saved.reveal(), "UUK_" + "1" * 48)

    def test_a_key_file_comes_from_our_page_alone(self) -> None:
        member = self.registered({})
        file = write_key_file(self.folder, member.record, Secret(KEY)).read_bytes()
        self.assertEqual(self.launcher.leave(member), "")
        for fields in (
            {"X_Launcher_Session": ""},
            {"X_Launcher_Session": "0" * 64},
            {"Origin": "https://evil.example"},
            {"Host": "evil.example:4711"},
        ):
            for path in ("/api/import", "/api/import/replace"):
                self.assertEqual(self.ask("POST", path, file, **fields)[0], 403, fields)
        self.assertEqual(self.ask("GET", "/api/import")[0], 404)
        self.assertEqual(self.ask("POST", "/api/import", file + b" " * MAX_BODY)[0], 413)
        self.assertEqual((self.launcher.members, list(self.launcher.hosts)), ({}, []))
        self.assertEqual(json.parse(self.ask("POST", "/api/import", file)[2])["id"], PLACE)

    def test_a_hostile_key_file_is_refused(self) -> None:
        for changed in (
            {"key": ""},
            {"key": "short"},
            {"key": "UUK_\r\nX-Header: 1"},
            {"key": [KEY]},
            {"key": "k" * 257},
            {"host": "play.example.org/"},
            {"host": "a" * 300},
            {"host": "::1\n"},
            {"port": 0},
            {"port": 65_536},
            {"port": True},
            {"port": "443"},
            {"fingerprint": "zz" * 32},
            {"fingerprint": ""},  # a host on the internet would get the key in clear
            {"fingerprint2": "a1"},
            {"name": "\x1b[2J"},
            {"name": ""},
            {"username": "Bo 1"},
            {"username": "b" * 17},
        ):
            self.refuses(json.dump({**KEY_FILE, **changed}))
        whole = json.dump(KEY_FILE)
        for content in (b"", b"\0", b"[]", b"7", b"[" * 60_000, b'"' + whole, whole[:-1], b"\xff"):
            self.refuses(content)
        for name in KEY_FILE:
            less = {key: value for key, value in KEY_FILE.items() if key != name}
            self.refuses(json.dump(less))
        self.assertEqual((self.launcher.members, list(self.launcher.hosts)), ({}, []))

    def test_a_hostile_key_file_brings_a_host_and_a_key_alone(self) -> None:
        """A key file from a stranger cannot set how the game is started."""
        more = {"command": "/bin/evil", "runner": "evil", "folder": "/etc", "id": "../../x"}
        self.assertEqual(self.ask("POST", "/api/import", json.dump({**KEY_FILE, **more}))[0], 200)
        [record] = self.launcher.hosts
        self.assertEqual(
            (record.id, record.command, record.runner, record.folder), (PLACE, "", "", "")
        )

    def refuses(self, content: bytes) -> None:
        status, _, body = self.ask("POST", "/api/import", content)
        self.assertEqual(
            (status, json.parse(body)), (200, {"sentence": words.BAD_KEY_FILE}), content[:99]
        )

    def test_settings_are_checked_and_saved(self) -> None:
        name = self.registered({}).record.id
        path = f"/api/hosts/{name}/settings"
        good = {"folder": "", "command": "/bin/true {key}", "runner": "", "speed_limit": 5}
        for bad in ({"speed_limit": -1}, {"speed_limit": "x"}, {"folder": 3}, {"command": None}):
            self.assertEqual(self.ask("POST", path, {**good, **bad})[0], 400, bad)
        for bad in ({"command": 'a "b'}, {"folder": "relative"}, {"runner": "'"}):
            self.assertTrue(json.parse(self.ask("POST", path, {**good, **bad})[2])["sentence"])
        self.assertEqual(json.parse(self.ask("POST", path, good)[2])["sentence"], "")
        [restarted] = self.start().members.values()
        self.assertEqual(
            (restarted.record.command, restarted.record.speed_limit), ("/bin/true {key}", 5)
        )
