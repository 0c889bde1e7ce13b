"""The routes of announcements, for the dashboard. Direct callers only."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import staff_of
from svcserver.metagame.once import Again
from svcserver.metagame.owner.announcements import rules, wire
from svcserver.metagame.owner.announcements.acts import Announcements
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer


@frozen
class AnnouncementRoutes:
    """Read, make and end the announcement."""

    routes: ClassVar[Routes] = Routes(worded, access=Access.ADMIN_KEY, again=Again.NEVER)
    announcements: Announcements

    @routes.row(
        "GET",
        "/svc/api/DashboardAnnouncement",
        role=Role.HELPER,
        reply=wire.AnnouncementReply,
        quiet=True,
    )
    async def current(self, call: Call) -> Answer:
        """What is announced at the moment, and by whom. Players read it at ``/svc-status``."""
        return Answer(200, wire.show(self.announcements.current()), NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardAnnouncement",
        role=Role.MODERATOR,
        body=wire.AnnouncementWish,
        reply=wire.AnnouncementReply,
        bad_json=BAD_JSON,
    )
    async def make(self, call: Call[wire.AnnouncementWish]) -> Answer:
        """Announce a text, with a restart or without; an empty text ends what is announced."""
        sent = call.body
        wish = rules.wish(sent.text, sent.for_, sent.restart_in) if sent.text else None
        made = await self.announcements.make(staff_of(call).name, wish, sent.reason)
        return Answer(200, wire.show(made), NO_STORE)
