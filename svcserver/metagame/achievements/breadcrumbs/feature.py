"""Breadcrumbs: data shapes, transactions, table and routes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, TypedDict

import sqlalchemy as sa
from attrs import frozen

from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert
from svcserver.kernel import json
from svcserver.kernel.envelope import Envelope, envelope
from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.json import Fragment
from svcserver.kernel.shapes import AsSent, Count, Late, camel_case, spelled
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.achievements.breadcrumbs import rules
from svcserver.metagame.achievements.encounters.rules import check_own
from svcserver.metagame.belongings.inventory.store import owner_of
from svcserver.metagame.once import ONLY, Again, Attempt
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import Answer, Feature, bare


@spelled(camel_case)
@frozen
class BreadcrumbSave:
    """All breadcrumbs of a character, stored as sent; each save needs a higher version."""

    breadcrumbs: list[AsSent]
    update_version: Count


class BreadcrumbList(TypedDict):
    """A character's breadcrumbs (markers for new menu entries), exactly as the client sent them."""

    breadcrumbs: list[AsSent]
    updateVersion: int


def show_breadcrumbs(version: int, listed: bytes) -> dict[str, Any]:
    """Return the reply with a list of breadcrumbs; ``listed`` is its JSON text."""
    return envelope({"breadcrumbs": Fragment(listed), "updateVersion": version})


@frozen
class BreadcrumbActs:
    """Reads and replaces a character's breadcrumbs; ``most_bytes`` is BREADCRUMBS_MAX_BYTES."""

    data: AccountData
    most_bytes: int

    async def read_breadcrumbs(self, me: AccountId, character_id: CharacterId) -> tuple[int, bytes]:
        """Return the version and the JSON text of the list.

        If no list was saved, the version is 0 and the list is empty.
        """

        def work(tx: sa.Connection) -> tuple[int, bytes]:
            check_own(owner_of(tx, character_id), me)
            return SqlBreadcrumbs(tx).find(character_id) or (0, b"[]")

        return await self.data.read_for_account(me, work)

    async def save(
        self,
        me: AccountId,
        character_id: CharacterId,
        version: int,
        listed: bytes,
        *,
        attempt: Attempt = ONLY,
    ) -> None:
        """Replace the whole list; raises Conflict if the version does not increase."""
        rules.check_size(len(listed), self.most_bytes)

        def work(tx: sa.Connection) -> None:
            check_own(owner_of(tx, character_id), me)
            store = SqlBreadcrumbs(tx)
            stored = store.find(character_id)
            rules.check(None if stored is None else stored[0], version)
            store.keep(character_id, version, listed)

        await self.data.write(me, len(listed), attempt.once(work))


BREADCRUMBS = sa.Table(
    "breadcrumbs",
    METADATA,
    sa.Column("character_id", sa.String(64), primary_key=True),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
)
_B = BREADCRUMBS.c
_FIND = sa.select(_B.version, _B.data).where(_B.character_id == sa.bindparam("character"))
_PUT = Upsert(BREADCRUMBS)


@frozen
class SqlBreadcrumbs:
    """The table of breadcrumbs, within one open transaction."""

    tx: sa.Connection

    def find(self, character_id: CharacterId) -> tuple[int, bytes] | None:
        """Return the version and the JSON text of a character's list."""
        row = self.tx.execute(_FIND, {"character": character_id}).first()
        return None if row is None else (row.version, bytes(row.data))

    def keep(self, character_id: CharacterId, version: int, data: bytes) -> None:
        row = {"character_id": character_id, "version": version, "data": data}
        _PUT.put(self.tx, [row])


@frozen
class BreadcrumbRoutes:
    """The routes for the menu breadcrumbs of the caller's character."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    acts: BreadcrumbActs

    @routes.row("GET", "/breadcrumbs/<character_id>", reply=Envelope[BreadcrumbList])
    async def read(self, call: Call, character_id: str) -> Answer:
        """Return the character's breadcrumbs; if nothing was saved, an empty list at version 0."""
        return Answer(
            200, show_breadcrumbs(*await self.acts.read_breadcrumbs(call.player, character_id))
        )

    @routes.row(
        "POST",
        "/breadcrumbs/<character_id>",
        body=Late[BreadcrumbSave],
        reply=Envelope[BreadcrumbList],
        again=Again.STORED,
    )
    async def save(self, call: Call[Late[BreadcrumbSave]], character_id: str) -> Answer:
        """Replace the character's breadcrumbs; the reply is 409 if the version is not higher."""
        player, sent = call.player, call.body.parse_value()
        version, listed = sent.update_version, json.dump(sent.breadcrumbs)
        await self.acts.save(player, character_id, version, listed, attempt=call.attempt)
        return Answer(200, show_breadcrumbs(version, listed))


def breadcrumbs(parts: Parts) -> Iterator[Feature]:
    """Yield the routes of breadcrumbs."""
    yield BreadcrumbRoutes(BreadcrumbActs(parts.data, parts.settings.breadcrumbs_max_bytes))
