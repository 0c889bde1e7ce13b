"""The breadcrumb routes. Spec: 1 §4 Progression (breadcrumbs)."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from svcserver.kernel import json
from svcserver.kernel.envelope import Envelope
from svcserver.kernel.shapes import Late
from svcserver.metagame.achievements.breadcrumbs import wire
from svcserver.metagame.achievements.breadcrumbs.acts import BreadcrumbActs
from svcserver.metagame.achievements.breadcrumbs.wire import BreadcrumbList, BreadcrumbSave
from svcserver.metagame.once import Again
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import Answer, bare


@frozen
class BreadcrumbRoutes:
    """Interface breadcrumbs of the caller's character."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    acts: BreadcrumbActs

    @routes.row("GET", "/breadcrumbs/<character_id>", reply=Envelope[BreadcrumbList])
    async def read(self, call: Call, character_id: str) -> Answer:
        """The character's breadcrumbs; an empty list of version 0 where none were saved."""
        return Answer(200, wire.show(*await self.acts.read(call.player, character_id)))

    @routes.row(
        "POST",
        "/breadcrumbs/<character_id>",
        body=Late[BreadcrumbSave],
        reply=Envelope[BreadcrumbList],
        again=Again.STORED,
    )
    async def save(self, call: Call[Late[BreadcrumbSave]], character_id: str) -> Answer:
        """Replace all of the character's breadcrumbs; 409 unless the version is above the stored
        one.
        """
        player, sent = call.player, call.body.read()
        version, listed = sent.update_version, json.dump(sent.breadcrumbs)
        await self.acts.save(player, character_id, version, listed, attempt=call.attempt)
        return Answer(200, wire.show(version, listed))
