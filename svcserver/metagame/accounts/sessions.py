"""Ends sessions of accounts, and detects sessions that another process ended. Spec: 1 §5.

Each account has an epoch: tokens issued before that time are invalid. Ending an account's sessions
sets a later epoch.

``svcctl`` and other metagames can end sessions in the same database. This metagame reads the
database twice a second, so it refuses the tokens of such sessions within a second.
"""

from collections.abc import Callable
from functools import partial

from attrs import frozen
from sqlalchemy import Connection
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svcserver.board.board import Board
from svcserver.board.waiting import with_fallback
from svcserver.db.ledger import Ledger, OneAccount
from svcserver.db.shield import shielded
from svcserver.kernel.every import Every
from svcserver.kernel.ids import AccountId
from svcserver.metagame.access.epochs import EpochMoved, Epochs
from svcserver.metagame.access.tokens import LIFETIME_S
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.rules import EndedSessions
from svcserver.metagame.accounts.store import SqlAccounts

log = Logger()

EVERY_S = 0.5
CLOCKS_DIFFER_S = 30 * 86_400  # how far another process's clock may be behind ours


@frozen
class Sessions:
    """Ends sessions, and keeps ``epochs`` up to date with the database."""

    ledger: Ledger
    board: Board
    epochs: Epochs
    wall_clock: Callable[[], float]

    @shielded
    async def end(self, account_id: AccountId) -> None:
        """Invalidate all tokens of the account; raises Missing."""

        def work(tx: Connection) -> EndedSessions:
            return rules.end_sessions(SqlAccounts(tx), account_id, self.wall_clock())

        await self.publish(await self.ledger.write(work, OneAccount(account_id)))

    async def publish(self, ended: EndedSessions) -> None:
        """Notify every process of a new epoch, after a transaction has stored it."""
        moved = EpochMoved(ended.account_id, ended.not_before)
        self.epochs.on_moved(moved)
        # a process that misses the event reads the epoch from the database
        await with_fallback(
            self.board.transact(lambda transaction: transaction.publish(moved)), None
        )
        log.info("the sessions of {account} have ended", account=ended.account_id)

    def load(self, tx: Connection) -> None:
        """Read all epochs from the database, before the first request."""
        self.epochs.load(self._stored(tx), self.epochs.learned)

    def refresh(self) -> Deferred[None]:
        """Read the stored epochs; where this process has a later epoch, store that epoch."""
        return Deferred.fromCoroutine(self._refresh())

    async def _refresh(self) -> None:
        learned = self.epochs.learned
        self.epochs.load(await self.ledger.read_snapshot(self._stored), learned)
        for account_id, (stored, ours) in self.epochs.behind().items():
            await self._correct(account_id, stored, ours)

    async def _correct(self, account_id: AccountId, stored: int, ours: int) -> None:
        moved = False
        self.epochs.correcting(account_id, ours)
        try:
            work = partial(_move, account_id, stored, ours)
            moved = await self.ledger.write(work, OneAccount(account_id))
        finally:
            self.epochs.corrected(account_id, ours, stored=moved)

    def _stored(self, tx: Connection) -> dict[AccountId, int]:
        """Return the stored epochs that still matter.

        An epoch matters until every token that was issued before the epoch has expired.
        """
        return SqlAccounts(tx).epochs(int(self.wall_clock()) - LIFETIME_S - CLOCKS_DIFFER_S)


def _move(account_id: AccountId, stored: int, ours: int, tx: Connection) -> bool:
    return SqlAccounts(tx).move_not_before(account_id, stored, ours)


def session_watch(sessions: Sessions, clock: IReactorTime) -> Every:
    """Return the service that calls ``refresh`` every ``EVERY_S`` seconds."""
    what = "the check for ended sessions"
    return Every(clock, EVERY_S, sessions.refresh, what, at_once=True)
