"""The ledgers of a running service, for tests: real threads, with a queue as the reactor."""

from queue import Queue
from typing import Any, TypeVar

from sqlalchemy import Engine
from twisted.internet.defer import Deferred

from svcserver.db import migrations
from svcserver.db.engine import database_url, make_engine
from svcserver.db.factory import ledger_for
from svcserver.db.ledger import ACROSS, Scope, Work
from svcserver.metagame.accounts.store import ACCOUNTS
from tests.support.postgres import fresh_database
from tests.support.processes import PATIENCE_S

T = TypeVar("T")


class QueueReactor:
    """The part of a reactor that a ledger needs, run by the test's own thread."""

    def __init__(self) -> None:
        self.calls: Queue[Any] = Queue()

    def seconds(self) -> float:
        return 0.0

    def callFromThread(self, call: Any, *args: Any, **kwargs: Any) -> None:
        self.calls.put((call, args, kwargs))

    def callLater(self, delay: float, call: Any, *args: Any) -> None:
        self.calls.put((call, args, {}))

    def turn(self) -> None:
        """Run all due calls without waiting."""
        while not self.calls.empty():
            call, args, kwargs = self.calls.get()
            call(*args, **kwargs)

    def wait_for(self, *results: Deferred[Any]) -> None:
        while not all(result.called for result in results):
            call, args, kwargs = self.calls.get(timeout=PATIENCE_S)
            call(*args, **kwargs)


class TwoLedgers:
    """Two started ledgers with real threads on one PostgreSQL, which simulate two workers."""

    def __init__(self, test: Any) -> None:
        where, self._reactor = database_url(fresh_database()), QueueReactor()
        self.engines = [make_engine(where, 4) for _ in range(2)]
        migrations.upgrade(self.engines[0])
        self.ledgers = [
            ledger_for(engine, self._reactor, accounts=ACCOUNTS.c.id) for engine in self.engines
        ]
        for ledger in self.ledgers:
            ledger.startService()
        test.addCleanup(self._stop)

    def _stop(self) -> None:
        for ledger, engine in zip(self.ledgers, self.engines, strict=True):
            self._reactor.wait_for(ledger.stopService())
            engine.dispose()

    def wait_for(self, *request: Deferred[Any]) -> list[Any]:
        """Wait for the results of these concurrent calls."""
        self._reactor.wait_for(*request)
        results: list[Any] = []
        for entry in request:
            entry.addErrback(lambda why: why.raiseException())
            results.append(entry.result)
        return results


class RealLedger:
    """A started ledger whose calls block until they are done."""

    def __init__(self, test: Any, engine: Engine) -> None:
        self.engine, self._reactor = engine, QueueReactor()
        self.ledger = ledger_for(engine, self._reactor, accounts=ACCOUNTS.c.id)
        self.ledger.startService()
        test.addCleanup(self._stop)

    def _stop(self) -> None:
        self._reactor.wait_for(self.ledger.stopService())

    def read_snapshot(self, work: Work[T]) -> Deferred[T]:
        """See ``Ledger.read_snapshot``."""
        return self._done(self.ledger.read_snapshot(work))

    def write(self, work: Work[T], scope: Scope = ACROSS) -> Deferred[T]:
        """See ``Ledger.write``."""
        return self._done(self.ledger.write(work, scope))

    def run(self, work: Work[T]) -> Any:
        """Run ``work`` in a transaction and return what it returns; for set-up and checks."""
        done = self.write(work)
        done.addErrback(lambda why: why.raiseException())
        return done.result

    def _done(self, request: Deferred[T]) -> Deferred[T]:
        self._reactor.wait_for(request)
        return request
