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
from svcserver.metagame.accounts.audit import Act, Audit, Entry, Trace
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.accounts.recorded import by_staff
from svcserver.metagame.accounts.rules import Invite
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


def show_codes(invites: Iterable[Invite]) -> CodeList:
    """The reply with every code."""
    return {
        "InviteCodes": [
            {
                "inviteCode": one.code,
                "usesRemaining": one.uses_remaining,
                "infiniteUses": one.infinite_uses,
            }
            for one in invites
        ]
    }


log = Logger()

MAX_NOTE = 64  # characters in the log


@frozen
class InviteActs:
    """Lists, creates, adds and revokes codes."""

    ledger: Ledger
    audit: Audit

    async def everything(self) -> list[Invite]:
        return await self.ledger.read(lambda tx: SqlAccounts(tx).invites())

    async def create(self, entry: Entry, uses: int, note: str) -> str:
        """A fresh code; ``note`` is only for the log."""

        def act(tx: Connection, trace: Trace) -> str:
            code = rules.new_invite_code()
            put(Invite(code, uses, False))(tx, trace)
            return code

        code = await self.audit.write(entry, act, ACROSS)
        said = "invite {code} created: uses {uses}, note {note!r}"
        log.info(said, code=rules.first_group(code), uses=uses, note=note[:MAX_NOTE])
        return code

    async def put(self, entry: Entry, invite: Invite) -> None:
        """Add a code, or give an existing one the new uses."""
        await self.audit.write(entry, put(invite), ACROSS)

    async def revoke(self, entry: Entry, code: str) -> None:
        """Delete a code, if there is one."""
        await self.audit.write(entry, drop(code), ACROSS)


def put(invite: Invite) -> Act[None]:
    """Add a code, or give an existing one the new uses."""

    def act(tx: Connection, trace: Trace) -> None:
        accounts = SqlAccounts(tx)
        trace.target = rules.first_group(invite.code)
        trace.before, trace.after = _uses(accounts.invite(invite.code)), _uses(invite)
        accounts.put_invite(invite)

    return act


def drop(code: str) -> Act[bool]:
    """Delete a code; whether there was one."""

    def act(tx: Connection, trace: Trace) -> bool:
        accounts = SqlAccounts(tx)
        trace.target, trace.before = rules.first_group(code), _uses(accounts.invite(code))
        existed = accounts.drop_invite(code)
        trace.after = {"existed": existed}
        return existed

    return act


def _uses(invite: Invite | None) -> Mapping[str, Json] | None:
    """What the audit log shows of a code, of which it names no more than its first group."""
    if invite is None:
        return None
    return {"uses": None if invite.infinite_uses else invite.uses_remaining}


ADMIN = Access.ADMIN_KEY


@frozen
class InviteRoutes:
    """List, create, register and delete invite codes, under ``/svc/api``."""

    routes: ClassVar[Routes] = Routes(bare, access=ADMIN, again=Again.NEVER)
    acts: InviteActs

    @routes.row("GET", "/svc/api/InviteCodes", reply=CodeList)
    async def list_codes(self, call: Call) -> Answer:
        """Every invite code, with what is left of it."""
        return Answer(200, show_codes(await self.acts.everything()))

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
        code = await self.acts.create(
            by_staff(call, "create invite"), call.body.uses, call.body.name
        )
        return Answer(200, {"code": code})

    @routes.row("POST", "/svc/api/RegisterInviteCode", body=CodeWish, reply=Empty)
    async def register_code(self, call: Call[CodeWish]) -> Answer:
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


def invites(parts: Parts) -> Iterator[Feature]:
    """Invite codes."""
    yield InviteRoutes(InviteActs(parts.ledger, parts.audit))
