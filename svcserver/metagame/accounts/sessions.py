"""Ending the sessions of an account, and noticing when another process has. Spec: 1 §5.

``svcctl`` and other metagames write to the same database: it is read twice a second, so that
what they ended has ended here within a second.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import frozen
from sqlalchemy import Connection
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svcserver.db.ledger import Ledger
from svcserver.db.shield import shielded
from svcserver.kernel.every import Every
from svcserver.kernel.ids import AccountId
from svcserver.metagame.access.epochs import Epochs
from svcserver.metagame.access.tokens import LIFETIME_S
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.store import SqlAccounts

log = Logger()

EVERY_S = 0.5
APART_S = 30 * 86_400  # our clock ahead of another's by less than this hides nothing from us


@frozen
class Sessions:
    """Ends sessions; keeps what tokens are judged by as the database has it."""

    ledger: Ledger
    epochs: Epochs
    now: Callable[[], float]

    @shielded
    async def end(self, account_id: AccountId) -> None:
        """Every token of the account so far is refused from now on; raises Missing."""

        def work(tx: Connection) -> int:
            return rules.end_sessions(SqlAccounts(tx), account_id, self.now())

        self.epochs.learn(account_id, await self.ledger.write(work))
        log.info("the sessions of {account} have ended", account=account_id)

    def load(self, tx: Connection) -> None:
        """Learn all before the first request."""
        self.epochs.stored(self._stored(tx), self.epochs.learned)

    def refresh(self) -> Deferred[None]:
        """Learn what others have written; set right what they wrote by a clock behind ours."""
        return Deferred.fromCoroutine(self._refresh())

    async def _refresh(self) -> None:
        learned = self.epochs.learned
        self.epochs.stored(await self.ledger.read(self._stored), learned)
        for account_id, (stored, ours) in self.epochs.behind().items():
            if await self.ledger.write(partial(_move, account_id, stored, ours)):
                self.epochs.caught_up(account_id, ours)

    def _stored(self, tx: Connection) -> dict[AccountId, int]:
        """A token that is older than these has expired, even where clocks are weeks apart."""
        return SqlAccounts(tx).epochs(int(self.now()) - LIFETIME_S - APART_S)


def _move(account_id: AccountId, stored: int, ours: int, tx: Connection) -> bool:
    return SqlAccounts(tx).move_not_before(account_id, stored, ours)


def session_watch(sessions: Sessions, clock: IReactorTime) -> Every:
    """The part that reads twice a second what other processes have ended.

    While they cannot be read, what was known still counts.
    """
    what = "the look for ended sessions"
    return Every(clock, EVERY_S, sessions.refresh, what, at_once=True)
