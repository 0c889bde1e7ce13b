"""kill -9 during many inventory transactions and purchases: each of them counts exactly once.

Real processes are needed because only a process can be killed in the middle of a transaction.
"""

import http.client
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

import orjson
import pytest
from attrs import define, field

from tests.support.postgres import fresh_database
from tests.support.processes import Service, bearer, free_port, metagame_environ, register
from tests.support.proves import proves

pytestmark = pytest.mark.live

BUNDLE, ITEM = "bundle_currency_bounty_small", "TOKEN_BOUNTY_DRAFT_PREMIUM"
SIZE = 20
CUT = (OSError, http.client.HTTPException)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: Any, tmp_path: Path) -> str:
    if request.param == "postgres":
        return fresh_database()
    return f"sqlite:///{tmp_path}/svc.db"


@define
class Storm:
    """One player who loots and buys without a pause and records every reply."""

    service: Service
    player: dict[str, str]
    character: str = ""
    looted: list[str] = field(factory=list)  # acknowledged transaction ids
    pending: str = ""  # the one in flight
    bought: list[str] = field(factory=list)
    buying: str = ""
    enough: Event = field(factory=Event)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        return self.service.ask(method, path, body, bearer(self.player))

    def run(self) -> None:
        """Send requests until the connection is cut."""
        try:
            _, body = self.ask("GET", "/character")
            self.character = orjson.loads(body)[0]["id"]
            for number in range(1, 50):
                self.loot(f"{self.player['id']}:{number}")
                self.buy()
                if number == 8:
                    self.enough.set()
        except CUT:
            self.enough.set()

    def loot(self, transaction_id: str) -> None:
        self.pending = transaction_id
        status, _ = self.transact(transaction_id)
        assert status == 200
        self.looted.append(transaction_id)

    def transact(self, transaction_id: str) -> tuple[int, bytes]:
        sent = {
            "characterId": self.character,
            "transactionId": transaction_id,
            "addStackedItems": [{"catalogId": "ORE", "quantity": 3}],
            "addInstancedItems": [
                {
                    "catalogId": "W",
                    "instanceId": transaction_id,
                    "itemData": "{}",
                    "updateVersion": 1,
                }
            ],
        }
        return self.ask("POST", "/inventory", sent)

    def spend(self, transaction_id: str, amount: int) -> int:
        sent = {
            "characterId": self.character,
            "transactionId": transaction_id,
            "removeStackedItems": [{"catalogId": "ORE", "quantity": amount}],
        }
        return self.ask("POST", "/inventory", sent)[0]

    def buy(self) -> None:
        status, body = self.ask("GET", f"/token/platinum/{BUNDLE}")
        assert status == 200
        self.buying = orjson.loads(body)["purchaseToken"]
        assert self.redeem(self.buying) == 204
        self.bought.append(self.buying)

    def redeem(self, token: str) -> int:
        return self.ask("POST", f"/notification/platinum?token={token}")[0]

    def held(self) -> tuple[dict[str, int], set[str]]:
        status, body = self.ask("GET", f"/inventory/{self.player['id']}/{self.character}")
        assert status == 200
        document = orjson.loads(body)
        stacks = {stack["catalogId"]: stack["quantity"] for stack in document["stackedItems"]}
        return stacks, {stack["instanceId"] for stack in document["instancedItems"]}

    def check(self) -> None:
        """Check that acknowledged loot is stored, and that repeated requests change nothing more.

        Only the request that was in flight when the connection was cut may be missing until it is
        repeated.
        """
        stacks, instances = self.held()
        assert instances >= set(self.looted)
        assert instances <= {*self.looted, self.pending}
        assert stacks["ORE"] == 3 * len(instances)
        assert stacks.get(ITEM, 0) >= SIZE * len(self.bought)
        looted, bought = {*self.looted, self.pending}, {*self.bought, self.buying} - {""}
        for _ in range(2):
            assert {self.transact(transaction)[0] for transaction in looted} == {200}
            assert {self.redeem(transaction) for transaction in bought} <= {204}
        stacks, instances = self.held()
        assert (stacks["ORE"], instances) == (3 * len(looted), looted)
        assert stacks.get(ITEM, 0) == SIZE * len(bought)


def at_once(*calls: Callable[[], int]) -> list[int]:
    """Make all calls at the same moment; return their statuses in order."""
    replies: list[int] = []
    crowd = [Thread(target=lambda call=call: replies.append(call())) for call in calls]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join(60)
    return sorted(replies)


def check_crowds(entry: Storm) -> None:
    """Assert that fifty concurrent copies of a request count once and overspend no balance."""
    token = orjson.loads(entry.ask("GET", f"/token/platinum/{BUNDLE}")[1])["purchaseToken"]
    before = entry.held()[0]
    redeem, transact = partial(entry.redeem, token), lambda: entry.transact("once")[0]
    assert at_once(*[redeem] * 50, *[transact] * 50) == [200] * 50 + [204] * 50
    after = entry.held()[0]
    assert (after["ORE"] - before["ORE"], after[ITEM] - before[ITEM]) == (3, SIZE)
    price = max(1, after["ORE"] // 10)
    sold = min(50, after["ORE"] // price)
    spends = [partial(entry.spend, f"spend-{number}", price) for number in range(50)]
    assert at_once(*spends) == [200] * sold + [409] * (50 - sold)
    assert entry.held()[0].get("ORE", 0) == after["ORE"] - sold * price


@proves("thing: Inventory transaction", "purchase token issued: redeemed")
def test_kill_9_in_a_storm_of_loot_keeps_everything_once(tmp_path: Path, database: str) -> None:
    port = free_port()
    switches = {"STORE": "free", "STORE_REPEATABLE_TOKENS": "1", "INVENTORY_REFUSE_OVERSPEND": "1"}
    environ = metagame_environ(tmp_path, port, DATABASE_URL=database, **switches)
    service = Service("svc-metagame", tmp_path, environ, port)
    service.start()
    storms = [Storm(service, register(service, f"storm_{n}")) for n in range(6)]
    threads = [Thread(target=storm.run) for storm in storms]
    for thread in threads:
        thread.start()
    assert all(storm.enough.wait(60) for storm in storms)
    service.stop(signal.SIGKILL)
    for thread in threads:
        thread.join(60)
    service.start()
    try:
        for storm in storms:
            storm.check()
        check_crowds(storms[0])
    finally:
        service.stop()
