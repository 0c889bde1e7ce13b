"""Operations on escalation seasons, one transaction each; the event log records the saves."""

from __future__ import annotations

from typing import Any

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import Ledger
from svcserver.kernel import datafiles
from svcserver.kernel.ids import AccountId
from svcserver.kernel.shapes import Late
from svcserver.metagame.accounts.eventlog import EventEntry, EventLog
from svcserver.metagame.achievements.escalation import rules, wire
from svcserver.metagame.achievements.escalation.rules import (
    Season,
    SeasonRegistry,
    SeasonState,
    Talent,
)
from svcserver.metagame.achievements.escalation.store import SqlSeasons

PACKAGE, FILE = "svcserver.metagame.achievements.escalation", "seasons.json"


def load() -> SeasonRegistry:
    """Load seasons, talents and rewards from the data file; raises BadData."""
    return datafiles.load(PACKAGE, FILE, _registry)


def _registry(data: dict[str, Any]) -> SeasonRegistry:
    costs = [_count(cost) for cost in data["level_costs"]]
    seasons = [_season(row, len(costs)) for row in data["seasons"]]
    seasons_by_id = {season.id: season for season in seasons}
    if not costs or len(seasons_by_id) != len(seasons):
        raise ValueError("must have level costs, and list each season exactly once")
    return SeasonRegistry(seasons_by_id, costs)


def _season(row: dict[str, Any], levels: int) -> Season:
    talents = [
        Talent(
            _text(talent["id"]),
            _count(talent["points_to_unlock"]),
            tuple(map(_count, talent["rank_costs"])),
        )
        for talent in row["talents"]
    ]
    talents_by_id = {talent.id: talent for talent in talents}
    rewards = {_text(reward["id"]): _count(reward["level"]) for reward in row["rewards"]}
    name = _text(row["id"])
    if len(talents_by_id) != len(talents) or len(rewards) != len(row["rewards"]):
        raise ValueError(f"{name} names a talent or reward twice")
    if any(level > levels for level in rewards.values()):
        raise ValueError(f"{name} has a reward beyond the last level")
    if not isinstance(row["enabled"], bool):
        raise ValueError(f"{name}: enabled must be true or false")
    return Season(name, row["enabled"], talents_by_id, rewards)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not an id")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a whole number of at least 0")
    return value


log = Logger()
MAX_NOTES = 10  # logged notes per save


@frozen
class EscalationActs:
    """Reads and saves an account's seasons; ``strict`` is ESCALATION_STRICT."""

    registry: SeasonRegistry
    strict: bool
    ledger: Ledger
    events: EventLog

    async def read(self, account_id: AccountId, season_id: str) -> SeasonState:
        """Return the stored season, or the season at level 0 if none is stored.

        Raises Missing for an unknown season.
        """
        self.registry.season(season_id)
        state = await self.ledger.read(lambda tx: SqlSeasons(tx).find(account_id, season_id))
        return state or SeasonState()

    async def save(
        self, entry: EventEntry[SeasonState], late: Late[wire.SeasonSave], season_id: str
    ) -> SeasonState:
        """Store the season; if the season is closed for saves, the body is not parsed."""
        account_id = entry.account_id

        def work(tx: Connection, notes: list[str]) -> SeasonState:
            season = rules.open_season(self.registry, season_id)
            sent = rules.canonical(season, self.registry, late.read().values())
            store = SqlSeasons(tx)
            stored = store.find(account_id, season_id)
            if rules.accept(stored, sent, season, self.registry, notes, strict=self.strict):
                store.put(account_id, season_id, sent)
            return sent

        state, notes = await self.events.noted(entry, work)
        for note in notes[:MAX_NOTES]:
            log.warn("escalation of {account}: {note}", account=account_id, note=note)
        return state
