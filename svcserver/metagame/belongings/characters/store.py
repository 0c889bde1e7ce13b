"""The tables of characters and their saves.

A document is stored once, in the row of its save. The character's row refers to the newest save.
"""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from attrs import frozen

from svcserver.db.tables import METADATA, ROW_ID
from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Conflict
from svcserver.metagame.belongings.characters import rules
from svcserver.metagame.belongings.documents import Document
from svcserver.metagame.once import of_requests

AfterSave = Callable[[sa.Connection, CharacterId, float], None]
"""A function that deletes old saves; each save calls it with the character and the time."""

CHARACTERS = sa.Table(
    "characters",
    METADATA,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("account_id", sa.String(64), nullable=False, index=True),
    sa.Column("name", sa.String(64), nullable=False),
    sa.Column("update_version", sa.BigInteger, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),  # epoch seconds, like the columns below
    sa.Column("modified_at", sa.BigInteger, nullable=False),
    sa.Column("save_id", sa.BigInteger, nullable=False),
)
CHARACTER_SAVES = sa.Table(
    "character_saves",
    METADATA,
    sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
    sa.Column("character_id", sa.String(64), nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("saved_at", sa.BigInteger, nullable=False),  # epoch milliseconds
    sa.Column("reason", sa.String(64), nullable=False),
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),  # a JSON string: ``rules.Document.literal``
    sa.Column("request_id", sa.String(32), nullable=True),  # see ``once``
    sa.Index("ix_character_saves_character_id", "character_id", "id"),
    of_requests("ux_character_saves_request_id"),
)

_C = CHARACTERS.c
_WHOLE = sa.select(
    _C.id,
    _C.account_id,
    _C.name,
    _C.update_version,
    _C.created_at,
    _C.modified_at,
    CHARACTER_SAVES.c.data,
    CHARACTER_SAVES.c.size,
).join(CHARACTER_SAVES, CHARACTER_SAVES.c.id == _C.save_id)
_OF_ACCOUNT = _WHOLE.where(_C.account_id == sa.bindparam("account")).order_by(_C.created_at, _C.id)
_SAVED_BY = (
    sa.select(
        _C.id,
        _C.account_id,
        _C.name,
        CHARACTER_SAVES.c.version,
        _C.created_at,
        CHARACTER_SAVES.c.saved_at,
        CHARACTER_SAVES.c.data,
        CHARACTER_SAVES.c.size,
    )
    .join(CHARACTER_SAVES, CHARACTER_SAVES.c.character_id == _C.id)
    .where(CHARACTER_SAVES.c.request_id == sa.bindparam("request"))
)
_COUNT = (
    sa.select(sa.func.count())
    .select_from(CHARACTERS)
    .where(_C.account_id == sa.bindparam("account"))
)
_HEAD = sa.select(
    _C.id, _C.account_id, _C.name, _C.update_version, _C.created_at, _C.modified_at
).where(_C.id == sa.bindparam("wanted"))
_HIGHEST = sa.select(sa.func.max(CHARACTER_SAVES.c.version)).where(
    CHARACTER_SAVES.c.character_id == sa.bindparam("character"),
    CHARACTER_SAVES.c.version < sa.bindparam("below"),
)
_ADD = sa.insert(CHARACTERS)
_ADD_SAVE = sa.insert(CHARACTER_SAVES).returning(CHARACTER_SAVES.c.id)
_POINT = (
    sa.update(CHARACTERS)
    .where(_C.id == sa.bindparam("wanted"))
    .values(
        update_version=sa.bindparam("version"),
        modified_at=sa.bindparam("at"),
        save_id=sa.bindparam("save"),
    )
)
_RENAME = (
    sa.update(CHARACTERS)
    .where(_C.account_id == sa.bindparam("account"))
    .values(name=sa.bindparam("new_name"))
)


@frozen
class SqlCharacters:
    """The tables of characters, within one transaction.

    Each save is stored with ``request_id``, the id of the request that made it.
    """

    tx: sa.Connection
    request_id: str = ""

    def of_account(self, account_id: AccountId) -> list[rules.Character]:
        """Return the account's characters with their data, oldest first."""
        rows = self.tx.execute(_OF_ACCOUNT, {"account": account_id})
        return [rules.Character(*row[:-2], data=Document(*row[-2:])) for row in rows]

    def saved_by(self, request_id: str) -> rules.Character | None:
        """Return the character as this request saved it, or None if the request saved nothing."""
        row = self.tx.execute(_SAVED_BY, {"request": request_id}).first()
        if row is None:
            return None
        before = rules.Head(*row[:5], row.saved_at)
        return before.saved(
            Document(row.data, row.size), before.update_version, row.saved_at // 1000
        )

    def find(self, character_id: CharacterId) -> rules.Head | None:
        if "\0" in character_id:
            return None
        row = self.tx.execute(_HEAD, {"wanted": character_id}).first()
        return None if row is None else rules.Head(*row)

    def all_of(self, account_id: AccountId, username: str, now: float) -> list[rules.Character]:
        """Return the account's characters; if none exists, create one named after the user."""
        characters = self.of_account(account_id)
        if not characters:
            characters = [rules.new_character(account_id, username[: rules.MAX_NAME], now)]
            self.add(characters[0])
        return characters

    def create(self, account_id: AccountId, name: str, now: float) -> rules.Character:
        """Create a character; raises Conflict if the account has ``MAX_CHARACTERS`` already."""
        if self.tx.execute(_COUNT, {"account": account_id}).scalar_one() >= rules.MAX_CHARACTERS:
            raise Conflict("this account has the maximum number of characters")
        character = rules.new_character(account_id, name, now)
        self.add(character)
        return character

    def add(self, character: rules.Character) -> None:
        """Insert a character and its first history row."""
        self.tx.execute(
            _ADD,
            {
                "id": character.id,
                "account_id": character.account_id,
                "name": character.name,
                "update_version": character.update_version,
                "created_at": int(character.created_at),
                "modified_at": int(character.modified_at),
                "save_id": self._add_save(character, rules.BASELINE),
            },
        )

    def save(self, character: rules.Character, reason: str) -> None:
        """Insert a history row and make the character's row refer to it."""
        self.tx.execute(
            _POINT,
            {
                "wanted": character.id,
                "version": character.update_version,
                "at": int(character.modified_at),
                "save": self._add_save(character, reason),
            },
        )

    def make_newest(
        self, before: rules.Head, data: Document, now: float, reason: str
    ) -> rules.Character:
        """Save ``data`` under a new version, which becomes the newest version."""

        def highest(below: int) -> int:
            values = {"character": before.id, "below": below}
            return int(self.tx.execute(_HIGHEST, values).scalar_one() or 0)

        after = before.saved(data, rules.next_version(before.update_version, highest), now)
        self.save(after, reason)
        return after

    def _add_save(self, character: rules.Character, reason: str) -> Any:
        row = {
            "character_id": character.id,
            "version": character.update_version,
            "saved_at": int(character.modified_at * 1000),
            "reason": reason,
            "size": character.data.size,
            "data": character.data.literal,
            "request_id": self.request_id or None,
        }
        return self.tx.execute(_ADD_SAVE, row).scalar_one()


def rename_characters(tx: sa.Connection, account_id: AccountId, name: str) -> None:
    """Give all characters of the account this name."""
    tx.execute(_RENAME, {"account": account_id, "new_name": name})
