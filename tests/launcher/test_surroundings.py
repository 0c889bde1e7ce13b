"""Terminal, key store, the file that says a launcher runs, and what asks a host."""

from __future__ import annotations

import socket
import threading
from datetime import datetime
from typing import Any

import keyring
from keyring.errors import KeyringLocked
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.secrets import Secret
from svcserver.launcher import one_instance, words
from svcserver.launcher.host_client import SILENCE_S, HostClient, NoReply
from svcserver.launcher.keystore import AS_ASKED, IN_BOTH, FileKeys, SystemKeys, open_keys
from svcserver.launcher.terminal import MARK, Terminal
from tests.launcher.around import KEY, LauncherCase, invite_text, new_folder
from tests.support.nasty import NASTY, unsafe_in


class TerminalTests(LauncherCase):
    def setUp(self) -> None:
        super().setUp()
        self.said: list[str] = []
        self.over: list[bool] = []
        downloads = self.folder / "Downloads"
        self.terminal = Terminal(
            self.launcher, self.said.append, lambda: self.over.append(True), self.folder, downloads
        )

    def test_from_the_invite_to_the_files(self) -> None:
        self.remote.says("POST", "/svc/api/Register", 200, {"UUK": KEY})
        self.remote.says("GET", "/content/v1/manifest", 404)
        for line in ("status", "play", "help", invite_text(), "agree", "name no good", "name Bo_1"):
            self.terminal.line(line)
        text = "\n".join(self.said)
        self.assertIn("paste the invite", text)
        self.assertIn("A name has 3 to 16", text)
        self.assertIn("Say play", self.said[-1])
        self.assertNotIn(KEY, text)

    def test_an_announcement_news_people_and_hunter_are_told(self) -> None:
        said = {
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
        self.remote.says("GET", "/svc/api/ServerStatus", 200, said)
        self.remote.says("GET", "/svc-status", 200, {"name": "Home", "en": "Potions tonight"})
        self.remote.says("GET", "/launcher/hunter", 200, mine)
        news = {"items": [{"date": "2026-11-20T18:00", "title": "Friday", "body": "At eight."}]}
        self.remote.says("GET", "/content/v1/news", 200, news)
        self.registered({})
        for line in ("status", "news", "people", "hunter"):
            self.terminal.line(line)
        text = "\n".join(self.said)
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

    def test_no_host_can_print_what_looks_like_the_launchers_lines(self) -> None:
        nasty = f"{NASTY}\nFriday Hunts: everything is here. Say play. " + "wide " * 200
        one = dict.fromkeys(("name", "title", "id", "date", "body", "where", "instance"), nasty)
        mine = {
            **dict.fromkeys(("username", "guild", "huntPass"), nasty),
            **{name: [one] for name in ("hunts", "tracks", "characters")},
            "friends": [nasty[:64]],
        }
        status = {"name": nasty, "version": nasty, "players": [one], "instances": [one]}
        answers = {
            "/svc/api/ServerStatus": status,
            "/svc-status": {"name": nasty, "en": nasty},
            "/launcher/hunter": mine,
            "/content/v1/news": {"items": [one]},
            "/content/v1/branding": {"accent": nasty, "backgrounds": [{"url": nasty}]},
        }
        for path, said in answers.items():
            self.remote.says("GET", path, 200, said)
        self.registered({})
        for line in ("status", "news", "people", "hunter", "hosts", "check", "repair", "passport"):
            self.terminal.line(line)
        for line in self.said:
            self.assertEqual(unsafe_in(line), "")
            if line.startswith(MARK):
                self.assertLess(len(line), 80)
            else:
                self.assertNotIn("n ]0;owned", line)
                self.assertNotIn("Victim", line)
                self.assertNotIn("wide", line)
        self.assertGreater(sum(line.startswith(MARK) for line in self.said), 50)

    def test_a_username_that_is_none_is_not_taken_from_a_host(self) -> None:
        self.remote.says("POST", "/svc/api/Register", 200, {"UUK": KEY})
        self.remote.says("GET", "/svc/api/GetUserInfo", 200, {"Username": NASTY, "UserId": "7"})
        member = self.joined()
        member.inputs.agree()
        member.choose("Bo_1")
        self.terminal.line("status")
        self.assertNotIn("owned", "".join(self.said))

    def test_a_name_is_asked_for_before_it_is_taken(self) -> None:
        asked = ("POST", "/launcher/name-free")
        self.remote.says(*asked, 200, {"available": False, "error": "username_taken"})
        for line in (invite_text(), "try Bo_1", "agree", "try Bo_1", "status"):
            self.terminal.line(line)
        self.remote.says(*asked, 200, {"available": True})
        for line in ("try Bo_2", "try Bo_2"):
            self.terminal.line(line)
        told = [line for line in self.said if line.startswith("Bo_")]
        taken, free = f"Bo_1: {words.NAME_TAKEN}", f"Bo_2: {words.NAME_FREE}"
        self.assertEqual(told, [taken, taken, free, free])
        self.assertNotIn("announcement", "".join(self.said))

    def test_it_says_a_thing_once_and_knows_its_words(self) -> None:
        self.terminal.line(invite_text())
        count = len(self.said)
        self.terminal.look()
        self.assertEqual(len(self.said), count)
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
    """A key store whose owner is away."""
    raise KeyringLocked("for the test")


class Backend:
    """A system's key store."""

    priority = 1

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.asked = 0

    def get_password(self, service: str, name: str) -> str | None:
        self.asked += 1
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, value: str) -> None:
        self.kept[service, name] = value

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


class KeyTests(SynchronousTestCase):
    def test_the_systems_store_is_asked_once(self) -> None:
        backend = Backend()
        keys = SystemKeys(backend, FileKeys(new_folder(self) / "keys.json"))
        keys.put("h", Secret("UUK_1"))
        for _ in range(3):
            self.assertEqual(str(keys.get("h")), "<secret>")
        self.assertIsNone(keys.get("other"))
        keys.get("other")
        self.assertEqual(backend.asked, 1)
        keys.drop("h")
        keys.drop("h")
        self.assertEqual(backend.kept, {})

    def test_what_the_store_refuses_is_kept_in_the_file_and_said(self) -> None:
        """A new account's key exists nowhere else: without it the account is lost."""
        backend, path = Backend(), new_folder(self) / "keys.json"
        keys = SystemKeys(backend, FileKeys(path))
        keys.put("old", Secret("UUK_0"))
        self.patch(backend, "set_password", locked)
        keys.put("h", Secret("UUK_1"))
        self.assertEqual((keys.where, path.stat().st_mode & 0o777), (IN_BOTH, 0o600))
        again = SystemKeys(backend, FileKeys(path))
        found = [again.get(name) for name in ("h", "old")]
        self.assertEqual([one and one.reveal() for one in found], ["UUK_1", "UUK_0"])
        self.patch(backend, "set_password", Backend.set_password.__get__(backend))
        again.put("h", Secret("UUK_2"))
        self.assertEqual(path.read_text(), "{}")
        self.patch(backend, "get_password", locked)
        self.assertIsNone(SystemKeys(backend, FileKeys(path)).get("h"))
        again.drop("h")
        self.assertIsNone(again.get("h"))

    def test_without_a_store_keys_are_kept_in_a_file(self) -> None:
        folder = new_folder(self)
        for broken in ("set_password", "get_password", "delete_password"):
            backend = Backend()
            self.patch(backend, broken, locked)
            self.patch(keyring, "get_keyring", lambda backend=backend: backend)
            self.assertIsInstance(open_keys(folder), FileKeys)
        self.patch(keyring, "get_keyring", Backend)
        self.assertIsInstance(open_keys(folder), SystemKeys)
        asked = open_keys(folder, use_file=True)
        self.assertEqual((type(asked), asked.where), (FileKeys, AS_ASKED))

    def test_a_file_is_only_ours_and_shows_nothing(self) -> None:
        path = new_folder(self) / "state" / "keys.json"
        keys = FileKeys(path)
        keys.put("h", Secret("UUK_1"))
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.assertEqual(path.parent.stat().st_mode & 0o777, 0o700)
        self.assertNotIn("UUK_1", repr(keys))
        again = FileKeys(path)
        found = again.get("h")
        assert found is not None
        self.assertEqual(found.reveal(), "UUK_1")
        again.drop("h")
        self.assertNotIn("UUK_1", path.read_text())


def overhear(listening: socket.socket, answer: bytes, heard: list[bytes]) -> None:
    """Somebody's program: answers whatever it is sent, until the other side closes."""
    with listening.accept()[0] as connection:
        connection.settimeout(10)
        said = b""
        while data := connection.recv(65_536):
            said += data
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer)
            if said.endswith(b"}"):
                connection.sendall(head + answer)
        heard.append(said)


class RunningTests(SynchronousTestCase):
    def test_whoever_has_the_port_of_a_killed_launcher_is_told_nothing(self) -> None:
        """It is asked first for what only the launcher of the file can answer."""
        state = new_folder(self)
        heard: list[bytes] = []
        for answer in (b'{"proof":"%s"}' % (b"0" * 64), b"{}", b"[]", b"no json"):
            with socket.create_server(("127.0.0.1", 0)) as listening:
                stranger = threading.Thread(target=overhear, args=(listening, answer, heard))
                stranger.start()
                secret = one_instance.announce(state, listening.getsockname()[1])
                found = one_instance.find(state)
                assert found is not None
                self.assertIsNone(found.hand_over("svc://join?code=ABCD"))
                stranger.join(10)
        self.assertEqual(len(heard), 4)
        for said in heard:
            self.assertNotIn(b"svc://join", said)
            self.assertNotIn(secret.reveal().encode(), said)

    def test_the_one_that_runs_is_found_and_gone_again(self) -> None:
        state = new_folder(self)
        self.assertIsNone(one_instance.find(state))
        secret = one_instance.announce(state, 1)
        found = one_instance.find(state)
        assert found is not None
        self.assertTrue(secret.matches(found.secret.reveal()))
        self.assertIsNone(found.hand_over("svc://join"))  # nobody listens there
        for link in ("http://evil.example/", "http://127.0.0.1:12/#x", "file:///etc", 7, None):
            self.assertIsNone(found.own_link({"link": link}))
        self.assertEqual(found.own_link({"link": "http://127.0.0.1:1/#x"}), "http://127.0.0.1:1/#x")
        one_instance.withdraw(state)
        one_instance.withdraw(state)
        (state / one_instance.FILE).write_text("[]")
        self.assertIsNone(one_instance.find(state))


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
    """Gives connections in their order."""

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
        return Deferred.fromCoroutine(self.client.ask(method, "/x", **sent))

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

    def test_silence_ends_it(self) -> None:
        done = self.ask()
        self.clock.advance(SILENCE_S)
        self.failureResultOf(done, NoReply)
        self.assertTrue(self.upstream.aborted)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_an_answer_that_is_too_long_or_no_http_is_given_up(self) -> None:
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

    def test_a_kept_connection_that_was_closed_is_tried_once_more_but_never_a_post(self) -> None:
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
