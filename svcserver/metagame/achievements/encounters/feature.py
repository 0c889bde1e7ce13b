"""Encounters: shapes, transactions, tables and routes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypedDict

from attrs import frozen
from sqlalchemy import (
    Column,
    Connection,
    Integer,
    String,
    Table,
    UniqueConstraint,
    bindparam,
    func,
    insert,
    select,
)

from svcserver.db.tables import METADATA, ROW_ID
from svcserver.kernel.envelope import NOTHING, Envelope, envelope
from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import AtMost, Late, Name, whole
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.achievements.encounters import rules
from svcserver.metagame.achievements.encounters.rules import MAX_ASKED, MAX_TYPE, MAX_TYPE_ASKED
from svcserver.metagame.belongings.characters.store import CHARACTERS
from svcserver.metagame.once import Again
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import EMPTY_OBJECT, Answer, Feature, bare

_DIGITS = re.compile(r"\d{1,4}\Z", re.ASCII)


@frozen
class Encounter:
    """Content to add; types go from 0 to 7."""

    content_type: Annotated[int, whole(0, MAX_TYPE)]
    content_id: Name


@frozen
class ContentTypes:
    """Which types to list, 1,000 at most; one above 7, which no content has, lists nothing."""

    content_types: Annotated[
        tuple[Annotated[int, whole(0, MAX_TYPE_ASKED)], ...], AtMost(MAX_ASKED)
    ]


class MetContent(TypedDict):
    """What a character has met of one type of content, the first met first."""

    content: list[str]
    content_type: int


class MetReply(TypedDict):
    """What a character has met: an entry for each type asked for, in the order of the request."""

    content_types: list[MetContent]
    success: bool


def type_in_path(text: str) -> int:
    """A content type in a path; raises Malformed."""
    if not _DIGITS.match(text):
        raise Malformed("the content type must be a number")
    return int(text)


def show(kinds: Sequence[int], found: Mapping[int, Sequence[str]]) -> dict[str, Any]:
    """The reply for the types ``kinds``."""
    listed = [{"content": found.get(kind, ()), "content_type": kind} for kind in kinds]
    return envelope({"content_types": listed, "success": True})


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


ENCOUNTERED_CONTENT = Table(
    "encountered_content",
    METADATA,
    Column("seq", ROW_ID, primary_key=True, autoincrement=True),
    Column("character_id", String(64), nullable=False),
    Column("content_type", Integer, nullable=False),
    Column("content_id", String(128), nullable=False),
    UniqueConstraint("character_id", "content_type", "content_id"),
)
_E = ENCOUNTERED_CONTENT.c
_OF = (
    select(_E.content_type, _E.content_id)
    .where(_E.character_id == bindparam("character"))
    .order_by(_E.seq)
)
_HAS = select(_E.seq).where(
    _E.character_id == bindparam("character"),
    _E.content_type == bindparam("kind"),
    _E.content_id == bindparam("name"),
)
_COUNT = select(func.count()).where(_E.character_id == bindparam("character"))
_ADD = insert(ENCOUNTERED_CONTENT)
_OWNER = select(CHARACTERS.c.account_id).where(CHARACTERS.c.id == bindparam("character"))


def owner_of(tx: Connection, character_id: CharacterId) -> AccountId | None:
    """Whose the character is; None for an unknown one."""
    if "\0" in character_id:
        return None  # which no column holds
    owner: AccountId | None = tx.execute(_OWNER, {"character": character_id}).scalar()
    return owner


@frozen
class SqlEncounters:
    """Stored encounters, inside one transaction."""

    tx: Connection

    def of(self, character_id: CharacterId) -> dict[int, list[str]]:
        """Content ids by type, oldest first."""
        found: dict[int, list[str]] = {}
        for kind, name in self.tx.execute(_OF, {"character": character_id}):
            found.setdefault(kind, []).append(name)
        return found

    def has(self, character_id: CharacterId, kind: int, name: str) -> bool:
        wanted = {"character": character_id, "kind": kind, "name": name}
        return self.tx.execute(_HAS, wanted).first() is not None

    def count(self, character_id: CharacterId) -> int:
        return int(self.tx.execute(_COUNT, {"character": character_id}).scalar_one())

    def add(self, character_id: CharacterId, kind: int, name: str) -> None:
        row = {"character_id": character_id, "content_type": kind, "content_id": name}
        self.tx.execute(_ADD, row)


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
        return await self._read(call, character_id, [type_in_path(content_type)])

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
        return Answer(200, show(kinds, await self.acts.met(call.player, character_id, kinds)))

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


def encounters(parts: Parts) -> Iterator[Feature]:
    """Encounters."""
    yield EncounterRoutes(EncounterActs(parts.data, parts.settings.achievements_max))
