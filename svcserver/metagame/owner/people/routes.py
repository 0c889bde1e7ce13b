"""The routes of the pages about people, for the dashboard. Direct callers only."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from svcserver.kernel.refusals import Malformed
from svcserver.kernel.roles import Role
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.accounts.entries import read_offset
from svcserver.metagame.owner.people import wire
from svcserver.metagame.owner.people.acts import PeopleActs
from svcserver.metagame.replies import worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer


@frozen
class PeopleRoutes:
    """Lists of accounts, and one of them."""

    routes: ClassVar[Routes] = Routes(worded)
    acts: PeopleActs
    reads: ReadLimit

    @routes.row(
        "GET",
        "/svc/api/DashboardPeople",
        access=Access.ADMIN_KEY,
        role=Role.HELPER,
        reply=wire.PeopleReply,
        query=("Text", "Sort", "Offset"),
        quiet=True,
    )
    async def people(self, call: Call) -> Answer:
        """Accounts whose name or id holds ``?Text=``, sorted by ``?Sort=`` name, seen or role."""
        await self.reads.take(call.request.peer)
        text = (call.request.argument("Text") or "").strip()
        if len(text) > wire.MAX_TEXT:
            raise Malformed(f"Text has at most {wire.MAX_TEXT} characters", code="bad_request")
        order = wire.read_order(call.request.argument("Sort"))
        offset = read_offset(call.request.argument("Offset"))
        found = await self.acts.listed(order, text, offset, wire.PAGE + 1)
        return Answer(200, wire.show_list(found, await self.acts.where(), offset), NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardPerson",
        access=Access.ADMIN_KEY,
        role=Role.HELPER,
        reply=wire.PersonView,
        query=("Account",),
        quiet=True,
    )
    async def person(self, call: Call) -> Answer:
        """The account whose name or id is ``?Account=``."""
        await self.reads.take(call.request.peer)
        found = await self.acts.person(call.request.argument("Account") or "")
        return Answer(200, wire.show_person(found, await self.acts.where()), NO_STORE)
