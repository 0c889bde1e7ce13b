"""The final audit reads every table; the logs must explain all items and progress in the tables."""

import inspect
import re
import sqlite3
from collections.abc import Iterator
from typing import Any, ClassVar

from attrs import define, field
from sqlalchemy import create_mock_engine
from twisted.trial.unittest import SynchronousTestCase

import svcserver.metagame.accounts.signing
import svcserver.metagame.composition
from simulation import audit, audit_logs
from simulation.audit_logs import UNREAD, UNTOUCHED, LogsAudit, owned
from simulation.clock import START
from simulation.history import History
from simulation.outcomes import ACKED
from svcserver.db.tables import METADATA

# importing them registers all tables
assert svcserver.metagame.composition and svcserver.metagame.accounts.signing


class TablesTests(SynchronousTestCase):
    def test_every_table_is_audited_or_has_a_reason(self) -> None:
        source = inspect.getsource(audit) + inspect.getsource(audit_logs)
        read = {*re.findall(r"(?:FROM|JOIN) ([a-z_]+)", source)}
        known = {*read, *UNTOUCHED, *(table for table, *_ in owned())}
        tables = set(METADATA.tables)
        self.assertEqual(tables - known - UNREAD.keys(), set(), "read by no audit")
        self.assertEqual(UNREAD.keys() & known, set(), "read, and said not to be")
        self.assertEqual({*UNTOUCHED, *UNREAD} - tables, set(), "no tables any more")


@define
class Disk:
    """All tables, in memory."""

    raw: sqlite3.Connection = field(factory=lambda: sqlite3.connect(":memory:"))

    def __attrs_post_init__(self) -> None:
        def run(statement: Any, *_: Any, **__: Any) -> None:
            self.raw.execute(str(statement.compile(dialect=engine.dialect)))

        engine = create_mock_engine("sqlite://", run)
        METADATA.create_all(engine, checkfirst=False)

    def rows(self, statement: str, *values: Any) -> list[Any]:
        """Run a query and return its rows, as the simulated disk does."""
        return self.raw.execute(statement, values).fetchall()

    def each(self, statement: str, *values: Any) -> Iterator[Any]:
        return iter(self.rows(statement, *values))


@define
class World:
    now: float = START + 60.0


@define
class Host:
    disk: Disk = field(factory=Disk)
    world: World = field(factory=World)


class LogsTests(SynchronousTestCase):
    SOUND: ClassVar[tuple[tuple[str, tuple[Any, ...]], ...]] = (
        ("accounts", ("ada", "Ada", "ada", 0, "", 0, 0, "")),
        ("characters", ("c", "ada", "Ada", 1, 0, 0, 1)),
        ("item_stacks", ("c", "NOTES", 7, None)),
        ("item_instances", ("c", "sword", "WP", 1, 0, b"{}")),
        (
            "item_log",
            (
                1,
                "c",
                "t1",
                0,
                "client",
                "Hunt",
                b'{"stacks":{"added":{"NOTES":9},"taken":{}}}',
                b"",
            ),
        ),
        (
            "item_log",
            (
                2,
                "c",
                "t2",
                0,
                "client",
                "Hunt",
                b'{"stacks":{"added":{},"taken":{"NOTES":2}},"made":["sword"]}',
                b"",
            ),
        ),
        ("hunt_passes", ("ada", "pass")),
        (
            "progression_events",
            (1, 0, "ada", "", "POST /huntpass/ada", b'{"progression_id":"pass"}', 200, b"", ""),
        ),
        ("progression_tracks", ("ada", audit_logs.SEASON, 5, 0, 0, 0)),
        (
            "progression_events",
            (
                2,
                0,
                "ada",
                "",
                "POST /progression/ada",
                b'{"progress_tracks":[{"progression_id":"%b","progress":5}]}'
                % audit_logs.SEASON.encode(),
                200,
                b"",
                "",
            ),
        ),
    )

    def setUp(self) -> None:
        self.host, self.history = Host(), History()
        for table, row in self.SOUND:
            marks = ", ".join("?" * len(row))
            self.host.disk.raw.execute(f"INSERT INTO {table} VALUES ({marks})", row)  # noqa: S608
        self.history.stacks.sent("c", "t1", 9, "M")
        self.history.stacks.answered("c", "t1", ACKED)

    def listed(self, change: str) -> list[str]:
        """Return the rules that are violated once this SQL statement has changed the database."""
        self.host.disk.raw.execute(change)
        host: Any = self.host
        LogsAudit(host, self.history).run()
        return [violation.rule for violation in self.history.wrong.listed]

    def test_rows_that_the_logs_explain_are_no_violation(self) -> None:
        self.assertEqual(self.listed("SELECT 1"), [])

    def test_an_unexplained_stack_is_a_violation(self) -> None:
        rules = self.listed("UPDATE item_stacks SET quantity = 8")
        self.assertEqual(rules, ["logs explain what is held"])

    def test_an_unexplained_item_is_a_violation(self) -> None:
        rules = self.listed("UPDATE item_instances SET instance_id = 'shield'")
        self.assertEqual(rules, ["logs explain what is held"])

    def test_an_unlogged_acknowledged_transaction_is_a_violation(self) -> None:
        rules = self.listed("UPDATE item_log SET transaction_id = 'other' WHERE id = 1")
        self.assertEqual(rules, ["logs explain what is held"])

    def test_unexplained_progress_is_a_violation(self) -> None:
        rules = self.listed("UPDATE progression_events SET note = 'a retry: ...' WHERE id = 2")
        self.assertEqual(rules, ["logs explain what is held"])

    def test_an_unchosen_hunt_pass_is_a_violation(self) -> None:
        rules = self.listed("UPDATE hunt_passes SET progression_id = 'other'")
        self.assertEqual(rules, ["logs explain what is held"])

    def test_rows_without_an_owner_are_a_violation(self) -> None:
        rules = self.listed("INSERT INTO account_seen VALUES ('bo', 1)")
        self.assertEqual(rules, ["whole or not at all"])

    def test_unwritten_rows_are_a_violation(self) -> None:
        rules = self.listed("INSERT INTO blocks VALUES ('ada', 'ada', 1)")
        self.assertEqual(rules, ["nothing from nowhere"])
