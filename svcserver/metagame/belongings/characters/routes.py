"""The character routes; their replies have no envelope. Spec: 1 §4 Characters."""

from collections.abc import Iterator
from typing import ClassVar

from attrs import frozen

from svcserver.kernel.shapes import Late
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.belongings.characters.acts import CharacterActs
from svcserver.metagame.belongings.characters.rules import reason_of
from svcserver.metagame.belongings.characters.store import AfterSave
from svcserver.metagame.belongings.characters.wire import (
    CharacterReply,
    CharacterSave,
    NewCharacter,
    show_character,
)
from svcserver.metagame.once import Again
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import Answer, Feature, bare


@frozen
class CharacterRoutes:
    """The routes that read, create and save characters.

    The caller is checked before the body is parsed.
    """

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    acts: CharacterActs

    @routes.row("GET", "/character", reply=list[CharacterReply])
    async def read(self, call: Call) -> Answer:
        """Return the caller's characters; the first read creates the first character."""
        return Answer(
            200,
            [
                show_character(character)
                for character in await self.acts.read_characters(call.player)
            ],
        )

    @routes.row(
        "PUT", "/character", body=Late[NewCharacter], reply=CharacterReply, again=Again.STORED
    )
    async def create(self, call: Call[Late[NewCharacter]]) -> Answer:
        """Create a character; it has no data yet."""
        me, name, size = call.player, call.body.parse_value().name, len(call.request.body)
        return Answer(
            200, show_character(await self.acts.create(me, name, size, attempt=call.attempt))
        )

    @routes.row(
        "POST", "/character", body=Late[CharacterSave], reply=CharacterReply, again=Again.STORED
    )
    async def save(self, call: Call[Late[CharacterSave]]) -> Answer:
        """Save the caller's own character; the reply is sent after the save is on disk."""
        me, sent, size = call.player, call.body.parse_value(), len(call.request.body)
        reason = reason_of(game_server=call.caller.game_server)
        saved = await self.acts.save(me, sent, reason, size, attempt=call.attempt)
        return Answer(200, show_character(saved))


def characters(parts: Parts, after_save: AfterSave | None) -> Iterator[Feature]:
    """Yield the character routes.

    After each save, ``after_save`` deletes saves that need not be kept.
    """
    most = parts.settings.character_max_bytes
    yield CharacterRoutes(CharacterActs(parts.data, parts.wall_clock, most, after_save))
