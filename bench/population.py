"""A database as it is after long use: many accounts, each with a character, saves and items.

    python -m bench.population FILE [--accounts 100000] [--items 10000000]

``--items`` is the number of rows in the item log. The file must not exist.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
from sqlalchemy import Engine, insert, text
from sqlalchemy.schema import CreateIndex, DropIndex

from svcserver.db import migrations
from svcserver.db.engine import database_url, make_engine
from svcserver.db.transaction import transaction
from svcserver.kernel.secrets import fingerprint
from svcserver.metagame.accounts.store import ACCOUNT_KEYS, ACCOUNTS
from svcserver.metagame.belongings.characters.store import CHARACTER_SAVES, CHARACTERS
from svcserver.metagame.belongings.inventory.store import (
    INVENTORY_SIZES,
    ITEM_LOG,
    ITEM_STACKS,
    LOG_DAYS,
)
from svcserver.metagame.belongings.items import Size, stack_bytes

SAVES, STACKS = 2, 5  # of each account
SAVE_BYTES = 2_000
PART = 5_000
BORN = 1_700_000_000
LOG_PART = 250_000  # rows
LOOT = {f"ITEM_LOOT_{n:03d}": 1 for n in range(5)}
LOG_ROWS = """
WITH RECURSIVE numbers(n) AS (SELECT :first UNION ALL SELECT n + 1 FROM numbers WHERE n < :last)
INSERT INTO item_log (character_id, transaction_id, at, caller, source, changes, answer)
SELECT 'old-' || (n * 7919 % :accounts), lower(hex(randomblob(16))),
       CAST(:since + n * :step AS INTEGER), 'client', 'hunt', :changes, :answer
FROM numbers
"""


def populate(file: Path, accounts: int, items: int = 0) -> None:
    """Create the database with ``accounts`` accounts, and ``items`` rows in the item log."""
    engine = make_engine(database_url(f"sqlite:///{file}"))
    migrations.upgrade(engine)
    for first in range(0, accounts, PART):
        numbers = range(first, min(first + PART, accounts))
        with transaction(engine) as tx:
            tx.execute(insert(ACCOUNTS), [_account(n) for n in numbers])
            tx.execute(insert(ACCOUNT_KEYS), [_key(n) for n in numbers])
            tx.execute(insert(CHARACTERS), [_character(n) for n in numbers])
            tx.execute(insert(CHARACTER_SAVES), list(_saves(numbers)))
            tx.execute(insert(ITEM_STACKS), list(_stacks(numbers)))
            tx.execute(insert(INVENTORY_SIZES), [_size(n) for n in numbers])
    if items:
        _log(engine, accounts, items)
    engine.dispose()


def _log(engine: Engine, accounts: int, items: int) -> None:
    """Fill the item log with the transactions of the last ``LOG_DAYS`` days.

    The indexes of the log are built last.
    """
    span_ms = (LOG_DAYS - 1) * 86_400_000
    fixed = {
        "accounts": accounts,
        "since": int(time.time() * 1000) - span_ms,
        "step": span_ms / items,
        "changes": orjson.dumps({"added": LOOT, "totals": LOOT}),
        "answer": orjson.dumps({"stackedItems": LOOT, "instancedItems": {}}),
    }
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        # an incomplete database is of no use anyway
        connection.exec_driver_sql("PRAGMA synchronous=OFF")
        connection.exec_driver_sql("PRAGMA cache_size=-524288")  # for sorting the indexes
        for index in ITEM_LOG.indexes:
            connection.execute(DropIndex(index))
        for first in range(0, items, LOG_PART):
            last = min(first + LOG_PART, items) - 1
            connection.execute(text(LOG_ROWS), {**fixed, "first": first, "last": last})
        for index in ITEM_LOG.indexes:
            connection.execute(CreateIndex(index))


def key_of(n: int) -> str:
    """Return the key with which the account logs in."""
    return f"key-of-old-account-{n}"


def _account(n: int) -> dict[str, object]:
    return {
        "id": f"UID_{n:032x}",
        "username": f"old{n}",
        "username_folded": f"old{n}",
        "is_admin": 0,
        "notes": 0,
        "created_at": BORN,
    }


def _key(n: int) -> dict[str, object]:
    return {"key_hash": fingerprint(key_of(n)), "account_id": f"UID_{n:032x}"}


def _character(n: int) -> dict[str, object]:
    return {
        "id": f"old-{n}",
        "account_id": f"UID_{n:032x}",
        "name": f"old{n}",
        "update_version": SAVES,
        "created_at": BORN,
        "modified_at": BORN,
        "save_id": (n + 1) * SAVES,
    }


def _saves(numbers: range) -> Iterator[dict[str, object]]:
    for n in numbers:
        for version in range(1, SAVES + 1):
            yield {
                "id": n * SAVES + version,
                "character_id": f"old-{n}",
                "version": version,
                "saved_at": BORN * 1000,
                "reason": "save",
                "size": SAVE_BYTES,
                "data": b'"' + b"x" * SAVE_BYTES + b'"',
            }


def _stacks(numbers: range) -> Iterator[dict[str, object]]:
    for n in numbers:
        for item in range(STACKS):
            yield {
                "character_id": f"old-{n}",
                "catalog_id": f"ITEM_{item:03d}",
                "quantity": 1,
                "extra": None,
            }


def _size(n: int) -> dict[str, object]:
    """Return the number and size of a character's items, by which the game limits the items."""
    size = Size()
    for item in range(STACKS):
        size += Size(1, stack_bytes(f"ITEM_{item:03d}", None))
    return {"character_id": f"old-{n}", "items": size.items, "bytes": size.bytes}


def main() -> None:
    """Create the file."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("file", type=Path)
    options.add_argument("--accounts", type=int, default=100_000)
    options.add_argument("--items", type=int, default=10_000_000)
    arguments = options.parse_args()
    if arguments.file.exists():
        options.error(f"{arguments.file} exists; choose another name")
    populate(arguments.file, arguments.accounts, arguments.items)


if __name__ == "__main__":
    main()
