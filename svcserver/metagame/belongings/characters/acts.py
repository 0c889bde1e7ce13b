"""Operations on characters; each runs in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen
from sqlalchemy import Connection

from svcserver.kernel.ids import AccountId
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.belongings.characters import rules
from svcserver.metagame.belongings.characters.rules import Character
from svcserver.metagame.belongings.characters.store import AfterSave, SqlCharacters
from svcserver.metagame.belongings.characters.wire import CharacterSave
from svcserver.metagame.belongings.documents import document
from svcserver.metagame.once import ONLY, Attempt


@frozen
class CharacterActs:
    """The operations that read, create and save characters.

    ``most_bytes`` is CHARACTER_MAX_BYTES. The methods' parameter ``size`` is the number of bytes of
    the request body. Each save of a character calls ``after_save`` with the character's id and the
    time, in the same transaction.
    """

    data: AccountData
    wall_clock: Callable[[], float]
    most_bytes: int
    after_save: AfterSave | None = None

    async def read_characters(self, me: AccountId) -> Sequence[Character]:
        """Return the account's characters; the first read creates the first character."""
        characters = await self.data.read_for_account(
            me, lambda tx: SqlCharacters(tx).of_account(me)
        )
        if characters:
            return characters

        def first(tx: Connection) -> list[Character]:
            account = SqlAccounts(tx).find(me)
            username = account.username if account is not None else me
            return SqlCharacters(tx).all_of(me, username, self.wall_clock())

        return await self.data.write(me, 0, first)

    async def create(
        self, me: AccountId, name: str, size: int, *, attempt: Attempt = ONLY
    ) -> Character:
        """Create a character; ``size`` (bytes of the request) counts towards the daily quota."""

        def work(tx: Connection) -> Character:
            return SqlCharacters(tx, attempt.request_id).create(me, name, self.wall_clock())

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
        """Replace a character's document; return the character after the save.

        The document is parsed last, so that Missing and Conflict take precedence over Malformed.
        """

        def work(tx: Connection) -> Character:
            characters, now = SqlCharacters(tx, attempt.request_id), self.wall_clock()
            version, character_id = sent.update_version, sent.character_id
            stored = None if character_id is None else characters.find(character_id)
            before = rules.check_save(stored, me, version)
            saved = before.saved(document(sent.data.parse_value(), self.most_bytes), version, now)
            characters.save(saved, reason)
            if self.after_save is not None:
                self.after_save(tx, saved.id, now)
            return saved

        return await self.data.write(me, size, attempt.unless(self._saved(me, attempt), work))

    @staticmethod
    def _saved(me: AccountId, attempt: Attempt) -> Callable[[Connection], tuple[Character] | None]:
        """Return a function that finds the result of an earlier attempt of the same request."""

        def find(tx: Connection) -> tuple[Character] | None:
            saved = SqlCharacters(tx).saved_by(attempt.request_id)
            return None if saved is None or saved.account_id != me else (saved,)

        return find
