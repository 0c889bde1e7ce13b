"""Invite codes: shapes, writes and staff routes. Spec: 2 §3 Invite code, §4 Management API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, ClassVar, TypedDict

from attrs import field, frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import ACROSS, Ledger
from svcserver.kernel.envelope import Empty
from svcserver.kernel.json import Json
from svcserver.kernel.shapes import Count, Lenient, pascal_case, sent_as, spelled, whole
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.audit import Act, Audit, Trace
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.accounts.recorded import by_staff
from svcserver.metagame.accounts.rules import InviteCode
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.accounts.wire import Reason
from svcserver.metagame.once import Again
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.routes import EMPTY_OBJECT, Answer, Feature, bare

MAX_USES = 1_000


@frozen
class InviteWish:
    """A request for a new code; ``name`` is only a note for the log."""

    uses: Annotated[int, whole(1, MAX_USES)] = 1
    name: str = ""
    reason: Reason = field(default="", metadata=sent_as("Reason"))


@spelled(pascal_case)
@frozen
class CodeWish:
    """A request for a code that the owner chose; ``Uses`` is ignored if uses are infinite."""

    new_invite_code: str
    uses: Lenient[Count] = 0
    infinite_uses: bool = False
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


log = Logger()

MAX_NOTE = 64  # characters in the log


def put(invite: InviteCode) -> Act[None]:
    """Return an audited action that adds a code, or sets the uses of an existing one."""

    def act(tx: Connection, trace: Trace) -> None:
        accounts = SqlAccounts(tx)
        trace.target = rules.first_group(invite.code)
        trace.before, trace.after = _uses(accounts.invite(invite.code)), _uses(invite)
        accounts.put_invite(invite)

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

    @routes.row("GET", "/svc/api/InviteCodes", reply=CodeList)
    async def list_codes(self, call: Call) -> Answer:
        """List all invite codes with their remaining uses."""
        codes = await self.ledger.read(lambda tx: SqlAccounts(tx).invites())
        return Answer(200, show_codes(codes))

    @routes.row(
        "POST",
        "/svc/api/CreateInvite",
        body=InviteWish,
        reply=NewCode,
        refuse=worded,
        bad_json=BAD_JSON,
    )
    async def create(self, call: Call[InviteWish]) -> Answer:
        """Make an invite code; ``name`` is only a note for the log."""
        code, sent = rules.new_invite_code(), call.body
        act = put(InviteCode(code, sent.uses, False))
        await self.audit.write(by_staff(call, "create invite"), act, ACROSS)
        log.info(
            "invite {code} created: uses {uses}, note {note!r}",
            code=rules.first_group(code),
            uses=sent.uses,
            note=sent.name[:MAX_NOTE],
        )
        return Answer(200, {"code": code})

    @routes.row("POST", "/svc/api/RegisterInviteCode", body=CodeWish, reply=Empty)
    async def register_code(self, call: Call[CodeWish]) -> Answer:
        """Make an invite code that the owner chose, or set the uses of an existing one."""
        sent = call.body
        invite = rules.own_invite(sent.new_invite_code, sent.uses, infinite=sent.infinite_uses)
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
        """Revoke an invite code; 200 even if it does not exist."""
        await self.audit.write(by_staff(call, "revoke invite"), drop(code.strip()), ACROSS)
        return Answer(200, EMPTY_OBJECT)


def invites(parts: Parts) -> Iterator[Feature]:
    """Yield the invite-code routes."""
    yield InviteRoutes(parts.ledger, parts.audit)
