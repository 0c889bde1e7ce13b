"""A metagame restarted or killed under traffic: no player's request is rejected.

Real processes are needed because processes are killed and restarted under traffic.
"""

from __future__ import annotations

import signal
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

import orjson
import pytest
from attrs import define, field

from svcserver.edge.certificate import make_pair, write_pair
from tests.ctl.hosts import demo_host, read_output, run, stack, value
from tests.live.test_stack import pid_of
from tests.live.test_workers import workers
from tests.support.processes import (
    PATIENCE_S,
    Service,
    bearer,
    eventually,
    free_port,
    metagame,
    register,
)
from tests.support.valkey import fresh_url

pytestmark = pytest.mark.live
SECRET = "live-secret-live-secret-live-secret"
PLAYERS = 8


@define(eq=False)
class Traffic:
    """Players who send requests continuously over persistent connections."""

    port: int
    players: list[dict[str, str]]
    pause_s: float = 0.02
    answers: Counter[str] = field(factory=Counter, init=False)
    slowest: float = field(default=0.0, init=False)
    _stop: threading.Event = field(factory=threading.Event, init=False)
    _threads: list[threading.Thread] = field(factory=list, init=False)

    def __enter__(self) -> Traffic:
        for player in self.players:
            thread = threading.Thread(target=self._play, args=(player,), daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def failed(self) -> dict[str, int]:
        """Return the replies that a player would notice as failures, with the count of each."""
        return {item: n for item, n in self.answers.items() if not item.endswith(" 200")}

    def goes_on(self, answers: int = 100) -> None:
        """Wait until ``answers`` further replies have arrived."""
        enough = self.answers.total() + answers
        eventually(lambda: self.answers.total() >= enough, PATIENCE_S)

    def _play(self, player: dict[str, str]) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        line = HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE_S, context=context)
        turn = 0
        while not self._stop.wait(self.pause_s):
            turn += 1
            method, path = ("POST", "/heartbeat") if turn % 2 else ("GET", "/character")
            began = time.monotonic()
            try:
                line.request(method, path, "{}" if method == "POST" else None, bearer(player))
                reply = line.getresponse()
                reply.read()
                self.answers[f"{method} {reply.status}"] += 1
            except (OSError, HTTPException) as why:  # an incomplete answer counts as no answer
                self.answers[f"{method} {type(why).__name__}"] += 1
                line.close()
            self.slowest = max(self.slowest, time.monotonic() - began)
        line.close()


def gateway_environ(folder: Path, metagames: list[int], **more: str) -> tuple[int, dict[str, str]]:
    """Return a free port, and the environment of a gateway on it in front of these metagames."""
    certificate, key = write_pair(make_pair(["127.0.0.1"]), folder)
    port = free_port()
    return port, {
        "GATEWAY_BIND": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "GATEWAY_CERT": str(certificate),
        "GATEWAY_KEY": str(key),
        "GATEWAY_SECRET": SECRET,
        "GATEWAY_METAGAME_URL": ",".join(f"http://127.0.0.1:{entry}" for entry in metagames),
        "GATEWAY_ALLOWLIST": "0",
        "GATEWAY_PARK_MS": "30000",  # because a start takes long on a busy machine
        "GATEWAY_RATE_GENERAL": "100000,1000000",
        **more,
    }


@contextmanager
def gateway(folder: Path, metagames: list[int], **more: str) -> Iterator[int]:
    """Run a gateway and return its port."""
    port, environ = gateway_environ(folder, metagames, **more)
    service = Service("svc-gateway", folder, environ, port)
    service.start()
    try:
        yield port
    finally:
        service.stop()


def restarted(game: Service) -> None:
    """Restart the metagame as an owner does."""
    game.stop()
    game.start()


def killed(game: Service) -> None:
    """Kill the metagame with SIGKILL and start it again, as ``svc-stack`` does."""
    assert game.process is not None
    game.process.send_signal(signal.SIGKILL)
    game.process.wait(PATIENCE_S)
    game.start()


@pytest.mark.parametrize("how", [restarted, killed])
def test_no_request_is_refused_while_the_metagame_comes_back(
    how: Callable[[Service], None], tmp_path: Path
) -> None:
    with metagame(tmp_path, GATEWAY_SECRET=SECRET) as game, gateway(tmp_path, [game.port]) as port:
        players = [register(game, f"Player{number}") for number in range(PLAYERS)]
        with Traffic(port, players) as traffic:
            traffic.goes_on()
            how(game)
            traffic.goes_on()
    assert traffic.failed() == {}, traffic.answers
    assert traffic.answers["GET 200"] > 20
    assert game.log.count("loaded the live state") == (how is restarted)


def test_without_parking_the_same_traffic_is_refused(tmp_path: Path) -> None:
    with (
        metagame(tmp_path, GATEWAY_SECRET=SECRET) as game,
        gateway(tmp_path, [game.port], GATEWAY_PARK_MS="0") as port,
    ):
        players = [register(game, f"Player{number}") for number in range(PLAYERS)]
        with Traffic(port, players) as traffic:
            traffic.goes_on()
            game.stop()
            eventually(traffic.failed)
            game.start()


# slow: two metagames, killed and started again under traffic
def test_the_kill_of_a_worker_costs_no_player_a_request(tmp_path: Path) -> None:
    with workers(tmp_path, fresh_url(), GATEWAY_SECRET=SECRET) as both:
        ports = [both.first.port, both.second.port]
        with gateway(tmp_path, ports, GATEWAY_PARK_MS="0") as port:  # the other serves at once
            players = [register(both.first, f"Player{number}") for number in range(PLAYERS)]
            with Traffic(port, players) as traffic:
                traffic.goes_on()
                killed(both.second)
                traffic.goes_on()
                restarted(both.first)
                traffic.goes_on()
    assert traffic.failed() == {}, traffic.answers
    assert traffic.answers["GET 200"] > 20


def game_servers(folder: Path) -> list[dict[str, object]]:
    """Wait until the city runs; return the list of running game servers."""
    deploy = Service("none", folder, {}, int(value(folder, "deploy", "PORT")))
    eventually(lambda: b'"city"' in deploy.ask("GET", "/gameservers")[1], PATIENCE_S)
    document: list[dict[str, object]] = orjson.loads(deploy.ask("GET", "/gameservers")[1])[
        "servers"
    ]
    return document


# slow: a stack of six processes, four of them started again
def test_a_rolling_restart_under_traffic_refuses_nothing(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    with (folder / "gateway.env").open("a") as file:
        file.write("GATEWAY_PARK_MS=30000\nGATEWAY_RATE_GENERAL=100000,1000000\n")
    with stack(folder):
        eventually(lambda: "stack ready" in read_output(folder), PATIENCE_S * 2)
        before = [pid_of(folder, entry) for entry in ("metagame", "content", "deploy", "gateway")]
        running = game_servers(folder)
        game = Service("none", folder, {}, int(value(folder, "metagame", "PORT")))
        players = [register(game, f"Player{number}") for number in range(PLAYERS)]
        with Traffic(int(value(folder, "gateway", "GATEWAY_PORT")), players) as traffic:
            traffic.goes_on()
            done = run("restart", "--rolling", "--config", folder)
            traffic.goes_on()
        after = [pid_of(folder, entry) for entry in ("metagame", "content", "deploy", "gateway")]
        assert game_servers(folder) == running
    assert running
    assert done.returncode == 0, done.stderr + read_output(folder)
    assert traffic.failed() == {}, traffic.answers
    assert traffic.answers["GET 200"] > 20
    assert None not in after
    assert [entry == two for entry, two in zip(before, after, strict=True)] == [0, 0, 0, 1]


def test_without_a_stack_restart_fails_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "metagame.env").write_text("")
    done = run("restart", "--rolling", "--config", tmp_path)
    assert done.returncode == 1
    assert "no svc-stack runs in" in done.stderr
