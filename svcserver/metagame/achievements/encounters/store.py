"""The table of encountered content."""

from __future__ import annotations

from attrs import frozen
from sqlalchemy import (
    Column,
    Connection,
    Integer,
    String,
    Table,
    UniqueConstraint,
    bindparam,
    func,
    insert,
    select,
)

from svcserver.db.tables import METADATA, ROW_ID
from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.metagame.belongings.characters.store import CHARACTERS

ENCOUNTERED_CONTENT = Table(
    "encountered_content",
    METADATA,
    Column("seq", ROW_ID, primary_key=True, autoincrement=True),
    Column("character_id", String(64), nullable=False),
    Column("content_type", Integer, nullable=False),
    Column("content_id", String(128), nullable=False),
    UniqueConstraint("character_id", "content_type", "content_id"),
)
_E = ENCOUNTERED_CONTENT.c
_OF = (
    select(_E.content_type, _E.content_id)
    .where(_E.character_id == bindparam("character"))
    .order_by(_E.seq)
)
_HAS = select(_E.seq).where(
    _E.character_id == bindparam("character"),
    _E.content_type == bindparam("kind"),
    _E.content_id == bindparam("name"),
)
_COUNT = select(func.count()).where(_E.character_id == bindparam("character"))
_ADD = insert(ENCOUNTERED_CONTENT)
_OWNER = select(CHARACTERS.c.account_id).where(CHARACTERS.c.id == bindparam("character"))


def owner_of(tx: Connection, character_id: CharacterId) -> AccountId | None:
    """Whose the character is; None for an unknown one."""
    if "\0" in character_id:
        return None  # which no column holds
    owner: AccountId | None = tx.execute(_OWNER, {"character": character_id}).scalar()
    return owner


@frozen
class SqlEncounters:
    """``rules.Encounters`` on an open transaction."""

    tx: Connection

    def of(self, character_id: CharacterId) -> dict[int, list[str]]:
        """Content ids by type, oldest first."""
        found: dict[int, list[str]] = {}
        for kind, name in self.tx.execute(_OF, {"character": character_id}):
            found.setdefault(kind, []).append(name)
        return found

    def has(self, character_id: CharacterId, kind: int, name: str) -> bool:
        wanted = {"character": character_id, "kind": kind, "name": name}
        return self.tx.execute(_HAS, wanted).first() is not None

    def count(self, character_id: CharacterId) -> int:
        return int(self.tx.execute(_COUNT, {"character": character_id}).scalar_one())

    def add(self, character_id: CharacterId, kind: int, name: str) -> None:
        row = {"character_id": character_id, "content_type": kind, "content_id": name}
        self.tx.execute(_ADD, row)
