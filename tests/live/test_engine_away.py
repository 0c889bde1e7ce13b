"""A live-state engine that is killed or unreachable: only requests that need it fail.

Real processes are needed because the engine is killed.
"""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread

import orjson
import pytest
from attrs import define, field

from svcserver.kernel.refusals import Unavailable
from tests.chat.sockets import Talker
from tests.live.test_workers import sabotaged
from tests.support.processes import Service, bearer, eventually, free_port, metagame, register
from tests.support.valkey import PASSWORD, Instance
from tests.support.watch import Watch

pytestmark = pytest.mark.live

BACK_S = 3.0


@define
class Proxy:
    """A proxy to the engine over loopback; ``cut`` makes the proxy discard all bytes."""

    port_of_engine: int
    port: int = field(init=False)
    _listening: socket.socket = field(init=False)
    _open: Event = field(factory=Event, init=False)
    _ended: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._open.set()
        Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._open.clear()

    def mend(self) -> None:
        self._open.set()

    def end(self) -> None:
        self._ended = True
        self._listening.close()

    def _accept(self) -> None:
        while not self._ended:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.port_of_engine))
            except OSError:  # the engine is away
                near.close()
                continue
            for first, second in ((near, far), (far, near)):
                Thread(target=self._pass, args=(first, second), daemon=True).start()

    def _pass(self, first: socket.socket, second: socket.socket) -> None:
        with closing(first), closing(second):
            try:
                while data := first.recv(1 << 16):
                    if self._open.is_set():
                        second.sendall(data)
            except OSError:
                return
            finally:
                for side in (first, second):
                    try:
                        side.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        continue


@define
class Away:
    """An engine, with functions that make it unavailable and available again."""

    url: str
    go: Callable[[], None]
    come_back: Callable[[], None]


@contextmanager
def killed() -> Iterator[Away]:
    """Kill the engine with SIGKILL and start an empty engine."""
    engine = Instance.make()
    engine.start()
    try:
        yield Away(engine.url, engine.kill, engine.start)
    finally:
        engine.end()


@contextmanager
def cut_off() -> Iterator[Away]:
    """Discard all bytes to and from the engine."""
    engine = Instance.make()
    engine.start()
    proxy = Proxy(engine.port)
    try:
        yield Away(f"valkey://:{PASSWORD}@127.0.0.1:{proxy.port}", proxy.cut, proxy.mend)
    finally:
        proxy.end()
        engine.end()


@define
class Player:
    """A player who sends requests, some of which need live state."""

    service: Service
    known: dict[str, str]
    character: str = ""
    version: int = 0
    patience_s: float = 20.0

    def begin(self) -> Player:
        _, body = self.service.ask("GET", "/character", headers=bearer(self.known))
        self.character = orjson.loads(body)[0]["id"]
        return self

    def untouched(self) -> dict[str, int]:
        """Return the statuses of login, heartbeat, save and inventory, which need no live state."""
        key, mine = {"exchange_code": self.known["key"]}, bearer(self.known)
        self.version += 1
        inventory = f"/inventory/{self.known['id']}/{self.character}"
        save = {"characterId": self.character, "data": "{}", "updateVersion": self.version}
        request = {
            "log-in": self.service.ask("POST", "/account/api/oauth/token", key),
            "heartbeat": self.service.ask("POST", "/heartbeat", {}, mine),
            "save": self.service.ask("POST", "/character", save, mine),
            "inventory": self.service.ask("GET", inventory, headers=mine),
        }
        return {name: status for name, (status, _) in request.items()}

    def live(self) -> dict[str, tuple[int, str | None]]:
        """Return the statuses of party and matchmaking requests, and their Retry-After values."""
        request = {
            "gameMode": "CITY",
            "gameArgs": "",
            "playerHuntId": "ShatteredIsles_ReturnTo_City",
        }
        return {
            "party": self._ask("POST", "/party", {}),
            "join": self._ask("POST", "/candidate/join", request),
            "poll": self._ask("GET", "/candidate/status", None),
        }

    def _ask(self, method: str, path: str, body: object) -> tuple[int, str | None]:
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.service.port, timeout=self.patience_s
        )
        with closing(connection):
            head = {"Content-Type": "application/json", **bearer(self.known)}
            sent = None if body is None else orjson.dumps(body)
            connection.request(method, path, sent, head)
            reply = connection.getresponse()
            reply.read()
            return reply.status, reply.getheader("Retry-After")


@pytest.mark.parametrize("happens", [killed, cut_off])
def test_only_live_state_is_refused_and_back_in_three_seconds(
    tmp_path: Path, happens: Callable[[], Iterator[Away]]
) -> None:
    settings = {"MATCHMAKING_MODE": "DEPLOY", "DEPLOYSERVER_URL": "http://127.0.0.1:9"}
    settings |= {"CHAT": "1", "CHAT_PORT": str(free_port()), "CHAT_MESSAGE_RATE": "1000,1000"}
    with happens() as away, metagame(tmp_path, LIVE_URL=away.url, **settings) as service:  # type: ignore[attr-defined]
        ann = Player(service, register(service, "Ann_1")).begin()
        eventually(lambda: "chat: listening on" in service.log)
        talker = Talker(int(settings["CHAT_PORT"]), ann.known["id"], "Ann_1")
        talker.log_in(ann.known["token"])
        assert 'code="110"' in talker.join("City-1")
        well = {"log-in": 200, "heartbeat": 200, "save": 200, "inventory": 200}
        assert ann.untouched() == well
        eventually(lambda: ann.live()["party"][0] == 200)
        away.go()
        with Watch() as watch:
            for _ in range(5):
                assert ann.untouched() == well
                assert set(ann.live().values()) == {(Unavailable.status, "1")}
        assert watch.seconds < 15  # only one deadline passes; later requests fail immediately
        assert not say_line(talker)
        away.come_back()
        with Watch() as watch:
            eventually(lambda: ann.live()["party"][0] == 200)
            assert {status for status, _ in ann.live().values()} == {200}
            eventually(lambda: say_line(talker))
        assert watch.seconds < BACK_S
        talker.wire.close()
        assert ann.untouched() == well
        assert "Traceback" not in service.log


def say_line(talker: Talker) -> bool:
    """Say a line in the room; return True if it was delivered, and False if it was refused."""
    talker.say("City-1", "hello")
    return "not-acceptable" not in talker.hear('id="m')


NOTHING_DISPENSABLE = """
from svcserver.metagame.play.presence import feature
feature.with_fallback = lambda result, fallback: result
"""


def test_a_heartbeat_fails_if_every_request_needs_the_engine(tmp_path: Path) -> None:
    """Check that a heartbeat fails in a metagame where no request can do without live state."""
    changed = sabotaged(NOTHING_DISPENSABLE)
    with killed() as away, metagame(tmp_path, LIVE_URL=away.url, **changed) as service:
        ann = Player(service, register(service, "Ann_1")).begin()
        eventually(lambda: ann.live()["party"][0] == 200)
        away.go()
        assert ann.untouched()["heartbeat"] == Unavailable.status


def test_an_engine_that_does_not_come_back_is_noticed(tmp_path: Path) -> None:
    """Check that the tests above fail if the engine never comes back."""
    with cut_off() as away, metagame(tmp_path, LIVE_URL=away.url) as service:
        ann = Player(service, register(service, "Ann_1")).begin()
        eventually(lambda: ann.live()["party"][0] == 200)
        away.go()
        with pytest.raises(AssertionError):
            eventually(lambda: ann.live()["party"][0] == 200, BACK_S)


NO_DEADLINE = "from svcserver.board import connection\nconnection.DEADLINE_S = 1e9\n"


def test_without_a_deadline_a_cut_off_engine_delays_players(tmp_path: Path) -> None:
    """Check that a request hangs if the engine's answers have no deadline."""
    changed = sabotaged(NO_DEADLINE)
    with cut_off() as away, metagame(tmp_path, LIVE_URL=away.url, **changed) as service:
        ann = Player(service, register(service, "Ann_1")).begin()
        eventually(lambda: ann.live()["party"][0] == 200)
        away.go()
        ann.patience_s = 4.0
        with pytest.raises(TimeoutError):
            ann.live()
        away.come_back()  # otherwise the metagame's stop would wait as well
