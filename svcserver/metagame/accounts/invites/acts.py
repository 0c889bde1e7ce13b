"""Operations on invite codes, one transaction each. Spec: 2 §3 Invite code."""

from __future__ import annotations

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import ACROSS, Ledger
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.rules import Invite
from svcserver.metagame.accounts.store import SqlAccounts

log = Logger()

MAX_NOTE = 64  # characters in the log


@frozen
class InviteActs:
    """Lists, creates, adds and revokes codes."""

    ledger: Ledger

    async def everything(self) -> list[Invite]:
        return await self.ledger.read(lambda tx: SqlAccounts(tx).invites())

    async def create(self, uses: int, note: str) -> str:
        """A fresh code; ``note`` is only for the log."""

        def work(tx: Connection) -> str:
            code = rules.new_invite_code()
            SqlAccounts(tx).put_invite(Invite(code, uses, False))
            return code

        code = await self.ledger.write(work, ACROSS)
        said = "invite {code} created: uses {uses}, note {note!r}"
        log.info(said, code=rules.first_group(code), uses=uses, note=note[:MAX_NOTE])
        return code

    async def put(self, invite: Invite) -> None:
        """Add a code, or give an existing one the new uses."""
        await self.ledger.write(lambda tx: SqlAccounts(tx).put_invite(invite), ACROSS)

    async def revoke(self, code: str) -> None:
        """Delete a code, if there is one."""
        await self.ledger.write(lambda tx: SqlAccounts(tx).drop_invite(code), ACROSS)
