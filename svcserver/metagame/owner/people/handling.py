"""What an owner does to an account: another key, its notes, its data, its end. Direct callers only.

Every row takes a helper's key: whoever may not is refused by the rules, and so recorded.
"""

from __future__ import annotations

from typing import ClassVar, TypedDict, TypeVar

from attrs import frozen
from twisted.logger import Logger

from svcserver.db.ledger import OneAccount
from svcserver.db.shield import shielded
from svcserver.kernel.roles import Role
from svcserver.kernel.shapes import pascal_case, spelled
from svcserver.metagame.accounts.audit import Act, Audit, Entry
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.sessions import Sessions
from svcserver.metagame.owner.moderation.rules import Reason, Staff, Who
from svcserver.metagame.owner.moderation.store import Ended, id_of
from svcserver.metagame.owner.people.data import AccountExport
from svcserver.metagame.owner.people.store import Keyed, PersonWork, Removed
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer

log = Logger()
T = TypeVar("T")


@spelled(pascal_case)
@frozen
class AccountWish:
    """The account by name or id, and why."""

    account: Who
    reason: Reason = ""


@spelled(pascal_case)
@frozen
class MergeWish:
    """The account whose notes are moved, and the one that gets them."""

    account: Who
    to: Who
    reason: Reason = ""


class NewKey(TypedDict):
    """The only copy of the account's new key."""

    Username: str
    Key: str


class Merged(TypedDict):
    """How many notes were moved, and to whom."""

    Username: str
    To: str
    Moved: int


class Deleted(TypedDict):
    """Whose account was deleted, and all that was kept of it."""

    Username: str
    Export: AccountExport


@frozen
class HandlingActs:
    """One transaction each, its audit row in it."""

    audit: Audit
    sessions: Sessions

    async def new_key(self, staff: Staff, who: str, reason: str) -> Keyed:
        """Another key in place of a lost one."""
        made = await self._do(staff, "new key", who, reason, self._work(staff, who).new_key())
        await self._tell(made.ended)
        return made

    async def merge_notes(
        self, staff: Staff, who: str, to: str, reason: str
    ) -> tuple[Account, Account, int]:
        """Give one account's notes to another."""
        act = self._work(staff, who).merge_notes(to)
        return await self._do(staff, "merge notes", who, reason, act)

    async def export(self, staff: Staff, who: str, reason: str) -> AccountExport:
        """All that is kept of an account."""
        return await self._do(staff, "export", who, reason, self._work(staff, who).export())

    async def delete(self, staff: Staff, who: str, reason: str) -> Removed:
        """Delete an account, and hand out what was kept of it."""
        gone = await self._do(staff, "delete", who, reason, self._work(staff, who).delete())
        await self._tell(gone.ended)
        return gone

    def _work(self, staff: Staff, who: str) -> PersonWork:
        return PersonWork(staff, who, self.audit.now)

    @shielded
    async def _do(self, staff: Staff, action: str, who: str, reason: str, act: Act[T]) -> T:
        # the account's own acts wait for it; what it has with others is deleted as it stands then
        entry = Entry(staff.name, action, who, reason)
        done = await self.audit.write(entry, act, OneAccount(await id_of(self.audit.ledger, who)))
        log.info("{actor}: {action} {name}", actor=staff.name, action=action, name=who)
        return done

    async def _tell(self, ended: Ended) -> None:
        await self.sessions.tell(ended.account_id, ended.not_before)


def _staff(call: Call) -> Staff:
    return Staff(call.caller.name, call.caller.role)


@frozen
class HandlingRoutes:
    """The owner's routes that renew keys and merge, export and delete accounts."""

    routes: ClassVar[Routes] = Routes(
        worded, access=Access.ADMIN_KEY, role=Role.HELPER, bad_json=BAD_JSON
    )
    acts: HandlingActs

    @routes.row("POST", "/svc/api/DashboardNewKey", body=AccountWish, reply=NewKey)
    async def new_key(self, call: Call[AccountWish]) -> Answer:
        """Give an account another key; the old one and its sessions no longer work."""
        made = await self.acts.new_key(_staff(call), call.body.account, call.body.reason)
        return Answer(200, {"Username": made.account.username, "Key": made.key}, NO_STORE)

    @routes.row("POST", "/svc/api/DashboardMergeNotes", body=MergeWish, reply=Merged)
    async def merge_notes(self, call: Call[MergeWish]) -> Answer:
        """Give one account's notes to another, as of a player who had to begin anew."""
        sent = call.body
        done = await self.acts.merge_notes(_staff(call), sent.account, sent.to, sent.reason)
        source, target, moved = done
        reply: Merged = {"Username": source.username, "To": target.username, "Moved": moved}
        return Answer(200, reply, NO_STORE)

    @routes.row("POST", "/svc/api/DashboardExport", body=AccountWish, reply=AccountExport)
    async def export(self, call: Call[AccountWish]) -> Answer:
        """All that is kept of an account, without secrets."""
        found = await self.acts.export(_staff(call), call.body.account, call.body.reason)
        return Answer(200, found, NO_STORE)

    @routes.row("POST", "/svc/api/DashboardDelete", body=AccountWish, reply=Deleted)
    async def delete(self, call: Call[AccountWish]) -> Answer:
        """Delete an account for ever; the reply holds the only copy of what was kept of it."""
        gone = await self.acts.delete(_staff(call), call.body.account, call.body.reason)
        reply: Deleted = {"Username": gone.account.username, "Export": gone.export}
        return Answer(200, reply, NO_STORE)
