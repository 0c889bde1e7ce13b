"""The owner's routes for invite codes. Spec: 2 §3 Invite code, §4 Management API."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from svcserver.kernel.envelope import Empty
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.invites import wire
from svcserver.metagame.accounts.invites.acts import InviteActs
from svcserver.metagame.accounts.recorded import by_staff
from svcserver.metagame.once import Again
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import EMPTY_OBJECT, Answer, bare

ADMIN = Access.ADMIN_KEY


@frozen
class InviteRoutes:
    """List, create, register and delete invite codes, under ``/svc/api``."""

    routes: ClassVar[Routes] = Routes(bare, access=ADMIN, again=Again.NEVER)
    acts: InviteActs

    @routes.row("GET", "/svc/api/InviteCodes", reply=wire.CodeList)
    async def list_codes(self, call: Call) -> Answer:
        """Every invite code, with what is left of it."""
        return Answer(200, wire.show_codes(await self.acts.everything()))

    @routes.row(
        "POST",
        "/svc/api/CreateInvite",
        body=wire.InviteWish,
        reply=wire.NewCode,
        refuse=worded,
        bad_json=BAD_JSON,
    )
    async def create(self, call: Call[wire.InviteWish]) -> Answer:
        """Make an invite code; ``name`` is only a note for the log."""
        code = await self.acts.create(
            by_staff(call, "create invite"), call.body.uses, call.body.name
        )
        return Answer(200, {"code": code})

    @routes.row("POST", "/svc/api/RegisterInviteCode", body=wire.CodeWish, reply=Empty)
    async def register_code(self, call: Call[wire.CodeWish]) -> Answer:
        """Make an invite code of the owner's choice; an existing one gets the new uses."""
        sent = call.body
        await self.acts.put(
            by_staff(call, "put invite"),
            rules.own_invite(sent.new_invite_code, sent.uses, infinite=sent.infinite_uses),
        )
        return Answer(200, EMPTY_OBJECT)

    @routes.row(
        "DELETE",
        "/svc/api/InviteCode/<code>",
        reply=Empty,
        secret_path=("code",),
        query={"Reason": str},
    )
    async def revoke(self, call: Call, code: str) -> Answer:
        """Revoke an invite code; 200 also where there is none."""
        await self.acts.revoke(by_staff(call, "revoke invite"), code.strip())
        return Answer(200, EMPTY_OBJECT)
