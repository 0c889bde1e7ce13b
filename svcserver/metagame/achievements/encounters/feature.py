"""Encounters: data shapes, transactions, tables and routes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypedDict

import sqlalchemy as sa
from attrs import frozen

from svcserver.db.tables import METADATA, ROW_ID
from svcserver.kernel.envelope import NOTHING, Envelope, envelope
from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Conflict, Malformed
from svcserver.kernel.shapes import AtMost, Late, Name, whole
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.achievements.encounters import rules
from svcserver.metagame.achievements.encounters.rules import (
    MAX_QUERY_TYPE,
    MAX_QUERY_TYPES,
    MAX_TYPE,
)
from svcserver.metagame.belongings.inventory.store import owner_of
from svcserver.metagame.once import Again
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import EMPTY_OBJECT, Answer, Feature, bare

_DIGITS = re.compile(r"\d{1,4}\Z", re.ASCII)


@frozen
class Encounter:
    """Content that a character has encountered: its type, from 0 to 7, and its id."""

    content_type: Annotated[int, whole(0, MAX_TYPE)]
    content_id: Name


@frozen
class ContentTypes:
    """The content types to return; the reply's list for a type above 7 is empty."""

    content_types: Annotated[
        tuple[Annotated[int, whole(0, MAX_QUERY_TYPE)], ...], AtMost(MAX_QUERY_TYPES)
    ]


class MetContent(TypedDict):
    """The content that a character has encountered, oldest first, for one content type."""

    content: list[str]
    content_type: int


class MetReply(TypedDict):
    """The content that a character has encountered, by type, in the order of the request."""

    content_types: list[MetContent]
    success: bool


def type_in_path(text: str) -> int:
    """Return the content type as a number; raises Malformed unless ``text`` is 1 to 4 digits."""
    if not _DIGITS.match(text):
        raise Malformed("the content type must be a number")
    return int(text)


def show_encounters(kinds: Sequence[int], content: Mapping[int, Sequence[str]]) -> dict[str, Any]:
    """Return the reply with an entry for each type in ``kinds``."""
    listed = [{"content": content.get(kind, ()), "content_type": kind} for kind in kinds]
    return envelope({"content_types": listed, "success": True})


@frozen
class EncounterActs:
    """The operations on encounters; ``most`` is the maximum number of encounters per character."""

    data: AccountData
    most: int

    async def met(
        self, me: AccountId, character_id: CharacterId, kinds: Sequence[int]
    ) -> Mapping[int, Sequence[str]]:
        """Return the ids of content that the character has encountered, by type, oldest first.

        Raises Malformed if the reply would be too large (``rules.check_reply``).
        """

        def work(tx: sa.Connection) -> dict[int, list[str]]:
            rules.check_own(owner_of(tx, character_id), me)
            return SqlEncounters(tx).content_by_type(character_id)

        content = await self.data.read_for_account(me, work)
        rules.check_reply(kinds, content, self.most)
        return content

    async def add(
        self, me: AccountId, character_id: CharacterId, kind: int, name: str, size: int
    ) -> None:
        """Record content, if it is new; in any case, ``size`` bytes count towards the quota."""

        def work(tx: sa.Connection) -> None:
            rules.check_own(owner_of(tx, character_id), me)
            encounters = SqlEncounters(tx)
            if encounters.has(character_id, kind, name):
                return
            if encounters.count(character_id) >= self.most:
                raise Conflict("this character has the maximum number of encounters")
            encounters.add(character_id, kind, name)

        await self.data.write(me, size, work)


ENCOUNTERED_CONTENT = sa.Table(
    "encountered_content",
    METADATA,
    sa.Column("seq", ROW_ID, primary_key=True, autoincrement=True),
    sa.Column("character_id", sa.String(64), nullable=False),
    sa.Column("content_type", sa.Integer, nullable=False),
    sa.Column("content_id", sa.String(128), nullable=False),
    sa.UniqueConstraint("character_id", "content_type", "content_id"),
)
_E = ENCOUNTERED_CONTENT.c
_CONTENT = (
    sa.select(_E.content_type, _E.content_id)
    .where(_E.character_id == sa.bindparam("character"))
    .order_by(_E.seq)
)
_HAS = sa.select(_E.seq).where(
    _E.character_id == sa.bindparam("character"),
    _E.content_type == sa.bindparam("kind"),
    _E.content_id == sa.bindparam("name"),
)
_COUNT = sa.select(sa.func.count()).where(_E.character_id == sa.bindparam("character"))
_ADD = sa.insert(ENCOUNTERED_CONTENT)


@frozen
class SqlEncounters:
    """The tables of encounters, within one transaction."""

    tx: sa.Connection

    def content_by_type(self, character_id: CharacterId) -> dict[int, list[str]]:
        """Return the ids of content that the character has encountered, by type, oldest first."""
        content: dict[int, list[str]] = {}
        for kind, name in self.tx.execute(_CONTENT, {"character": character_id}):
            content.setdefault(kind, []).append(name)
        return content

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
    """The routes for the content that the caller's character has encountered."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    acts: EncounterActs

    @routes.row(
        "GET",
        "/encountered-content/<character_id>/<content_type>",
        path_types={"content_type": int},
        reply=Envelope[MetReply],
    )
    async def read(self, call: Call, character_id: str, content_type: str) -> Answer:
        """Return the content that the character has encountered, for one content type."""
        return await self._answer_encounters(call, character_id, [type_in_path(content_type)])

    @routes.row(
        "POST",
        "/encountered-content/query/<character_id>",
        body=ContentTypes,
        reply=Envelope[MetReply],
        again=Again.NATURAL,
    )
    async def query(self, call: Call[ContentTypes], character_id: str) -> Answer:
        """Return the content that the character has encountered, for several content types."""
        return await self._answer_encounters(call, character_id, call.body.content_types)

    async def _answer_encounters(
        self, call: Call, character_id: str, kinds: Sequence[int]
    ) -> Answer:
        return Answer(
            200, show_encounters(kinds, await self.acts.met(call.player, character_id, kinds))
        )

    @routes.row(
        "POST",
        "/encountered-content/<character_id>",
        body=Late[Encounter],
        reply=NOTHING,
        again=Again.NATURAL,
    )
    async def add(self, call: Call[Late[Encounter]], character_id: str) -> Answer:
        """Record that the character has encountered something, for example a person.

        Recording the same content again changes nothing.
        """
        player, content, size = call.player, call.body.parse_value(), len(call.request.body)
        await self.acts.add(player, character_id, content.content_type, content.content_id, size)
        return enveloped(EMPTY_OBJECT)


def encounters(parts: Parts) -> Iterator[Feature]:
    """Yield the routes of encounters."""
    yield EncounterRoutes(EncounterActs(parts.data, parts.settings.achievements_max))
