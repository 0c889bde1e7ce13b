"""Queries on save histories: listing without data, rollback, thinning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import frozen
from sqlalchemy import Connection, bindparam, delete, select

from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.metagame.belongings.characters.store import CHARACTER_SAVES, CHARACTERS
from svcserver.metagame.belongings.documents import Document
from svcserver.metagame.belongings.loadouts.store import LOADOUT_ELEMENTS, LOADOUT_SAVES, ids_in
from svcserver.metagame.belongings.savehistory.rules import Retention, Save, SaveHistory, thinned
from svcserver.metagame.settings import Settings

_C, _S, _L, _E = CHARACTERS.c, CHARACTER_SAVES.c, LOADOUT_SAVES.c, LOADOUT_ELEMENTS.c
_CHARACTER: Any = bindparam("character")
_HEADS = select(_C.id, _C.account_id, _C.name, _C.update_version)
_BY_ID = _HEADS.where(_C.id == _CHARACTER)
_BY_ACCOUNT = _HEADS.where(_C.account_id == bindparam("account")).order_by(_C.created_at, _C.id)
_SAVES = (
    select(_S.version, _S.saved_at, _S.reason, _S.size)
    .where(_S.character_id == _CHARACTER)
    .order_by(_S.id.desc())
)
_LOADOUT_SAVES = (
    select(_L.version, _L.saved_at, _L.reason)
    .where(_L.character_id == _CHARACTER)
    .order_by(_L.id.desc())
)
_DOCUMENT = (
    select(_S.data, _S.size)
    .where(_S.character_id == _CHARACTER, _S.version == bindparam("version"))
    .order_by(_S.id.desc())
    .limit(1)
)
_TIMES = select(_S.id, _S.saved_at, _S.request_id).where(_S.character_id == _CHARACTER)
_DROP = delete(CHARACTER_SAVES).where(_S.id == bindparam("gone"))
_LOADOUT_TIMES = select(_L.id, _L.saved_at, _L.request_id).where(_L.character_id == _CHARACTER)
_DROP_LOADOUT = delete(LOADOUT_SAVES).where(_L.id == bindparam("gone"))
_LISTED = select(_L.elements).where(_L.character_id == _CHARACTER)
_ELEMENTS = select(_E.id).where(_E.character_id == _CHARACTER)
_DROP_ELEMENT = delete(LOADOUT_ELEMENTS).where(_E.id == bindparam("gone"))

Rows = list[Any]


@frozen
class SqlHistories:
    """The tables of characters and their histories, within one transaction."""

    tx: Connection

    def document(self, character_id: CharacterId, version: int) -> Document | None:
        values = {"character": character_id, "version": version}
        row = self.tx.execute(_DOCUMENT, values).first()
        return None if row is None else Document(*row)

    def heads(self, account_id: AccountId | None, character_id: CharacterId | None) -> Rows:
        """Return the character with this id; without an id, all characters of the account."""
        if character_id is not None:
            return list(self.tx.execute(_BY_ID, {"character": character_id}))
        return list(self.tx.execute(_BY_ACCOUNT, {"account": account_id}))

    def kept(self, head: Any) -> SaveHistory:
        """Return the history of a character; ``head`` is a row of ``heads``."""
        character_id, account_id, name, version = head
        saves, loadout_saves = self.saves(character_id), self.loadout_saves(character_id)
        return SaveHistory(character_id, account_id, name, version, saves, loadout_saves)

    def saves(self, character_id: CharacterId) -> Rows:
        """Return the version, time, reason and size of each save, newest first."""
        return list(self.tx.execute(_SAVES, {"character": character_id}))

    def loadout_saves(self, character_id: CharacterId) -> Rows:
        """Return the version, time and reason of each save of the loadouts, newest first."""
        return list(self.tx.execute(_LOADOUT_SAVES, {"character": character_id}))


@frozen
class Thinning:
    """The deletion of saves that need not be kept; it runs in the transaction of each save."""

    retention: Retention

    @classmethod
    def of(cls, settings: Settings) -> Thinning | None:
        """Return the thinning that the settings describe; None if SAVE_HISTORY_KEEP is not set."""
        keep = settings.save_history_keep
        if keep is None:
            return None
        return cls(Retention(keep, settings.save_history_hourly, settings.save_history_daily))

    def characters(self, tx: Connection, character_id: CharacterId, now: float) -> None:
        """Thin a character's history. The newest save is never deleted."""
        self._thin(tx, _TIMES, _DROP, character_id, now)

    def loadouts(self, tx: Connection, character_id: CharacterId, now: float) -> None:
        """Thin the history of loadouts, and delete elements that no history row lists any more."""
        if not self._thin(tx, _LOADOUT_TIMES, _DROP_LOADOUT, character_id, now):
            return
        wanted = {"character": character_id}
        listed = ids_in(tx.execute(_LISTED, wanted).scalars())
        _drop(tx, _DROP_ELEMENT, set(tx.execute(_ELEMENTS, wanted).scalars()) - listed)

    def _thin(
        self, tx: Connection, times: Any, drop: Any, character_id: CharacterId, now: float
    ) -> bool:
        saves = [Save(*row) for row in tx.execute(times, {"character": character_id})]
        return _drop(tx, drop, thinned(saves, self.retention, now))


def _drop(tx: Connection, statement: Any, ids: Iterable[int]) -> bool:
    values = [{"gone": row_id} for row_id in ids]
    if values:
        tx.execute(statement, values)
    return bool(values)
