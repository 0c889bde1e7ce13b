"""The encountered-content routes. Spec: 1 §4 Progression (encountered content)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from attrs import frozen
from sqlalchemy import Connection

from svcserver.kernel.json import Json
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.achievements.encounters import rules, wire
from svcserver.metagame.achievements.encounters.store import SqlEncounters, own_character
from svcserver.web.routes import (
    EMPTY_OBJECT,
    Access,
    Answer,
    Call,
    Envelope,
    Routes,
    bare,
    enveloped,
)


@frozen
class Encounters:
    """What the caller's character has met."""

    routes: ClassVar[Routes] = Routes(bare)
    data: AccountData
    most: int

    @routes.row(
        "GET",
        "/encountered-content/<character_id>/<content_type>",
        access=Access.TOKEN,
        reply=Envelope[wire.MetReply],
    )
    async def read(self, call: Call, character_id: str, content_type: str) -> Answer:
        """Content of one type."""
        return await self._read(call, character_id, [rules.type_in_path(content_type)])

    @routes.row(
        "POST",
        "/encountered-content/query/<character_id>",
        access=Access.TOKEN,
        body=wire.ContentTypes,
        reply=Envelope[wire.MetReply],
    )
    async def query(self, call: Call[wire.ContentTypes], character_id: str) -> Answer:
        """One entry per asked type, in the asked order."""
        return await self._read(call, character_id, call.body.content_types)

    @routes.row(
        "POST",
        "/encountered-content/<character_id>",
        access=Access.TOKEN,
        body=wire.Encounter,
        reply=Envelope[dict[str, Json]],
    )
    async def add(self, call: Call[wire.Encounter], character_id: str) -> Answer:
        """Add one; a repeat changes nothing."""
        account_id = call.player
        kind, name = call.body.content_type, call.body.content_id

        def work(tx: Connection) -> None:
            own_character(tx, character_id, account_id, hold=True)
            rules.meet(SqlEncounters(tx), character_id, kind, name, self.most)

        await self.data.write(account_id, len(call.request.body), work)
        return enveloped(EMPTY_OBJECT)

    async def _read(self, call: Call, character_id: str, kinds: Sequence[int]) -> Answer:
        account_id = call.player

        def work(tx: Connection) -> dict[int, list[str]]:
            own_character(tx, character_id, account_id)
            return SqlEncounters(tx).of(character_id)

        found = await self.data.read(account_id, work)
        rules.check_answer(kinds, found, self.most)
        types = [{"content": found.get(kind, []), "content_type": kind} for kind in kinds]
        return enveloped({"content_types": types, "success": True})
