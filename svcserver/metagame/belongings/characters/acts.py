"""Operations on characters, one transaction each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen
from sqlalchemy import Connection

from svcserver.kernel.ids import AccountId
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.belongings import documents
from svcserver.metagame.belongings.characters import rules
from svcserver.metagame.belongings.characters.rules import Character
from svcserver.metagame.belongings.characters.store import AfterSave, SqlCharacters
from svcserver.metagame.belongings.characters.wire import CharacterSave
from svcserver.metagame.belongings.documents import Document
from svcserver.metagame.once import ONLY, Attempt


@frozen
class CharacterActs:
    """Read, create and save; ``size``: bytes of the body; ``most_bytes``: CHARACTER_MAX_BYTES.

    ``after_save`` runs in the transaction of every save, with character id and time.
    """

    data: AccountData
    wall_clock: Callable[[], float]
    most_bytes: int
    after_save: AfterSave | None = None

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
        self, me: AccountId, name: str, size: int, *, attempt: Attempt = ONLY
    ) -> Character:
        """Create a character; ``size``: bytes of the request, counted against the day's quota."""

        def work(tx: Connection) -> Character:
            kept = SqlCharacters(tx, attempt.request_id)
            return rules.create(kept, me, name, self.wall_clock())

        return await self.data.write(me, size, attempt.unless(self._saved(me, attempt), work))

    async def save(
        self,
        me: AccountId,
        sent: CharacterSave,
        reason: str,
        size: int,
        *,
        attempt: Attempt = ONLY,
    ) -> Character:
        """Replace a character's document; returns the character afterwards."""

        def document() -> Document:
            return documents.document(sent.data.read(), self.most_bytes)

        def work(tx: Connection) -> Character:
            kept, now = SqlCharacters(tx, attempt.request_id), self.wall_clock()
            which, version = sent.character_id, sent.update_version
            saved = rules.save(kept, me, which, version, document, now, reason)
            if self.after_save is not None:
                self.after_save(tx, saved.id, now)
            return saved

        return await self.data.write(me, size, attempt.unless(self._saved(me, attempt), work))

    @staticmethod
    def _saved(me: AccountId, attempt: Attempt) -> Callable[[Connection], tuple[Character] | None]:
        """What an earlier attempt has saved."""

        def find(tx: Connection) -> tuple[Character] | None:
            found = SqlCharacters(tx).saved_by(attempt.request_id)
            return None if found is None or found.account_id != me else (found,)

        return find
