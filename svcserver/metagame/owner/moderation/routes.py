"""The routes by which staff looks after people, for the dashboard. Direct callers only."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from svcserver.kernel.roles import Role
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.owner.moderation import wire
from svcserver.metagame.owner.moderation.acts import ModerationActs
from svcserver.metagame.owner.moderation.rules import Staff, order
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import NO_STORE, Answer

ADMIN = Access.ADMIN_KEY


def staff_of(call: Call) -> Staff:
    """Who calls, by the key that the gate has proved."""
    return Staff(call.caller.name, call.caller.role)


@frozen
class ModerationRoutes:
    """Bans, mutes, kicks, roles, and the audit log."""

    routes: ClassVar[Routes] = Routes(worded)
    acts: ModerationActs
    reads: ReadLimit

    @routes.row(
        "POST",
        "/svc/api/DashboardBan",
        access=ADMIN,
        role=Role.HELPER,  # whoever may not is refused by the rules, and so recorded
        body=wire.SanctionWish,
        reply=wire.PersonReply,
        bad_json=BAD_JSON,
    )
    async def ban(self, call: Call[wire.SanctionWish]) -> Answer:
        """Keep an account from logging in, and end its sessions."""
        sent = call.body
        asked = order(sent.reason, sent.note, sent.for_)
        done = await self.acts.ban(staff_of(call), sent.account, asked)
        return Answer(200, wire.show_done(done), NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardUnban",
        access=ADMIN,
        role=Role.HELPER,
        body=wire.PersonWish,
        reply=wire.PersonReply,
        bad_json=BAD_JSON,
    )
    async def unban(self, call: Call[wire.PersonWish]) -> Answer:
        """Let a banned account in again."""
        done = await self.acts.unban(staff_of(call), call.body.account, call.body.reason)
        return Answer(200, wire.show_done(done), NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardMute",
        access=ADMIN,
        role=Role.HELPER,
        body=wire.SanctionWish,
        reply=wire.PersonReply,
        bad_json=BAD_JSON,
    )
    async def mute(self, call: Call[wire.SanctionWish]) -> Answer:
        """Keep an account from writing in the chat."""
        sent = call.body
        asked = order(sent.reason, sent.note, sent.for_)
        done = await self.acts.mute(staff_of(call), sent.account, asked)
        return Answer(200, wire.show_done(done), NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardUnmute",
        access=ADMIN,
        role=Role.HELPER,
        body=wire.PersonWish,
        reply=wire.PersonReply,
        bad_json=BAD_JSON,
    )
    async def unmute(self, call: Call[wire.PersonWish]) -> Answer:
        """Let a muted account write again."""
        done = await self.acts.unmute(staff_of(call), call.body.account, call.body.reason)
        return Answer(200, wire.show_done(done), NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardKick",
        access=ADMIN,
        role=Role.HELPER,
        body=wire.PersonWish,
        reply=wire.PersonReply,
        bad_json=BAD_JSON,
    )
    async def kick(self, call: Call[wire.PersonWish]) -> Answer:
        """End an account's sessions now; it may log in again."""
        done = await self.acts.kick(staff_of(call), call.body.account, call.body.reason)
        return Answer(200, wire.show_done(done), NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardRole",
        access=ADMIN,
        role=Role.HELPER,
        body=wire.RoleWish,
        reply=wire.PersonReply,
        bad_json=BAD_JSON,
    )
    async def give_role(self, call: Call[wire.RoleWish]) -> Answer:
        """Give an account another role; the last owner keeps its own."""
        sent = call.body
        role = wire.role_called(sent.role)
        done = await self.acts.give_role(staff_of(call), sent.account, role, sent.reason)
        return Answer(200, wire.show_done(done), NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardSanctions",
        access=ADMIN,
        role=Role.HELPER,
        reply=wire.SanctionList,
        quiet=True,
    )
    async def sanctions(self, call: Call) -> Answer:
        """Every ban and mute that holds, the newest first."""
        await self.reads.take(call.request.peer)
        return Answer(200, wire.show_running(await self.acts.running()), NO_STORE)

    @routes.row(
        "GET",
        "/svc/api/DashboardAudit",
        access=ADMIN,
        role=Role.HELPER,
        reply=wire.AuditReply,
        query=("actor", "target", "since", "until"),
        quiet=True,
    )
    async def audit(self, call: Call) -> Answer:
        """A page of the audit log, the newest first; ``?since=`` like ``7d``."""
        await self.reads.take(call.request.peer)
        asked = wire.read_asked(
            self.acts.audit.now(),
            *map(call.request.argument, ("actor", "target", "since", "until")),
        )
        return Answer(200, wire.show_rows(await self.acts.log(asked)), NO_STORE)
