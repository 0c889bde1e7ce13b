"""Rate limits for expensive reads, per address or account. Spec: 2 §4 Management API."""

from typing import Any

from attrs import frozen

from svcserver.board.board import Board
from svcserver.board.quota import Quota
from svcserver.kernel.refusals import TooMany
from svcserver.metagame.rows import Call

READS, READS_S = 120, 60.0
COSTLY_READS = Quota.named("costly_reads", READS, READS_S)


@frozen
class ReadLimit:
    """A limit of expensive reads per minute, shared by several routes."""

    board: Board
    reads: Quota = COSTLY_READS

    async def take(self, key: str) -> None:
        """Count a read for the address or account ``key``; raises TooMany above the limit."""
        wait = await self.board.transact(
            lambda transaction: self.reads.take_or_wait(transaction, key),
            near=[(self.reads.kind, key)],
        )
        if wait > 0:
            raise TooMany(retry_after_s=max(1, round(wait)))

    async def take_of(self, call: Call[Any]) -> None:
        """Count a read for the caller's account; if there is none, for the caller's address.

        The account comes first, because all staff who use a tunnel have the same address.
        """
        await self.take(call.caller.account or call.request.peer)
