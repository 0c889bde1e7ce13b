"""The dashboard's routes for accounts, for direct callers only (not through a proxy)."""

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from attrs import frozen

from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import staff_of
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.accounts.audit import Act
from svcserver.metagame.accounts.wire import read_offset
from svcserver.metagame.once import Again
from svcserver.metagame.owner.people import wire
from svcserver.metagame.owner.people.acts import HandlingActs, PeopleActs, PersonWork
from svcserver.metagame.owner.people.rules import AccountFilter, SortOrder
from svcserver.metagame.owner.signin import CODE, SignInActs, is_proven
from svcserver.metagame.owner.wire import AccountExport
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer, Needed

T = TypeVar("T")


@frozen
class PeopleRoutes:
    """The routes for lists of accounts and for the details of one account."""

    routes: ClassVar[Routes] = Routes(worded, access=Access.ADMIN_KEY, role=Role.HELPER, quiet=True)
    acts: PeopleActs
    reads: ReadLimit

    @routes.row(
        "GET",
        "/svc/api/DashboardPeople",
        reply=wire.PeopleReply,
        query={"Text": str, "Sort": SortOrder, "Only": AccountFilter, "Offset": int},
    )
    async def find(self, call: Call) -> Answer:
        """List accounts whose name or id contains ``?Text=``; ``?Sort=`` is name, seen or role.

        ``?Only=`` limits the list to staff, or to accounts that are banned or muted.
        """
        await self.reads.take_of(call)
        text = wire.read_text(call.request.argument("Text"))
        order = wire.read_order(call.request.argument("Sort"))
        only = wire.read_filter(call.request.argument("Only"))
        offset = read_offset(call.request.argument("Offset"))
        accounts = await self.acts.listed(order, only, text, offset, wire.PAGE + 1)
        return Answer(200, wire.show_list(accounts, await self.acts.where(), offset), NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardPerson",
        reply=wire.PersonView,
        query={"Account": Needed(str)},
    )
    async def person(self, call: Call) -> Answer:
        """Show an account; ``Account`` is its name or id."""
        await self.reads.take_of(call)
        details = await self.acts.person(call.request.argument("Account") or "")
        return Answer(200, wire.show_person(details, await self.acts.where()), NO_STORE)


@frozen
class HandlingRoutes:
    """The owner's routes that replace keys, and merge, export and delete accounts.

    Only owners may use these routes. The access check admits all staff members, and the rules
    refuse those who are not owners. So the audit log records these refusals.
    """

    routes: ClassVar[Routes] = Routes(
        worded, access=Access.ADMIN_KEY, role=Role.HELPER, bad_json=BAD_JSON, again=Again.NEVER
    )
    acts: HandlingActs
    ways: SignInActs

    @routes.row(
        "POST",
        "/svc/api/DashboardNewKey",
        body=wire.AccountRequest,
        reply=wire.NewKey,
        headers=CODE,
        signs_in=True,
    )
    async def new_key(self, call: Call[wire.AccountRequest]) -> Answer:
        """Give an account a new key; the old key and the current sessions stop working.

        A signed-in caller must also send the key used to sign in. If the caller has a second
        factor, the request also needs a code.
        """
        proven = await is_proven(call, self.ways)
        made = await self._do(call, "new key", lambda work: work.new_key(proven=proven))
        return Answer(200, {"Username": made.account.username, "Key": made.key}, NO_STORE)

    @routes.row("POST", "/svc/api/DashboardMergeNotes", body=wire.MergeRequest, reply=wire.Merged)
    async def merge_notes(self, call: Call[wire.MergeRequest]) -> Answer:
        """Move one account's notes (the main currency) to another account of the same player."""
        source, target, moved = await self._do(
            call, "merge notes", lambda work: work.merge_notes(call.body.to)
        )
        reply: wire.Merged = {"Username": source.username, "To": target.username, "Moved": moved}
        return Answer(200, reply, NO_STORE)

    @routes.row("POST", "/svc/api/DashboardExport", body=wire.AccountRequest, reply=AccountExport)
    async def export(self, call: Call[wire.AccountRequest]) -> Answer:
        """Export all data of an account, without secrets."""
        export = await self._do(call, "export", PersonWork.export)
        return Answer(200, export, NO_STORE)

    @routes.row("POST", "/svc/api/DashboardDelete", body=wire.DeleteRequest, reply=wire.Deleted)
    async def delete(self, call: Call[wire.DeleteRequest]) -> Answer:
        """Delete an account; if ``Export`` is true, the reply has the account's data."""
        gone = await self._do(call, "delete", PersonWork.delete)
        export = gone.export if call.body.export else None
        reply: wire.Deleted = {"Username": gone.account.username, "Export": export}
        return Answer(200, reply, NO_STORE)

    async def _do(self, call: Call[Any], action: str, choose: Callable[[PersonWork], Act[T]]) -> T:
        sent = call.body
        return await self.acts.do(staff_of(call), action, sent.account, sent.reason, choose)
