"""The routes by which the dashboard lists people, and an owner handles one. Direct callers only."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import staff_of
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.accounts.wire import read_offset
from svcserver.metagame.once import Again
from svcserver.metagame.owner.people import wire
from svcserver.metagame.owner.people.acts import HandlingActs, PeopleActs
from svcserver.metagame.owner.people.rules import Order
from svcserver.metagame.owner.wire import AccountExport
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer, Needed


@frozen
class PeopleRoutes:
    """Lists of accounts, and one of them."""

    routes: ClassVar[Routes] = Routes(worded, access=Access.ADMIN_KEY, role=Role.HELPER, quiet=True)
    acts: PeopleActs
    reads: ReadLimit

    @routes.row(
        "GET",
        "/svc/api/DashboardPeople",
        reply=wire.PeopleReply,
        query={"Text": str, "Sort": Order, "Offset": int},
    )
    async def find(self, call: Call) -> Answer:
        """Accounts whose name or id holds ``?Text=``, sorted by ``?Sort=`` name, seen or role."""
        await self.reads.take(call.request.peer)
        text = wire.read_text(call.request.argument("Text"))
        order = wire.read_order(call.request.argument("Sort"))
        offset = read_offset(call.request.argument("Offset"))
        found = await self.acts.listed(order, text, offset, wire.PAGE + 1)
        return Answer(200, wire.show_list(found, await self.acts.where(), offset), NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardPerson",
        reply=wire.PersonView,
        query={"Account": Needed(str)},
    )
    async def person(self, call: Call) -> Answer:
        """The account whose name or id is ``?Account=``."""
        await self.reads.take(call.request.peer)
        found = await self.acts.person(call.request.argument("Account") or "")
        return Answer(200, wire.show_person(found, await self.acts.where()), NO_STORE)


@frozen
class HandlingRoutes:
    """The owner's routes that renew keys and merge, export and delete accounts.

    Every row takes a helper's key: whoever may not is refused by the rules, and so recorded.
    """

    routes: ClassVar[Routes] = Routes(
        worded, access=Access.ADMIN_KEY, role=Role.HELPER, bad_json=BAD_JSON, again=Again.NEVER
    )
    acts: HandlingActs

    @routes.row("POST", "/svc/api/DashboardNewKey", body=wire.AccountWish, reply=wire.NewKey)
    async def new_key(self, call: Call[wire.AccountWish]) -> Answer:
        """Give an account another key; the old one and its sessions no longer work."""
        made = await self.acts.new_key(staff_of(call), call.body.account, call.body.reason)
        return Answer(200, {"Username": made.account.username, "Key": made.key}, NO_STORE)

    @routes.row("POST", "/svc/api/DashboardMergeNotes", body=wire.MergeWish, reply=wire.Merged)
    async def merge_notes(self, call: Call[wire.MergeWish]) -> Answer:
        """Give one account's notes (the main currency) to another, as of one who began anew."""
        sent = call.body
        done = await self.acts.merge_notes(staff_of(call), sent.account, sent.to, sent.reason)
        source, target, moved = done
        reply: wire.Merged = {"Username": source.username, "To": target.username, "Moved": moved}
        return Answer(200, reply, NO_STORE)

    @routes.row("POST", "/svc/api/DashboardExport", body=wire.AccountWish, reply=AccountExport)
    async def export(self, call: Call[wire.AccountWish]) -> Answer:
        """All that is kept of an account, without secrets."""
        found = await self.acts.export(staff_of(call), call.body.account, call.body.reason)
        return Answer(200, found, NO_STORE)

    @routes.row("POST", "/svc/api/DashboardDelete", body=wire.DeleteWish, reply=wire.Deleted)
    async def delete(self, call: Call[wire.DeleteWish]) -> Answer:
        """Delete an account for ever; the reply holds the last copy of what was kept of it."""
        gone = await self.acts.delete(staff_of(call), call.body.account, call.body.reason)
        export = gone.export if call.body.export else None
        reply: wire.Deleted = {"Username": gone.account.username, "Export": export}
        return Answer(200, reply, NO_STORE)
