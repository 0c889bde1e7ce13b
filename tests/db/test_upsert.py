"""``Upsert`` stores a row whether or not the key already exists."""

from sqlalchemy import Column, Connection, Integer, MetaData, String, Table, create_engine, select
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.upsert import Upsert

META = MetaData()
THINGS = Table(
    "things",
    META,
    Column("owner", String(9), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("colour", String(9)),
    Column("size", Integer),
)


class UpsertTests(SynchronousTestCase):
    def setUp(self) -> None:
        engine = create_engine("sqlite://")
        self.addCleanup(engine.dispose)
        self.tx: Connection = engine.connect()
        self.addCleanup(self.tx.close)
        META.create_all(self.tx)

    def rows(self) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self.tx.execute(select(THINGS).order_by(THINGS.c.number))]

    def put(self, upsert: Upsert, number: int, colour: str | None, size: int | None) -> None:
        upsert.put(self.tx, [{"owner": "a", "number": number, "colour": colour, "size": size}])

    def test_a_row_with_another_key_stays(self) -> None:
        things = Upsert(THINGS)
        self.put(things, 1, "red", 1)
        self.put(things, 2, "blue", 2)
        self.put(things, 1, "green", 3)
        self.assertEqual(self.rows(), [("a", 1, "green", 3), ("a", 2, "blue", 2)])

    def test_null_values_overwrite_the_stored_values(self) -> None:
        things = Upsert(THINGS)
        self.put(things, 1, "red", 1)
        self.put(things, 1, None, None)
        self.assertEqual(self.rows(), [("a", 1, None, None)])

    def test_a_kept_column_has_its_first_value(self) -> None:
        things = Upsert(THINGS, retained=("colour",))
        self.put(things, 1, "red", 1)
        self.put(things, 1, "blue", 2)
        self.assertEqual(self.rows(), [("a", 1, "red", 2)])

    def test_a_column_kept_for_null_takes_other_values(self) -> None:
        things = Upsert(THINGS, retained_for_null=("colour",))
        self.put(things, 1, "red", 1)
        self.put(things, 1, None, 2)
        self.put(things, 2, None, 3)
        self.put(things, 2, "blue", 4)
        self.assertEqual(self.rows(), [("a", 1, "red", 2), ("a", 2, "blue", 4)])

    def test_no_rows_are_no_statement(self) -> None:
        Upsert(THINGS).put(self.tx, iter([]))
        self.assertEqual(self.rows(), [])
