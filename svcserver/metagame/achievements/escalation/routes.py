"""The escalation routes. Spec: 1 §4 Escalation."""

from __future__ import annotations

from typing import Any, ClassVar, TypedDict

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import Ledger
from svcserver.kernel.json import Json
from svcserver.kernel.refusals import Refusal
from svcserver.metagame.accounts.eventlog import EventLog
from svcserver.metagame.achievements.escalation import rules
from svcserver.metagame.achievements.escalation.rules import Registry, State
from svcserver.metagame.achievements.escalation.store import SqlSeasons
from svcserver.metagame.settings import Settings
from svcserver.web.routes import Access, Answer, Call, Envelope, Routes, enveloped

log = Logger()
STUB = {
    "escalation_level": 99999,
    "next_level_xp": 99999,
    "talents_progress": [],
    "unlock_progress": [],
    "update_version": 1,
}


class TalentProgress(TypedDict):
    """How far a talent is."""

    rank: int
    talent_id: str


class UnlockProgress(TypedDict):
    """Whether a reward was taken."""

    collected: bool
    reward_id: str


class EscalationSeason(TypedDict):
    """``next_level_xp`` is the XP gathered within the level."""

    escalation_level: int
    next_level_xp: int
    talents_progress: list[TalentProgress]
    unlock_progress: list[UnlockProgress]
    update_version: int


def is_real(settings: Any) -> bool:
    """ESCALATION_MODE."""
    return bool(settings.escalation_mode == "real")


def is_stub(settings: Any) -> bool:
    """ESCALATION_MODE."""
    return not is_real(settings)


def refuse(status: int, refusal: Refusal) -> Answer:
    """``{code: '<status>', message, payload: null}``; 401 and 403 have no body."""
    if status in (401, 403):
        return Answer(status)
    body: Json = {"code": str(status), "message": refusal.message, "payload": None}
    return Answer(status, body)


def show(state: State) -> EscalationSeason:
    """As the client reads it."""
    return {
        "escalation_level": state.level,
        "next_level_xp": state.xp,
        "talents_progress": [{"rank": rank, "talent_id": name} for name, rank in state.talents],
        "unlock_progress": [{"collected": True, "reward_id": name} for name in state.rewards],
        "update_version": state.version,
    }


@frozen
class EscalationStub:
    """ESCALATION_MODE=stub: everything at its end for everyone, nothing stored."""

    routes: ClassVar[Routes] = Routes(refuse)

    @routes.row(
        "GET",
        "/escalation/<season>/<user_id>",
        access=Access.TOKEN,
        when=is_stub,
        reply=Envelope[EscalationSeason],
        body_log=True,
    )
    async def read(self, call: Call, season: str, user_id: str) -> Answer:
        """The fixed reply."""
        return enveloped(STUB)


@frozen
class Escalation:
    """ESCALATION_MODE=real, for accounts with real progression."""

    routes: ClassVar[Routes] = Routes(refuse)
    settings: Settings
    registry: Registry
    ledger: Ledger
    log: EventLog

    @routes.row(
        "GET",
        "/escalation/<season>/<user_id>",
        access=Access.TOKEN,
        own=True,
        when=is_real,
        reply=Envelope[EscalationSeason],
        body_log=True,
    )
    async def read(self, call: Call, season: str, user_id: str) -> Answer:
        """The stored season, or level 0; creates nothing."""
        if not self.settings.real_progression(user_id):
            return enveloped(STUB)
        self.registry.season(season)
        found = await self.ledger.read(lambda tx: SqlSeasons(tx).find(user_id, season))
        return enveloped(show(found or State()))

    @routes.row(
        "POST",
        "/escalation/<season>/<user_id>",
        access=Access.TOKEN,
        game_server=True,
        real_only=True,
        when=is_real,
        body=object,
        sends=EscalationSeason,
        reply=Envelope[EscalationSeason],
        body_log=True,
    )
    async def save(self, call: Call, season: str, user_id: str) -> Answer:
        """The whole season; answered with the stored state."""
        strict = self.settings.escalation_strict

        def work(tx: Connection, notes: list[str]) -> Answer:
            seasons = SqlSeasons(tx)
            state = rules.save(
                seasons, user_id, season, call.body, self.registry, notes, strict=strict
            )
            return enveloped(show(state))

        said, notes = await self.log.noted(call, user_id, work)
        for note in notes[:10]:
            log.warn("escalation of {account}: {note}", account=user_id, note=note)
        return said
