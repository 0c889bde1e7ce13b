"""Operations on invite codes, one transaction each. Spec: 2 §3 Invite code."""

from __future__ import annotations

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import ACROSS, Ledger
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.audit import Audit, Entry, Trace
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
            SqlAccounts(tx).put_invite(Invite(code, uses, False))
            trace.target, trace.after = rules.first_group(code), {"uses": uses}
            return code

        code = await self.audit.write(entry, act, ACROSS)
        said = "invite {code} created: uses {uses}, note {note!r}"
        log.info(said, code=rules.first_group(code), uses=uses, note=note[:MAX_NOTE])
        return code

    async def put(self, entry: Entry, invite: Invite) -> None:
        """Add a code, or give an existing one the new uses."""

        def act(tx: Connection, trace: Trace) -> None:
            trace.target = rules.first_group(invite.code)
            trace.after = {"uses": None if invite.infinite_uses else invite.uses_remaining}
            SqlAccounts(tx).put_invite(invite)

        await self.audit.write(entry, act, ACROSS)

    async def revoke(self, entry: Entry, code: str) -> None:
        """Delete a code, if there is one."""

        def act(tx: Connection, trace: Trace) -> None:
            trace.target = rules.first_group(code)
            trace.after = {"existed": SqlAccounts(tx).drop_invite(code)}

        await self.audit.write(entry, act, ACROSS)
