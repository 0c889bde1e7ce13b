"""The loadout routes. Spec: 1 §4 Loadouts."""

from collections.abc import Iterator
from typing import ClassVar, Literal

from attrs import frozen

from svcserver.kernel.envelope import Envelope
from svcserver.kernel.shapes import Late
from svcserver.metagame.access.acting import Acting
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.belongings.characters.rules import reason_of
from svcserver.metagame.belongings.characters.store import AfterSave
from svcserver.metagame.belongings.loadouts import wire
from svcserver.metagame.belongings.loadouts.acts import LoadoutActs, load
from svcserver.metagame.belongings.loadouts.wire import (
    Activated,
    LoadoutPayload,
    LoadoutSave,
    SlotCounts,
)
from svcserver.metagame.once import Again
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import Answer, Feature, bare


@frozen
class LoadoutRoutes:
    """The routes that read and save loadouts, unlock slots, and choose the active slot."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    acts: LoadoutActs
    acting: Acting

    @routes.row("GET", "/loadout/<user_id>/<character_id>/all", reply=Envelope[LoadoutPayload])
    async def read(self, call: Call, user_id: str, character_id: str) -> Answer:
        """Return the character's saved loadouts and number of slots.

        The part ``persistent``, such as emotes and banner, is the same for all loadouts.
        """
        owner = self.acting.reads(call, user_id)
        return Answer(
            200,
            wire.show_loadouts(
                *await self.acts.read_loadout(owner, character_id), real=self.acts.real(owner)
            ),
        )

    @routes.row(
        "POST",
        "/loadout/<user_id>/<character_id>/<index>",
        path_types={"index": int | Literal["persistent"]},
        body=Late[LoadoutSave],
        reply=Envelope[LoadoutPayload],
        again=Again.STORED,
    )
    async def save(
        self, call: Call[Late[LoadoutSave]], user_id: str, character_id: str, index: str
    ) -> Answer:
        """Save one loadout, or the shared part (index ``persistent``); return all loadouts."""
        owner, size = self.acting.writes(call, user_id), len(call.request.body)
        reason = reason_of(game_server=call.caller.game_server)
        named = owner, character_id, index
        saved = await self.acts.save(*named, call.body, reason, size, attempt=call.attempt)
        return Answer(200, wire.show_loadouts(*saved, real=self.acts.real(owner)))

    @routes.row(
        "POST",
        "/loadout/<user_id>/<character_id>/unlock/<num_slots>",
        path_types={"num_slots": int},
        real_only=True,
        game_server=True,
        reply=Envelope[SlotCounts],
        again=Again.NATURAL,
    )
    async def unlock(self, call: Call, user_id: str, character_id: str, num_slots: str) -> Answer:
        """Unlock more loadout slots for the character, up to 5."""
        owner = self.acting.writes(call, user_id)
        unlocked = await self.acts.unlock(owner, character_id, num_slots)
        return enveloped(wire.counts(unlocked, real=True))

    @routes.row(
        "GET",
        "/loadout/<user_id>/<character_id>/slotcount",
        real_only=True,
        reply=Envelope[SlotCounts],
    )
    async def slot_count(self, call: Call, user_id: str, character_id: str) -> Answer:
        """Return how many loadout slots the account and the character have, and the maximums."""
        owner = self.acting.reads(call, user_id)
        return enveloped(wire.counts(await self.acts.counts(owner, character_id), real=True))

    @routes.row(
        "POST",
        "/loadout/<user_id>/<character_id>/active/<index>",
        path_types={"index": int},
        real_only=True,
        game_server=True,
        reply=Activated,
        again=Again.NATURAL,
    )
    async def activate(self, call: Call, user_id: str, character_id: str, index: str) -> Answer:
        """Make a loadout slot the active slot."""
        await self.acts.activate(self.acting.writes(call, user_id), character_id, index)
        return Answer(200, wire.ACTIVATED)


def loadouts(parts: Parts, after_save: AfterSave | None) -> Iterator[Feature]:
    """Yield the loadout routes; raises BadData.

    After each save, ``after_save`` deletes saves that need not be kept.
    """
    acts = LoadoutActs(
        load(),
        parts.settings.real_progression,
        parts.data,
        parts.wall_clock,
        parts.settings.loadout_max_bytes,
        after_save,
    )
    yield LoadoutRoutes(acts, parts.acting)
