"""Invite codes, the owner's side. Spec: 2 §3 Invite code, §4 Management API."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypedDict

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import Ledger
from svcserver.kernel.shapes import Count, Lenient, pascal_case, spelled, whole
from svcserver.metagame.accounts import rules
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
MAX_NOTE = 64  # characters that the log keeps


@frozen
class InviteWish:
    """Uses from 1 to 1000; the name is a note for the log."""

    uses: Annotated[int, whole(1, MAX_USES)] = 1
    name: str = ""


@spelled(pascal_case)
@frozen
class CodeWish:
    """A code of the owner's own choice; ``Uses`` count unless they are infinite."""

    new_invite_code: str
    uses: Lenient[Count] = 0
    infinite_uses: bool = False


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
        body=InviteWish,
        reply=NewCode,
        refuse=worded,
        bad_json=BAD_JSON,
    )
    async def create(self, call: Call[InviteWish]) -> Answer:
        """A fresh code; ``name`` is only a note for the log."""
        uses, note = call.body.uses, call.body.name[:MAX_NOTE]

        def work(tx: Connection) -> str:
            code = rules.new_invite_code()
            SqlAccounts(tx).put_invite(Invite(code, uses, False))
            return code

        code = await self.ledger.write(work)
        said = "invite {code} created: uses {uses}, note {note!r}"
        log.info(said, code=rules.first_group(code), uses=uses, note=note)
        return Answer(200, {"code": code})

    @routes.row(
        "POST",
        "/svc/api/RegisterInviteCode",
        access=Access.ADMIN_KEY,
        body=CodeWish,
        reply=dict,
    )
    async def register_code(self, call: Call[CodeWish]) -> Answer:
        """A code of the owner's own choice; an existing one gets the new uses."""
        sent = call.body
        invite = rules.own_invite(sent.new_invite_code, sent.uses, infinite=sent.infinite_uses)
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
