"""Invite codes, and the staff routes for them. Spec: 2 §3 Invite code, §4 Management API."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, TypedDict

from attrs import evolve, field, frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import ACROSS, Ledger
from svcserver.kernel.envelope import Empty
from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.redaction import printable
from svcserver.kernel.shapes import (
    Count,
    Lenient,
    Moment,
    pascal_case,
    plain_text,
    sent_as,
    spelled,
    whole,
)
from svcserver.kernel.times import iso
from svcserver.metagame.access.acting import staff_of
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.audit import Act, Audit, Trace
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.accounts.recorded import by_staff
from svcserver.metagame.accounts.rules import Account, InviteCode
from svcserver.metagame.accounts.store import InviteUses, SqlAccounts
from svcserver.metagame.accounts.wire import Reason
from svcserver.metagame.once import Again
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import EMPTY_OBJECT, NO_STORE, Answer, Feature, bare

MAX_USES = 1_000
MAX_NEW = 50  # codes made at once
MAX_LISTED = 500
MAX_USERS = 20  # newest users listed of each code
MAX_NOTE = 64  # characters
MAX_DAYS = 365
DAY_S = 24 * 3600


@frozen
class InviteRequest:
    """A request for a new code; ``name`` is a note for staff and the log."""

    uses: Annotated[int, whole(1, MAX_USES)] = 1
    name: str = ""
    reason: Reason = field(default="", metadata=sent_as("Reason"))


@spelled(pascal_case)
@frozen
class CodeRequest:
    """A request for a code that the owner chose; ``Uses`` is ignored if the code has no limit."""

    new_invite_code: str
    uses: Lenient[Count] = 0
    infinite_uses: bool = False
    reason: Reason = ""


@spelled(pascal_case)
@frozen
class InvitesRequest:
    """A request for several new codes with the same number of uses.

    The codes expire after ``Days``; 0 means never. The note is only for staff.
    """

    count: Annotated[int, whole(1, MAX_NEW)] = 1
    uses: Annotated[int, whole(1, MAX_USES)] = 1
    note: Annotated[str, plain_text(0, MAX_NOTE)] = ""
    days: Annotated[int, whole(0, MAX_DAYS)] = 0
    reason: Reason = ""


class CodeEntry(TypedDict):
    """An invite code and its remaining uses."""

    inviteCode: str
    usesRemaining: int
    infiniteUses: bool


class CodeList(TypedDict):
    """The list of all invite codes."""

    InviteCodes: list[CodeEntry]


class NewCode(TypedDict):
    """A new invite code."""

    code: str


class NewCodes(TypedDict):
    """The new invite codes."""

    codes: list[str]


class InviteUser(TypedDict):
    """An account that was registered with a code."""

    name: str
    at: Moment


class InviteEntry(TypedDict):
    """An invite code with its note, maker and expiry.

    ``madeAt`` is null if unknown; ``expiresAt`` is null if the code never expires. ``uses`` is the
    number of accounts made with the code, and ``users`` lists the newest of these accounts.
    """

    code: str
    note: str
    madeBy: str
    madeAt: Moment | None
    expiresAt: Moment | None
    usesRemaining: int
    infiniteUses: bool
    usable: bool
    uses: int
    users: list[InviteUser]


class InviteList(TypedDict):
    """The invite codes, usable codes first; ``more`` is true if the list is not complete."""

    invites: list[InviteEntry]
    more: bool


def show_codes(invites: Iterable[InviteCode]) -> CodeList:
    """Return the reply that lists all invite codes."""
    return {
        "InviteCodes": [
            {
                "inviteCode": invite.code,
                "usesRemaining": invite.uses_remaining,
                "infiniteUses": invite.infinite_uses,
            }
            for invite in invites
        ]
    }


def show_invites(tx: Connection, now: float) -> InviteList:
    """Return the reply that lists the invite codes for the dashboard."""
    accounts = SqlAccounts(tx)
    invites = accounts.newest_invites(now, MAX_LISTED + 1)
    uses = accounts.invite_uses((invite.code for invite in invites[:MAX_LISTED]), MAX_USERS)
    names = accounts.find_all(account for use in uses.values() for account, _ in use.newest)
    shown = [
        _show_invite(invite, uses.get(invite.code, InviteUses(0)), names, now)
        for invite in invites[:MAX_LISTED]
    ]
    return {"invites": shown, "more": len(invites) > MAX_LISTED}


def _show_invite(
    invite: InviteCode, uses: InviteUses, names: Mapping[AccountId, Account], now: float
) -> InviteEntry:
    return {
        "code": invite.code,
        "note": invite.note,
        "madeBy": invite.made_by,
        "madeAt": None if invite.made_at is None else iso(invite.made_at),
        "expiresAt": None if invite.expires_at is None else iso(invite.expires_at),
        "usesRemaining": invite.uses_remaining,
        "infiniteUses": invite.infinite_uses,
        "usable": invite.is_usable(now),
        "uses": uses.count,
        "users": [
            {"name": names[account].username, "at": iso(at)}
            for account, at in uses.newest
            if account in names
        ],
    }


log = Logger()


def put(invite: InviteCode) -> Act[None]:
    """Return an audited action that adds a code, or sets the remaining uses of an existing code."""

    def act(tx: Connection, trace: Trace) -> None:
        accounts = SqlAccounts(tx)
        trace.target = rules.first_group(invite.code)
        before = accounts.invite(invite.code)
        trace.before, trace.after = _uses(before), _uses(invite)
        accounts.put_invite(
            invite
            if before is None
            else evolve(
                before, uses_remaining=invite.uses_remaining, infinite_uses=invite.infinite_uses
            )
        )

    return act


def put_all(invites: Sequence[InviteCode]) -> Act[None]:
    """Return an audited action that adds codes; all must have equal uses, note and expiry."""

    def act(tx: Connection, trace: Trace) -> None:
        accounts, first = SqlAccounts(tx), invites[0]
        for invite in invites:
            accounts.put_invite(invite)
        expires = None if first.expires_at is None else iso(first.expires_at)
        trace.target = rules.first_group(first.code)
        trace.after = {
            "uses": first.uses_remaining,
            "count": len(invites),
            "note": first.note,
            "expires": expires,
            "codes": [rules.first_group(invite.code) for invite in invites],
        }

    return act


def drop(code: str) -> Act[bool]:
    """Return an audited action that deletes a code and returns whether it existed."""

    def act(tx: Connection, trace: Trace) -> bool:
        accounts = SqlAccounts(tx)
        trace.target, trace.before = rules.first_group(code), _uses(accounts.invite(code))
        existed = accounts.drop_invite(code)
        trace.after = {"existed": existed}
        return existed

    return act


def _uses(invite: InviteCode | None) -> Mapping[str, Json] | None:
    """Return a code's remaining uses for the audit log."""
    if invite is None:
        return None
    return {"uses": None if invite.infinite_uses else invite.uses_remaining}


ADMIN = Access.ADMIN_KEY


@frozen
class InviteRoutes:
    """The routes under ``/svc/api`` that list, create, register and delete invite codes."""

    routes: ClassVar[Routes] = Routes(bare, access=ADMIN, again=Again.NEVER)
    ledger: Ledger
    audit: Audit
    wall_clock: Callable[[], float]

    @routes.row("GET", "/svc/api/InviteCodes", reply=CodeList)
    async def list_codes(self, call: Call) -> Answer:
        """List all invite codes with their remaining uses."""
        codes = await self.ledger.read_snapshot(lambda tx: SqlAccounts(tx).invites())
        return Answer(200, show_codes(codes))

    @routes.row(
        "POST",
        "/svc/api/CreateInvite",
        body=InviteRequest,
        reply=NewCode,
        refuse=worded,
        bad_json=BAD_JSON,
    )
    async def create(self, call: Call[InviteRequest]) -> Answer:
        """Make an invite code; ``name`` is a note for staff and the log."""
        code, sent = rules.new_invite_code(), call.body
        by, note = staff_of(call).name, printable(sent.name, MAX_NOTE)
        act = put(InviteCode(code, sent.uses, False, note, by, int(self.wall_clock())))
        await self.audit.write(by_staff(call, "create invite"), act, ACROSS)
        log.info(
            "invite {code} created: uses {uses}, note {note!r}",
            code=rules.first_group(code),
            uses=sent.uses,
            note=note,
        )
        return Answer(200, {"code": code})

    @routes.row("GET", "/svc/api/DashboardInvites", reply=InviteList, refuse=worded, quiet=True)
    async def listed(self, call: Call) -> Answer:
        """List the invite codes with notes, expiry, and the accounts made with them."""
        shown = await self.ledger.read_snapshot(lambda tx: show_invites(tx, self.wall_clock()))
        return Answer(200, shown, NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardInvites",
        body=InvitesRequest,
        reply=NewCodes,
        refuse=worded,
        bad_json=BAD_JSON,
    )
    async def create_many(self, call: Call[InvitesRequest]) -> Answer:
        """Make several invite codes, all with the requested uses, note and expiry."""
        sent, now, by = call.body, int(self.wall_clock()), staff_of(call).name
        expires = now + sent.days * DAY_S if sent.days else None
        made = [
            InviteCode(rules.new_invite_code(), sent.uses, False, sent.note, by, now, expires)
            for _ in range(sent.count)
        ]
        await self.audit.write(by_staff(call, "create invites"), put_all(made), ACROSS)
        reply: NewCodes = {"codes": [invite.code for invite in made]}
        return Answer(200, reply, NO_STORE)

    @routes.row("POST", "/svc/api/RegisterInviteCode", body=CodeRequest, reply=Empty)
    async def register_code(self, call: Call[CodeRequest]) -> Answer:
        """Add an invite code that the owner chose, or set the uses of an existing code."""
        sent = call.body
        invite = evolve(
            rules.own_invite(sent.new_invite_code, sent.uses, infinite=sent.infinite_uses),
            made_by=staff_of(call).name,
            made_at=int(self.wall_clock()),
        )
        await self.audit.write(by_staff(call, "put invite"), put(invite), ACROSS)
        return Answer(200, EMPTY_OBJECT)

    @routes.row(
        "DELETE",
        "/svc/api/InviteCode/<code>",
        reply=Empty,
        secret_path=("code",),
        query={"Reason": str},
    )
    async def revoke(self, call: Call, code: str) -> Answer:
        """Revoke an invite code; the reply is 200 even if the code does not exist."""
        await self.audit.write(by_staff(call, "revoke invite"), drop(code.strip()), ACROSS)
        return Answer(200, EMPTY_OBJECT)


def invites(parts: Parts) -> Iterator[Feature]:
    """Yield the invite-code routes."""
    yield InviteRoutes(parts.ledger, parts.audit, parts.wall_clock)
