"""The owner's operations on saves; each runs in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import Ledger, OneAccount
from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Missing
from svcserver.metagame.accounts.audit import Act, Audit, AuditEntry, Trace
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.belongings.characters.rules import Character, Head
from svcserver.metagame.belongings.characters.store import SqlCharacters
from svcserver.metagame.belongings.loadouts.rules import Loadout
from svcserver.metagame.belongings.loadouts.store import SqlLoadouts
from svcserver.metagame.belongings.savehistory.rules import SaveHistory
from svcserver.metagame.belongings.savehistory.store import SqlHistories

log = Logger()


def rolled_back(
    character_id: CharacterId, version: int, wall_clock: Callable[[], float]
) -> Act[tuple[Head, Character]]:
    """Return an audited action that makes an old version of a character the newest."""

    def act(tx: Connection, trace: Trace) -> tuple[Head, Character]:
        before = SqlCharacters(tx).find(character_id)
        character = _described(tx, before, trace)
        document = SqlHistories(tx).document(character_id, version) if before is not None else None
        if before is None or document is None:
            raise Missing("no such version")
        reason = f"rollback:{version}"
        after = SqlCharacters(tx).make_newest(before, document, wall_clock(), reason)
        trace.before = {"version": before.update_version}
        trace.after = {**character, "version": after.update_version, "as": version}
        return before, after

    return act


def loadout_rolled_back(
    character_id: CharacterId, version: int, wall_clock: Callable[[], float]
) -> Act[Loadout]:
    """Return an audited action that makes an old version of a character's loadouts the newest."""

    def act(tx: Connection, trace: Trace) -> Loadout:
        character = _described(tx, SqlCharacters(tx).find(character_id), trace)
        store = SqlLoadouts(tx)
        before = store.find(character_id)
        after = store.roll_back(character_id, version, wall_clock())
        trace.before = None if before is None else {"version": before.version}
        trace.after = {**character, "version": after.version, "as": version}
        return after

    return act


@frozen
class SaveHistoryActs:
    """Reads the old saves of characters and loadouts, and rolls back to one of them."""

    ledger: Ledger
    wall_clock: Callable[[], float]
    audit: Audit

    async def read(
        self, account_id: AccountId | None, character_id: CharacterId | None
    ) -> Sequence[SaveHistory]:
        """Return the history of one character, or of an account's characters; raises Missing."""

        def work(tx: Connection) -> list[SaveHistory]:
            store = SqlHistories(tx)
            return [store.kept(head) for head in store.heads(account_id, character_id)]

        histories = await self.ledger.read(work)
        if not histories:
            raise Missing("there is no such character")
        return histories

    async def roll_back(
        self, entry: AuditEntry, character_id: CharacterId, version: int
    ) -> tuple[Head, Character]:
        """Make an old version of a character the newest; return the character before and after."""

        act = rolled_back(character_id, version, self.wall_clock)
        done = await self.audit.write(entry, act, await self._scope(character_id))
        log.info(
            "rolled character {character} back to version {version}",
            character=character_id,
            version=version,
        )
        return done

    async def roll_back_loadout(
        self, entry: AuditEntry, character_id: CharacterId, version: int
    ) -> Loadout:
        """Make an old version of a loadout the newest; return the loadout after the change."""

        act = loadout_rolled_back(character_id, version, self.wall_clock)
        after = await self.audit.write(entry, act, await self._scope(character_id))
        log.info(
            "rolled the loadout of {character} back to version {version}",
            character=character_id,
            version=version,
        )
        return after

    async def _scope(self, character_id: CharacterId) -> OneAccount:
        """Return the write scope: the character's account, which never changes."""
        head = await self.ledger.read(lambda tx: SqlCharacters(tx).find(character_id))
        return OneAccount("" if head is None else head.account_id)


def _described(tx: Connection, head: Head | None, trace: Trace) -> dict[str, str]:
    """Return the character for an audit row, and set the row's target to the account's name."""
    if head is None:
        return {}
    owner = SqlAccounts(tx).find(head.account_id)
    trace.target = head.account_id if owner is None else owner.username
    return {"character": head.id, "name": head.name}
