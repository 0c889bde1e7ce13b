"""Operations on invite codes, one transaction each. Spec: 2 §3 Invite code."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import ACROSS, Ledger
from svcserver.kernel.json import Json
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.audit import Act, Audit, Entry, Trace
from svcserver.metagame.accounts.rules import Invite
from svcserver.metagame.accounts.store import SqlAccounts

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
