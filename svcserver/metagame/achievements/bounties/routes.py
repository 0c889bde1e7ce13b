"""The bounty routes. Spec: 1 §4 Progression, bounties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from attrs import field, frozen

from svcserver.kernel.envelope import Envelope
from svcserver.kernel.json import Json
from svcserver.kernel.shapes import Late
from svcserver.metagame.access.acting import Acting
from svcserver.metagame.accounts import recorded
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.achievements.bounties import wire
from svcserver.metagame.achievements.bounties.acts import BountyActs
from svcserver.metagame.once import Again
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import Settings
from svcserver.web.routes import Answer, Feature, bare


@frozen
class BountyRoutes:
    """The routes for an account's bounty board."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    settings: Settings
    acts: BountyActs
    acting: Acting
    game_data: Mapping[str, Json] = field(factory=wire.load_game_data)

    @routes.row("GET", "/bounty/game-data", reply=Envelope[wire.BountyRules])
    async def fixed(self, call: Call) -> Answer:
        """Return the client's bounty rules (slots, drafts, tokens), the same for all accounts."""
        return Answer(200, self.game_data)

    @routes.row("GET", "/bounty/<user_id>", own=True, reply=Envelope[wire.BountyBoard])
    async def read(self, call: Call, user_id: str) -> Answer:
        """Return the account's bounty board; it is empty with stub progression."""
        if not self.settings.real_progression(user_id):
            return Answer(200, wire.show_fixed())
        return Answer(200, wire.show(await self.acts.read(user_id)))

    @routes.row(
        "POST",
        "/bounty/<user_id>",
        game_server=True,
        body=Late[wire.BountyUpdate],
        reply=Envelope[wire.BountyBoard],
        again=Again.NATURAL,
    )
    async def update(self, call: Call[Late[wire.BountyUpdate]], user_id: str) -> Answer:
        """Add bounties to the board, or replace bounties with the same id; return the board."""
        if not self.settings.real_progression(user_id):
            return Answer(200, wire.show_fixed())
        entry = recorded.entry(self.acting, call, user_id, wire.show)
        return Answer(200, wire.show(await self.acts.update(entry, call.body)))

    @routes.row(
        "POST",
        "/bounty/delete/<user_id>",
        real_only=True,
        game_server=True,
        body=Late[wire.BountyIds],
        reply=Envelope[wire.BountyBoard],
        again=Again.NATURAL,
    )
    async def delete(self, call: Call[Late[wire.BountyIds]], user_id: str) -> Answer:
        """Delete bounties from the account's board, by id; return the remaining board."""
        entry = recorded.entry(self.acting, call, user_id, wire.show)
        return Answer(200, wire.show(await self.acts.delete(entry, call.body)))


def bounties(parts: Parts) -> Iterator[Feature]:
    """Yield the routes of bounties."""
    most = parts.settings.bounties_max_bytes
    acts = BountyActs(parts.ledger, parts.wall_clock, parts.events, most)
    yield BountyRoutes(parts.settings, acts, parts.acting)
