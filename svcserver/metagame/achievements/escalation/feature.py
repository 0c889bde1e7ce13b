"""Escalation: data shapes, transactions, table and routes. Spec: 1 §4 Escalation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, TypedDict

import orjson
import sqlalchemy as sa
from attrs import frozen
from twisted.logger import Logger

from svcserver.db.ledger import Ledger
from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert
from svcserver.kernel import datafiles
from svcserver.kernel.envelope import Envelope, envelope
from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.refusals import Refusal
from svcserver.kernel.shapes import Count, Late, whole
from svcserver.metagame.access.acting import Acting
from svcserver.metagame.accounts import recorded
from svcserver.metagame.accounts.eventlog import EventEntry, EventLog
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.achievements.bounds import INT_MAX
from svcserver.metagame.achievements.escalation import rules
from svcserver.metagame.achievements.escalation.rules import (
    Season,
    SeasonRegistry,
    SeasonState,
    SeasonValues,
    Talent,
)
from svcserver.metagame.once import Again
from svcserver.metagame.refusal_wire import EnvelopedRefusal
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import MetagameSettings
from svcserver.web.refusals import worded_as
from svcserver.web.routes import Answer, Feature

STUB = {
    "escalation_level": 99999,
    "next_level_xp": 99999,
    "talents_progress": [],
    "unlock_progress": [],
    "update_version": 1,
}


@frozen
class TalentSave:
    """A talent and the rank to save for it."""

    talent_id: str
    rank: Count


@frozen
class UnlockSave:
    """A reward to save, and whether it was collected."""

    reward_id: str
    collected: bool


@frozen
class SeasonSave:
    """The season progress to save; ``next_level_xp`` is the XP gained in the current level."""

    escalation_level: Count
    next_level_xp: Annotated[int, whole(0, INT_MAX)]
    update_version: Annotated[int, whole(1, INT_MAX)]
    talents_progress: tuple[TalentSave, ...]
    unlock_progress: tuple[UnlockSave, ...]

    def values(self) -> SeasonValues:
        """Return the season's values; their ids and ranks are not checked yet."""
        return SeasonValues(
            self.escalation_level,
            self.next_level_xp,
            [(entry.talent_id, entry.rank) for entry in self.talents_progress],
            [(entry.reward_id, entry.collected) for entry in self.unlock_progress],
            self.update_version,
        )


class TalentProgress(TypedDict):
    """A talent and its rank, as shown to the client."""

    rank: int
    talent_id: str


class UnlockProgress(TypedDict):
    """A reward, and whether the account has collected it."""

    collected: bool
    reward_id: str


class EscalationSeason(TypedDict):
    """An account's season progress; ``next_level_xp`` is the XP gained in the current level."""

    escalation_level: int
    next_level_xp: int
    talents_progress: list[TalentProgress]
    unlock_progress: list[UnlockProgress]
    update_version: int


def show_season(state: SeasonState) -> EscalationSeason:
    """Return a stored season in the form in which replies contain it."""
    return {
        "escalation_level": state.level,
        "next_level_xp": state.xp,
        "talents_progress": [{"rank": rank, "talent_id": name} for name, rank in state.talents],
        "unlock_progress": [{"collected": True, "reward_id": name} for name in state.rewards],
        "update_version": state.version,
    }


PACKAGE, FILE = "svcserver.metagame.achievements.escalation", "seasons.json"


def load() -> SeasonRegistry:
    """Load seasons, talents and rewards from the data file; raises BadData."""
    return datafiles.load(PACKAGE, FILE, _registry)


def _registry(data: dict[str, Any]) -> SeasonRegistry:
    costs = [_count(cost) for cost in data["level_costs"]]
    seasons = [_season(row, len(costs)) for row in data["seasons"]]
    seasons_by_id = {season.id: season for season in seasons}
    if not costs:
        raise ValueError("level_costs must not be empty")
    if len(seasons_by_id) != len(seasons):
        raise ValueError("each season must be listed only once")
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
        raise ValueError(f"season {name} lists a talent or reward twice")
    if any(level > levels for level in rewards.values()):
        raise ValueError(f"season {name} has a reward for a level above {levels}, the last level")
    if not isinstance(row["enabled"], bool):
        raise ValueError(f"season {name}: enabled must be true or false")
    return Season(name, row["enabled"], talents_by_id, rewards)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"an id must be a string of at least 1 character, not {value!r}")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a whole number of at least 0")
    return value


log = Logger()
MAX_NOTES = 10  # logged notes per save


@frozen
class EscalationActs:
    """Reads and saves accounts' progress in seasons; ``strict`` is ESCALATION_STRICT."""

    registry: SeasonRegistry
    strict: bool
    ledger: Ledger
    events: EventLog

    async def read_season(self, account_id: AccountId, season_id: str) -> SeasonState:
        """Return the account's progress in a season; level 0 if nothing is stored.

        Raises Missing for an unknown season.
        """
        self.registry.season(season_id)
        state = await self.ledger.read_snapshot(
            lambda tx: SqlSeasons(tx).find(account_id, season_id)
        )
        return state or SeasonState()

    async def save(
        self, entry: EventEntry[SeasonState], late: Late[SeasonSave], season_id: str
    ) -> SeasonState:
        """Store the sent progress and return it.

        If the season does not accept saves, the body is not parsed.
        """
        account_id = entry.account_id

        def work(tx: sa.Connection, notes: list[str]) -> SeasonState:
            season = rules.open_season(self.registry, season_id)
            sent = rules.canonical(season, self.registry, late.parse_value().values())
            store = SqlSeasons(tx)
            stored = store.find(account_id, season_id)
            if rules.accept(stored, sent, season, self.registry, notes, strict=self.strict):
                store.put(account_id, season_id, sent)
            return sent

        state, notes = await self.events.noted(entry, work)
        for note in notes[:MAX_NOTES]:
            log.warn("escalation of {account}: {note}", account=account_id, note=note)
        return state


ESCALATION_SEASONS = sa.Table(
    "escalation_seasons",
    METADATA,
    sa.Column("account_id", sa.String(64), primary_key=True),
    sa.Column("season_id", sa.String(64), primary_key=True),
    sa.Column("level", sa.BigInteger, nullable=False),
    sa.Column("xp", sa.BigInteger, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),  # {"talents": [[id, rank]], "rewards": [id]}
)
_S = ESCALATION_SEASONS.c
_FIND = sa.select(ESCALATION_SEASONS).where(
    _S.account_id == sa.bindparam("account"), _S.season_id == sa.bindparam("season")
)
_PUT = Upsert(ESCALATION_SEASONS)


@frozen
class SqlSeasons:
    """The table of escalation seasons, within one transaction."""

    tx: sa.Connection

    def find(self, account_id: AccountId, season_id: str) -> SeasonState | None:
        row = self.tx.execute(_FIND, {"account": account_id, "season": season_id}).first()
        if row is None:
            return None
        data = orjson.loads(row.data)
        talents = tuple((name, rank) for name, rank in data["talents"])
        return SeasonState(row.level, row.xp, talents, tuple(data["rewards"]), row.version)

    def put(self, account_id: AccountId, season_id: str, state: SeasonState) -> None:
        data = {"talents": list(state.talents), "rewards": list(state.rewards)}
        row = {
            "account_id": account_id,
            "season_id": season_id,
            "level": state.level,
            "xp": state.xp,
            "version": state.version,
            "data": orjson.dumps(data),
        }
        _PUT.put(self.tx, [row])


def _show(state: SeasonState) -> dict[str, Any]:
    return envelope(show_season(state))


@worded_as(EnvelopedRefusal, bare_too=(401, 403))
def refuse(status: int, refusal: Refusal) -> Answer:
    """Return a reply with the body ``{code: '<status>', message, payload: null}``.

    Replies with the status 401 or 403 have no body.
    """
    if status in (401, 403):
        return Answer(status)
    body: Json = {"code": str(status), "message": refusal.message, "payload": None}
    return Answer(status, body)


@frozen
class EscalationStubRoutes:
    """The only escalation route if ESCALATION_MODE=stub: every account has the highest level."""

    routes: ClassVar[Routes] = Routes(
        refuse, when=lambda settings: settings.escalation_mode != "real", body_log=True
    )

    @routes.row(
        "GET",
        "/escalation/<season>/<user_id>",
        access=Access.TOKEN,
        reply=Envelope[EscalationSeason],
    )
    async def read(self, call: Call, season: str, user_id: str) -> Answer:
        """Return the same reply for every account and season: the highest level."""
        return enveloped(STUB)


@frozen
class EscalationRoutes:
    """The routes that read and save season progress, if ESCALATION_MODE=real."""

    routes: ClassVar[Routes] = Routes(
        refuse,
        when=lambda settings: settings.escalation_mode == "real",
        body_log=True,
        access=Access.TOKEN,
    )
    settings: MetagameSettings
    acts: EscalationActs
    acting: Acting

    @routes.row("GET", "/escalation/<season>/<user_id>", own=True, reply=Envelope[EscalationSeason])
    async def read(self, call: Call, season: str, user_id: str) -> Answer:
        """Return the account's level and talents in a season; before the first save, level 0."""
        if not self.settings.real_progression(user_id):
            return enveloped(STUB)
        return Answer(200, _show(await self.acts.read_season(user_id, season)))

    @routes.row(
        "POST",
        "/escalation/<season>/<user_id>",
        game_server=True,
        real_only=True,
        body=Late[SeasonSave],
        reply=Envelope[EscalationSeason],
        again=Again.NATURAL,
    )
    async def save(self, call: Call[Late[SeasonSave]], season: str, user_id: str) -> Answer:
        """Save the account's level and talents in a season; return the stored season."""
        entry = recorded.entry(self.acting, call, user_id, _show)
        return Answer(200, _show(await self.acts.save(entry, call.body, season)))


def escalation(parts: Parts) -> Iterator[Feature]:
    """Yield the routes of escalation seasons for this ESCALATION_MODE; raises BadData."""
    yield EscalationStubRoutes()
    strict = parts.settings.escalation_strict
    seasons = EscalationActs(load(), strict, parts.ledger, parts.events)
    yield EscalationRoutes(parts.settings, seasons, parts.acting)
