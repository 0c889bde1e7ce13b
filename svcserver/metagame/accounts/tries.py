"""Refused attempts on staff routes, recorded in the audit log up to a rate limit.

Attempts above the limit are only counted. The log is append-only, so a refused caller must not be
able to fill it.
"""

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svcserver.board.board import Board
from svcserver.board.quota import Quota
from svcserver.db.shield import shielded
from svcserver.kernel.every import Every
from svcserver.kernel.refusals import Unavailable
from svcserver.metagame.accounts.audit import Audit, AuditEntry

log = Logger()

NAMED = Quota.named("refused_tries", 60, 60.0)  # rows per account
NAMELESS = Quota.named("strangers_tries", 60, 3_600.0)  # rows of all unknown callers together
EVERY_S = 60.0
OURS = "the metagame"  # the actor of the row that counts attempts


@define(eq=False)
class RefusedTries:
    """Records refused attempts up to a rate limit; above the limit, only their number."""

    audit: Audit
    board: Board
    _missed: int = field(default=0, init=False)

    @shielded
    async def record(self, actor: str, address: str, row: str, why: str) -> None:
        """Add an audit row for an attempt by ``actor``, or by ``address`` if ``actor`` is ""."""
        quota, key = (NAMED, actor) if actor else (NAMELESS, "")
        name = actor or f"stranger at {address}"
        try:
            taken = await self.board.transact(
                lambda transaction: quota.take(transaction, key), near=[(quota.kind, key)]
            )
            if taken is not None:
                await self.audit.leave(AuditEntry(name, row), why)
                return
        except Unavailable as away:  # the caller must still get the refusal
            text = "an action by {name} was refused, but the audit log does not record it: {why}"
            log.warn(text, name=name, why=str(away))
        self._missed += 1

    def miss(self) -> None:
        """Count an attempt that gets no row in the audit log."""
        self._missed += 1

    def report_missed(self) -> Deferred[None]:
        """Add one row with the number of attempts that were not recorded since the last report."""
        return Deferred.fromCoroutine(self._report_missed())

    async def _report_missed(self) -> None:
        count, self._missed = self._missed, 0
        if not count:
            return
        try:
            await self.audit.leave(
                AuditEntry(OURS, "refused tries"), f"{count} more are not recorded"
            )
        except Exception:
            self._missed += count
            raise


def tries_watch(tries: RefusedTries, clock: IReactorTime) -> Every:
    """Return the service that calls ``report_missed`` every minute and when the service stops."""
    what = "recording the number of refused attempts"
    return Every(clock, EVERY_S, tries.report_missed, what, at_end=True)
