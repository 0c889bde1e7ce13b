"""The routes by which staff looks after people, for the dashboard. Direct callers only."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import staff_of
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.once import Again
from svcserver.metagame.owner.moderation import wire
from svcserver.metagame.owner.moderation.acts import ModerationActs
from svcserver.metagame.owner.moderation.rules import Done
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer


def show(done: Done) -> Answer:
    """The answer to an act on an account."""
    return Answer(200, wire.show_done(done), NO_STORE)


@frozen
class ModerationRoutes:
    """Bans, mutes, kicks, roles, and the audit log.

    Every row takes a helper's key: whoever may not is refused by the rules, and so recorded.
    """

    routes: ClassVar[Routes] = Routes(
        worded, access=Access.ADMIN_KEY, role=Role.HELPER, bad_json=BAD_JSON, again=Again.NEVER
    )
    acts: ModerationActs
    reads: ReadLimit

    @routes.row("POST", "/svc/api/DashboardBan", body=wire.SanctionWish, reply=wire.PersonReply)
    async def ban(self, call: Call[wire.SanctionWish]) -> Answer:
        """Keep an account from logging in, and end its sessions; if asked, its addresses too."""
        sent = call.body
        return show(await self.acts.ban(staff_of(call), sent.account, sent.order()))

    @routes.row("POST", "/svc/api/DashboardUnban", body=wire.PersonWish, reply=wire.PersonReply)
    async def unban(self, call: Call[wire.PersonWish]) -> Answer:
        """Let a banned account in again."""
        sent = call.body
        return show(await self.acts.unban(staff_of(call), sent.account, sent.reason))

    @routes.row("POST", "/svc/api/DashboardMute", body=wire.SanctionWish, reply=wire.PersonReply)
    async def mute(self, call: Call[wire.SanctionWish]) -> Answer:
        """Keep an account from writing in the chat."""
        sent = call.body
        return show(await self.acts.mute(staff_of(call), sent.account, sent.order()))

    @routes.row("POST", "/svc/api/DashboardUnmute", body=wire.PersonWish, reply=wire.PersonReply)
    async def unmute(self, call: Call[wire.PersonWish]) -> Answer:
        """Let a muted account write again."""
        sent = call.body
        return show(await self.acts.unmute(staff_of(call), sent.account, sent.reason))

    @routes.row("POST", "/svc/api/DashboardKick", body=wire.PersonWish, reply=wire.PersonReply)
    async def kick(self, call: Call[wire.PersonWish]) -> Answer:
        """End an account's sessions now; it may log in again."""
        sent = call.body
        return show(await self.acts.kick(staff_of(call), sent.account, sent.reason))

    @routes.row("POST", "/svc/api/DashboardRole", body=wire.RoleWish, reply=wire.PersonReply)
    async def give_role(self, call: Call[wire.RoleWish]) -> Answer:
        """Give an account another role; the last owner keeps its own."""
        sent = call.body
        role = wire.role_called(sent.role)
        return show(await self.acts.give_role(staff_of(call), sent.account, role, sent.reason))

    @routes.row("GET", "/svc/api/DashboardSanctions", reply=wire.SanctionList, quiet=True)
    async def sanctions(self, call: Call) -> Answer:
        """The newest bans and mutes that hold, and how many there are."""
        await self.reads.take(call.request.peer)
        return Answer(200, wire.show_running(*await self.acts.running()), NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardAudit",
        reply=wire.AuditReply,
        query={"actor": str, "target": str, "since": str, "until": int},
        quiet=True,
    )
    async def audit(self, call: Call) -> Answer:
        """A page of the audit log, the newest first; ``?since=`` like ``7d``."""
        await self.reads.take(call.request.peer)
        asked = wire.read_asked(
            self.acts.audit.wall_clock(),
            *map(call.request.argument, ("actor", "target", "since", "until")),
        )
        return Answer(200, wire.show_rows(await self.acts.log(asked)), NO_STORE)
