"""A database as it is after long use: many accounts, each with a character, saves and items."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import insert

from svcserver.db import migrations
from svcserver.db.engine import database_url, make_engine
from svcserver.db.transaction import transaction
from svcserver.metagame.accounts.store import ACCOUNT_KEYS, ACCOUNTS
from svcserver.metagame.belongings.characters.store import CHARACTER_SAVES, CHARACTERS
from svcserver.metagame.belongings.inventory.store import INVENTORY_SIZES, ITEM_STACKS
from svcserver.metagame.belongings.items import Size, stack_bytes

SAVES, STACKS = 2, 5  # of each account
SAVE_BYTES = 2_000
PART = 5_000
BORN = 1_700_000_000


def populate(file: Path, accounts: int) -> None:
    """Create the database with the given number of accounts."""
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
    engine.dispose()


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
    return {"key_hash": f"{n:064x}", "account_id": f"UID_{n:032x}"}


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
    """Return the counts that the rules store to limit a character's items."""
    size = Size()
    for item in range(STACKS):
        size += Size(1, stack_bytes(f"ITEM_{item:03d}", None))
    return {"character_id": f"old-{n}", "items": size.items, "bytes": size.bytes}
