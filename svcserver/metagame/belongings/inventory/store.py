"""The tables of inventories.

The item log has a row for each transaction. The row includes the reply, which is sent again if the
transaction is repeated.
"""

from typing import Any

import orjson
import sqlalchemy as sa
from attrs import define

from svcserver.db.tables import METADATA, ROW_ID, chunks
from svcserver.db.upsert import Upsert
from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.system import system
from svcserver.metagame.belongings.characters.store import CHARACTERS
from svcserver.metagame.belongings.inventory import rules
from svcserver.metagame.belongings.items import NOTHING, Instance, Size, Stacked, Transaction

ITEM_STACKS = sa.Table(
    "item_stacks",
    METADATA,
    sa.Column("character_id", sa.String(64), primary_key=True),
    sa.Column("catalog_id", sa.String(256), primary_key=True),
    sa.Column("quantity", sa.BigInteger, nullable=False),
    sa.Column("extra", sa.LargeBinary, nullable=True),  # a JSON object with the unknown keys
    sqlite_with_rowid=False,
)
ITEM_INSTANCES = sa.Table(
    "item_instances",
    METADATA,
    sa.Column("character_id", sa.String(64), primary_key=True),
    sa.Column("instance_id", sa.String(256), primary_key=True),
    sa.Column("catalog_id", sa.String(256), nullable=False),
    sa.Column("update_version", sa.BigInteger, nullable=True),
    sa.Column("stateless", sa.Boolean, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),  # the item as sent, as JSON
)
INVENTORY_SIZES = sa.Table(
    "inventory_sizes",
    METADATA,
    sa.Column("character_id", sa.String(64), primary_key=True),
    sa.Column("items", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
)
ITEM_LOG = sa.Table(
    "item_log",
    METADATA,
    sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
    sa.Column("character_id", sa.String(64), nullable=False),
    sa.Column("transaction_id", sa.String(80), nullable=True),
    sa.Column("at", sa.BigInteger, nullable=False, index=True),  # epoch milliseconds
    sa.Column("caller", sa.String(16), nullable=False),
    sa.Column("source", sa.String(256), nullable=False),
    sa.Column("changes", sa.LargeBinary, nullable=False),
    sa.Column("answer", sa.LargeBinary, nullable=True),
    sa.Index("ux_item_log_transaction", "character_id", "transaction_id", unique=True),
)

LOG_DAYS = 90
LOG_ROW = 512  # estimated bytes of a row and its index entries, without changes and reply
LOG_PARTS = 8  # average number of cuts while an account adds ``log_bytes`` bytes to its log

_C, _S, _I, _L = CHARACTERS.c, ITEM_STACKS.c, ITEM_INSTANCES.c, ITEM_LOG.c
_Z = INVENTORY_SIZES.c
_OWNER = sa.select(_C.account_id).where(_C.id == sa.bindparam("character"))
_SIZED = CHARACTERS.outerjoin(INVENTORY_SIZES, _Z.character_id == _C.id)
_HOLDER = (
    sa.select(_C.account_id, sa.null(), _Z["items"], _Z.bytes)
    .select_from(_SIZED)
    .where(_C.id == sa.bindparam("character"))
)
_HOLDER_AND_ANSWER = (
    sa.select(_C.account_id, _L.answer, _Z["items"], _Z.bytes)
    .select_from(
        _SIZED.outerjoin(
            ITEM_LOG,
            sa.and_(_L.character_id == _C.id, _L.transaction_id == sa.bindparam("transaction")),
        )
    )
    .where(_C.id == sa.bindparam("character"))
)
_FEW = ("id1", "id2", "id3", "id4")  # a transaction rarely changes more than four stacks
_FEW_STACKS = {  # for SQLite, which copies the ids of _STACKS to a temporary table first
    count: sa.union_all(
        *(
            sa.select(_S.catalog_id, _S.quantity, _S.extra).where(
                _S.character_id == sa.bindparam("character"), _S.catalog_id == sa.bindparam(name)
            )
            for name in _FEW[:count]
        )
    )
    for count in range(1, len(_FEW) + 1)
}
_STACKS = sa.select(_S.catalog_id, _S.quantity, _S.extra).where(
    _S.character_id == sa.bindparam("character"),
    _S.catalog_id.in_(sa.bindparam("ids", expanding=True)),
)
_INSTANCES = sa.select(
    _I.instance_id, _I.catalog_id, _I.update_version, _I.stateless, _I.body
).where(
    _I.character_id == sa.bindparam("character"),
    _I.instance_id.in_(sa.bindparam("ids", expanding=True)),
)
_DROP_STACK = sa.delete(ITEM_STACKS).where(
    _S.character_id == sa.bindparam("character"), _S.catalog_id == sa.bindparam("id")
)
_DROP_INSTANCE = sa.delete(ITEM_INSTANCES).where(
    _I.character_id == sa.bindparam("character"), _I.instance_id == sa.bindparam("id")
)
_NOTE = sa.insert(ITEM_LOG)
_ALL_STACKS = (
    sa.select(_S.catalog_id, _S.quantity, _S.extra)
    .where(_S.character_id == sa.bindparam("character"))
    .order_by(_S.catalog_id)
)
_ALL_INSTANCES = (
    sa.select(_I.body).where(_I.character_id == sa.bindparam("character")).order_by(_I.instance_id)
)
_HELD = sa.union_all(
    sa.select(_S.catalog_id).where(_S.character_id == sa.bindparam("character")),
    sa.select(_I.catalog_id).where(_I.character_id == sa.bindparam("character")),
)
_ITS = _OWNER.scalar_subquery()
_OF_OWNER = _L.character_id.in_(sa.select(_C.id).where(_C.account_id == _ITS))
_LOGGED = (  # each row of the account's log, with the total bytes of it and all newer rows
    sa.select(
        _L.id,
        sa.func.sum(
            LOG_ROW + sa.func.length(_L.changes) + sa.func.coalesce(sa.func.length(_L.answer), 0)
        )
        .over(order_by=_L.id.desc())
        .label("bytes"),
    )
    .where(_OF_OWNER)
    .subquery()
)
_CUT = sa.delete(ITEM_LOG).where(
    _OF_OWNER,
    _L.id
    <= sa.select(sa.func.max(_LOGGED.c.id))
    .where(_LOGGED.c.bytes > sa.bindparam("most"))
    .scalar_subquery(),
)
_FORGET = sa.delete(ITEM_LOG).where(_L.at < sa.bindparam("before"))

# A character at version 0 was never saved. Among the others, the highest ``save_id`` is newest.
ACTIVE_CHARACTER = (
    sa.select(_C.id)
    .where(_C.account_id == sa.bindparam("account"))
    .order_by(
        sa.case((_C.update_version > 0, _C.save_id), else_=0).desc(),
        _C.modified_at.desc(),
        _C.update_version.desc(),
        _C.id,
    )
    .limit(1)
)
"""The most recently saved character of the account; if none was saved, the newest character."""


_PUT_STACKS = Upsert(ITEM_STACKS, retained_for_null=("extra",))
_PUT_INSTANCES = Upsert(ITEM_INSTANCES)
_PUT_SIZE = Upsert(INVENTORY_SIZES)


@define  # not frozen, for speed: every transaction creates one
class SqlInventory:
    """The tables of inventories, within one transaction.

    Each account's item log has at most about ``log_bytes`` bytes.
    """

    tx: sa.Connection
    log_bytes: int = rules.LOG_BYTES

    def transact(
        self,
        account_id: AccountId,
        character_id: CharacterId | None,
        deal: Transaction,
        by: rules.By,
        policy: rules.Policy,
        now: float,
    ) -> rules.Done:
        """Apply the transaction ``deal`` completely, or raise an error.

        If an earlier transaction had the same id, its stored reply is returned and nothing changes,
        even if ``deal`` is different. ``now`` is in epoch seconds.

        Raises Forbidden if the character does not belong to the account. Raises Conflict if the
        character would hold more than allowed. Also raises the errors of ``rules.plan``.
        """
        transaction_id = deal.transaction_id
        holder = rules.check_owner(self.holder(character_id, transaction_id), account_id)
        if holder.answer is not None:
            return rules.Done(holder.answer)
        owned, stack_ids, instance_ids = holder.character_id, deal.catalog_ids, deal.instance_ids
        stacks = self.stacks(owned, stack_ids) if stack_ids else {}
        result = rules.plan(deal, stacks, self.instances(owned, instance_ids), policy)
        answer = deal.answer(result.report(deal, policy))
        if not stack_ids and not instance_ids:
            return rules.Done(answer)
        self.grow(owned, holder.size, result.growth, policy)
        if result.stacks:
            self.put_stacks(owned, result.stacks)
        self._drop(_DROP_STACK, owned, result.dropped_stacks)
        self._drop(_DROP_INSTANCE, owned, result.dropped_instances)
        if result.instances:
            self.put_instances(owned, list(result.instances.values()))
        stored = None if transaction_id is None else answer  # without an id there are no repeats
        at_ms = int(now * 1000)
        self.note(rules.Note(owned, transaction_id, at_ms, by, deal.source, result.changes, stored))
        return rules.Done(answer, result.oddities)

    def holder(
        self, character_id: CharacterId | None, transaction_id: str | None
    ) -> rules.InventoryHolder | None:
        """Return the character's account and inventory size, or None for an unknown character.

        If the transaction is a repeat, the result has the stored reply.
        """
        if not isinstance(character_id, str) or "\0" in character_id:
            return None
        if transaction_id is None:
            row = self.tx.execute(_HOLDER, {"character": character_id}).first()
        else:
            values = {"character": character_id, "transaction": transaction_id}
            row = self.tx.execute(_HOLDER_AND_ANSWER, values).first()
        if row is None:
            return None
        owner, answer, items, size = row
        return rules.InventoryHolder(
            character_id, owner, answer, NOTHING if items is None else Size(items, size)
        )

    def grow(
        self, character_id: CharacterId, held: Size, growth: Size, policy: rules.Policy
    ) -> None:
        """Update the stored size of an inventory; raises Conflict if it would be too large.

        Call this before all other writes.
        """
        if growth.items or growth.bytes:
            size = policy.grown(held, growth)
            row = {"character_id": character_id, "items": size.items, "bytes": size.bytes}
            self.tx.execute(_PUT_SIZE.statement(self.tx.dialect.name), row)

    def stacks(self, character_id: CharacterId, ids: list[str]) -> dict[str, Stacked]:
        """Return the held stacks that have one of these ids."""
        if 0 < len(ids) <= len(_FEW):
            values = {"character": character_id, **dict(zip(_FEW, ids, strict=False))}
            rows = self.tx.execute(_FEW_STACKS[len(ids)], values)
            return {row[0]: Stacked(*row) for row in rows}
        return {
            row[0]: Stacked(*row)
            for chunk in chunks(ids)
            for row in self.tx.execute(_STACKS, {"character": character_id, "ids": chunk})
        }

    def instances(self, character_id: CharacterId, ids: list[str]) -> dict[str, Instance]:
        """Return the held instanced items that have one of these ids."""
        return {
            row[0]: Instance(*row)
            for chunk in chunks(ids)
            for row in self.tx.execute(_INSTANCES, {"character": character_id, "ids": chunk})
        }

    def put_stacks(self, character_id: CharacterId, totals: list[Stacked]) -> None:
        rows = [
            {
                "character_id": character_id,
                "catalog_id": stack.catalog_id,
                "quantity": stack.quantity,
                "extra": stack.extra,
            }
            for stack in totals
        ]
        _PUT_STACKS.put(self.tx, rows)

    def put_instances(self, character_id: CharacterId, items: list[Instance]) -> None:
        rows = [
            {
                "character_id": character_id,
                "instance_id": item.instance_id,
                "catalog_id": item.catalog_id,
                "update_version": item.version,
                "stateless": item.stateless,
                "body": item.body,
            }
            for item in items
        ]
        _PUT_INSTANCES.put(self.tx, rows)

    def _drop(self, statement: Any, character_id: CharacterId, ids: list[str]) -> None:
        if ids:
            self.tx.execute(statement, [{"character": character_id, "id": name} for name in ids])

    def note(self, note: rules.Note) -> None:
        """Insert a row into the item log; now and then, delete the log's oldest rows."""
        changes = orjson.dumps(note.changes)
        self.tx.execute(
            _NOTE,
            {
                "character_id": note.character_id,
                "transaction_id": note.transaction_id,
                "at": note.at_ms,
                "caller": str(note.by),
                "source": note.source,
                "changes": changes,
                "answer": note.answer,
            },
        )
        added = LOG_ROW + len(changes) + len(note.answer or b"")
        # cut at random times, because the log's size takes long to compute
        if system().fraction() * self.log_bytes < LOG_PARTS * added:
            cut_log(self.tx, note.character_id, self.log_bytes)


def inventory_of(tx: sa.Connection, character_id: CharacterId) -> bytes:
    """Return a JSON object with all stacks and instanced items that the character holds."""
    rows = tx.execute(_ALL_STACKS, {"character": character_id})
    stacks = [
        {"catalogId": catalog_id, "quantity": quantity}
        if extra is None
        else {"catalogId": catalog_id, "quantity": quantity, **orjson.loads(extra)}
        for catalog_id, quantity, extra in rows
    ]
    bodies = tx.execute(_ALL_INSTANCES, {"character": character_id}).scalars()
    instances = b",".join(bodies)
    return b'{"characterId":%s,"instancedItems":[%s],"stackedItems":%s}' % (
        orjson.dumps(character_id),
        instances,
        orjson.dumps(stacks),
    )


def held_by(tx: sa.Connection, character_id: CharacterId) -> set[str]:
    """Return the catalogue ids of the stacks and instanced items that a character holds."""
    return set(tx.execute(_HELD, {"character": character_id}).scalars())


def owner_of(tx: sa.Connection, character_id: CharacterId) -> AccountId | None:
    """Return the character's account, or None for an unknown character."""
    if "\0" in character_id:
        return None
    owner: AccountId | None = tx.execute(_OWNER, {"character": character_id}).scalar()
    return owner


def active_character(tx: sa.Connection, account_id: AccountId) -> CharacterId | None:
    """Return the account's ``ACTIVE_CHARACTER``, or None if the account has no character."""
    active: CharacterId | None = tx.execute(ACTIVE_CHARACTER, {"account": account_id}).scalar()
    return active


def cut_log(tx: sa.Connection, character_id: CharacterId, most: int) -> int:
    """Delete the oldest log rows of the character's account; keep at most ``most`` bytes."""
    return tx.execute(_CUT, {"character": character_id, "most": most}).rowcount


def forget_old(tx: sa.Connection, now: float) -> int:
    """Delete log rows (with their replies) older than ``LOG_DAYS``; return the number of rows."""
    before = int((now - LOG_DAYS * 86_400) * 1000)
    return tx.execute(_FORGET, {"before": before}).rowcount
