"""Everything that is kept of one account, table by table: to hand it out, and to delete it."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

from sqlalchemy import ColumnElement, Connection, Table, delete, or_, select

from svcserver.db.tables import METADATA
from svcserver.kernel.ids import AccountId

Cell = str | int | float | bool | None


class AccountExport(TypedDict):
    """All that is kept of an account: rows by table, each with its columns by name."""

    account: str
    exportedAt: str
    tables: dict[str, list[dict[str, Cell]]]


# A row goes with the account that its ``account_id`` names, or with the character of its
# ``character_id``; a table that names accounts otherwise says here by which columns.
BY_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "blocks": ("blocker", "blocked"),
    "friendships": ("account_low", "account_high"),
    "guild_invites": ("account_id", "inviter_id"),
    "slayer_invites": ("sender_id", "recipient_id"),
    "slayer_links": ("account_id", "other_id"),
}
# the audit log keeps what staff did, and a deleted account's epoch ends its tokens
OF_NOBODY = (
    "announcements",
    "audit_log",
    "deleted_accounts",
    "figures",
    "gameserver_keys",
    "gameserver_keys_to_register",
    "guilds",
    "invite_codes",
    "maintenance",
    "passport_hosts",
    "signing_keys",
)
SECRET = ("account_keys", "dashboard_access", "purchase_tokens")  # never handed out
MAX_EXPORT = 64 * 1024 * 1024  # bytes of texts


class TooLarge(Exception):
    """There is more than can be handed out at once."""


def exported(tx: Connection, account_id: AccountId) -> dict[str, list[dict[str, Cell]]]:
    """All rows of the account by table, without secrets; raises TooLarge."""
    found, size = {}, 0
    for table, rows in _rows(tx, account_id):
        if table.name in SECRET:
            continue
        kept = []
        for row in tx.execute(select(table).where(rows)):
            shown = {str(name): _shown(value) for name, value in row._asdict().items()}
            size += sum(len(one) for one in shown.values() if isinstance(one, str))
            if size > MAX_EXPORT:
                raise TooLarge
            kept.append(shown)
        if kept:
            found[str(table.name)] = kept
    return found


def erase(tx: Connection, account_id: AccountId) -> int:
    """Delete them; returns how many rows that were."""
    return sum(
        tx.execute(delete(table).where(rows)).rowcount for table, rows in _rows(tx, account_id)
    )


def account_columns(table: Table) -> tuple[str, ...]:
    """The columns that name the account whose row it is; none in a table that is nobody's."""
    if table.name in OF_NOBODY:
        return ()
    return BY_COLUMNS.get(table.name, ("account_id",) if "account_id" in table.c else ())


def is_of_character(table: Table) -> bool:
    """Whether a row goes with a character, and names no account."""
    return "character_id" in table.c and not account_columns(table)


def _rows(tx: Connection, account_id: AccountId) -> Iterator[tuple[Table, ColumnElement[bool]]]:
    """Each table with what is the account's there; those that others refer to come last."""
    tables = METADATA.tables
    characters = tables["characters"]
    mine = list(
        tx.execute(select(characters.c.id).where(characters.c.account_id == account_id)).scalars()
    )
    for table in tables.values():
        columns = account_columns(table)
        if is_of_character(table):
            yield table, table.c.character_id.in_(mine)
        elif columns and table is not characters:
            yield table, or_(*(table.c[one] == account_id for one in columns))
    yield characters, characters.c.account_id == account_id
    yield tables["accounts"], tables["accounts"].c.id == account_id


def _shown(value: Any) -> Cell:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    shown: Cell = value
    return shown
