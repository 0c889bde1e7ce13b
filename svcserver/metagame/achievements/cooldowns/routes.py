"""The cooldown routes. Spec: 1 §4 Progression, cooldowns."""

from __future__ import annotations

from typing import Any, ClassVar

from attrs import frozen

from svcserver.kernel.envelope import Empty, Envelope, envelope
from svcserver.kernel.shapes import Late
from svcserver.metagame.access.acting import Acting
from svcserver.metagame.accounts import recorded
from svcserver.metagame.achievements.cooldowns.acts import CooldownActs
from svcserver.metagame.achievements.cooldowns.wire import CooldownBatch
from svcserver.metagame.once import Again
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import Settings
from svcserver.web.routes import EMPTY_OBJECT, Answer, bare


def _show(started: dict[str, str]) -> dict[str, Any]:
    return envelope(started, code=200)


@frozen
class CooldownRoutes:
    """When each cooldown of an account started."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    settings: Settings
    acts: CooldownActs
    acting: Acting

    @routes.row("GET", "/cooldown/<user_id>", own=True, reply=Envelope[dict[str, str]])
    async def read(self, call: Call, user_id: str) -> Answer:
        """When each of the account's cooldowns began, by id; none with stub progression."""
        if not self.settings.real_progression(user_id):
            return enveloped(EMPTY_OBJECT)
        return Answer(200, _show(await self.acts.read(user_id)))

    @routes.row(
        "PUT",
        "/cooldown/batch/<user_id>",
        game_server=True,
        body=Late[CooldownBatch],
        reply=Envelope[dict[str, str]],
        again=Again.NATURAL,
    )
    async def batch(self, call: Call[Late[CooldownBatch]], user_id: str) -> Answer:
        """Start several cooldowns; answered with all of the account's."""
        if not self.settings.real_progression(user_id):
            return enveloped(EMPTY_OBJECT)
        entry = recorded.entry(self.acting, call, user_id, _show)
        return Answer(200, _show(await self.acts.batch(entry, call.body)))

    @routes.row(
        "PUT",
        "/cooldown/<user_id>/<cooldown_id>",
        real_only=True,
        game_server=True,
        reply=Empty,
        again=Again.NATURAL,
    )
    async def start(self, call: Call, user_id: str, cooldown_id: str) -> Answer:
        """Start a cooldown now; those whose id is used only once are forgotten after a day."""
        entry = recorded.entry(self.acting, call, user_id, recorded.nothing)
        await self.acts.start(entry, cooldown_id)
        return Answer(200, EMPTY_OBJECT)
