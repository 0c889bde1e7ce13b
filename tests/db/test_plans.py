"""No statement of the game scans a whole table: each statement uses an index."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

from sqlalchemy import create_engine
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import SelectBase
from twisted.trial.unittest import SynchronousTestCase

import svcserver.metagame
from svcserver.db.tables import METADATA

# Statements that read a whole table on purpose, with the reason
WHOLE: dict[str, str] = {
    "accounts.signing._NEWEST": "a start; a row for each signing key the owner ever had",
    "accounts.sanctions._ALL": "staff looks at bans and mutes, at most 120 a minute",
    "accounts.sanctions._HOW_MANY": "staff looks at bans and mutes, at most 120 a minute",
    "accounts.store._ALL": "GetAllUsers, and svcctl doctor's look for an owner",
    "accounts.store._FIRST_OWNER": "a command on the machine makes a link for its owner",
    "accounts.store._NEWEST_INVITES": "staff looks at the newest invites, at most 120 a minute",
    "accounts.store._USES": "scans only what its inner query found by the index of codes",
    "accounts.store._OWNERS": "an owner gives somebody another role",
    "belongings.characters.store._WHOLE": "never run by itself: others narrow it",
    "belongings.savehistory.feature._HEADS": "never run by itself: others narrow it",
    "owner.marks._ACCOUNTS": "counted at most every two seconds while staff has the list open",
    "owner.marks._INVITES": "counted at most every two seconds while staff has the list open",
    "owner.settings.store._ALL": "one row for each changed setting, read once a second",
    "owner.people.store._LISTS": "staff looks through all accounts by name, at most 120 a minute",
}


def statements() -> Iterator[tuple[str, Any]]:
    """Yield (name of the variable, statement) for every prebuilt statement of every feature."""
    for info in pkgutil.walk_packages(svcserver.metagame.__path__, "svcserver.metagame."):
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            several = value.values() if isinstance(value, dict) else [value]
            for statement in several:
                for part in statement if isinstance(statement, tuple) else (statement,):
                    if isinstance(part, SelectBase | UpdateBase):
                        yield f"{info.name.removeprefix('svcserver.metagame.')}.{name}", part


class PlanTests(SynchronousTestCase):
    def test_every_statement_uses_an_index(self) -> None:
        engine = create_engine("sqlite://")
        self.addCleanup(engine.dispose)
        scanning, count = {}, 0
        with engine.connect() as tx:
            everything = dict(statements())
            METADATA.create_all(tx)
            for name, statement in everything.items():
                compiled = statement.compile(
                    dialect=engine.dialect, compile_kwargs={"render_postcompile": False}
                )
                sql = re.sub(r"\(__\[POSTCOMPILE_\w+\]\)", "(?, ?)", str(compiled))
                sql = re.sub(r"__\[POSTCOMPILE_\w+\]", "?", sql)
                if "_sqlite" in sql or "pg_" in sql or "postgresql" in type(statement).__module__:
                    continue
                blanks = [None] * sql.count("?")
                plan = tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", tuple(blanks)).all()
                scans = [row[-1] for row in plan if re.match(r"SCAN (?!.*INDEX)", row[-1])]
                scans = [scan for scan in scans if not re.search(r"SCAN (CONSTANT|\d|\()", scan)]
                count += 1
                if scans and name not in WHOLE:
                    scanning[name] = scans
        self.assertEqual(scanning, {})
        self.assertGreater(count, 100)

    def test_the_exceptions_are_statements_of_ours(self) -> None:
        self.assertEqual(set(WHOLE) - {name for name, _ in statements()}, set())
