"""Signing in to the dashboard, for direct callers only (not through a proxy)."""

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
from svcserver.kernel.refusals import Conflict, Malformed, Missing, Unauthenticated
from svcserver.kernel.roles import Role
from svcserver.kernel.secrets import fingerprint
from svcserver.kernel.shapes import pascal_case, spelled, text
from svcserver.metagame.access.acting import staff_of
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.access.staff_sessions import (
    PAGE_HEADER,
    StaffSessions,
    Ticket,
    set_cookie,
    ticket_of,
)
from svcserver.metagame.accounts.audit import Audit, AuditEntry, Trace
from svcserver.metagame.accounts.dashboard_access import (
    DashboardAccess,
    SqlDashboardAccess,
    address_of,
    is_factor,
    new_factor,
    step_of,
)
from svcserver.metagame.accounts.rules import Account, new_account_key
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.once import Again
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import EMPTY_OBJECT, NO_STORE, Answer


class WhoIsIn(TypedDict):
    """The signed-in account and its role.

    The CSRF token (``Word``) is sent only once, together with the cookie. The page sends the token
    in the header ``x-svc-dashboard`` of every request.
    """

    UserId: str
    Username: str
    Role: str
    Word: NotRequired[str]


class Ways(TypedDict):
    """The account's sign-in settings, and a new ``secret`` for an authenticator app.

    The secret is not stored until a code confirms it.
    """

    ownKey: bool
    secondFactor: bool
    secret: str
    address: str
    qr: list[str]


class OwnKey(TypedDict):
    """The only copy of the new dashboard key, or null if the dashboard key was removed."""

    key: str | None


@spelled(pascal_case)
@frozen
class OwnKeyRequest:
    """The choice between a separate dashboard key (``On``) and one key for game and dashboard."""

    on: bool


@spelled(pascal_case)
@frozen
class FactorRequest:
    """A new secret with one of its codes; an empty secret removes the second factor."""

    code: Annotated[str, text(1, 16)] = field(repr=False)
    secret: Annotated[str, text(0, 64)] = field(default="", repr=False)


@spelled(pascal_case)
@frozen
class SignInLinkRequest:
    """The name of the staff account that the link signs in; "" means the oldest owner."""

    account: Annotated[str, text(0, 64)] = ""


class SignInLink(TypedDict):
    """The only copy of a sign-in link's secret, and the account that it signs in."""

    Link: str
    Username: str


@spelled(pascal_case)
@frozen
class LinkSignIn:
    """The secret of a sign-in link."""

    link: Annotated[str, text(1, 128)] = field(repr=False)


def wrong_code() -> Unauthenticated:
    """Return the 401 error for a missing, wrong or used code; the page then asks for a code."""
    return Unauthenticated("enter the code from your authenticator app", code="second_factor")


@frozen
class SignInActs:
    """The operations on the sign-in settings of staff members."""

    audit: Audit
    counters: Counters

    async def read_access(self, account_id: AccountId) -> DashboardAccess:
        """Return the account's dashboard key (as a hash) and second factor."""
        return await self.audit.ledger.read_snapshot(
            lambda tx: SqlDashboardAccess(tx).of_account(account_id)
        )

    async def check(self, account_id: AccountId, code: str | None) -> None:
        """Check the code if the account has a second factor; raises Unauthenticated or TooMany."""
        if (await self.read_access(account_id)).factor is None:
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

    async def staff(self, name: str) -> Account:
        """Return the staff account with this name; "" means the oldest owner. Raises Missing."""

        def work(tx: Connection) -> Account | None:
            accounts = SqlAccounts(tx)
            return accounts.named(name) if name else accounts.first_owner()

        account = await self.audit.ledger.read_snapshot(work)
        if account is None or account.role < Role.HELPER:
            raise Missing("no staff account has this name", code="not_found")
        return account

    async def account(self, account_id: AccountId) -> Account | None:
        """Return the account, or None if it was deleted."""
        return await self.audit.ledger.read_snapshot(lambda tx: SqlAccounts(tx).find(account_id))

    async def note_link(self, by: str, account: Account, *, on_machine: bool) -> None:
        """Record in the audit log that a sign-in link is made.

        Raises Conflict if ``on_machine`` is false: only svcctl on this machine may make a link.
        """

        def act(tx: Connection, trace: Trace) -> None:
            if not on_machine:
                raise Conflict(
                    "only svcctl dashboard on the server's machine makes a link", code="machine"
                )

        entry = AuditEntry(by, "sign-in link", account.username)
        await self.audit.write(entry, act, OneAccount(account.id))

    async def note(self, name: str, account_id: AccountId, action: str) -> None:
        """Record a sign-in or sign-out in the audit log."""
        entry, scope = AuditEntry(name, action, name), OneAccount(account_id)
        await self.audit.write(entry, lambda tx, trace: None, scope)

    async def set_key(self, name: str, account_id: AccountId, *, on: bool) -> str | None:
        """Set and return a new dashboard key; if ``on`` is false, remove the key instead."""
        key = new_account_key() if on else None

        def act(tx: Connection, trace: Trace) -> None:
            access = SqlDashboardAccess(tx)
            before = access.of_account(account_id)
            trace.before, trace.after = {"ownKey": before.key_hash is not None}, {"ownKey": on}
            access.put(evolve(before, key_hash=None if key is None else fingerprint(key)))

        await self.audit.write(AuditEntry(name, "dashboard key", name), act, OneAccount(account_id))
        return key

    async def set_factor(
        self, name: str, account_id: AccountId, factor: str | None, code: str
    ) -> None:
        """Set or remove the second factor; raises Malformed, Unauthenticated or TooMany.

        ``code`` must be valid for the secret ``factor``. If ``factor`` is None, ``code`` must be
        valid for the current second factor, which is removed.
        """
        await self._count(account_id)

        def act(tx: Connection, trace: Trace) -> None:
            access = SqlDashboardAccess(tx)
            before = access.of_account(account_id)
            trace.before = {"secondFactor": before.factor is not None}
            trace.after = {"secondFactor": factor is not None}
            if before.factor is not None and factor is not None:
                raise Malformed("remove the second factor first", code="bad_request")
            if factor is None:
                access.put(evolve(self._use(tx, account_id, code), factor=None))
                return
            step = step_of(factor, code, self.audit.wall_clock()) if is_factor(factor) else None
            if step is None:
                raise Malformed("this code does not match the secret", code="bad_request")
            access.put(evolve(before, factor=factor, step=step))

        await self.audit.write(AuditEntry(name, "second factor", name), act, OneAccount(account_id))

    def _use(self, tx: Connection, account_id: AccountId, code: str) -> DashboardAccess:
        """Mark a code as used; raises Unauthenticated if it is wrong or was used already."""
        access = SqlDashboardAccess(tx)
        current = access.of_account(account_id)
        step = (
            None
            if current.factor is None
            else step_of(current.factor, code, self.audit.wall_clock())
        )
        if step is None or step <= current.step:
            raise wrong_code()
        used = evolve(current, step=step)
        access.put(used)
        return used

    async def _count(self, account_id: AccountId) -> None:
        """Count an attempt to enter a code, whether the code is right or wrong; raises TooMany."""

        def work(tx: Connection) -> None:
            access = SqlDashboardAccess(tx)
            access.put(access.of_account(account_id).tried(self.audit.wall_clock()))

        await self.audit.ledger.write(work, OneAccount(account_id))


PATH = "/svc/api/DashboardSession"
CODE_HEADER = b"x-svc-second-factor"
USED_LINK = "This sign-in link was used or has expired. Make another with svcctl dashboard."
CODE = {CODE_HEADER.decode(): str}  # needed only if the account has a second factor


@frozen
class SignInRoutes:
    """The routes for the dashboard's sessions and the sign-in settings."""

    routes: ClassVar[Routes] = Routes(
        worded, access=Access.ADMIN_KEY, role=Role.HELPER, bad_json=BAD_JSON, again=Again.NEVER
    )
    staff: StaffSessions
    ways: SignInActs
    reads: ReadLimit
    server: str  # the server's name, for authenticator apps

    @routes.row("POST", PATH, reply=WhoIsIn, headers=CODE, signs_in=True)
    async def sign_in(self, call: Call) -> Answer:
        """Exchange an account key for a dashboard session: a cookie and a CSRF token.

        An account with a second factor sends its code in ``x-svc-second-factor``.
        """
        check_key_sent(call, "send the account key to sign in")
        await self.ways.check(call.player, call.request.header(CODE_HEADER))
        ticket = await self.staff.begin(
            call.player, (await self.ways.read_access(call.player)).mark
        )
        await self.ways.note(staff_of(call).name, call.player, "sign in")
        headers = {**NO_STORE, "Set-Cookie": set_cookie(ticket)}
        return Answer(200, {**_who(call), "Word": ticket.word}, headers)

    @routes.row("GET", PATH, reply=WhoIsIn, quiet=True)
    async def who(self, call: Call) -> Answer:
        """Show the name and role of the signed-in account."""
        return Answer(200, _who(call), NO_STORE)

    @routes.row("DELETE", PATH, reply=Empty)
    async def sign_out(self, call: Call) -> Answer:
        """End the dashboard's session and remove its cookie."""
        headers = await self._end(call, _ticket(call))
        await self.ways.note(staff_of(call).name, call.player, "sign out")
        return Answer(200, EMPTY_OBJECT, headers)

    @routes.row(
        "POST",
        "/svc/api/DashboardSignInLink",
        body=SignInLinkRequest,
        reply=SignInLink,
        role=Role.OWNER,
    )
    async def make_link(self, call: Call[SignInLinkRequest]) -> Answer:
        """Make a link that signs in to the dashboard once, within ten minutes.

        Only a command on the server's machine may make a link: otherwise, a thief could use a
        stolen session or key to get new sessions.
        """
        account = await self.ways.staff(call.body.account)
        on_machine = call.caller.account is None
        await self.ways.note_link(staff_of(call).name, account, on_machine=on_machine)
        mark = (await self.ways.read_access(account.id)).mark
        link = await self.staff.make_link(account.id, mark)
        return Answer(200, {"Link": link, "Username": account.username}, NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardLinkSession",
        access=Access.DIRECT,
        body=LinkSignIn,
        reply=WhoIsIn,
    )
    async def use_link(self, call: Call[LinkSignIn]) -> Answer:
        """Sign in with a link made by ``DashboardSignInLink``; a link works only once."""
        await self.reads.take(call.request.peer)
        link = await self.staff.use_link(call.body.link)
        account = None if link is None else await self.ways.account(link.account_id)
        mark = None if account is None else (await self.ways.read_access(account.id)).mark
        if link is None or account is None or mark is None or mark != link.ways:
            self.ways.counters.add(Counted.FAILED_LOGINS, "sign_in_link")
            raise Unauthenticated(USED_LINK, code="used_link")
        ticket = await self.staff.begin(account.id, mark)
        await self.ways.note(account.username, account.id, "sign in")
        headers = {**NO_STORE, "Set-Cookie": set_cookie(ticket)}
        who = {"UserId": account.id, "Username": account.username, "Role": account.role.word}
        return Answer(200, {**who, "Word": ticket.word}, headers)

    @routes.row("GET", "/svc/api/DashboardAccess", reply=Ways, quiet=True)
    async def shown(self, call: Call) -> Answer:
        """Show the caller's sign-in settings, and a new secret for an authenticator app."""
        import segno  # most metagames never need it

        has, fresh = await self.ways.read_access(call.player), new_factor()
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
        body=OwnKeyRequest,
        reply=OwnKey,
        headers=CODE,
        signs_in=True,
    )
    async def own_key(self, call: Call[OwnKeyRequest]) -> Answer:
        """Set a separate key for the dashboard, or remove it.

        With a separate key, the account key is only for playing. The request needs the key used to
        sign in, because a stolen session alone must not suffice. If the account has a second
        factor, the request also needs a code. The account's other sessions end.
        """
        check_key_sent(call, "send the key that you sign in with")
        await self.ways.check(call.player, call.request.header(CODE_HEADER))
        key = await self.ways.set_key(staff_of(call).name, call.player, on=call.body.on)
        await self._keep(call)
        return Answer(200, {"key": key}, NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardSecondFactor",
        body=FactorRequest,
        reply=Empty,
        signs_in=True,
    )
    async def second_factor(self, call: Call[FactorRequest]) -> Answer:
        """Require a code of a second factor at sign-in, or stop requiring a code.

        The request needs the key used to sign in, and a code of the second factor that is added or
        removed. The account's other sessions end.
        """
        check_key_sent(call, "send the key that you sign in with")
        sent = call.body
        await self.ways.set_factor(staff_of(call).name, call.player, sent.secret or None, sent.code)
        await self._keep(call)
        return Answer(200, EMPTY_OBJECT, NO_STORE)

    async def _end(self, call: Call, ticket: Ticket | None) -> Mapping[str, str]:
        """End the session, if there is one; return the headers that remove its cookie."""
        if ticket is None:
            return NO_STORE
        await self.staff.end(ticket, call.player)
        return {**NO_STORE, "Set-Cookie": set_cookie(ticket, ended=True)}

    async def _keep(self, call: Call[Any]) -> None:
        """Keep the caller's session valid after a change that ends the account's other sessions."""
        ticket = _ticket(call)
        if ticket is not None:
            mark = (await self.ways.read_access(call.player)).mark
            await self.staff.keep(ticket, call.player, mark)


def check_key_sent(call: Call[Any], why: str) -> None:
    """Raise Unauthenticated if the request has no key.

    If a session were enough, a thief with a stolen session could get lasting access.
    """
    if not call.request.has_header(ACCOUNT_KEY):
        raise Unauthenticated(why, code="key_wanted")


async def is_proven(call: Call[Any], ways: SignInActs) -> bool:
    """Return whether the request has an account key or svcctl's signature, not only a session.

    Raises Unauthenticated if the account has a second factor and its code is missing or wrong.
    """
    if call.caller.account is None:  # svcctl on this machine
        return True
    if not call.request.has_header(ACCOUNT_KEY):
        return False
    await ways.check(call.player, call.request.header(CODE_HEADER))
    return True


def _ticket(call: Call[Any]) -> Ticket | None:
    return ticket_of(call.request.header(b"cookie"), call.request.header(PAGE_HEADER))


def _who(call: Call) -> WhoIsIn:
    who = call.caller
    return {"UserId": call.player, "Username": who.name, "Role": who.role.word}
