"""Ending the sessions of an account, and noticing when another process has. Spec: 1 §5.

``svcctl`` and other metagames write to the same database: it is read twice a second, so that
what they ended has ended here within a second.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen
from sqlalchemy import Connection
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.db.ledger import Ledger
from svcserver.db.shield import shielded
from svcserver.kernel.ids import AccountId
from svcserver.kernel.throttle import Throttle
from svcserver.metagame.access.epochs import Epochs
from svcserver.metagame.access.tokens import LIFETIME_S
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.store import SqlAccounts

log = Logger()

EVERY_S = 0.5


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
        """Learn what others have written."""
        learned = self.epochs.learned
        reading = self.ledger.read(self._stored)
        return reading.addCallback(lambda found: self.epochs.stored(found, learned))

    def _stored(self, tx: Connection) -> dict[AccountId, int]:
        """A token that is older than these has expired."""
        return SqlAccounts(tx).epochs(int(self.now()) - LIFETIME_S)


@define(eq=False, slots=False)
class SessionWatch(Service):
    """Reads twice a second what other processes have ended."""

    sessions: Sessions
    clock: IReactorTime
    _loop: LoopingCall = field(init=False)
    _failures: Throttle = field(factory=Throttle, init=False)

    def __attrs_post_init__(self) -> None:
        self._loop = LoopingCall(self.look)
        self._loop.clock = self.clock

    def startService(self) -> None:
        """Look from now on."""
        Service.startService(self)
        self._loop.start(EVERY_S)

    def stopService(self) -> None:
        """Stop looking."""
        Service.stopService(self)
        if self._loop.running:
            self._loop.stop()

    def look(self) -> Deferred[None]:
        """One look; a failure is logged once a minute, and what was known still counts."""
        return self.sessions.refresh().addErrback(self._failed)

    def _failed(self, why: Failure) -> None:
        if self._failures.due("", self.clock.seconds()):
            log.failure("ended sessions cannot be read; new ones are not noticed", why)
