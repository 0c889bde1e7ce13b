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


# the columns of each table that name an account; where one of them does, the row goes with it
OF_ACCOUNT: Mapping[str, tuple[str, ...]] = {
    "account_keys": ("account_id",),
    "account_networks": ("account_id",),
    "account_seen": ("account_id",),
    "banned_networks": ("account_id",),
    "blocks": ("blocker", "blocked"),
    "bounties": ("account_id",),
    "bounty_drafts": ("account_id",),
    "cooldowns": ("account_id",),
    "dashboard_access": ("account_id",),
    "entitlements": ("account_id",),
    "escalation_seasons": ("account_id",),
    "friendships": ("account_low", "account_high"),
    "guild_invites": ("account_id", "inviter_id"),
    "guild_members": ("account_id",),
    "hunt_passes": ("account_id",),
    "latest_hunts": ("account_id",),
    "passport_imports": ("account_id",),
    "progression_events": ("account_id",),
    "progression_last_grants": ("account_id",),
    "progression_objectives": ("account_id",),
    "progression_tracks": ("account_id",),
    "purchase_tokens": ("account_id",),
    "sanctions": ("account_id",),
    "slayer_invites": ("sender_id", "recipient_id"),
    "slayer_links": ("account_id", "other_id"),
}
OF_CHARACTER = (
    "breadcrumbs",
    "character_saves",
    "encountered_content",
    "inventory_sizes",
    "item_instances",
    "item_log",
    "item_stacks",
    "loadout_elements",
    "loadout_saves",
    "loadouts",
)
# the audit log keeps what staff did, and a deleted account's epoch ends its tokens
OF_NOBODY = (
    "announcements",
    "audit_log",
    "deleted_accounts",
    "gameserver_keys",
    "gameserver_keys_to_register",
    "guilds",
    "invite_codes",
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


def _rows(tx: Connection, account_id: AccountId) -> Iterator[tuple[Table, ColumnElement[bool]]]:
    """Each table with what is the account's there; those that others refer to come last."""
    tables = METADATA.tables
    characters = tables["characters"]
    mine = list(
        tx.execute(select(characters.c.id).where(characters.c.account_id == account_id)).scalars()
    )
    for name in OF_CHARACTER:
        yield tables[name], tables[name].c.character_id.in_(mine)
    for name, columns in OF_ACCOUNT.items():
        if name in tables:
            yield tables[name], or_(*(tables[name].c[one] == account_id for one in columns))
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
