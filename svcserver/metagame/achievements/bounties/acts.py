"""Operations on bounty boards, one transaction each; the event log records the writes."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen
from sqlalchemy import Connection

from svcserver.db.ledger import Ledger
from svcserver.kernel.ids import AccountId
from svcserver.kernel.shapes import Late
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.eventlog import EventEntry, EventLog
from svcserver.metagame.achievements.bounties import rules, wire
from svcserver.metagame.achievements.bounties.rules import AccountBoard
from svcserver.metagame.achievements.bounties.store import SqlBounties


@frozen
class BountyActs:
    """Reads and updates a bounty board, and deletes bounties; each operation returns the board.

    Bodies are parsed within the transaction, so that the event log also records malformed bodies.
    """

    ledger: Ledger
    wall_clock: Callable[[], float]
    events: EventLog
    most_bytes: int

    async def read(self, account_id: AccountId) -> AccountBoard:
        return await self.ledger.read(lambda tx: _board(tx, account_id))

    async def update(
        self, entry: EventEntry[AccountBoard], late: Late[wire.BountyUpdate]
    ) -> AccountBoard:
        """Add bounties, or replace bounties of the board; also replace the draft, if sent."""
        account_id = entry.account_id

        def work(tx: Connection, notes: list[str]) -> AccountBoard:
            sent, now = late.read(), iso(self.wall_clock())
            store, draft = SqlBounties(tx), sent.draft()
            before = store.bounties(account_id)
            bounties = [bounty.bounty(now) for bounty in sent.bounties or ()]
            after = rules.updated(before, bounties, notes)
            rules.check_size(before, after, draft, self.most_bytes)
            store.replace(account_id, before, after)
            if draft is not None:
                store.put_draft(account_id, draft)
            return _board(tx, account_id)

        return await self.events.write(entry, work)

    async def delete(
        self, entry: EventEntry[AccountBoard], late: Late[wire.BountyIds]
    ) -> AccountBoard:
        def work(tx: Connection, notes: list[str]) -> AccountBoard:
            SqlBounties(tx).drop(entry.account_id, late.read().bounty_ids)
            return _board(tx, entry.account_id)

        return await self.events.write(entry, work)


def _board(tx: Connection, account_id: AccountId) -> AccountBoard:
    board = SqlBounties(tx)
    return AccountBoard([*board.bounties(account_id).values()], board.draft(account_id))
