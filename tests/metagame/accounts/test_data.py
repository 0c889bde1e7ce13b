"""Access to the data that one account has stored."""

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.ledger import ACROSS, OneAccount, Scope
from svcserver.metagame.accounts.data import LARGE, AccountData, Allowance


@define
class Noting:
    """A ledger that records the isolation key passed to each write."""

    scopes: list[Scope] = field(factory=list)

    def write(self, work: Any, scope: Scope = ACROSS) -> Deferred[Any]:
        self.scopes.append(scope)
        return succeed(None)


class DataTests(SynchronousTestCase):
    def test_writes_of_one_account_take_turns_in_the_database(self) -> None:
        ledger: Any = Noting()
        data = AccountData(ledger, Allowance(lambda: 0, lambda: 0.0))

        async def write(size: int) -> None:
            await data.write("UID-ann", size, lambda tx: None)

        for size in (0, LARGE + 1):
            self.successResultOf(Deferred.fromCoroutine(write(size)))
        self.assertEqual(ledger.scopes, [OneAccount("UID-ann")] * 2)
