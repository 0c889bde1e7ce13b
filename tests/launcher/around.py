"""A launcher without sockets, threads or processes: replies are scripted, time is simulated."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.invite import Invite, encode
from svcserver.kernel import json
from svcserver.kernel.secrets import Secret
from svcserver.launcher.host_client import HostReply, NoReply
from svcserver.launcher.host_list import HostList, HostRecord
from svcserver.launcher.keystore import FileKeys
from svcserver.launcher.membership import Membership
from svcserver.launcher.program import Launcher

PRINT = "a1" * 32
KEY = "UUK_" + "0" * 32


def invite_text(**changes: Any) -> str:
    """Return an invite to a public host."""
    fields = {
        "host": "play.example.org",
        "port": 443,
        "name": "Friday Hunts",
        "code": "ABCD-EFGH-JKMN",
        "fingerprint": PRINT,
    }
    return encode(Invite(**{**fields, **changes}))


def manifest(files: Mapping[str, bytes], **more: Any) -> bytes:
    """Return the host's manifest of these files, with the members of ``more`` added."""
    entries = [
        {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for path, data in sorted(files.items())
    ]
    total = sum(map(len, files.values()))
    return json.dump({"build": "1", "totalBytes": total, "files": entries, **more})


@define(eq=False)
class FakeRequest:
    """A request that the test answers."""

    host: FakeHost
    path: str
    sink: Any
    headers: Mapping[str, str]
    key: Secret | None
    done: Deferred[None] = field(factory=Deferred)
    held: int = 0

    def hold(self) -> None:
        self.held += 1

    def release(self) -> None:
        self.held -= 1

    def give_up(self, why: Exception | None = None) -> None:
        if not self.done.called:
            self.done.errback(why or NoReply())

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Deliver the response's head and body."""
        self.begin(status, **headers)
        self.send(body)
        self.finish()

    def begin(self, status: int, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.sink.begin(self, status, named)

    def send(self, data: bytes) -> None:
        for at in range(0, len(data), 65_536):
            self.sink.piece(data[at : at + 65_536])

    def finish(self) -> None:
        if not self.done.called:
            self.done.callback(None)


class _NoPool:
    closed = False

    def close(self) -> None:
        """Do nothing: no connection is open."""


@define
class FakeHost:
    """A host whose replies are looked up by method and path; downloads wait for the test."""

    answers: dict[tuple[str, str], Any] = field(factory=dict)
    requests: list[tuple[str, str, Any]] = field(factory=list)
    with_key: list[str] = field(factory=list)  # paths of requests that carried a key
    downloads: list[FakeRequest] = field(factory=list)
    pool: Any = field(factory=_NoPool)

    def says(self, method: str, path: str, status: int, value: Any = None, **headers: str) -> None:
        """Set the reply to a request."""
        body = value if isinstance(value, bytes) else json.dump(value or {})
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        self.answers[method, path] = HostReply(status, named, body)

    def loses(self, method: str, path: str, why: NoReply) -> None:
        """Make a request fail."""
        self.answers[method, path] = why

    async def fetch_reply(self, method: str, path: str, **sent: Any) -> HostReply:
        self.requests.append((method, path, sent.get("json_body")))
        if sent.get("key") is not None:
            self.with_key.append(path)
        reply: HostReply | Exception = self.answers.get((method, path), HostReply(404, {}, b""))
        if isinstance(reply, Exception):
            raise reply
        return reply

    def open(
        self, method: str, path: str, sink: Any, *, key: Any = None, headers: Any = None, **_: Any
    ) -> FakeRequest:
        request = FakeRequest(self, path, sink, headers or {}, key)
        self.downloads.append(request)
        return request


def at_once(work: Callable[..., Any], *args: Any) -> Deferred[Any]:
    """Run the work immediately instead of in a thread."""
    return maybeDeferred(work, *args)


@define
class FakeProcess:
    """A fake game process."""

    arguments: Sequence[str]
    status: int | None = None
    calls: list[str] = field(factory=list)
    heirs: bool = False

    def poll(self) -> int | None:
        return self.status

    def leaves(self) -> bool:
        return self.heirs

    def terminate(self) -> None:
        self.calls.append("terminate")

    def kill(self) -> None:
        self.calls.append("kill")
        self.status = -9


class FakeLauncher(Launcher):
    """A launcher that uses one ``FakeHost``, whatever host it connects to."""

    def client(self, record: HostRecord, content_port: int = 0) -> Any:
        return self.clock.fake_host

    def open_way(self, record: HostRecord) -> tuple[str, str]:
        return "127.0.0.1:61000", "ws://127.0.0.1:61000"


class ClockWithHost(Clock):
    """A clock that has the fake host, because a launcher's factories get nothing but a clock."""

    def __init__(self, host: FakeHost) -> None:
        super().__init__()
        self.fake_host = host


class LauncherCase(SynchronousTestCase):
    """A test with a launcher in its own folder."""

    def setUp(self) -> None:
        self.folder = new_folder(self)
        self.remote = FakeHost()
        self.remote.says("GET", "/svc/api/ServerStatus", 200, {"playersOnline": 0, "players": []})
        self.clock = ClockWithHost(self.remote)
        self.processes: list[FakeProcess] = []
        self.launcher = self.start()

    def start(self) -> FakeLauncher:
        """Return a launcher that has just started."""
        state = self.folder / "state"
        return FakeLauncher(
            self.clock,
            FileKeys(state / "keys.json"),
            HostList(state / "hosts.json"),
            self.folder / "games",
            61000,
            None,
            at_once,
        )

    def lay_game(self) -> None:
        """Put the game's program where the launcher expects it."""
        program = self.folder / "games" / "play-example-org-443" / "game.exe"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch()

    def spawn(self, arguments: Sequence[str], *_: Any) -> FakeProcess:
        """Start a fake game."""
        process = FakeProcess(arguments)
        self.processes.append(process)
        return process

    def joined(self) -> Membership:
        """Return a host whose invite has been opened."""
        member = self.launcher.join(invite_text())
        member.game.spawn = self.spawn
        return member

    def registered(self, files: Mapping[str, bytes] | None = None) -> Membership:
        """Return a membership of a host on which the player has just registered.

        ``files`` are the host's files; an empty mapping means that the player already has the game.
        """
        if files == {}:
            self.lay_game()
        if files is not None:
            self.remote.says("GET", "/content/v1/manifest", 200, manifest(files))
        self.remote.says("POST", "/svc/api/Register", 200, {"UUK": KEY})
        self.remote.says("GET", "/svc/api/GetUserInfo", 200, {"Username": "Bo_1", "UserId": "7"})
        member = self.joined()
        member.inputs.agree()
        member.choose("Bo_1")
        return member


def new_folder(test: Any) -> Path:
    """Return a folder that is deleted after ``test``."""
    return Path(test.enterContext(TemporaryDirectory(ignore_cleanup_errors=True)))
