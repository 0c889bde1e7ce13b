"""The rate limit for wrong admin keys; a valid key is never counted or refused here.

An unknown key is counted per address. The key of an account without admin rights is counted per
account and address, so that one player cannot use up the attempts of another.
"""

from __future__ import annotations

from attrs import define, field
from twisted.logger import Logger

from svcserver.board.board import Board, BoardTransaction
from svcserver.board.quota import Quota
from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.ids import AccountId
from svcserver.kernel.networks import network_of
from svcserver.kernel.refusals import Refusal, TooMany

log = Logger()

TRIES = 300  # many, because clients expect 401 and 403; a key has 192 random bits
TRIES_S = 60.0
WRONG_KEYS = Quota.named("wrong_admin_keys", TRIES, TRIES_S)


@define
class WrongAdminKeys:
    """The counter of wrong admin keys; above the limit, a wrong key gets the error TooMany."""

    board: Board
    counters: Counters = field(factory=Counters)

    def note(self, kind: str) -> None:
        """Count a refused key in the metrics; ``kind`` is the kind of key, such as ``admin_key``.

        The rate limit is not affected.
        """
        self.counters.add(Counted.FAILED_LOGINS, kind)

    async def refused(self, usual: Refusal, address: str, account: AccountId = "") -> Refusal:
        """Count a wrong admin key; return the error ``usual``, or TooMany above the limit."""
        self.note("admin_key")
        key = f"{network_of(address)} {account}"

        def work(transaction: BoardTransaction) -> tuple[float, bool]:
            return WRONG_KEYS.take_or_wait(transaction, key), WRONG_KEYS.is_full(transaction, key)

        wait, full = await self.board.transact(work, near=[(WRONG_KEYS.kind, key)])
        if wait > 0:
            return TooMany(retry_after_s=max(1, round(wait)))
        if full:
            log.warn(
                "the address {address} sent {count} wrong admin keys within a minute. Further "
                "wrong keys get the HTTP status 429",
                count=TRIES,
                address=address,
                account=account,
            )
        return usual
