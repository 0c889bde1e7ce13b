"""The escalation routes. Spec: 1 §4 Escalation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from attrs import frozen

from svcserver.kernel.envelope import Envelope, envelope
from svcserver.kernel.json import Json
from svcserver.kernel.refusals import Refusal
from svcserver.kernel.shapes import Late
from svcserver.metagame.access.acting import Acting
from svcserver.metagame.accounts import recorded
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.achievements.escalation import acts, wire
from svcserver.metagame.achievements.escalation.acts import EscalationActs
from svcserver.metagame.achievements.escalation.rules import SeasonState
from svcserver.metagame.achievements.escalation.wire import EscalationSeason, SeasonSave
from svcserver.metagame.once import Again
from svcserver.metagame.refusal_wire import EnvelopedRefusal
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import Settings
from svcserver.web.refusals import worded_as
from svcserver.web.routes import Answer, Feature


def _show(state: SeasonState) -> dict[str, Any]:
    return envelope(wire.show(state))


@worded_as(EnvelopedRefusal, bare_too=(401, 403))
def refuse(status: int, refusal: Refusal) -> Answer:
    """Return ``{code: '<status>', message, payload: null}``, or no body for 401 and 403."""
    if status in (401, 403):
        return Answer(status)
    body: Json = {"code": str(status), "message": refusal.message, "payload": None}
    return Answer(status, body)


@frozen
class EscalationStubRoutes:
    """The route with ESCALATION_MODE=stub: every account has the highest level."""

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
        """Return the season at the highest level, the same for all accounts."""
        return enveloped(wire.STUB)


@frozen
class EscalationRoutes:
    """The routes if ESCALATION_MODE=real, for accounts with real progression."""

    routes: ClassVar[Routes] = Routes(
        refuse,
        when=lambda settings: settings.escalation_mode == "real",
        body_log=True,
        access=Access.TOKEN,
    )
    settings: Settings
    acts: EscalationActs
    acting: Acting

    @routes.row("GET", "/escalation/<season>/<user_id>", own=True, reply=Envelope[EscalationSeason])
    async def read(self, call: Call, season: str, user_id: str) -> Answer:
        """Return the account's level and talents in a season; level 0 if nothing was saved."""
        if not self.settings.real_progression(user_id):
            return enveloped(wire.STUB)
        return Answer(200, _show(await self.acts.read(user_id, season)))

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
    """Yield the routes of escalation seasons, real or stub; raises BadData."""
    yield EscalationStubRoutes()
    strict = parts.settings.escalation_strict
    seasons = acts.EscalationActs(acts.load(), strict, parts.ledger, parts.events)
    yield EscalationRoutes(parts.settings, seasons, parts.acting)
