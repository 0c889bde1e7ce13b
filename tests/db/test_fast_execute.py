"""``FastConnection`` returns the same results as SQLAlchemy for every statement."""

import sqlite3
from types import SimpleNamespace
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    bindparam,
    create_engine,
    delete,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.exc import MultipleResultsFound, NoResultFound, StatementError
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db import fast_execute
from svcserver.db.fast_execute import FastConnection, Plans
from svcserver.kernel.cache import BoundedCache

META = MetaData()
THINGS = Table(
    "things",
    META,
    Column("id", Integer, primary_key=True),
    Column("name", String(20), nullable=False),
    Column("data", LargeBinary),
    Column("size", Float),
    Column("good", Boolean),
    Column("colour", String(9), default="red"),
)
_C = THINGS.c
ADD = insert(THINGS)
GIVE = insert(THINGS).returning(_C.id)
ALL = select(_C.id, _C.name, _C.data, _C.size, _C.good).order_by(_C.id)
BY_ID = select(_C.name, _C.good).where(_C.id == bindparam("wanted"))
SOME = select(_C.id).where(_C.id.in_(bindparam("ids", expanding=True)))
FIXED = select(_C.id).where(_C.name == "a", _C.id < bindparam("below", 100))
COUNT = select(func.count()).select_from(THINGS)
RENAME = update(THINGS).where(_C.id == bindparam("wanted")).values(name=bindparam("new"))
DROP = delete(THINGS).where(_C.id == bindparam("wanted"))


def row(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "data": b"\0x", "size": 1.5, "good": True, "colour": "blue", **more}


class DirectTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.engine = create_engine("sqlite://", connect_args={"isolation_level": None})
        self.connection = self.engine.connect()
        self.addCleanup(self.engine.dispose)
        self.addCleanup(self.connection.close)
        META.create_all(self.connection)
        self.plans = Plans()
        self.tx: Any = FastConnection(self.connection, self.plans)

    def planned(self, statement: Any, **parameters: Any) -> Any:
        """Execute the statement after two planning calls, so that its plan is cached."""
        for _ in range(2):
            self.plans.plan_for(statement, parameters, self.connection.dialect)
        return self.tx.execute(statement, parameters)

    def test_rows_are_those_of_sqlalchemy_with_their_names_and_types(self) -> None:
        for name, good in (("a", True), ("b", False), ("c", None)):
            self.assertEqual(self.planned(ADD, **row(name, good=good)).rowcount, 1)
        ours, theirs = self.planned(ALL).all(), self.connection.execute(ALL).all()
        self.assertEqual(ours, [tuple(row) for row in theirs])
        self.assertEqual([type(row.good) for row in ours], [bool, bool, type(None)])
        self.assertEqual((ours[0].name, ours[0].data), ("a", b"\0x"))

    def test_results_can_be_read_as_first_one_scalar_or_all(self) -> None:
        self.assertIsNone(self.planned(BY_ID, wanted=1).first())
        self.assertIsNone(self.planned(BY_ID, wanted=1).scalar())
        with self.assertRaises(NoResultFound):
            self.planned(BY_ID, wanted=1).one()
        self.assertEqual(self.planned(GIVE, **row("a")).scalar_one(), 1)
        self.assertEqual(self.planned(GIVE, **row("a")).scalar_one(), 2)
        self.assertEqual(self.planned(BY_ID, wanted=1).first(), ("a", True))
        self.assertEqual(self.planned(ALL).scalars().all(), [1, 2])
        self.assertEqual([row.id for row in self.planned(ALL)], [1, 2])
        self.assertEqual(self.planned(COUNT).scalar(), 2)
        with self.assertRaises(MultipleResultsFound):
            self.planned(ALL).scalar_one()

    def test_bound_and_passed_parameters_are_both_used(self) -> None:
        self.planned(ADD, **row("a"))
        self.assertEqual(self.planned(FIXED).scalars().all(), [1])
        self.assertEqual(self.planned(FIXED, below=1).scalars().all(), [])
        with self.assertRaises(StatementError):
            self.planned(BY_ID)

    def test_updates_and_deletes_return_their_rowcount(self) -> None:
        self.planned(ADD, **row("a"))
        self.assertEqual(self.planned(RENAME, wanted=1, new="z").rowcount, 1)
        self.assertEqual(self.planned(RENAME, wanted=9, new="z").rowcount, 0)
        self.assertEqual(self.planned(DROP, wanted=1).rowcount, 1)

    def test_one_call_executes_several_parameter_sets(self) -> None:
        self.planned(ADD, **row("a"))
        self.tx.execute(ADD, [row("b"), row("c")])
        self.tx.execute(RENAME, [{"wanted": 1, "new": "x"}, {"wanted": 2, "new": "y"}])
        self.assertEqual(self.planned(select(_C.name)).scalars().all(), ["x", "y", "c"])

    def test_an_insert_with_a_python_default_uses_the_ordinary_path(self) -> None:
        for _ in range(3):
            self.tx.execute(ADD, {"name": "a"})  # Python computes the default of the column colour
        self.assertEqual(self.tx.execute(select(_C.colour)).scalars().all(), ["red"] * 3)

    def test_without_private_attributes_sqlalchemy_executes_the_statements(self) -> None:
        for part in ("_bind_processors", "_result_columns"):
            self.assertFalse(fast_execute.is_usable(SimpleNamespace(**{part: []})))
        self.patch(fast_execute, "is_usable", lambda _: False)
        self.assertEqual(self.planned(ADD, **row("a")).rowcount, 1)
        self.assertEqual(self.planned(ALL).all(), [(1, "a", b"\0x", 1.5, True)])
        self.assertEqual(self.plans._plans, {})

    def test_a_raw_sql_text_uses_the_ordinary_path(self) -> None:
        self.planned(ADD, **row("a"))
        words = text("SELECT name FROM things WHERE id = :wanted")
        for _ in range(4):
            self.assertEqual(self.tx.execute(words, {"wanted": 1}).scalar(), "a")

    def test_a_list_parameter_of_any_length_finds_its_rows(self) -> None:
        for _ in range(20):
            self.planned(ADD, **row("a"))
        for wanted in ([1], [1, 3], [], [2, 4, 9], list(range(1, 18))):
            for _ in range(3):
                self.assertEqual(self.tx.execute(SOME, {"ids": wanted}).scalars().all(), wanted)
        parameters = {"ids": [3, 4], "name": "a"}
        both = SOME.where(_C.name == bindparam("name"))
        self.assertEqual(self.planned(both, **parameters).scalars().all(), [3, 4])
        self.assertEqual(
            self.tx.execute(both, {**parameters, "ids": [5, 6]}).scalars().all(), [5, 6]
        )

    def test_a_database_error_is_sqlites_own(self) -> None:
        with self.assertRaises(sqlite3.IntegrityError):
            self.planned(ADD, **row("a", id=1)) and self.planned(ADD, **row("b", id=1))

    def test_statements_built_for_one_run_fill_no_memory(self) -> None:
        self.plans._known = BoundedCache(10)
        for number in range(100):
            self.tx.execute(select(_C.id).where(_C.id == number))
        self.assertLessEqual(len(self.plans._known), 10)
        self.assertLessEqual(Plans()._known.most, fast_execute.MAX_PLANS)

    def test_plans_are_bounded_and_a_dropped_plan_is_made_again(self) -> None:
        self.patch(fast_execute, "MAX_PLANS", 4)
        statements = [select(_C.id).where(_C.id == bindparam(f"wanted{n}")) for n in range(10)]
        for _ in range(3):
            for number, statement in enumerate(statements):
                for _ in range(3):
                    self.assertIsNone(self.tx.execute(statement, {f"wanted{number}": 1}).first())
                self.assertIn((statement, f"wanted{number}"), self.plans._plans)
                self.assertLessEqual(len(self.plans._plans), 4)

    def test_unwrapped_attributes_are_those_of_the_connection(self) -> None:
        self.assertEqual(self.tx.dialect.name, "sqlite")
