"""The dashboard's sessions, and how one is opened. Direct callers only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NotRequired, TypedDict

from attrs import evolve, field, frozen
from sqlalchemy import Connection

from svcserver.db.ledger import OneAccount
from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.envelope import Empty
from svcserver.kernel.headers import ACCOUNT_KEY
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Malformed, Unauthenticated
from svcserver.kernel.roles import Role
from svcserver.kernel.secrets import fingerprint
from svcserver.kernel.shapes import pascal_case, spelled, text
from svcserver.metagame.access.acting import staff_of
from svcserver.metagame.access.staff_sessions import (
    PAGE_HEADER,
    StaffSessions,
    Ticket,
    set_cookie,
    ticket_of,
)
from svcserver.metagame.accounts.audit import Audit, Entry, Trace
from svcserver.metagame.accounts.dashboard_access import (
    DashboardAccess,
    SqlDashboardAccess,
    address_of,
    is_factor,
    new_factor,
    step_of,
)
from svcserver.metagame.accounts.rules import new_account_key
from svcserver.metagame.once import Again
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import EMPTY_OBJECT, NO_STORE, Answer


class WhoIsIn(TypedDict):
    """The account that is signed in, and its role.

    ``Word`` comes once, with the cookie: the page sends it back in ``x-svc-dashboard``.
    """

    UserId: str
    Username: str
    Role: str
    Word: NotRequired[str]


class Ways(TypedDict):
    """How this account signs in to the dashboard: by its own key or another, with a code or
    without. The secret is a fresh one, which counts once a code of it was sent.
    """

    ownKey: bool
    secondFactor: bool
    secret: str
    address: str
    qr: list[str]


class OwnKey(TypedDict):
    """The only copy of the key; null where the account's own key opens the dashboard again."""

    key: str | None


@spelled(pascal_case)
@frozen
class OwnKeyWish:
    """Whether the account wants a key of its own for the dashboard."""

    on: bool


@spelled(pascal_case)
@frozen
class FactorWish:
    """A code, and the secret that it proves; no secret ends the second factor."""

    code: Annotated[str, text(1, 16)] = field(repr=False)
    secret: Annotated[str, text(0, 64)] = field(default="", repr=False)


def wrong_code() -> Unauthenticated:
    """The one 401 for a missing, wrong or used code, by which the page asks for one."""
    return Unauthenticated("write the code of your second factor", code="second_factor")


@frozen
class SignInActs:
    """What a member of staff sets for its own account."""

    audit: Audit
    counters: Counters

    async def of(self, account_id: AccountId) -> DashboardAccess:
        """What opens the dashboard to the account: a key of its own, a second factor."""
        return await self.audit.ledger.read(lambda tx: SqlDashboardAccess(tx).of(account_id))

    async def check(self, account_id: AccountId, code: str | None) -> None:
        """Raise unless the account has no second factor or the code is right and unused."""
        if (await self.of(account_id)).factor is None:
            return
        if code is None:
            raise wrong_code()
        await self._count(account_id)

        def work(tx: Connection) -> None:
            self._use(tx, account_id, code)

        try:
            await self.audit.ledger.write(work, OneAccount(account_id))
        except Unauthenticated:
            self.counters.add(Counted.FAILED_LOGINS, "second_factor")
            raise

    async def note(self, name: str, account_id: AccountId, action: str) -> None:
        """Record that somebody signs in or out."""
        entry, scope = Entry(name, action, name), OneAccount(account_id)
        await self.audit.write(entry, lambda tx, trace: None, scope)

    async def set_key(self, name: str, account_id: AccountId, *, on: bool) -> str | None:
        """A fresh key for the dashboard in place of the account's own, or none any more."""
        key = new_account_key() if on else None

        def act(tx: Connection, trace: Trace) -> None:
            access = SqlDashboardAccess(tx)
            before = access.of(account_id)
            trace.before, trace.after = {"ownKey": before.key_hash is not None}, {"ownKey": on}
            access.put(evolve(before, key_hash=None if key is None else fingerprint(key)))

        await self.audit.write(Entry(name, "dashboard key", name), act, OneAccount(account_id))
        return key

    async def set_factor(
        self, name: str, account_id: AccountId, factor: str | None, code: str
    ) -> None:
        """Begin to ask for the codes of ``factor``, or with None end it; a right code proves it."""
        await self._count(account_id)

        def act(tx: Connection, trace: Trace) -> None:
            access = SqlDashboardAccess(tx)
            before = access.of(account_id)
            trace.before = {"secondFactor": before.factor is not None}
            trace.after = {"secondFactor": factor is not None}
            if before.factor is not None and factor is not None:
                raise Malformed("end the second factor first", code="bad_request")
            if factor is None:
                access.put(evolve(self._use(tx, account_id, code), factor=None))
                return
            step = step_of(factor, code, self.audit.wall_clock()) if is_factor(factor) else None
            if step is None:
                raise Malformed("this is not the code of that secret", code="bad_request")
            access.put(evolve(before, factor=factor, step=step))

        await self.audit.write(Entry(name, "second factor", name), act, OneAccount(account_id))

    def _use(self, tx: Connection, account_id: AccountId, code: str) -> DashboardAccess:
        """Use up a code; raises Unauthenticated where it is wrong or was used."""
        access = SqlDashboardAccess(tx)
        one = access.of(account_id)
        step = None if one.factor is None else step_of(one.factor, code, self.audit.wall_clock())
        if step is None or step <= one.step:
            raise wrong_code()
        used = evolve(one, step=step)
        access.put(used)
        return used

    async def _count(self, account_id: AccountId) -> None:
        """Count a try, in a transaction of its own, which a wrong code does not undo."""

        def work(tx: Connection) -> None:
            access = SqlDashboardAccess(tx)
            access.put(access.of(account_id).tried(self.audit.wall_clock()))

        await self.audit.ledger.write(work, OneAccount(account_id))


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

    @routes.row("POST", PATH, reply=WhoIsIn, headers=CODE, signs_in=True)
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

    @routes.row("GET", PATH, reply=WhoIsIn, quiet=True)
    async def who(self, call: Call) -> Answer:
        """Name and role of whoever is signed in to the dashboard."""
        return Answer(200, _who(call), NO_STORE)

    @routes.row("DELETE", PATH, reply=Empty)
    async def sign_out(self, call: Call) -> Answer:
        """End the dashboard's session and take its cookie away."""
        headers = await self._end(call, _ticket(call))
        await self.ways.note(staff_of(call).name, call.player, "sign out")
        return Answer(200, EMPTY_OBJECT, headers)

    @routes.row("GET", "/svc/api/DashboardAccess", reply=Ways, quiet=True)
    async def shown(self, call: Call) -> Answer:
        """How the caller signs in to the dashboard, and a fresh secret for an app of codes."""
        import segno  # most metagames never draw one

        has, fresh = await self.ways.of(call.player), new_factor()
        address = address_of(fresh, staff_of(call).name, self.server)
        drawn = segno.make(address, error="m").matrix
        reply: Ways = {
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
        body=OwnKeyWish,
        reply=OwnKey,
        headers=CODE,
        signs_in=True,
    )
    async def own_key(self, call: Call[OwnKeyWish]) -> Answer:
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
        body=FactorWish,
        reply=Empty,
        signs_in=True,
    )
    async def second_factor(self, call: Call[FactorWish]) -> Answer:
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


def _who(call: Call) -> WhoIsIn:
    who = call.caller
    return {"UserId": call.player, "Username": who.name, "Role": who.role.word}
