"""A lookup of many account ids finds each account that exists."""

import tempfile

import pytest
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db import migrations
from svcserver.db.engine import database_url, make_engine
from svcserver.kernel.ids import AccountId, new_account_id
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.store import SqlAccounts
from tests.support.postgres import fresh_database
from tests.support.real_ledger import RealLedger

MANY = 66_000  # more than the parameters of one statement, on either database


class FindAllTests(SynchronousTestCase):
    def url(self) -> str:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return f"sqlite:///{folder.name}/svc.db"

    def test_a_lookup_of_many_ids_finds_each_existing_account(self) -> None:
        engine = make_engine(database_url(self.url()))
        self.addCleanup(engine.dispose)
        migrations.upgrade(engine)
        ledger = RealLedger(self, engine)
        ids = [new_account_id() for _ in range(MANY)]
        known = [AccountId(account_id) for account_id in (ids[0], ids[MANY // 2], ids[-1])]
        for number, account_id in enumerate(known):
            made = Account(account_id, f"name_{number}", is_admin=False)
            ledger.run(lambda tx, made=made: SqlAccounts(tx).add(made, made.id, 0.0))
        accounts = ledger.run(lambda tx: SqlAccounts(tx).find_all([*ids, *ids]))
        self.assertEqual(sorted(accounts), sorted(known))


@pytest.mark.live
class FindAllOnPostgresTests(FindAllTests):
    def url(self) -> str:
        return fresh_database()
