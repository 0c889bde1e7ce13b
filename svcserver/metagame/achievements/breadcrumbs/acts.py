"""Operations on breadcrumbs, one transaction each."""

from __future__ import annotations

from attrs import frozen
from sqlalchemy import Connection

from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.achievements.breadcrumbs import rules
from svcserver.metagame.achievements.breadcrumbs.store import SqlBreadcrumbs
from svcserver.metagame.achievements.encounters.rules import check_own
from svcserver.metagame.achievements.encounters.store import owner_of
from svcserver.metagame.once import ONLY, Attempt


@frozen
class BreadcrumbActs:
    """Read and replace; ``most_bytes``: BREADCRUMBS_MAX_BYTES."""

    data: AccountData
    most_bytes: int

    async def read(self, me: AccountId, character_id: CharacterId) -> tuple[int, bytes]:
        """The version and the JSON text of the list; an empty one at version 0."""

        def work(tx: Connection) -> tuple[int, bytes]:
            check_own(owner_of(tx, character_id), me)
            return SqlBreadcrumbs(tx).find(character_id) or (0, b"[]")

        return await self.data.read(me, work)

    async def save(
        self,
        me: AccountId,
        character_id: CharacterId,
        version: int,
        listed: bytes,
        *,
        attempt: Attempt = ONLY,
    ) -> None:
        """Replace the whole list; raises Conflict unless the version rises."""
        rules.check_size(len(listed), self.most_bytes)

        def work(tx: Connection) -> None:
            check_own(owner_of(tx, character_id), me)
            kept = SqlBreadcrumbs(tx)
            found = kept.find(character_id)
            rules.check(None if found is None else found[0], version)
            kept.keep(character_id, version, listed)

        await self.data.write(me, len(listed), attempt.once(work))
