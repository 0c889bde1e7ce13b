"""The routes of the dashboard's session, and of what opens it. Direct callers only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attrs import frozen

from svcserver.kernel.envelope import Empty
from svcserver.kernel.headers import ACCOUNT_KEY
from svcserver.kernel.refusals import Unauthenticated
from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import staff_of
from svcserver.metagame.access.staff_sessions import (
    PAGE_HEADER,
    StaffSessions,
    Ticket,
    set_cookie,
    ticket_of,
)
from svcserver.metagame.accounts.dashboard_access import address_of, new_factor
from svcserver.metagame.once import Again
from svcserver.metagame.owner.signin import wire
from svcserver.metagame.owner.signin.acts import SignInActs
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import EMPTY_OBJECT, NO_STORE, Answer

PATH = "/svc/api/DashboardSession"
CODE_HEADER = b"x-svc-second-factor"
CODE = {CODE_HEADER.decode(): str}  # needed only where the account has a second factor


@frozen
class SignInRoutes:
    """The dashboard's session, and the ways into it."""

    routes: ClassVar[Routes] = Routes(
        worded, access=Access.ADMIN_KEY, role=Role.HELPER, bad_json=BAD_JSON, again=Again.NEVER
    )
    staff: StaffSessions
    ways: SignInActs
    server: str  # its name, for authenticator programs

    @routes.row("POST", PATH, reply=wire.WhoIsIn, headers=CODE, signs_in=True)
    async def sign_in(self, call: Call) -> Answer:
        """Sign in to the dashboard with an account key: a cookie and a word stand for it then.

        Where the account has a second factor its code is in ``x-svc-second-factor``.
        """
        _with_key(call, "signing in takes the key")
        await self.ways.check(call.player, call.request.header(CODE_HEADER))
        ticket = await self.staff.begin(call.player, (await self.ways.of(call.player)).mark)
        await self.ways.note(staff_of(call).name, call.player, "sign in")
        headers = {**NO_STORE, "Set-Cookie": set_cookie(ticket)}
        return Answer(200, {**_who(call), "Word": ticket.word}, headers)

    @routes.row("GET", PATH, reply=wire.WhoIsIn, quiet=True)
    async def who(self, call: Call) -> Answer:
        """Name and role of whoever is signed in to the dashboard."""
        return Answer(200, _who(call), NO_STORE)

    @routes.row("DELETE", PATH, reply=Empty)
    async def sign_out(self, call: Call) -> Answer:
        """End the dashboard's session and take its cookie away."""
        headers = await self._end(call, _ticket(call))
        await self.ways.note(staff_of(call).name, call.player, "sign out")
        return Answer(200, EMPTY_OBJECT, headers)

    @routes.row("GET", "/svc/api/DashboardAccess", reply=wire.Ways, quiet=True)
    async def shown(self, call: Call) -> Answer:
        """How the caller signs in to the dashboard, and a fresh secret for an app of codes."""
        import segno  # most metagames never draw one

        has, fresh = await self.ways.of(call.player), new_factor()
        address = address_of(fresh, staff_of(call).name, self.server)
        drawn = segno.make(address, error="m").matrix
        reply: wire.Ways = {
            "ownKey": has.key_hash is not None,
            "secondFactor": has.factor is not None,
            "secret": fresh,
            "address": address,
            "qr": ["".join(map(str, row)) for row in drawn],
        }
        return Answer(200, reply, NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardOwnKey",
        body=wire.OwnKeyWish,
        reply=wire.OwnKey,
        headers=CODE,
        signs_in=True,
    )
    async def own_key(self, call: Call[wire.OwnKeyWish]) -> Answer:
        """A fresh key for the dashboard; the account's own key only plays from then on.

        It takes the key that signs in now, and the code of a second factor, as signing in does:
        a session alone must not change what outlives it. The account's other sessions end.
        """
        _with_key(call, "this takes the key that you sign in with")
        await self.ways.check(call.player, call.request.header(CODE_HEADER))
        key = await self.ways.set_key(staff_of(call).name, call.player, on=call.body.on)
        await self._keep(call)
        return Answer(200, {"key": key}, NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardSecondFactor",
        body=wire.FactorWish,
        reply=Empty,
        signs_in=True,
    )
    async def second_factor(self, call: Call[wire.FactorWish]) -> Answer:
        """Ask for a code at sign-in from now on, or no longer. The account's other sessions end.

        It takes the key that signs in now; the code proves that the factor is at hand.
        """
        _with_key(call, "this takes the key that you sign in with")
        sent = call.body
        await self.ways.set_factor(staff_of(call).name, call.player, sent.secret or None, sent.code)
        await self._keep(call)
        return Answer(200, EMPTY_OBJECT, NO_STORE)

    async def _end(self, call: Call, ticket: Ticket | None) -> Mapping[str, str]:
        """End the session, if there is one; the headers that take its cookie away."""
        if ticket is None:
            return NO_STORE
        await self.staff.end(ticket, call.player)
        return {**NO_STORE, "Set-Cookie": set_cookie(ticket, ended=True)}

    async def _keep(self, call: Call[Any]) -> None:
        """Let the session that has changed its own ways go on."""
        ticket = _ticket(call)
        if ticket is not None:
            mark = (await self.ways.of(call.player)).mark
            await self.staff.keep(ticket, call.player, mark)


def _with_key(call: Call[Any], why: str) -> None:
    """Raise where only a session was sent: who has one could else keep it for ever."""
    if not call.request.has_header(ACCOUNT_KEY):
        raise Unauthenticated(why, code="key_wanted")


def _ticket(call: Call[Any]) -> Ticket | None:
    return ticket_of(call.request.header(b"cookie"), call.request.header(PAGE_HEADER))


def _who(call: Call) -> wire.WhoIsIn:
    who = call.caller
    return {"UserId": call.player, "Username": who.name, "Role": who.role.word}
