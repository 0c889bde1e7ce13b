"""Signing in to the dashboard with a key, once, and out. Direct callers only."""

from __future__ import annotations

from typing import ClassVar, TypedDict

from attrs import frozen

from svcserver.kernel.headers import ACCOUNT_KEY
from svcserver.kernel.refusals import Unauthenticated
from svcserver.kernel.roles import Role
from svcserver.metagame.access.staff_sessions import StaffSessions, secret_of, set_cookie
from svcserver.metagame.replies import worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import EMPTY_OBJECT, NO_STORE, Answer

PATH = "/svc/api/DashboardSession"


class WhoIsIn(TypedDict):
    """The account that is signed in, and its role."""

    UserId: str
    Username: str
    Role: str


@frozen
class SignInRoutes:
    """The dashboard's session."""

    routes: ClassVar[Routes] = Routes(worded)
    staff: StaffSessions

    @routes.row("POST", PATH, access=Access.ADMIN_KEY, role=Role.HELPER, reply=WhoIsIn)
    async def sign_in(self, call: Call) -> Answer:
        """Begin a session: its cookie stands for the key until it ends."""
        if not call.request.has_header(ACCOUNT_KEY):
            # else whoever has a session could keep one for ever
            raise Unauthenticated("signing in takes the key")
        secret = await self.staff.begin(call.player)
        return Answer(200, _who(call), {**NO_STORE, "Set-Cookie": set_cookie(secret)})

    @routes.row("GET", PATH, access=Access.ADMIN_KEY, role=Role.HELPER, reply=WhoIsIn, quiet=True)
    async def who(self, call: Call) -> Answer:
        """Who is signed in."""
        return Answer(200, _who(call), NO_STORE)

    @routes.row("DELETE", PATH, access=Access.ADMIN_KEY, role=Role.HELPER, reply=dict)
    async def sign_out(self, call: Call) -> Answer:
        """End the session."""
        secret = secret_of(call.request.header(b"cookie"))
        if secret is not None:
            await self.staff.end(secret)
        return Answer(200, EMPTY_OBJECT, {**NO_STORE, "Set-Cookie": set_cookie("")})


def _who(call: Call) -> WhoIsIn:
    who = call.caller
    return {"UserId": call.player, "Username": who.name, "Role": who.role.word}
