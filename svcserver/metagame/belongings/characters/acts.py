"""Operations on characters, one transaction each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen
from sqlalchemy import Connection

from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.repeats import Repeat
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.belongings import documents
from svcserver.metagame.belongings.characters import repeats, rules
from svcserver.metagame.belongings.characters.rules import Character
from svcserver.metagame.belongings.characters.store import SqlCharacters
from svcserver.metagame.belongings.characters.wire import CharacterSave
from svcserver.metagame.belongings.documents import Document


@frozen
class CharacterActs:
    """Read, create and save; ``size``: bytes of the body; ``most_bytes``: CHARACTER_MAX_BYTES.

    ``after_save`` runs in the transaction of every save, with character id and time.
    """

    data: AccountData
    wall_clock: Callable[[], float]
    most_bytes: int
    after_save: Callable[[Connection, CharacterId, float], None] | None = None

    async def read(self, me: AccountId) -> Sequence[Character]:
        """The account's characters; the first one is created at the first read."""
        found = await self.data.read(me, lambda tx: SqlCharacters(tx).of_account(me))
        if found:
            return found

        def first(tx: Connection) -> list[Character]:
            account = SqlAccounts(tx).find(me)
            username = account.username if account is not None else me
            return rules.all_of(SqlCharacters(tx), me, username, self.wall_clock())

        return await self.data.write(me, 0, first)

    async def create(
        self, me: AccountId, name: str, size: int, *, repeat: Repeat | None = None
    ) -> Character:
        """Create a character; ``size``: bytes of the request, counted against the day's quota."""

        def work(tx: Connection) -> Character:
            kept, now = SqlCharacters(tx), self.wall_clock()
            before = repeats.made(kept, me, name, now, repeat) if repeat else None
            return before or rules.create(kept, me, name, now)

        return await self.data.write(me, size, work)

    async def save(
        self,
        me: AccountId,
        sent: CharacterSave,
        reason: str,
        size: int,
        *,
        repeat: Repeat | None = None,
    ) -> Character:
        """Replace a character's document; returns the character afterwards."""

        def document() -> Document:
            return documents.document(sent.data.read(), self.most_bytes)

        def work(tx: Connection) -> Character:
            kept, now, version = SqlCharacters(tx), self.wall_clock(), sent.update_version
            which = sent.character_id
            before = repeats.saved(kept, me, which, version, document) if repeat else None
            saved = before or rules.save(kept, me, which, version, document, now, reason)
            if self.after_save is not None:
                self.after_save(tx, saved.id, now)
            return saved

        return await self.data.write(me, size, work)
