"""Operations on encountered content, one transaction each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen
from sqlalchemy import Connection

from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.achievements.encounters import rules
from svcserver.metagame.achievements.encounters.store import SqlEncounters, owner_of


@frozen
class EncounterActs:
    """Look up and add; ``most``: ACHIEVEMENTS_MAX."""

    data: AccountData
    most: int

    async def met(
        self, me: AccountId, character_id: CharacterId, kinds: Sequence[int]
    ) -> Mapping[int, Sequence[str]]:
        """Content ids by type, oldest first; raises Malformed when ``kinds`` asks for too much."""

        def work(tx: Connection) -> dict[int, list[str]]:
            rules.check_own(owner_of(tx, character_id), me)
            return SqlEncounters(tx).of(character_id)

        found = await self.data.read(me, work)
        rules.check_answer(kinds, found, self.most)
        return found

    async def add(
        self, me: AccountId, character_id: CharacterId, kind: int, name: str, size: int
    ) -> None:
        """Add one, which counts ``size`` bytes of the quota; a repeat changes nothing."""

        def work(tx: Connection) -> None:
            rules.check_own(owner_of(tx, character_id), me)
            rules.meet(SqlEncounters(tx), character_id, kind, name, self.most)

        await self.data.write(me, size, work)
