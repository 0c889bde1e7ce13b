"""The metagame as a process: starts, failed starts, races and kill -9.

Real processes are needed because the tests use kill -9 and check the exit status and output of
failed starts.
"""

from __future__ import annotations

import http.client
import signal
import socket
import sqlite3
from pathlib import Path
from threading import Event, Thread
from typing import Any

import orjson
import pytest
from attrs import define, field
from pytest_twisted import ensureDeferred
from twisted.internet.defer import Deferred, gatherResults

from svcserver.metagame.service import Options
from svcserver.web.serving import DRAIN_S
from tests.support.joined import Joined, joined_metagame
from tests.support.postgres import fresh_database
from tests.support.processes import (
    PATIENCE_S,
    Service,
    bearer,
    eventually,
    free_port,
    metagame,
    metagame_environ,
    register,
)
from tests.support.proves import proves
from tests.support.watch import Watch

pytestmark = pytest.mark.live


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: Any, tmp_path: Path) -> str:
    if request.param == "postgres":
        return fresh_database()
    return f"sqlite:///{tmp_path}/svc.db"


@proves("state: Invite code: one use a registration, revoked", "registering 3: one transaction")
@ensureDeferred
async def test_simultaneous_registrations_of_a_name_make_one_account(
    tmp_path: Path, database: str
) -> None:
    async def register_all(service: Joined, bodies: list[dict[str, str]]) -> list[int]:
        request = [service.ask("POST", "/svc/api/Register", entry) for entry in bodies]
        replies = await gatherResults([Deferred.fromCoroutine(entry) for entry in request])
        return sorted(status for status, _ in replies)

    environ = {"DATABASE_URL": database, "LOG_LEVEL": "warn"}
    async with joined_metagame(tmp_path, **environ) as service:
        names = [{"Username": "Ann_1" if n % 2 else "aNN_1"} for n in range(50)]
        assert await register_all(service, names) == [200] + [409] * 49
    environ["REGISTRATION_MODE"] = "INVITECODE"
    async with joined_metagame(tmp_path, **environ) as service:
        _invite(database, "ONE-USE")
        names = [{"Username": f"player_{n}", "InviteCode": "ONE-USE"} for n in range(50)]
        assert await register_all(service, names) == [200] + [401] * 49


def _invite(database: str, code: str) -> None:
    from svcserver.db.engine import database_url, make_engine
    from svcserver.metagame.accounts.rules import InviteCode
    from svcserver.metagame.accounts.store import SqlAccounts

    engine = make_engine(database_url(database))
    with engine.begin() as tx:
        SqlAccounts(tx).put_invite(InviteCode(code, 1, False))
    engine.dispose()


@define
class Storm:
    """One player who saves without a pause and records the acknowledged saves."""

    service: Service
    player: dict[str, str]
    version: int = 0
    data: str = ""
    enough: Event = field(factory=Event)

    def run(self) -> None:
        """Save until the connection is cut."""
        try:
            self._save_for_ever()
        except (OSError, http.client.HTTPException):
            self.enough.set()

    def _save_for_ever(self) -> None:
        _, body = self.service.ask("GET", "/character", headers=bearer(self.player))
        character = orjson.loads(body)[0]["id"]
        for version in range(1, 10_000):
            data = orjson.dumps({"n": str(version), "pad": "x" * 20_000}).decode()
            sent = {"characterId": character, "data": data, "updateVersion": version}
            status, _ = self.service.ask("POST", "/character", sent, bearer(self.player))
            assert status == 200
            self.version, self.data = version, data
            if version == 12:
                self.enough.set()

    def check(self) -> None:
        """Check that every acknowledged save is stored; a save in flight can be stored, too."""
        _, body = self.service.ask("GET", "/character", headers=bearer(self.player))
        [held] = orjson.loads(body)
        assert self.version >= 1
        assert held["updateVersion"] - self.version in (0, 1)
        if held["updateVersion"] == self.version:
            assert held["data"] == self.data


def test_kill_9_in_a_storm_of_saves_loses_no_acknowledged_save(
    tmp_path: Path, database: str
) -> None:
    port = free_port()
    environ = metagame_environ(tmp_path, port, DATABASE_URL=database)
    service = Service("svc-metagame", tmp_path, environ, port)
    service.start()
    storms = [Storm(service, register(service, f"storm_{n}")) for n in range(8)]
    threads = [Thread(target=storm.run) for storm in storms]
    for thread in threads:
        thread.start()
    assert all(storm.enough.wait(60) for storm in storms)
    service.stop(signal.SIGKILL)
    for thread in threads:
        thread.join(60)
    service.start()
    for storm in storms:
        storm.check()
    service.stop()


@proves("thing: Game-server key moved from the queue table")
def test_queued_game_server_keys_are_hashed_and_moved_at_start(tmp_path: Path) -> None:
    with metagame(tmp_path):
        pass
    with sqlite3.connect(tmp_path / "svc.db") as connection:
        connection.execute("INSERT INTO gameserver_keys_to_register VALUES ('my own key')")
    connection.close()
    with metagame(tmp_path) as service:
        status, _ = service.ask(
            "GET", "/eventstats", headers={"x-svc-gameserver-apikey": "my own key"}
        )
        assert status == 200
        assert "my own key" not in service.log
    with sqlite3.connect(tmp_path / "svc.db") as connection:
        assert connection.execute("SELECT * FROM gameserver_keys_to_register").fetchall() == []
        [(stored,)] = connection.execute("SELECT key_hash FROM gameserver_keys").fetchall()
        assert len(stored) == 64
    connection.close()


def test_sqlite_is_opened_so_that_an_acknowledged_write_is_on_disk(tmp_path: Path) -> None:
    with metagame(tmp_path):
        with sqlite3.connect(tmp_path / "svc.db") as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection.close()


@proves("authentication 8: public mode", "settings of the metagame: what a bad value does")
@pytest.mark.parametrize(
    ("environ", "word"),
    [
        ({"PORT": ""}, "PORT"),
        ({"BIND_HOST": "nowhere"}, "BIND_HOST"),
        ({"METRICS_PORT": "x"}, "METRICS_PORT"),
        ({"GATEWAY_SECRET": "s" * 32, "AUTH_MODE": ""}, "AUTH_MODE"),
        ({"GATEWAY_SECRET": "s" * 32, "AUTH_MODE": "NONE"}, "AUTH_MODE"),
        ({"AUTH_SIGNING_PUBKEY_B64": ""}, "AUTH_SIGNING_PUBKEY_B64"),
    ],
)
def test_a_bad_setting_ends_the_start_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], word: str
) -> None:
    for name, value in metagame_environ(tmp_path, free_port(), **environ).items():
        monkeypatch.setenv(name, value)
    # with a text, which Python prints, and the exit status 1
    with pytest.raises(SystemExit) as ended:
        Options().parseOptions([])
    assert str(ended.value.code).startswith("svc-metagame: ")
    assert word in str(ended.value.code)
    assert "\n" not in str(ended.value.code)


@proves("settings of the metagame: what a bad value does")
@pytest.mark.parametrize(
    ("environ", "word"),
    [
        ({"PORT": "70000"}, "PORT"),
        ({"DATABASE_URL": "mysql://x"}, "DATABASE_URL"),
        ({"DATABASE_URL": "sqlite:////nowhere/at/all/svc.db"}, "database"),
        ({"DATABASE_URL": "postgresql+psycopg://svc:hush@127.0.0.1:1/x"}, "database"),
    ],
)
def test_a_failed_start_is_one_line_and_a_status(
    tmp_path: Path, environ: dict[str, str], word: str
) -> None:
    port = free_port()
    service = Service("svc-metagame", tmp_path, metagame_environ(tmp_path, port, **environ), port)
    assert service.launch().wait(30) not in (0, None)
    lines = service.log.strip().splitlines()
    assert len(lines) == 1, service.log
    assert word in lines[0]
    assert "hush" not in lines[0]


@proves("settings of the metagame: what a bad value does")
@pytest.mark.parametrize("variable", ["PORT", "METRICS_PORT"])
def test_a_taken_port_ends_the_start(tmp_path: Path, variable: str) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        taken = {variable: str(holder.getsockname()[1])}
        environ = metagame_environ(tmp_path, free_port(), **taken)
        service = Service("svc-metagame", tmp_path, environ, int(environ["PORT"]))
        assert service.launch().wait(30) not in (0, None)
    last = service.log.strip().splitlines()[-1]
    assert "svc-metagame: Could not listen on" in last
    assert f"change {variable}" in last
    assert " ready on " not in service.log


@proves("authentication 8: public mode")
def test_public_mode_warns_by_name_and_still_starts(tmp_path: Path) -> None:
    with metagame(tmp_path, GATEWAY_SECRET="short", AUTH_MODE="APIKEY") as service:
        for name in ("GATEWAY_SECRET", "NODE_ENV", "QOS_TARGET_URL"):
            assert name in service.log


@proves("convention 4: unparseable JSON, HTML pages")
def test_production_shows_no_traceback_and_logs_json(tmp_path: Path) -> None:
    with metagame(tmp_path, NODE_ENV="production") as service:
        connection = socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_S)
        connection.sendall(b"POST /event HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n{")
        received = connection.recv(65536)
        connection.close()
        assert b"400" in received.split(b"\r\n")[0]
        assert b"Traceback" not in received
        service.stop()
        for line in service.log.strip().splitlines():
            assert orjson.loads(line)["time"]


@proves("convention 4: unparseable JSON, HTML pages")
def test_development_shows_the_traceback(tmp_path: Path) -> None:
    with metagame(tmp_path) as service:
        connection = socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_S)
        connection.sendall(b"POST /event HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n{")
        received = connection.recv(65536)
        connection.close()
        assert b"Traceback" in received


@proves("env file: the environment wins")
def test_the_environment_wins_over_the_env_file(tmp_path: Path) -> None:
    port, second = free_port(), free_port()
    environ = metagame_environ(tmp_path, port)
    file = tmp_path / "metagame.env"
    file.write_text("# the host\nSERVER_NAME='From the file'\n" + f"PORT={second}\n")
    service = Service("svc-metagame", tmp_path, environ, port, ["--env-file", str(file)])
    service.start()
    try:
        _, body = service.ask("GET", "/svc-status")
        assert orjson.loads(body)["name"] == "From the file"
    finally:
        service.stop()


def test_a_graceful_stop_is_quick_and_clean(tmp_path: Path) -> None:
    with metagame(tmp_path) as service:
        idle = socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_S)
        register(service, "Ann_1")
        assert service.stop() in (0, -signal.SIGTERM)  # twistd ends itself with the same signal
        idle.close()
        assert "Traceback" not in service.log


def test_a_login_that_is_never_answered_holds_up_no_stop(tmp_path: Path) -> None:
    with metagame(tmp_path, AUTH_MODE="") as service:
        waiting = socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE_S)
        waiting.sendall(b"POST /account/api/oauth/token HTTP/1.1\r\nHost: x\r\n\r\n")
        eventually(lambda: "No login method configured! Set" in service.log)
        with Watch() as watch:
            assert service.stop() in (0, -signal.SIGTERM)
        assert watch.seconds < DRAIN_S
        waiting.close()
