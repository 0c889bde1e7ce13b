"""Many concurrent writes by one player: each write counts once, and no other player waits.

Real processes are needed because the attackers must not use the CPU time of the metagame's process.
"""

import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import orjson
import pytest
from attrs import frozen

from svcserver.db import migrations
from svcserver.db.engine import database_url, make_engine
from svcserver.db.transaction import transaction
from svcserver.metagame.accounts.store import add_game_server_key
from tests.live.attacks.support import waits_s
from tests.support.game import GAME_SERVER_KEY
from tests.support.postgres import fresh_database
from tests.support.processes import Service, bearer, free_port, metagame_environ, register

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
]  # measures how long others wait, compared with the idle host

TRACK = "track_of_tests"
ROUNDS, RETRIES = 8, 20
GRANTS = 200
FLOOR_S = 0.5  # a wait that no player notices
MOST = 60  # times the idle wait; sharing their threads with the grants, reads waited 200 times


@frozen
class Player:
    service: Service
    id: str

    def grant(self, amount: int) -> None:
        sent = {"progress_tracks": [{"progression_id": TRACK, "progress": amount}]}
        key = {"x-svc-gameserver-apikey": GAME_SERVER_KEY}
        status, body = self.service.ask("POST", f"/progression/{self.id}", sent, key)
        assert status == 200, body

    def progress(self) -> int:
        key = {"x-svc-gameserver-apikey": GAME_SERVER_KEY}
        status, body = self.service.ask("GET", f"/progression/{self.id}/{TRACK}", None, key)
        assert status in (200, 404), body
        return int(body.split(b'"progress":')[1].split(b",")[0]) if status == 200 else 0

    def wait_s(self) -> float:
        began = time.monotonic()
        self.progress()
        return time.monotonic() - began


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """Run a metagame with real progression on PostgreSQL."""
    where, port = fresh_database(), free_port()
    engine = make_engine(database_url(where))
    migrations.upgrade(engine)
    with transaction(engine) as tx:
        add_game_server_key(tx, GAME_SERVER_KEY)
    engine.dispose()
    environ = metagame_environ(
        tmp_path, port, DATABASE_URL=where, PROGRESSION_MODE="real", LOG_LEVEL="error"
    )
    made = Service("svc-metagame", tmp_path, environ, port)
    made.start()
    yield made
    made.stop()


def test_retries_at_the_same_moment_count_once(service: Service) -> None:
    ann = Player(service, register(service, "Ann")["id"])
    gate = Barrier(RETRIES)
    with ThreadPoolExecutor(RETRIES) as crowd:
        for amount in range(1, ROUNDS + 1):

            def retry(_: int, amount: int = amount) -> None:
                gate.wait(timeout=30)
                ann.grant(amount)

            list(crowd.map(retry, range(RETRIES)))
            assert ann.progress() == amount * (amount + 1) // 2


def test_grants_of_one_player_keep_nobody_else_waiting(service: Service) -> None:
    ann, ben = (Player(service, register(service, name)["id"]) for name in ("Ann", "Ben"))
    idle = statistics.median(ben.wait_s() for _ in range(15))
    gate = Barrier(GRANTS)

    def grant(amount: int) -> None:
        gate.wait(timeout=30)
        ann.grant(amount)

    with ThreadPoolExecutor(GRANTS) as crowd:
        storm = [crowd.submit(grant, amount) for amount in range(1, GRANTS + 1)]
        waits = waits_s(ben.wait_s, lambda: not all(call.done() for call in storm), least=1)
        for call in storm:
            call.result()
    assert ann.progress() == GRANTS * (GRANTS + 1) // 2
    assert max(waits) < max(MOST * idle, FLOOR_S), (max(waits), idle)


def test_saves_of_one_player_at_the_same_moment_all_count(service: Service) -> None:
    ann = register(service, "Ann")
    ben = Player(service, register(service, "Ben")["id"])
    _, body = service.ask("GET", "/character", headers=bearer(ann))
    character = orjson.loads(body)[0]["id"]
    idle = statistics.median(ben.wait_s() for _ in range(15))
    gate = Barrier(GRANTS)

    def save(_: int) -> int:
        gate.wait(timeout=30)
        stack = [{"catalogId": "ITEM_OF_TESTS", "quantity": 1}]
        sent = {"characterId": character, "addStackedItems": stack}
        return service.ask("POST", "/inventory", sent, bearer(ann))[0]

    with ThreadPoolExecutor(GRANTS) as crowd:
        storm = [crowd.submit(save, number) for number in range(GRANTS)]
        waits = waits_s(ben.wait_s, lambda: not all(call.done() for call in storm), least=1)
        statuses = {call.result() for call in storm}
    # if an account's writes did not take turns, some would conflict and get 503
    assert statuses == {200}, statuses
    _, body = service.ask("GET", f"/inventory/{ann['id']}/{character}", headers=bearer(ann))
    assert [call["quantity"] for call in orjson.loads(body)["stackedItems"]] == [GRANTS]
    assert max(waits) < max(MOST * idle, FLOOR_S), (max(waits), idle)
