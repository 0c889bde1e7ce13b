"""All data of one account, table by table, for export and deletion."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from svcserver.db.tables import ACCOUNT, METADATA
from svcserver.kernel.ids import AccountId
from svcserver.metagame.owner.wire import Cell, Tables

# Tables whose rows belong to no account. The rows of all other tables belong to the accounts in
# their ``account_columns``, or to a character. The audit log is here because it is kept, and
# ``deleted_accounts`` because its rows invalidate the tokens of deleted accounts.
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
    "registration_mode",
    "setting_changes",
    "signing_keys",
)
SECRET = (
    "account_keys",
    "dashboard_access",
    "dashboard_sessions",
    "purchase_tokens",
)  # never exported
MAX_EXPORT = 64 * 1024 * 1024  # bytes of text, plus ROW_BYTES per row
ROW_BYTES = 100


def exported(tx: sa.Connection, account_id: AccountId) -> tuple[Tables, dict[str, int]]:
    """Return, for each table, the exported rows and the number of omitted rows.

    Secrets are left out. The export has at most MAX_EXPORT bytes: small tables are complete, and
    large tables have only their newest rows. Omitted rows are never loaded into memory.
    """
    mine = [(table, rows) for table, rows in _rows(tx, account_id) if table.name not in SECRET]
    sizes = {str(table.name): _sizes(tx, table, rows) for table, rows in mine}
    taken, left = _shares(sizes, MAX_EXPORT)
    tables = {}
    for table, rows in mine:
        count = taken[str(table.name)]
        if count:
            newest = sa.select(table).where(rows).order_by(*_newest_first(table)).limit(count)
            newest_rows = [
                {str(name): _shown(value) for name, value in row._asdict().items()}
                for row in tx.execute(newest)
            ]
            tables[str(table.name)] = newest_rows[::-1]
    return tables, left


def _sizes(tx: sa.Connection, table: sa.Table, rows: sa.ColumnElement[bool]) -> list[int]:
    """Return the size of each row in bytes, the newest row first."""
    size: sa.ColumnElement[int] = sa.literal(ROW_BYTES)
    for column in table.c:
        if isinstance(column.type, sa.String | sa.LargeBinary):
            size = size + sa.func.coalesce(sa.func.length(column), 0)
    return list(tx.execute(sa.select(size).where(rows).order_by(*_newest_first(table))).scalars())


def _newest_first(table: sa.Table) -> list[sa.ColumnElement[Any]]:
    return [column.desc() for column in table.primary_key]


def _shares(sizes: Mapping[str, list[int]], most: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many rows of each table fit into ``most`` bytes, and how many do not.

    Space is given to the smallest table first; the larger tables share what is left.
    """
    taken, left, room = {}, {}, most
    by_size = sorted(sizes.items(), key=lambda entry: sum(entry[1]))
    for before, (name, each) in enumerate(by_size):
        share, used, count = room // (len(by_size) - before), 0, 0
        for size in each:
            if used + size > share:
                break
            used, count = used + size, count + 1
        taken[name], room = count, room - used
        if count < len(each):
            left[name] = len(each) - count
    return taken, left


def erase(tx: sa.Connection, account_id: AccountId) -> int:
    """Delete all rows of the account; return the number of deleted rows."""
    return sum(
        tx.execute(sa.delete(table).where(rows)).rowcount for table, rows in _rows(tx, account_id)
    )


def account_columns(table: sa.Table) -> tuple[str, ...]:
    """Return the columns that hold account ids; empty for a table without account ids."""
    if table.name in OF_NOBODY:
        return ()
    return tuple(
        str(column.name)
        for column in table.c
        if column.name == "account_id" or column.info == ACCOUNT
    )


def is_of_character(table: sa.Table) -> bool:
    """Return whether each row of the table belongs to a character and has no account id."""
    return "character_id" in table.c and not account_columns(table)


def _rows(
    tx: sa.Connection, account_id: AccountId
) -> Iterator[tuple[sa.Table, sa.ColumnElement[bool]]]:
    """Yield each table with the SQL condition for the account's rows.

    Tables to which other tables refer come last.
    """
    tables = METADATA.tables
    characters = tables["characters"]
    mine = list(
        tx.execute(
            sa.select(characters.c.id).where(characters.c.account_id == account_id)
        ).scalars()
    )
    for table in tables.values():
        columns = account_columns(table)
        if is_of_character(table):
            yield table, table.c.character_id.in_(mine)
        elif columns and table is not characters:
            yield table, sa.or_(*(table.c[name] == account_id for name in columns))
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
