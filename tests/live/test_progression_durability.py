"""Progress under ``kill -9`` and concurrency: each grant counts once, and the cap holds.

Spec: 1 §4 Progression, §6.3.

Real processes are needed because only a process can be killed in the middle of a transaction.
"""

import http.client
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import Any

import orjson
import pytest
from attrs import define, field
from sqlalchemy import func, select

from svcserver.db import migrations
from svcserver.db.engine import database_url, make_engine
from svcserver.metagame.accounts.eventlog import PROGRESSION_EVENTS
from svcserver.metagame.accounts.store import add_game_server_key
from svcserver.metagame.achievements.progression.rules import INT_MAX
from tests.support.game import GAME_SERVER_KEY
from tests.support.postgres import fresh_database
from tests.support.processes import Service, free_port, metagame_environ, register
from tests.support.proves import proves

pytestmark = pytest.mark.live

CAP = 500
CUT = (OSError, http.client.HTTPException)
TRACK, OBJECTIVE = "track_of_tests", "objective_of_tests"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: Any, tmp_path: Path) -> str:
    """Create a database with the game-server key and return its URL."""
    where = fresh_database() if request.param == "postgres" else f"sqlite:///{tmp_path}/svc.db"
    engine = make_engine(database_url(where))
    migrations.upgrade(engine)
    with engine.begin() as tx:
        add_game_server_key(tx, GAME_SERVER_KEY)
    engine.dispose()
    return where


@pytest.fixture
def service(url: str, tmp_path: Path) -> Service:
    """Prepare a metagame with real progression without starting it."""
    port = free_port()
    environ = metagame_environ(
        tmp_path,
        port,
        DATABASE_URL=url,
        PROGRESSION_MODE="real",
        PROGRESSION_GRANT_CAP=str(CAP),
        PROGRESSION_REPLAY_WINDOW_S="3600",
        LOG_LEVEL="error",
    )
    return Service("svc-metagame", tmp_path, environ, port)


@define
class Hunter:
    """A game server that reports one player's progress without a pause."""

    service: Service
    account_id: str
    granted: int = 0  # acknowledged grants; the n-th adds n
    pending: int = 0
    enough: Event = field(factory=Event)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        key = {"x-svc-gameserver-apikey": GAME_SERVER_KEY}
        status, reply = self.service.ask(method, path, body, key)
        return status, orjson.loads(reply)

    def run(self) -> None:
        """Report progress until the connection is cut."""
        try:
            for number in range(1, 200):
                self.pending = number
                assert self.grant(number) == 200
                self.granted = number
                if number == 15:
                    self.enough.set()
        except CUT:
            self.enough.set()

    def grant(self, number: int) -> int:
        sent = {
            "progress_tracks": [{"progression_id": TRACK, "progress": number}],
            "objectives": [{"objective_id": OBJECTIVE, "value": number, "completed_count": 0}],
        }
        return self.ask("POST", f"/progression/{self.account_id}", sent)[0]

    def progress(self) -> int:
        status, body = self.ask("GET", f"/progression/{self.account_id}/{TRACK}")
        assert status == 200
        result: int = body["payload"]["progress"]
        return result

    def objective(self) -> int:
        path = f"/progression/objectives/{self.account_id}/{OBJECTIVE}"
        result: int = self.ask("GET", path)[1]["payload"]["progress"]
        return result

    def check(self) -> None:
        """Assert that acknowledged progress is stored and that a retry counts once."""
        sums = {number * (number + 1) // 2: number for number in (self.granted, self.pending)}
        reached = sums[self.progress()]
        assert self.objective() == reached
        for _ in range(3):
            assert self.grant(self.pending) == 200
        assert self.progress() == self.pending * (self.pending + 1) // 2
        assert self.objective() == self.pending


@proves("POST /progression/:userId", "event 3: progression event log", "limit: Retry guard window")
def test_kill_9_in_a_storm_of_grants_keeps_every_grant_exactly_once(
    service: Service, url: str
) -> None:
    service.start()
    hunters = [Hunter(service, register(service, f"storm_{n}")["id"]) for n in range(6)]
    threads = [Thread(target=hunter.run) for hunter in hunters]
    for thread in threads:
        thread.start()
    assert all(hunter.enough.wait(60) for hunter in hunters)
    service.stop(signal.SIGKILL)
    for thread in threads:
        thread.join(60)
    service.start()
    try:
        for hunter in hunters:
            hunter.check()
    finally:
        service.stop()
    engine = make_engine(database_url(url))
    with engine.connect() as tx:  # a row for each grant that was applied, and for each retry
        rows = tx.execute(select(func.count()).select_from(PROGRESSION_EVENTS)).scalar_one()
    engine.dispose()
    applied = sum(hunter.pending for hunter in hunters)
    assert applied + 2 * len(hunters) <= rows <= applied + 3 * len(hunters)


@proves("limit: Progression grant cap per request per track")
def test_a_crowd_of_grants_adds_each_once_and_none_above_the_cap(service: Service) -> None:
    service.start()
    try:
        entry = Hunter(service, register(service, "Ann")["id"])
        # twenty different grants above the cap: each is cut to it
        crowd(20, lambda n: entry.grant(CAP + 1 + n))
        assert entry.progress() == 20 * CAP
        # twenty retries of one grant: added once
        crowd(20, lambda n: entry.grant(7))
        assert entry.progress() == 20 * CAP + 7
        # also by the other route, which has no retries, up to the largest number
        path = f"/progression/{entry.account_id}/{TRACK}"
        crowd(20, lambda n: entry.ask("POST", f"{path}/{CAP + n}")[0])
        assert entry.progress() == 40 * CAP + 7 < INT_MAX
    finally:
        service.stop()


def crowd(count: int, act: Callable[[int], int]) -> None:
    """Send all requests concurrently and assert that each is answered with 200."""
    gate = Barrier(count)

    def when_all_are_ready(number: int) -> int:
        gate.wait(timeout=30)
        return act(number)

    with ThreadPoolExecutor(count) as pool:
        assert list(pool.map(when_all_are_ready, range(count))) == [200] * count
