"""Invite codes, the owner's side. Spec: 2 §3 Invite code, §4 Management API."""

from __future__ import annotations

from typing import ClassVar, NotRequired, TypedDict

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import Ledger
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.management import members
from svcserver.metagame.accounts.rules import Invite
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.web.routes import (
    BAD_JSON,
    EMPTY_OBJECT,
    Access,
    Answer,
    Call,
    Routes,
    bare,
    worded,
)

log = Logger()

MAX_USES = 1_000


class InviteWish(TypedDict):
    """Uses from 1 to 1000; the name is a note for the log."""

    uses: NotRequired[int]
    name: NotRequired[str]


class CodeWish(TypedDict):
    """A code of the owner's own choice."""

    NewInviteCode: str
    Uses: int
    InfiniteUses: NotRequired[bool]


class CodeEntry(TypedDict):
    """A live code, or one that is used up."""

    inviteCode: str
    usesRemaining: int
    infiniteUses: bool


class CodeList(TypedDict):
    """Every code."""

    InviteCodes: list[CodeEntry]


class NewCode(TypedDict):
    """What to give to the players it is for."""

    code: str


@frozen
class Invites:
    """Invite codes under ``/svc/api``."""

    routes: ClassVar[Routes] = Routes(bare)
    ledger: Ledger

    @routes.row("GET", "/svc/api/InviteCodes", access=Access.ADMIN_KEY, reply=CodeList)
    async def list_codes(self, call: Call) -> Answer:
        """Every code, with what is left of it."""
        invites = await self.ledger.read(lambda tx: SqlAccounts(tx).invites())
        listed = [
            {
                "inviteCode": one.code,
                "usesRemaining": one.uses_remaining,
                "infiniteUses": one.infinite_uses,
            }
            for one in invites
        ]
        return Answer(200, {"InviteCodes": listed})

    @routes.row(
        "POST",
        "/svc/api/CreateInvite",
        access=Access.ADMIN_KEY,
        body=object,
        sends=InviteWish,
        reply=NewCode,
        refuse=worded,
        bad_json=BAD_JSON,
    )
    async def create(self, call: Call) -> Answer:
        """A fresh code; ``name`` is only a note for the log."""
        sent = members(call.body)
        uses, name = sent.get("uses", 1), sent.get("name", "")
        if type(uses) is not int or not 1 <= uses <= MAX_USES:
            raise Malformed("uses must be a whole number from 1 to 1000", code="bad_request")
        if not isinstance(name, str):
            raise Malformed("name must be a text", code="bad_request")

        def work(tx: Connection) -> str:
            code = rules.new_invite_code()
            SqlAccounts(tx).put_invite(Invite(code, uses, False))
            return code

        code = await self.ledger.write(work)
        shown = rules.first_group(code)
        log.info("invite {code} created", code=shown, uses=uses, note=name[:64])
        return Answer(200, {"code": code})

    @routes.row(
        "POST",
        "/svc/api/RegisterInviteCode",
        access=Access.ADMIN_KEY,
        body=object,
        sends=CodeWish,
        reply=dict,
    )
    async def register_code(self, call: Call) -> Answer:
        """A code of the owner's own choice; an existing one gets the new uses."""
        sent = members(call.body)
        code, uses = sent.get("NewInviteCode"), sent.get("Uses")
        infinite = sent.get("InfiniteUses", False)
        if not isinstance(code, str) or not 1 <= len(code.strip()) <= rules.MAX_CODE:
            raise Malformed("NewInviteCode must be a text")
        if "\0" in code or type(infinite) is not bool:
            raise Malformed("InfiniteUses must be true or false")
        if not infinite and (type(uses) is not int or not 1 <= uses <= 2**31 - 1):
            raise Malformed("Uses must be a whole number of at least 1")
        count = uses if type(uses) is int and 0 <= uses <= 2**31 - 1 else 0
        invite = Invite(code.strip(), count, infinite)
        await self.ledger.write(lambda tx: SqlAccounts(tx).put_invite(invite))
        return Answer(200, EMPTY_OBJECT)

    @routes.row(
        "DELETE",
        "/svc/api/InviteCode/<code>",
        access=Access.ADMIN_KEY,
        reply=dict,
        secret_path=("code",),
    )
    async def revoke(self, call: Call, code: str) -> Answer:
        """Revoke a code; always 200."""
        wanted = code.strip()
        await self.ledger.write(lambda tx: SqlAccounts(tx).drop_invite(wanted))
        return Answer(200, EMPTY_OBJECT)
