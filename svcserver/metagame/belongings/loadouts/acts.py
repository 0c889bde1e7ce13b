"""Operations on loadouts, one transaction each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen
from sqlalchemy import Connection

from svcserver.kernel import datafiles, json
from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.shapes import Late
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.belongings.characters.store import AfterSave
from svcserver.metagame.belongings.loadouts import rules
from svcserver.metagame.belongings.loadouts.rules import PERSISTENT, Defaults, Loadout
from svcserver.metagame.belongings.loadouts.store import SqlLoadouts
from svcserver.metagame.belongings.loadouts.wire import LoadoutSave
from svcserver.metagame.once import ONLY, Attempt

PACKAGE, FILE = "svcserver.metagame.belongings.loadouts", "defaults.json"


def load() -> Defaults:
    """The defaults of the data file; raises BadData."""
    return datafiles.load(PACKAGE, FILE, _checked)


def _checked(said: dict[str, Any]) -> Defaults:
    slot, persistent = said["slot"], said["persistent"]
    if slot["slot_index"] != 0 or persistent["update_version"] != 0:
        raise ValueError("slot_index and update_version must be 0")
    return Defaults(json.dump({**slot, PERSISTENT: persistent}), json.dump(persistent))


Whole = tuple[Loadout, dict[str, bytes]]


@frozen
class LoadoutActs:
    """Read, save, unlock, activate; ``size``: bytes of the request's body.

    ``real`` tells whether an account has real progression; ``most_bytes``: LOADOUT_MAX_BYTES.
    """

    defaults: Defaults
    real: Callable[[AccountId], bool]
    data: AccountData
    wall_clock: Callable[[], float]
    most_bytes: int
    after_save: AfterSave | None = None

    async def read(self, owner: AccountId, character_id: CharacterId) -> Whole:
        """The slots and the JSON of each element, the defaults where nothing was saved yet.

        Raises Missing for a character that is not ``owner``'s.
        """
        return await self.data.read(
            owner, lambda tx: rules.read(SqlLoadouts(tx), owner, character_id, self.defaults)
        )

    async def save(
        self,
        owner: AccountId,
        character_id: CharacterId,
        index: str,
        sent: Late[LoadoutSave],
        reason: str,
        size: int,
        *,
        attempt: Attempt = ONLY,
    ) -> Whole:
        """Save one element; returns the whole loadout afterwards."""
        change = rules.Change(
            index,
            lambda name: sent.read().element(name),
            reason,
            self.most_bytes,
            attempt.request_id,
        )

        def find(tx: Connection) -> tuple[Whole] | None:
            kept = SqlLoadouts(tx)
            before = rules.own(kept, owner, character_id)
            found = kept.saved_by(before, attempt.request_id)
            return None if found is None else (found,)

        def work(tx: Connection) -> Whole:
            kept, now, real = SqlLoadouts(tx), self.wall_clock(), self.real(owner)
            saved = rules.save(kept, owner, character_id, change, self.defaults, now, real=real)
            if self.after_save is not None:
                self.after_save(tx, character_id, now)
            return saved

        return await self.data.write(owner, size, attempt.unless(find, work))

    async def counts(self, owner: AccountId, character_id: CharacterId) -> Loadout:
        """The loadout without its elements."""
        return await self.data.read(
            owner, lambda tx: rules.own(SqlLoadouts(tx), owner, character_id)
        )

    async def unlock(self, owner: AccountId, character_id: CharacterId, more: str) -> Loadout:
        """Unlock ``more`` slots, digits of a path."""
        return await self.data.write(
            owner, 0, lambda tx: rules.unlock(SqlLoadouts(tx), owner, character_id, more)
        )

    async def activate(self, owner: AccountId, character_id: CharacterId, index: str) -> None:
        """Make the slot of this index, digits of a path, the active one."""
        await self.data.write(
            owner, 0, lambda tx: rules.activate(SqlLoadouts(tx), owner, character_id, index)
        )
