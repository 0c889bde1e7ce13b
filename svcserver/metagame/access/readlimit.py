"""A rate limit for expensive reads, per address. Spec: 2 §4 Management API."""

from __future__ import annotations

from attrs import frozen

from svcserver.board.board import Board
from svcserver.board.quota import Quota
from svcserver.kernel.refusals import TooMany

READS, READS_S = 120, 60.0
COSTLY_READS = Quota.named("costly_reads", READS, READS_S)
DASHBOARD_READS = Quota.named("dashboard_reads", READS, READS_S)


@frozen
class ReadLimit:
    """A limit of expensive reads per minute and address, shared by several routes."""

    board: Board
    reads: Quota = COSTLY_READS

    async def take(self, address: str) -> None:
        """Count a read; raises TooMany if the address has reached the limit."""
        wait = await self.board.transact(
            lambda transaction: self.reads.take_or_wait(transaction, address),
            near=[(self.reads.kind, address)],
        )
        if wait > 0:
            raise TooMany(retry_after_s=max(1, round(wait)))
