"""Operations on escalation seasons, one transaction each; saves are recorded in the event log."""

from __future__ import annotations

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import Ledger
from svcserver.kernel.ids import AccountId
from svcserver.kernel.shapes import Late
from svcserver.metagame.accounts.eventlog import Entry, EventLog
from svcserver.metagame.achievements.escalation import rules, wire
from svcserver.metagame.achievements.escalation.rules import Registry, State
from svcserver.metagame.achievements.escalation.store import SqlSeasons

log = Logger()
MAX_SAID = 10  # notes of one save that are logged


@frozen
class EscalationActs:
    """Read and save; ``strict``: ESCALATION_STRICT."""

    registry: Registry
    strict: bool
    ledger: Ledger
    events: EventLog

    async def read(self, account_id: AccountId, season_id: str) -> State:
        """The stored season, or level 0; raises Missing for an unknown one."""
        self.registry.season(season_id)
        found = await self.ledger.read(lambda tx: SqlSeasons(tx).find(account_id, season_id))
        return found or State()

    async def save(self, entry: Entry[State], late: Late[wire.SeasonSave], season_id: str) -> State:
        """Store the season; the body is parsed only after the season is found to take saves."""
        account_id = entry.account_id

        def work(tx: Connection, notes: list[str]) -> State:
            season = rules.open_season(self.registry, season_id)
            sent = rules.canonical(season, self.registry, late.read().values())
            return rules.save(
                SqlSeasons(tx), account_id, season, sent, self.registry, notes, strict=self.strict
            )

        kept, notes = await self.events.noted(entry, work)
        for note in notes[:MAX_SAID]:
            log.warn("escalation of {account}: {note}", account=account_id, note=note)
        return kept
