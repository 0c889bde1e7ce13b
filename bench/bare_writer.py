"""The baselines of work other than HTTP; each runs alone on one core.

    python -m bench.bare_writer save|inventory|login FOLDER SECONDS

``save`` and ``inventory`` parse bodies like those that players send, and store the bytes that the
metagame would store. Each of fifty simulated players waits for a commit before the next write;
all waiting writes share one transaction and its fsync. ``login`` signs tokens. The output is the
number of operations per second. ``bench.bare_store`` offers the same writer over HTTP.
"""

import json
import random
import sqlite3
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import jwt
import orjson
from cryptography.hazmat.primitives.asymmetric import rsa

from bench.players import document

PLAYERS = 50
VARIANTS = 20
Store = Callable[[sqlite3.Connection, str, dict[str, Any]], None]
Job = tuple[Store, str, dict[str, Any], Any]  # function, owner, body, waiting request


def main() -> None:
    """Measure one baseline."""
    name, folder, seconds = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    measure = signing if name == "login" else writing
    print(measure(name, folder, seconds))


def signing(name: str, folder: Path, seconds: float) -> float:
    """Measure RS256 signatures of tokens like the metagame's."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    claims = {"userId": "UID_" + "0" * 32, "iat": 0, "exp": 1, "iss": "svc", "aud": "svc"}
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        jwt.encode(claims, key, algorithm="RS256")
        count += 1
    return count / (time.perf_counter() - began)


def writing(name: str, folder: Path, seconds: float) -> float:
    """Parse bodies in one thread and store them in another thread; players wait for commits."""
    rng = random.Random(1)
    bodies = [(save_body if name == "save" else loot_body)(rng) for _ in range(VARIANTS)]
    requests: SimpleQueue[Job | None] = SimpleQueue()
    done: SimpleQueue[list[int]] = SimpleQueue()
    store = save if name == "save" else loot
    writer = Thread(target=write, args=(folder, requests, done.put), daemon=True)
    writer.start()
    for player in range(PLAYERS):
        requests.put((store, str(player), orjson.loads(bodies[player % VARIANTS]), player))
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for player in done.get():
            body = orjson.loads(bodies[rng.randrange(VARIANTS)])
            requests.put((store, str(player), body, player))
            count += 1
    took = time.perf_counter() - began
    requests.put(None)
    writer.join()
    return count / took


def write(folder: Path, requests: SimpleQueue[Any], done: Callable[[list[Any]], None]) -> None:
    """Commit all waiting writes in one transaction with a savepoint each, then reply to all."""
    connection = connected(folder)
    running = True
    while running:
        jobs = [requests.get()]
        with suppress(Empty):
            while len(jobs) < PLAYERS:
                jobs.append(requests.get_nowait())
        running = None not in jobs
        connection.execute("BEGIN IMMEDIATE")
        for store, player, body, _ in filter(None, jobs):
            connection.execute("SAVEPOINT job")
            store(connection, player, body)
            connection.execute("RELEASE job")
        connection.execute("COMMIT")
        done([waiting for *_, waiting in filter(None, jobs)])
    connection.close()


def connected(folder: Path) -> sqlite3.Connection:
    """Return a connection to a new database with the metagame's SQLite settings."""
    connection = sqlite3.connect(folder / "yardstick.db", isolation_level=None)
    for pragma in (
        "page_size=16384",
        "journal_mode=WAL",
        "synchronous=FULL",
        "cache_size=-32768",
        "wal_autocheckpoint=4000",
    ):
        connection.execute(f"PRAGMA {pragma}")
    for statement in SCHEMA:
        connection.execute(statement)
    return connection


SCHEMA = (
    "CREATE TABLE saves (id INTEGER PRIMARY KEY, owner TEXT, data BLOB)",
    "CREATE TABLE characters (id TEXT PRIMARY KEY, version INTEGER, save_id INTEGER)",
    "CREATE TABLE stacks (owner TEXT, item TEXT, quantity INTEGER, PRIMARY KEY (owner, item))",
    "CREATE TABLE changes (id TEXT PRIMARY KEY, owner TEXT, body BLOB, answer BLOB)",
)


def save_body(rng: random.Random) -> bytes:
    """Return the body of a save as a player sends it."""
    body = {"characterId": str(uuid.uuid4()), "data": document(rng), "updateVersion": 7}
    return json.dumps(body, separators=(",", ":")).encode()


def loot_body(rng: random.Random) -> bytes:
    """Return the body of an inventory transaction as a player sends it."""
    loot = [{"catalogId": f"ITEM_BENCH_{n:03d}", "quantity": 1} for n in rng.sample(range(120), 3)]
    body = {"characterId": str(uuid.uuid4()), "addStackedItems": loot, "source": "bench"}
    return json.dumps(body, separators=(",", ":")).encode()


def save(connection: sqlite3.Connection, player: str, body: dict[str, Any]) -> None:
    """Store the document as it was sent, with the player as its owner."""
    stored = orjson.dumps(body["data"])
    at = connection.execute(
        "INSERT INTO saves (owner, data) VALUES (?, ?)", (player, stored)
    ).lastrowid
    connection.execute(
        "INSERT INTO characters VALUES (?, 1, ?) "
        "ON CONFLICT (id) DO UPDATE SET version = version + 1, save_id = excluded.save_id",
        (player, at),
    )


def loot(connection: sqlite3.Connection, player: str, body: dict[str, Any]) -> None:
    """Store three stacks and the transaction's id.

    The id would allow the server to recognise a repeated transaction.
    """
    connection.executemany(
        "INSERT INTO stacks VALUES (?, ?, 1) "
        "ON CONFLICT (owner, item) DO UPDATE SET quantity = quantity + 1",
        [(player, change["catalogId"]) for change in body["addStackedItems"]],
    )
    results = orjson.dumps(body)
    connection.execute(
        "INSERT INTO changes VALUES (?, ?, ?, ?)", (str(uuid.uuid4()), player, results, results)
    )


if __name__ == "__main__":
    main()
