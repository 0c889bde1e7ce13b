"""The encountered-content routes. Spec: 1 §4 Progression (encountered content)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from attrs import frozen

from svcserver.kernel.envelope import NOTHING, Envelope
from svcserver.kernel.shapes import Late
from svcserver.metagame.achievements.encounters import wire
from svcserver.metagame.achievements.encounters.acts import EncounterActs
from svcserver.metagame.achievements.encounters.wire import ContentTypes, Encounter, MetReply
from svcserver.metagame.once import Again
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import EMPTY_OBJECT, Answer, bare


@frozen
class EncounterRoutes:
    """Content that the caller's character has encountered."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    acts: EncounterActs

    @routes.row(
        "GET",
        "/encountered-content/<character_id>/<content_type>",
        path_types={"content_type": int},
        reply=Envelope[MetReply],
    )
    async def read(self, call: Call, character_id: str, content_type: str) -> Answer:
        """What the character has met of one type of content."""
        return await self._read(call, character_id, [wire.type_in_path(content_type)])

    @routes.row(
        "POST",
        "/encountered-content/query/<character_id>",
        body=ContentTypes,
        reply=Envelope[MetReply],
        again=Again.NATURAL,
    )
    async def query(self, call: Call[ContentTypes], character_id: str) -> Answer:
        """What the character has met of several types, in the order of the request."""
        return await self._read(call, character_id, call.body.content_types)

    async def _read(self, call: Call, character_id: str, kinds: Sequence[int]) -> Answer:
        return Answer(200, wire.show(kinds, await self.acts.met(call.player, character_id, kinds)))

    @routes.row(
        "POST",
        "/encountered-content/<character_id>",
        body=Late[Encounter],
        reply=NOTHING,
        again=Again.NATURAL,
    )
    async def add(self, call: Call[Late[Encounter]], character_id: str) -> Answer:
        """Note content of a type (a person, say) as met by the character.

        Once it is noted, noting it again changes nothing.
        """
        player, met, size = call.player, call.body.read(), len(call.request.body)
        await self.acts.add(player, character_id, met.content_type, met.content_id, size)
        return enveloped(EMPTY_OBJECT)
