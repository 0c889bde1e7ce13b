"""The terminal, the key store, the file of a running launcher, and requests to a host."""

import socket
import threading
from datetime import datetime
from typing import Any

import keyring
from keyring.errors import KeyringLocked
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.kernel.secrets import Secret
from svcserver.launcher import one_instance, words
from svcserver.launcher.host_client import SILENCE_S, HostClient, NoReply
from svcserver.launcher.keystore import AS_ASKED, IN_BOTH, FileKeys, SystemKeys, open_keys
from svcserver.launcher.terminal import COMMANDS, MARK, Terminal
from tests.launcher.around import KEY, LauncherCase, invite_text, new_folder
from tests.support.nasty import NASTY, unsafe_in


class TerminalTests(LauncherCase):
    def setUp(self) -> None:
        super().setUp()
        self.printed: list[str] = []
        self.over: list[bool] = []
        downloads = self.folder / "Downloads"
        self.terminal = Terminal(
            self.launcher,
            self.printed.append,
            lambda: self.over.append(True),
            self.folder,
            downloads,
        )

    def test_terminal_leads_from_an_invite_to_the_file_check(self) -> None:
        self.remote.says("POST", "/svc/api/Register", 200, {"UUK": KEY})
        self.remote.says("GET", "/content/v1/manifest", 404)
        for line in ("status", "play", "help", invite_text(), "agree", "name no good", "name Bo_1"):
            self.terminal.line(line)
        text = "\n".join(self.printed)
        self.assertIn("paste the invite", text)
        self.assertIn("A name has 3 to 16", text)
        self.assertIn(f"Type check to check the game's files. {words.NO_FILES}", self.printed[-1])
        self.assertNotIn(KEY, text)

    def test_private_host_is_trusted_by_its_address(self) -> None:
        self.terminal.line("svc://join?v=1&host=100.64.0.9&port=61000&code=ABCD-EFGH&name=Home")
        self.assertIn("private network is 100.64.0.9:61000.", self.printed[-1])
        self.assertNotIn("words", self.printed[-1])

    def test_announcement_news_people_and_hunter_are_printed(self) -> None:
        status = {
            "players": [{"name": "Cy", "where": "dojo"}, {"name": "Ann", "where": "city"}],
            "instances": [],
        }
        mine = {
            "username": "Bo_1",
            "entitlements": ["A", "B"],
            "guild": "Owls",
            "friends": ["Ann"],
            "hunts": [{"title": "Big one", "at": 86_400_000}],
            "tracks": [{"id": "MasteryTrack_Weapon_ChainBlades", "rank": 2, "maxRank": 20}],
            "characters": [{"name": "Bo", "saves": [{"savedAt": 2**53 - 1}, {"savedAt": 5}]}],
        }
        self.remote.says("GET", "/svc/api/ServerStatus", 200, status)
        self.remote.says("GET", "/svc-status", 200, {"name": "Home", "en": "Potions tonight"})
        self.remote.says("GET", "/launcher/hunter", 200, mine)
        news = {"items": [{"date": "2026-11-20T18:00", "title": "Friday", "body": "At eight."}]}
        self.remote.says("GET", "/content/v1/news", 200, news)
        self.registered({})
        for line in ("status", "news", "people", "hunter"):
            self.terminal.line(line)
        text = "\n".join(self.printed)
        for wanted in (
            "Friday Hunts announces:\n  | Potions tonight",
            "  | 2026-11-20  Friday\n  | At eight.",
            f"Ann, your friend, in the city. {words.MEET['city']}\n  | Cy, in the dojo",
            "Bo_1 plays Bo. 2 ranks of mastery, 2 unlocks and 1 friend.\n  | guild: Owls",
            "Weapon Chain Blades: 2 of 20",
            "Big one",
            f"character  Bo: , {datetime.fromtimestamp(0.005):%Y-%m-%d}",  # this machine's day
        ):
            self.assertIn(wanted, text)
        self.assertEqual(text.count("Potions"), 1)

    def test_host_text_cannot_imitate_the_launchers_lines(self) -> None:
        nasty = f"{NASTY}\nFriday Hunts: the game is ready. Type play. " + "wide " * 200
        entry = dict.fromkeys(("name", "title", "id", "date", "body", "where", "instance"), nasty)
        mine = {
            **dict.fromkeys(("username", "guild", "huntPass"), nasty),
            **{name: [entry] for name in ("hunts", "tracks", "characters")},
            "friends": [nasty[:64]],
        }
        status = {"name": nasty, "version": nasty, "players": [entry], "instances": [entry]}
        answers = {
            "/svc/api/ServerStatus": status,
            "/svc-status": {"name": nasty, "en": nasty},
            "/launcher/hunter": mine,
            "/content/v1/news": {"items": [entry]},
            "/content/v1/branding": {"accent": nasty, "backgrounds": [{"url": nasty}]},
        }
        for path, reply in answers.items():
            self.remote.says("GET", path, 200, reply)
        self.registered({})
        for line in ("status", "news", "people", "hunter", "hosts", "check", "repair", "passport"):
            self.terminal.line(line)
        for line in self.printed:
            self.assertEqual(unsafe_in(line), "")
            if line.startswith(MARK):
                self.assertLess(len(line), 80)
            else:
                self.assertNotIn("n ]0;owned", line)
                self.assertNotIn("Victim", line)
                self.assertNotIn("wide", line)
        self.assertGreater(sum(line.startswith(MARK) for line in self.printed), 50)

    def test_invalid_username_from_a_host_is_not_used(self) -> None:
        self.remote.says("POST", "/svc/api/Register", 200, {"UUK": KEY})
        self.remote.says("GET", "/svc/api/GetUserInfo", 200, {"Username": NASTY, "UserId": "7"})
        member = self.joined()
        member.inputs.agree()
        member.choose("Bo_1")
        self.terminal.line("status")
        self.assertNotIn("owned", "".join(self.printed))

    def test_unknown_or_incomplete_command_is_explained(self) -> None:
        for line, text in (
            ("yes", 'Unknown command "yes". Type help for a list.'),
            ("help yes", 'Unknown command "yes". Type help for a list.'),
            ("name", "Usage: name NAME"),
            ("SET  ", "Usage: set SETTING VALUE"),
            ("help use", "use NUMBER         Switch to another host of the list."),
        ):
            self.terminal.line(line)
            self.assertEqual(self.printed[-1], text)
        self.printed.clear()
        self.terminal.line("?")
        self.assertEqual([line.split()[0] for line in self.printed], [*COMMANDS])
        self.assertLess(max(map(len, self.printed)), 80)

    def test_defect_in_a_command_is_reported(self) -> None:
        def fail() -> None:
            raise ZeroDivisionError

        self.patch(self.terminal, "quit", fail)
        self.terminal.line("quit")
        self.assertEqual(self.printed, [words.DEFECT])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.terminal.line("import ~no-such-user/key")
        self.assertIn("no-such-user", self.printed[-1])
        self.assertEqual(self.terminal.completions("import ~no-such-user/k"), [])

    def test_every_command_of_the_help_is_carried_out(self) -> None:
        self.registered({"game.exe": b"MZ"})
        for command, (arguments, _) in COMMANDS.items():
            self.terminal.line(f"{command} {'x' if arguments else ''}")
        self.assertEqual(self.over, [True])

    def test_commands_hosts_and_paths_are_completed(self) -> None:
        (self.folder / "svc-key a.json").touch()
        (self.folder / "svc-keys").mkdir()
        self.joined()
        start = f"import {self.folder}/svc-k"
        for line, lines in (
            ("pl", ["play"]),
            ("na", ["name "]),
            ("re", ["renew-key", "repair", "replace "]),
            ("set f", ["set folder"]),
            ("help le", ["help leave"]),
            ("use ", ["use 1"]),
            ("play x", []),
            (start, [f"{start}ey a.json", f"{start}eys/"]),
            (f"import {self.folder}/svc-keys/", []),
            ("import /no/such/", []),
            ("dance", []),
        ):
            with self.subTest(line=line):
                self.assertEqual(self.terminal.completions(line), lines)

    def test_wrong_code_is_printed_and_corrected(self) -> None:
        self.remote.says("POST", "/launcher/invite", 200, {"invite": "unknown"})
        self.launcher.startService()
        self.terminal.line(invite_text())
        self.terminal.print_changes()
        self.assertIn(words.INVITE_UNKNOWN, self.printed[-1])
        self.terminal.line("code no")
        self.assertIn(words.CODE_INVALID, self.printed)
        self.remote.says("POST", "/launcher/invite", 200, {"invite": "valid"})
        self.terminal.line("code MNPQ-RSTV-WXYZ")
        self.assertNotIn(words.INVITE_UNKNOWN, self.printed[-1])
        self.launcher.stopService()

    def test_new_name_in_an_invite_is_printed_and_not_used(self) -> None:
        self.registered({})
        self.terminal.line(invite_text(name="My Bank"))
        self.assertIn(words.NAME_KEPT.format(name="Friday Hunts", new="My Bank"), self.printed)
        self.printed.clear()
        self.terminal.line("hosts")
        self.assertIn("Friday Hunts", self.printed[0])

    def test_try_prints_whether_a_name_is_free(self) -> None:
        request = ("POST", "/launcher/name-free")
        self.remote.says(*request, 200, {"available": False, "error": "username_taken"})
        for line in (invite_text(), "try Bo_1", "agree", "try Bo_1", "status"):
            self.terminal.line(line)
        self.remote.says(*request, 200, {"available": True})
        for line in ("try Bo_2", "try Bo_2"):
            self.terminal.line(line)
        results = [line for line in self.printed if line.startswith("Bo_")]
        taken, free = f"Bo_1: {words.NAME_TAKEN}", f"Bo_2: {words.NAME_FREE}"
        self.assertEqual(results, [taken, taken, free, free])
        self.assertNotIn("announcement", "".join(self.printed))

    def test_unchanged_state_is_printed_once(self) -> None:
        self.terminal.line(invite_text())
        count = len(self.printed)
        self.terminal.print_changes()
        self.assertEqual(len(self.printed), count)
        for line in (
            "dance",
            "use 9",
            "hosts",
            "use 1",
            "join nonsense",
            "import /no/file",
            "quit",
        ):
            self.terminal.line(line)
        self.assertEqual(self.over, [True])


def locked(*_: object) -> None:
    """Fail like a key store that is locked while its owner is away."""
    raise KeyringLocked("for the test")


class Backend:
    """A fake of the operating system's key store."""

    priority = 1

    def __init__(self) -> None:
        self.saved: dict[tuple[str, str], str] = {}
        self.requests = 0

    def get_password(self, service: str, name: str) -> str | None:
        self.requests += 1
        return self.saved.get((service, name))

    def set_password(self, service: str, name: str, value: str) -> None:
        self.saved[service, name] = value

    def delete_password(self, service: str, name: str) -> None:
        del self.saved[service, name]


class KeyTests(SynchronousTestCase):
    def test_key_store_is_read_once(self) -> None:
        backend = Backend()
        keys = SystemKeys(backend, FileKeys(new_folder(self) / "keys.json"))
        keys.put("h", Secret("UUK_1"))
        for _ in range(3):
            self.assertEqual(str(keys.get("h")), "<secret>")
        self.assertIsNone(keys.get("other"))
        keys.get("other")
        self.assertEqual(backend.requests, 1)
        keys.drop("h")
        keys.drop("h")
        self.assertEqual(backend.saved, {})

    def test_key_refused_by_the_store_is_saved_in_the_file(self) -> None:
        """A new account's key exists nowhere else, so a player who loses it loses the account."""
        backend, path = Backend(), new_folder(self) / "keys.json"
        keys = SystemKeys(backend, FileKeys(path))
        keys.put("old", Secret("UUK_0"))
        self.patch(backend, "set_password", locked)
        keys.put("h", Secret("UUK_1"))
        self.assertEqual((keys.where, path.stat().st_mode & 0o777), (IN_BOTH, 0o600))
        again = SystemKeys(backend, FileKeys(path))
        keys_found = [again.get(name) for name in ("h", "old")]
        self.assertEqual([key and key.reveal() for key in keys_found], ["UUK_1", "UUK_0"])
        self.patch(backend, "set_password", Backend.set_password.__get__(backend))
        again.put("h", Secret("UUK_2"))
        self.assertEqual(path.read_text(), "{}")
        self.patch(backend, "get_password", locked)
        self.assertIsNone(SystemKeys(backend, FileKeys(path)).get("h"))
        again.drop("h")
        self.assertIsNone(again.get("h"))

    def test_keys_are_saved_in_a_file_without_a_store(self) -> None:
        folder = new_folder(self)
        for broken in ("set_password", "get_password", "delete_password"):
            backend = Backend()
            self.patch(backend, broken, locked)
            self.patch(keyring, "get_keyring", lambda backend=backend: backend)
            self.assertIsInstance(open_keys(folder), FileKeys)
        self.patch(keyring, "get_keyring", Backend)
        self.assertIsInstance(open_keys(folder), SystemKeys)
        chosen = open_keys(folder, use_file=True)
        self.assertEqual((type(chosen), chosen.where), (FileKeys, AS_ASKED))

    def test_key_file_is_private(self) -> None:
        path = new_folder(self) / "state" / "keys.json"
        keys = FileKeys(path)
        keys.put("h", Secret("UUK_1"))
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.assertEqual(path.parent.stat().st_mode & 0o777, 0o700)
        self.assertNotIn("UUK_1", repr(keys))
        again = FileKeys(path)
        key = again.get("h")
        assert key is not None
        self.assertEqual(key.reveal(), "UUK_1")
        again.drop("h")
        self.assertNotIn("UUK_1", path.read_text())


def overhear(listening: socket.socket, answer: bytes, received: list[bytes]) -> None:
    """Act as an unrelated program that answers requests and records what it receives."""
    with listening.accept()[0] as connection:
        connection.settimeout(10)
        request = b""
        while data := connection.recv(65_536):
            request += data
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer)
            if request.endswith(b"}"):
                connection.sendall(head + answer)
        received.append(request)


class RunningTests(SynchronousTestCase):
    def test_program_on_a_killed_launchers_port_gets_nothing(self) -> None:
        """The program must first prove that it is the launcher named in the file."""
        state = new_folder(self)
        received: list[bytes] = []
        for answer in (b'{"proof":"%s"}' % (b"0" * 64), b"{}", b"[]", b"no json"):
            with socket.create_server(("127.0.0.1", 0)) as listening:
                stranger = threading.Thread(target=overhear, args=(listening, answer, received))
                stranger.start()
                secret = one_instance.announce(state, listening.getsockname()[1])
                running = one_instance.find(state)
                assert running is not None
                self.assertIsNone(running.hand_over("svc://join?code=ABCD"))
                stranger.join(10)
        self.assertEqual(len(received), 4)
        for request in received:
            self.assertNotIn(b"svc://join", request)
            self.assertNotIn(secret.reveal().encode(), request)

    def test_running_launcher_is_found_until_it_ends(self) -> None:
        state = new_folder(self)
        self.assertIsNone(one_instance.find(state))
        secret = one_instance.announce(state, 1)
        running = one_instance.find(state)
        assert running is not None
        self.assertTrue(secret.matches(running.secret.reveal()))
        self.assertIsNone(running.hand_over("svc://join"))  # nobody listens there
        for link in ("http://evil.example/", "http://127.0.0.1:12/#x", "file:///etc", 7, None):
            self.assertIsNone(running.own_link({"link": link}))
        self.assertEqual(
            running.own_link({"link": "http://127.0.0.1:1/#x"}), "http://127.0.0.1:1/#x"
        )
        one_instance.withdraw(state)
        one_instance.withdraw(state)
        (state / one_instance.FILE).write_text("[]")
        self.assertIsNone(one_instance.find(state))


class LockTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.state = new_folder(self)
        self.clock = Clock()
        self.patch(
            one_instance, "system", lambda: type("Fake", (), {"monotonic": self.clock.seconds})
        )

    def start(self) -> one_instance.Lock | str:
        return one_instance.lock_or_hand_over(self.state, "svc://join", self.clock.advance)

    def test_second_launcher_waits_until_the_first_has_ended(self) -> None:
        first = self.start()
        assert isinstance(first, one_instance.Lock)
        self.assertIsNone(one_instance.try_lock(self.state))
        self.clock.callLater(one_instance.WAIT_S - 1, first.release)
        second = self.start()
        assert isinstance(second, one_instance.Lock)
        second.release()

    def test_launcher_that_does_not_answer_is_reported(self) -> None:
        first = self.start()
        assert isinstance(first, one_instance.Lock)
        one_instance.announce(self.state, 1)  # nobody listens there
        self.assertRaises(one_instance.LauncherUnresponsive, self.start)
        first.release()

    def test_any_reply_of_the_running_launcher_counts(self) -> None:
        running = one_instance.RunningLauncher(1, Secret("s" * 64))
        sent: list[Any] = []
        for reply, link in (
            ((200, {"link": "http://127.0.0.1:1/#x"}), "http://127.0.0.1:1/#x"),
            ((400, {"error": "bad_request"}), ""),
            ((500, []), ""),
            (json.BadJson("odd"), ""),
            (ConnectionResetError(), None),
        ):

            def ask(_: object, path: str, body: Any, reply: Any = reply) -> Any:
                sent.append(body)
                if isinstance(reply, Exception):
                    raise reply
                return reply

            self.patch(one_instance, "_ask", ask)
            self.patch(one_instance.RunningLauncher, "_is_ours", lambda *_: True)
            self.assertEqual(running.hand_over("svc://join?\udcff" + "x" * 90_000), link)
        self.assertEqual({len(body["invite"]) for body in sent}, {one_instance.LONGEST_LINK})


class Upstream:
    """A connection to a host, in memory."""

    def __init__(self) -> None:
        self.transport = self
        self.sent = b""
        self.user: Any = None
        self.used = False
        self.alive = True
        self.aborted = self.paused = False

    def write(self, data: bytes) -> None:
        self.sent += data

    def abort(self) -> None:
        self.aborted = True

    def pauseProducing(self) -> None:
        self.paused = True

    def resumeProducing(self) -> None:
        self.paused = False


class Pool:
    """A pool that returns given connections in order."""

    def __init__(self, *connections: Any) -> None:
        self.left = list(connections)
        self.back: list[Any] = []

    def take(self, *, fresh: bool = False) -> Any:
        return self.left.pop(0)

    def give_back(self, connection: Any) -> None:
        self.back.append(connection)


class AskingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.upstream = Upstream()
        self.pool = Pool(self.upstream)
        self.client = HostClient(self.pool, self.clock, "h:443")  # type: ignore[arg-type]

    def ask(self, method: str = "GET", **sent: Any) -> Deferred[Any]:
        return Deferred.fromCoroutine(self.client.fetch_reply(method, "/x", **sent))

    def test_an_answer_in_pieces_is_read_and_the_connection_kept(self) -> None:
        done = self.ask("POST", key=Secret("UUK_1"), json_body={"a": 1})
        self.assertIn(b"POST /x HTTP/1.1\r\nHost: h:443\r\n", self.upstream.sent)
        self.assertTrue(self.upstream.sent.endswith(b'\r\n\r\n{"a":1}'))
        for byte in b'HTTP/1.1 409 Conflict\r\nContent-Length: 13\r\n\r\n{"error":"x"}':
            self.upstream.user.upstream_received(bytes([byte]))
        reply = self.successResultOf(done)
        self.assertEqual((reply.status, reply.error), (409, "x"))
        self.assertEqual(self.pool.back, [self.upstream])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_silent_server_ends_the_request(self) -> None:
        done = self.ask()
        self.clock.advance(SILENCE_S)
        self.failureResultOf(done, NoReply)
        self.assertTrue(self.upstream.aborted)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_reply_that_is_too_long_or_not_http_is_an_error(self) -> None:
        done = self.ask(limit=10)
        self.upstream.user.upstream_received(
            b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + b"x" * 20
        )
        self.failureResultOf(done, NoReply)
        self.upstream = Upstream()
        self.pool.left.append(self.upstream)
        done = self.ask()
        self.upstream.user.upstream_received(b"SSH-2.0-x\r\n\r\n")
        self.assertEqual(self.failureResultOf(done, NoReply).value.code, "answer")

    def test_closed_idle_connection_is_retried_except_for_a_post(self) -> None:
        for method, again in (("GET", True), ("POST", False)):
            old, fresh = Upstream(), Upstream()
            old.used = True
            self.pool.left = [old, fresh]
            done = self.ask(method)
            old.user.upstream_lost()
            if again:
                fresh.user.upstream_received(b"HTTP/1.1 204 No Content\r\n\r\n")
                self.assertEqual(self.successResultOf(done).status, 204)
            else:
                self.assertTrue(self.failureResultOf(done, NoReply).value.after_sending)
