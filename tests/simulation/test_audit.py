"""The audit of what is stored: it looks at every table, and the logs must explain the rest."""

from __future__ import annotations

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
from simulation.audit_logs import OF_ACCOUNTS, OF_CHARACTERS, UNREAD, UNTOUCHED, LogsAudit
from simulation.clock import START
from simulation.history import History
from simulation.outcomes import ACKED
from svcserver.db.tables import METADATA

# they make all tables known
assert svcserver.metagame.composition and svcserver.metagame.accounts.signing


class TablesTests(SynchronousTestCase):
    def test_every_table_is_audited_or_left_out_for_a_reason(self) -> None:
        source = inspect.getsource(audit) + inspect.getsource(audit_logs)
        read = {*re.findall(r"(?:FROM|JOIN) ([a-z_]+)", source)}
        known = {*read, *OF_ACCOUNTS, *OF_CHARACTERS, *UNTOUCHED}
        tables = set(METADATA.tables)
        self.assertEqual(tables - known - UNREAD.keys(), set(), "read by no audit")
        self.assertEqual(UNREAD.keys() & known, set(), "read, and said not to be")
        listed = {*OF_ACCOUNTS, *OF_CHARACTERS, *UNTOUCHED, *UNREAD}
        self.assertEqual(listed - tables, set(), "no tables any more")

    def test_what_belongs_to_somebody_says_to_whom(self) -> None:
        for name, table in METADATA.tables.items():
            if name in (*UNTOUCHED, *UNREAD):
                continue
            if "account_id" in table.c:
                self.assertIn(name, OF_ACCOUNTS)
            elif "character_id" in table.c:
                self.assertIn(name, OF_CHARACTERS)


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
        """As that of the simulated disk."""
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

    def found(self, change: str) -> list[str]:
        """The rules that are broken after this statement."""
        self.host.disk.raw.execute(change)
        host: Any = self.host
        LogsAudit(host, self.history).run()
        return [one.rule for one in self.history.wrong.found]

    def test_logs_that_explain_everything(self) -> None:
        self.assertEqual(self.found("SELECT 1"), [])

    def test_a_stack_that_no_log_explains(self) -> None:
        found = self.found("UPDATE item_stacks SET quantity = 8")
        self.assertEqual(found, ["logs explain what is held"])

    def test_an_item_that_nothing_made(self) -> None:
        found = self.found("UPDATE item_instances SET instance_id = 'shield'")
        self.assertEqual(found, ["logs explain what is held"])

    def test_an_acknowledged_transaction_that_is_not_logged(self) -> None:
        found = self.found("UPDATE item_log SET transaction_id = 'other' WHERE id = 1")
        self.assertEqual(found, ["logs explain what is held"])

    def test_progress_that_no_event_explains(self) -> None:
        found = self.found("UPDATE progression_events SET note = 'a retry: ...' WHERE id = 2")
        self.assertEqual(found, ["logs explain what is held"])

    def test_a_hunt_pass_that_nobody_chose(self) -> None:
        found = self.found("UPDATE hunt_passes SET progression_id = 'other'")
        self.assertEqual(found, ["logs explain what is held"])

    def test_rows_of_nobody(self) -> None:
        found = self.found("INSERT INTO account_seen VALUES ('bo', 1)")
        self.assertEqual(found, ["whole or not at all"])

    def test_rows_that_nobody_wrote(self) -> None:
        found = self.found("INSERT INTO blocks VALUES ('ada', 'bo', 1)")
        self.assertEqual(found, ["nothing from nowhere"])
