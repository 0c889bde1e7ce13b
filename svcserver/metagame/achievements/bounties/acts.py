"""Operations on bounty boards, one transaction each, recorded in the event log."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen
from sqlalchemy import Connection

from svcserver.db.ledger import Ledger
from svcserver.kernel.ids import AccountId
from svcserver.kernel.shapes import Late
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.eventlog import EventLog
from svcserver.metagame.achievements.bounties import rules, wire
from svcserver.metagame.achievements.bounties.store import SqlBounties
from svcserver.metagame.rows import Call
from svcserver.web.routes import Answer


@frozen
class BountyActs:
    """Read, update, delete; each answers with the board.

    Bodies are parsed within the transaction, so that a malformed one is recorded, too.
    """

    ledger: Ledger
    now: Callable[[], float]
    log: EventLog
    most_bytes: int

    async def read(self, account_id: AccountId) -> Answer:
        return await self.ledger.read(lambda tx: _shown(tx, account_id))

    async def update(self, call: Call[Late[wire.BountyUpdate]], account_id: AccountId) -> Answer:
        """Add or replace bounties, and replace the draft."""

        def work(tx: Connection, notes: list[str]) -> Answer:
            sent, now = call.body.read(), iso(self.now())
            wanted = [one.bounty(now) for one in sent.bounties or ()]
            rules.update(
                SqlBounties(tx), account_id, wanted, sent.draft_data, notes, self.most_bytes
            )
            return _shown(tx, account_id)

        return await self.log.write(call, account_id, work)

    async def delete(self, call: Call[Late[wire.BountyIds]], account_id: AccountId) -> Answer:
        def work(tx: Connection, notes: list[str]) -> Answer:
            SqlBounties(tx).drop(account_id, call.body.read().bounty_ids)
            return _shown(tx, account_id)

        return await self.log.write(call, account_id, work)


def _shown(tx: Connection, account_id: AccountId) -> Answer:
    board = SqlBounties(tx)
    return wire.show(board.bounties(account_id).values(), board.draft(account_id))
