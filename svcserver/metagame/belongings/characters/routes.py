"""The character routes; replies are flat. Spec: 1 §4 Characters."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypedDict

from attrs import frozen
from sqlalchemy import Connection

from svcserver.kernel.json import Fragment
from svcserver.kernel.times import short_date
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.belongings.characters import rules
from svcserver.metagame.belongings.characters.store import SqlCharacters
from svcserver.web.routes import Access, Answer, Call, Routes, bare


class CharacterReply(TypedDict):
    """A character on the wire; ``data`` is JSON text inside a JSON text."""

    accountId: str
    createdDate: str
    data: Fragment
    id: str
    lastModifiedDate: str
    name: str
    updateVersion: int


class NewCharacter(TypedDict):
    """A name of 1 to 64 characters."""

    name: str


class CharacterSave(TypedDict):
    """``data`` is the JSON text of an object; ``updateVersion`` must rise."""

    characterId: str
    data: str
    updateVersion: int


@frozen
class Characters:
    """Read, create and save characters.

    ``after_save`` runs in the transaction of every save, with character id and time.
    """

    routes: ClassVar[Routes] = Routes(bare)
    data: AccountData
    now: Callable[[], float]
    most_bytes: int
    after_save: Callable[[Connection, str, float], None] | None = None

    @routes.row("GET", "/character", access=Access.TOKEN, reply=list[CharacterReply])
    async def read(self, call: Call) -> Answer:
        """The caller's characters; the first one is made on the first read."""
        account_id = call.player
        found = await self.data.read(
            account_id, lambda tx: SqlCharacters(tx).of_account(account_id)
        )
        if not found:

            def first(tx: Connection) -> list[rules.Character]:
                account = SqlAccounts(tx).find(account_id)
                username = account.username if account is not None else account_id
                return rules.all_of(SqlCharacters(tx), account_id, username, self.now())

            found = await self.data.write(account_id, 0, first)
        return Answer(200, [shape(one) for one in found])

    @routes.row(
        "PUT",
        "/character",
        access=Access.TOKEN,
        body=object,
        sends=NewCharacter,
        reply=CharacterReply,
    )
    async def create(self, call: Call) -> Answer:
        """A new character."""
        account_id = call.player
        name = rules.name(call.fields.get("name"))
        made = await self.data.write(
            account_id,
            len(call.request.body),
            lambda tx: rules.create(SqlCharacters(tx), account_id, name, self.now()),
        )
        return Answer(200, shape(made))

    @routes.row(
        "POST",
        "/character",
        access=Access.TOKEN,
        body=object,
        sends=CharacterSave,
        reply=CharacterReply,
    )
    async def save(self, call: Call) -> Answer:
        """Save the caller's own character; the answer comes after the fsync."""
        account_id = call.player
        version = rules.version(call.fields.get("updateVersion"))
        character_id, data = call.fields.get("characterId"), call.fields.get("data")
        reason = rules.SAVED_BY_GAME_SERVER if call.caller.game_server else rules.SAVED_BY_CLIENT
        after_save = self.after_save

        def work(tx: Connection) -> rules.Character:
            now = self.now()
            saved = rules.save(
                SqlCharacters(tx),
                account_id,
                character_id,
                version,
                data,
                now,
                reason,
                self.most_bytes,
            )
            if after_save is not None:
                after_save(tx, saved.id, now)
            return saved

        return Answer(200, shape(await self.data.write(account_id, len(call.request.body), work)))


def shape(character: rules.Character) -> CharacterReply:
    """A character as the client reads it."""
    return {
        "accountId": character.account_id,
        "createdDate": short_date(character.created_at),
        "data": Fragment(character.data.literal),
        "id": character.id,
        "lastModifiedDate": short_date(character.modified_at),
        "name": character.name,
        "updateVersion": character.update_version,
    }
