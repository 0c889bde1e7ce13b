"""Invite codes: shapes, acts and routes for owners. Spec: 2 §3 Invite code, §4 Management API."""

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
    """A code to create; the name is a note for the log."""

    uses: Annotated[int, whole(1, MAX_USES)] = 1
    name: str = ""
    reason: Reason = field(default="", metadata=sent_as("Reason"))


@spelled(pascal_case)
@frozen
class CodeWish:
    """A code of the owner's choice; ``Uses`` counts unless they are infinite."""

    new_invite_code: str
    uses: Lenient[Count] = 0
    infinite_uses: bool = False
    reason: Reason = ""


class CodeEntry(TypedDict):
    """A code and its remaining uses."""

    inviteCode: str
    usesRemaining: int
    infiniteUses: bool


class CodeList(TypedDict):
    """Every invite code."""

    InviteCodes: list[CodeEntry]


class NewCode(TypedDict):
    """A new invite code."""

    code: str


def show_codes(invites: Iterable[InviteCode]) -> CodeList:
    """Return the reply with every code."""
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
    """Return the act that adds a code, or gives an existing one the new uses."""

    def act(tx: Connection, trace: Trace) -> None:
        accounts = SqlAccounts(tx)
        trace.target = rules.first_group(invite.code)
        trace.before, trace.after = _uses(accounts.invite(invite.code)), _uses(invite)
        accounts.put_invite(invite)

    return act


def drop(code: str) -> Act[bool]:
    """Return the act that deletes a code; its result is whether there was one."""

    def act(tx: Connection, trace: Trace) -> bool:
        accounts = SqlAccounts(tx)
        trace.target, trace.before = rules.first_group(code), _uses(accounts.invite(code))
        existed = accounts.drop_invite(code)
        trace.after = {"existed": existed}
        return existed

    return act


def _uses(invite: InviteCode | None) -> Mapping[str, Json] | None:
    """Return a code's uses for the audit log, which names only its first group."""
    if invite is None:
        return None
    return {"uses": None if invite.infinite_uses else invite.uses_remaining}


ADMIN = Access.ADMIN_KEY


@frozen
class InviteRoutes:
    """List, create, register and delete invite codes, under ``/svc/api``."""

    routes: ClassVar[Routes] = Routes(bare, access=ADMIN, again=Again.NEVER)
    ledger: Ledger
    audit: Audit

    @routes.row("GET", "/svc/api/InviteCodes", reply=CodeList)
    async def list_codes(self, call: Call) -> Answer:
        """Every invite code, with its remaining uses."""
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
        """Make an invite code of the owner's choice; an existing one gets the new uses."""
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
        """Revoke an invite code; 200 also without one."""
        await self.audit.write(by_staff(call, "revoke invite"), drop(code.strip()), ACROSS)
        return Answer(200, EMPTY_OBJECT)


def invites(parts: Parts) -> Iterator[Feature]:
    """Yield the routes of invite codes."""
    yield InviteRoutes(parts.ledger, parts.audit)
