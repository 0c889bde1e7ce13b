"""The tables of loadouts.

Each element is stored once. A history row lists the element ids of one loadout version.
"""

from collections.abc import Iterable, Mapping

import orjson
import sqlalchemy as sa
from attrs import evolve, frozen

from svcserver.db.tables import METADATA, ROW_ID
from svcserver.db.upsert import Upsert
from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Missing
from svcserver.metagame.belongings.inventory.store import owner_of
from svcserver.metagame.belongings.loadouts.rules import Loadout
from svcserver.metagame.once import of_requests

LOADOUTS = sa.Table(
    "loadouts",
    METADATA,
    sa.Column("character_id", sa.String(64), primary_key=True),
    sa.Column("character_slots", sa.Integer, nullable=False),
    sa.Column("active_index", sa.Integer, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("save_id", sa.BigInteger, nullable=True),  # the newest history row
)
LOADOUT_ELEMENTS = sa.Table(
    "loadout_elements",
    METADATA,
    sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
    sa.Column("character_id", sa.String(64), nullable=False, index=True),
    sa.Column("data", sa.LargeBinary, nullable=False),
)
LOADOUT_SAVES = sa.Table(
    "loadout_saves",
    METADATA,
    sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
    sa.Column("character_id", sa.String(64), nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("saved_at", sa.BigInteger, nullable=False),  # epoch milliseconds
    sa.Column("reason", sa.String(64), nullable=False),
    sa.Column("elements", sa.String(512), nullable=False),  # JSON: element name to id
    sa.Column("request_id", sa.String(32), nullable=True),  # see ``once``
    sa.Index("ux_loadout_saves_version", "character_id", "version", unique=True),
    of_requests("ux_loadout_saves_request_id"),
)

_L, _E, _S = LOADOUTS.c, LOADOUT_ELEMENTS.c, LOADOUT_SAVES.c
_FIND = sa.select(_L.character_id, _L.character_slots, _L.active_index, _L.version).where(
    _L.character_id == sa.bindparam("character")
)
_PUT = Upsert(LOADOUTS, retained=("save_id",))
_POINT = (
    sa.update(LOADOUTS)
    .where(_L.character_id == sa.bindparam("character"))
    .values(save_id=sa.bindparam("save"))
)
_ADD_ELEMENT = sa.insert(LOADOUT_ELEMENTS).returning(_E.id)
_ADD_SAVE = sa.insert(LOADOUT_SAVES).returning(_S.id)
_NEWEST = (
    sa.select(_S.elements)
    .join(LOADOUTS, _S.id == _L.save_id)
    .where(_L.character_id == sa.bindparam("character"))
)
_ELEMENTS = sa.select(_E.id, _E.data).where(_E.id.in_(sa.bindparam("ids", expanding=True)))
_SAVED = sa.select(_S.elements).where(
    _S.character_id == sa.bindparam("character"), _S.version == sa.bindparam("version")
)
_SAVED_BY = sa.select(_S.version, _S.elements).where(
    _S.character_id == sa.bindparam("character"), _S.request_id == sa.bindparam("request")
)


@frozen
class SqlLoadouts:
    """The tables of loadouts, within one transaction."""

    tx: sa.Connection

    def own(self, account_id: AccountId, character_id: CharacterId) -> Loadout:
        """Return the loadout of one of this account's characters; raises Missing."""
        if owner_of(self.tx, character_id) != account_id:
            raise Missing("not one of this account's characters")
        return self.find(character_id) or Loadout(character_id)

    def find(self, character_id: CharacterId) -> Loadout | None:
        if "\0" in character_id:
            return None
        row = self.tx.execute(_FIND, {"character": character_id}).first()
        return None if row is None else Loadout(*row)

    def put(self, loadout: Loadout) -> None:
        """Write the slot count, the active slot and the version; the elements stay unchanged."""
        row = {
            "character_id": loadout.character_id,
            "character_slots": loadout.character_slots,
            "active_index": loadout.active_index,
            "version": loadout.version,
            "save_id": None,
        }
        _PUT.put(self.tx, [row])

    def save(
        self,
        loadout: Loadout,
        changed: Mapping[str, bytes],
        at_ms: int,
        reason: str,
        request_id: str = "",
    ) -> None:
        """Write the loadout, the changed elements, and a history row that lists all elements."""
        held = self._held(loadout.character_id)
        for name, data in changed.items():
            row = {"character_id": loadout.character_id, "data": data}
            held[name] = self.tx.execute(_ADD_ELEMENT, row).scalar_one()
        self.restore(loadout, orjson.dumps(held).decode(), at_ms, reason, request_id)

    def elements(self, loadout: Loadout) -> dict[str, bytes]:
        """Return a dict from name to newest element; it is empty if the loadout was never saved."""
        return self._read_elements(self._held(loadout.character_id))

    def version(self, character_id: CharacterId, version: int) -> dict[str, bytes] | None:
        """Return a dict from name to element for this version, or None for an unknown version."""
        text = self.saved(character_id, version)
        return None if text is None else self._read_elements(ids_of(text))

    def saved_by(
        self, loadout: Loadout, request_id: str
    ) -> tuple[Loadout, dict[str, bytes]] | None:
        """Return the loadout and elements that this request saved, or None if it saved nothing."""
        values = {"character": loadout.character_id, "request": request_id}
        row = self.tx.execute(_SAVED_BY, values).first()
        if row is None:
            return None
        return evolve(loadout, version=row.version), self._read_elements(ids_of(row.elements))

    def roll_back(self, character_id: CharacterId, version: int, now: float) -> Loadout:
        """Roll a loadout back to an old version; return the loadout after the change.

        Raises Missing for an unknown character or version.
        """
        before, held = self.find(character_id), self.saved(character_id, version)
        if before is None or held is None:
            raise Missing("no such version")
        after = evolve(before, version=before.version + 1)
        self.restore(after, held, int(now * 1000), f"rollback:{version}")
        return after

    def saved(self, character_id: CharacterId, version: int) -> str | None:
        """Return the element ids of this version as JSON text, or None for an unknown version."""
        values = {"character": character_id, "version": version}
        elements: str | None = self.tx.execute(_SAVED, values).scalar()
        return elements

    def restore(
        self, loadout: Loadout, held: str, at_ms: int, reason: str, request_id: str = ""
    ) -> None:
        """Write the loadout and a history row; ``held`` has the row's element ids, as JSON text."""
        self.put(loadout)
        row = {
            "character_id": loadout.character_id,
            "version": loadout.version,
            "saved_at": at_ms,
            "reason": reason,
            "elements": held,
            "request_id": request_id or None,
        }
        save = self.tx.execute(_ADD_SAVE, row).scalar_one()
        self.tx.execute(_POINT, {"character": loadout.character_id, "save": save})

    def _read_elements(self, held: dict[str, int]) -> dict[str, bytes]:
        if not held:
            return {}
        rows = self.tx.execute(_ELEMENTS, {"ids": list(held.values())})
        data_by_id = {element_id: data for element_id, data in rows}
        return {name: data_by_id[element_id] for name, element_id in held.items()}

    def _held(self, character_id: CharacterId) -> dict[str, int]:
        text = self.tx.execute(_NEWEST, {"character": character_id}).scalar()
        return ids_of(text) if text is not None else {}


def ids_of(text: str) -> dict[str, int]:
    """Return a dict from element name to element id, parsed from the JSON of a history row."""
    held: dict[str, int] = orjson.loads(text)
    return held


def ids_in(texts: Iterable[str]) -> set[int]:
    """Return all element ids that these history rows list."""
    return {element_id for text in texts for element_id in ids_of(text).values()}
