"""The breadcrumb routes. Spec: 1 §4 Progression (breadcrumbs)."""

from __future__ import annotations

from typing import Any, ClassVar, TypedDict

from attrs import frozen
from sqlalchemy import Connection

from svcserver.kernel import json
from svcserver.kernel.json import Fragment
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.achievements.breadcrumbs import rules
from svcserver.metagame.achievements.breadcrumbs.store import SqlBreadcrumbs
from svcserver.metagame.achievements.encounters.store import own_character
from svcserver.web.routes import Access, Answer, Call, Envelope, Routes, bare, enveloped


class BreadcrumbList(TypedDict):
    """The whole list, as sent; ``updateVersion`` must rise."""

    breadcrumbs: list[Any]
    updateVersion: int


@frozen
class Breadcrumbs:
    """Interface breadcrumbs of the caller's character."""

    routes: ClassVar[Routes] = Routes(bare)
    data: AccountData
    most_bytes: int

    @routes.row(
        "GET", "/breadcrumbs/<character_id>", access=Access.TOKEN, reply=Envelope[BreadcrumbList]
    )
    async def read(self, call: Call, character_id: str) -> Answer:
        """The stored list; empty at version 0."""
        account_id = call.player

        def work(tx: Connection) -> tuple[int, bytes]:
            own_character(tx, character_id, account_id)
            return SqlBreadcrumbs(tx).find(character_id) or (0, b"[]")

        version, data = await self.data.read(account_id, work)
        return enveloped({"breadcrumbs": Fragment(data), "updateVersion": version})

    @routes.row(
        "POST",
        "/breadcrumbs/<character_id>",
        access=Access.TOKEN,
        body=object,
        sends=BreadcrumbList,
        reply=Envelope[BreadcrumbList],
    )
    async def save(self, call: Call, character_id: str) -> Answer:
        """Replace the whole list; 409 unless the version rises."""
        account_id = call.player
        listed, version = rules.read_save(call.body)
        data = json.dump(listed)
        rules.check_size(len(data), self.most_bytes)

        def work(tx: Connection) -> None:
            own_character(tx, character_id, account_id, hold=True)
            kept = SqlBreadcrumbs(tx)
            found = kept.find(character_id)
            rules.check(None if found is None else found[0], version)
            kept.keep(character_id, version, data)

        await self.data.write(account_id, len(data), work)
        return enveloped({"breadcrumbs": Fragment(data), "updateVersion": version})
