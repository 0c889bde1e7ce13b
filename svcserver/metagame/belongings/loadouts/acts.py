"""Operations on loadouts; each runs in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve, frozen
from sqlalchemy import Connection

from svcserver.kernel import datafiles, json
from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import Late
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.belongings.characters.rules import BASELINE
from svcserver.metagame.belongings.characters.store import AfterSave
from svcserver.metagame.belongings.loadouts import rules
from svcserver.metagame.belongings.loadouts.rules import PERSISTENT, Defaults, Loadout
from svcserver.metagame.belongings.loadouts.store import SqlLoadouts
from svcserver.metagame.belongings.loadouts.wire import LoadoutSave
from svcserver.metagame.once import ONLY, Attempt

PACKAGE, FILE = "svcserver.metagame.belongings.loadouts", "defaults.json"


def load() -> Defaults:
    """Load the default loadout from the data file; raises BadData."""
    return datafiles.load(PACKAGE, FILE, _checked)


def _checked(data: dict[str, Any]) -> Defaults:
    slot, persistent = data["slot"], data["persistent"]
    if slot["slot_index"] != 0 or persistent["update_version"] != 0:
        raise ValueError("slot_index and update_version must be 0")
    return Defaults(json.dump({**slot, PERSISTENT: persistent}), json.dump(persistent))


Whole = tuple[Loadout, dict[str, bytes]]


@frozen
class LoadoutActs:
    """The operations that read and save loadouts, unlock slots, and choose the active slot.

    ``most_bytes`` is LOADOUT_MAX_BYTES. The methods' parameter ``size`` is the number of bytes of
    the request body. ``real`` returns whether an account's progression is stored.
    """

    defaults: Defaults
    real: Callable[[AccountId], bool]
    data: AccountData
    wall_clock: Callable[[], float]
    most_bytes: int
    after_save: AfterSave | None = None

    async def read_loadout(self, owner: AccountId, character_id: CharacterId) -> Whole:
        """Return the loadout and the JSON of its elements; unsaved elements have default values.

        Raises Missing if the character does not belong to ``owner``.
        """

        def work(tx: Connection) -> Whole:
            store = SqlLoadouts(tx)
            loadout = store.own(owner, character_id)
            return loadout, {**self.defaults.elements, **store.elements(loadout)}

        return await self.data.read_for_account(owner, work)

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
        """Save one element; return the whole loadout after the save.

        If progression is not stored (PROGRESSION_MODE=stub), only slot 0 and the part that all
        slots share can be saved. The first save also stores the defaults, as a separate version.
        Raises Missing for a character of another account. Raises Malformed for an invalid slot, and
        for data that are invalid or too large. The data are parsed last.
        """

        def find(tx: Connection) -> tuple[Whole] | None:
            store = SqlLoadouts(tx)
            saved = store.saved_by(store.own(owner, character_id), attempt.request_id)
            return None if saved is None else (saved,)

        def work(tx: Connection) -> Whole:
            store, now = SqlLoadouts(tx), self.wall_clock()
            before, at_ms = store.own(owner, character_id), int(now * 1000)
            name = rules.element(index, before.slots if self.real(owner) else 1)
            data = sent.parse_value().element(name)
            if len(data) > self.most_bytes:
                raise Malformed("data is too large")
            if before.version == 0:
                before = evolve(before, version=1)
                store.save(before, self.defaults.elements, at_ms, BASELINE)
            after = evolve(before, version=before.version + 1)
            store.save(after, {name: data}, at_ms, reason, attempt.request_id)
            if self.after_save is not None:
                self.after_save(tx, character_id, now)
            return after, store.elements(after)

        return await self.data.write(owner, size, attempt.unless(find, work))

    async def counts(self, owner: AccountId, character_id: CharacterId) -> Loadout:
        """Return the loadout with its slot counts, without its elements."""
        return await self.data.read_for_account(
            owner, lambda tx: SqlLoadouts(tx).own(owner, character_id)
        )

    async def unlock(self, owner: AccountId, character_id: CharacterId, more: str) -> Loadout:
        """Unlock more slots; ``more`` is their number, as text from the path."""
        return await self._change(owner, character_id, lambda before: rules.unlocked(before, more))

    async def activate(self, owner: AccountId, character_id: CharacterId, index: str) -> None:
        """Make a slot the active slot; ``index`` is text from the path."""
        await self._change(owner, character_id, lambda before: rules.activated(before, index))

    async def _change(
        self, owner: AccountId, character_id: CharacterId, change: Callable[[Loadout], Loadout]
    ) -> Loadout:
        def work(tx: Connection) -> Loadout:
            store = SqlLoadouts(tx)
            before = store.own(owner, character_id)
            after = change(before)
            if after is not before:
                store.put(after)
            return after

        return await self.data.write(owner, 0, work)
