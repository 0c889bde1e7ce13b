"""The escalation routes. Spec: 1 §4 Escalation."""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import frozen

from svcserver.kernel.shapes import Late
from svcserver.metagame.achievements.escalation import wire
from svcserver.metagame.achievements.escalation.acts import EscalationActs
from svcserver.metagame.achievements.escalation.wire import EscalationSeason, SeasonSave
from svcserver.metagame.replies import Envelope, enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import Settings
from svcserver.web.routes import Answer


def is_real(settings: Any) -> bool:
    """Whether ESCALATION_MODE is ``real``."""
    return bool(settings.escalation_mode == "real")


def is_stub(settings: Any) -> bool:
    """Whether ESCALATION_MODE is not ``real``."""
    return not is_real(settings)


@frozen
class EscalationStub:
    """ESCALATION_MODE=stub: the highest level for everyone, nothing is stored."""

    routes: ClassVar[Routes] = Routes(wire.refuse, when=is_stub, body_log=True)

    @routes.row(
        "GET",
        "/escalation/<season>/<user_id>",
        access=Access.TOKEN,
        reply=Envelope[EscalationSeason],
    )
    async def read(self, call: Call, season: str, user_id: str) -> Answer:
        """The fixed reply."""
        return enveloped(wire.STUB)


@frozen
class EscalationRoutes:
    """ESCALATION_MODE=real, for accounts with real progression."""

    routes: ClassVar[Routes] = Routes(wire.refuse, when=is_real, body_log=True)
    settings: Settings
    acts: EscalationActs

    @routes.row(
        "GET",
        "/escalation/<season>/<user_id>",
        access=Access.TOKEN,
        own=True,
        reply=Envelope[EscalationSeason],
    )
    async def read(self, call: Call, season: str, user_id: str) -> Answer:
        """The stored season, or level 0; creates nothing."""
        if not self.settings.real_progression(user_id):
            return enveloped(wire.STUB)
        return enveloped(wire.show(await self.acts.read(user_id, season)))

    @routes.row(
        "POST",
        "/escalation/<season>/<user_id>",
        access=Access.TOKEN,
        game_server=True,
        real_only=True,
        body=Late[SeasonSave],
        reply=Envelope[EscalationSeason],
    )
    async def save(self, call: Call[Late[SeasonSave]], season: str, user_id: str) -> Answer:
        """Save a whole season; answered with the stored state."""
        return await self.acts.save(call, user_id, season)
