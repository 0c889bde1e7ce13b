"""The dashboard's moderation routes, for direct callers only (not through a proxy)."""

from collections.abc import Callable
from typing import Any, ClassVar

from attrs import frozen

from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import staff_of
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.accounts.audit import Act
from svcserver.metagame.accounts.sanctions import SanctionKind
from svcserver.metagame.once import Again
from svcserver.metagame.owner.moderation import wire
from svcserver.metagame.owner.moderation.acts import ModerationActs, StaffWork
from svcserver.metagame.owner.moderation.rules import StaffActResult
from svcserver.metagame.owner.signin import CODE, SignInActs, is_proven
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer


@frozen
class ModerationRoutes:
    """The routes for bans, mutes, kicks, roles, and the audit log.

    Each route accepts the key of any staff member, even of a helper. The rules then refuse what the
    role does not permit, so that the audit log records the refusal.
    """

    routes: ClassVar[Routes] = Routes(
        worded, access=Access.ADMIN_KEY, role=Role.HELPER, bad_json=BAD_JSON, again=Again.NEVER
    )
    acts: ModerationActs
    ways: SignInActs
    reads: ReadLimit

    @routes.row("POST", "/svc/api/DashboardBan", body=wire.SanctionRequest, reply=wire.PersonReply)
    async def ban(self, call: Call[wire.SanctionRequest]) -> Answer:
        """Ban an account and end its sessions; optionally also ban its IP addresses."""
        order = call.body.order()  # a ban of addresses also ends other players' sessions
        return await self._do(
            call, "ban", lambda work: work.ban(order), order.reason, across=order.addresses
        )

    @routes.row("POST", "/svc/api/DashboardUnban", body=wire.PersonRequest, reply=wire.PersonReply)
    async def unban(self, call: Call[wire.PersonRequest]) -> Answer:
        """End an account's ban."""
        return await self._do(
            call, "unban", lambda work: work.lift(SanctionKind.BAN), call.body.reason
        )

    @routes.row("POST", "/svc/api/DashboardMute", body=wire.SanctionRequest, reply=wire.PersonReply)
    async def mute(self, call: Call[wire.SanctionRequest]) -> Answer:
        """Mute an account, so that it cannot write in the chat."""
        order = call.body.order()
        return await self._do(call, "mute", lambda work: work.mute(order), order.reason)

    @routes.row("POST", "/svc/api/DashboardUnmute", body=wire.PersonRequest, reply=wire.PersonReply)
    async def unmute(self, call: Call[wire.PersonRequest]) -> Answer:
        """End an account's mute."""
        return await self._do(
            call, "unmute", lambda work: work.lift(SanctionKind.MUTE), call.body.reason
        )

    @routes.row("POST", "/svc/api/DashboardKick", body=wire.PersonRequest, reply=wire.PersonReply)
    async def kick(self, call: Call[wire.PersonRequest]) -> Answer:
        """End all sessions of an account; the account may log in again."""
        return await self._do(call, "kick", StaffWork.kick, call.body.reason)

    @routes.row(
        "POST",
        "/svc/api/DashboardRole",
        body=wire.RoleRequest,
        reply=wire.PersonReply,
        headers=CODE,
        signs_in=True,
    )
    async def give_role(self, call: Call[wire.RoleRequest]) -> Answer:
        """Give an account another role; the last owner must stay an owner.

        To give a higher role, a signed-in caller must also send the key used to sign in. If the
        caller has a second factor, the request also needs a code.
        """
        role, proven = wire.role_called(call.body.role), await is_proven(call, self.ways)
        return await self._do(
            call,
            "role",
            lambda work: work.give_role(role, proven=proven),
            call.body.reason,
            across=True,  # the result depends on the number of owners
        )

    @routes.row("GET", "/svc/api/DashboardSanctions", reply=wire.SanctionList, quiet=True)
    async def sanctions(self, call: Call) -> Answer:
        """List the newest of the current bans and mutes, with the number of all current ones."""
        await self.reads.take_of(call)
        return Answer(200, wire.show_running(*await self.acts.running()), NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardAudit",
        reply=wire.AuditReply,
        query={"actor": str, "target": str, "since": str, "until": int},
        quiet=True,
    )
    async def audit(self, call: Call) -> Answer:
        """Return a page of the audit log, newest first; ``?since=`` is a duration like ``7d``."""
        await self.reads.take_of(call)
        query = wire.read_query(
            self.acts.audit.wall_clock(),
            *map(call.request.argument, ("actor", "target", "since", "until")),
        )
        return Answer(200, wire.show_rows(await self.acts.log(query)), NO_STORE)

    async def _do(
        self,
        call: Call[Any],
        action: str,
        choose: Callable[[StaffWork], Act[StaffActResult]],
        reason: str,
        *,
        across: bool = False,
    ) -> Answer:
        who = call.body.account
        done = await self.acts.do(staff_of(call), action, who, reason, choose, across=across)
        return Answer(200, wire.show_done(done), NO_STORE)
