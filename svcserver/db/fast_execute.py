"""Runs compiled statements on SQLite's own cursor, at a third of SQLAlchemy's CPU cost.

SQLAlchemy still compiles every statement; what is the same for each run of it (the SQL text,
the order of the parameters, the names of the columns) is cached as a plan. Statements that
are not simple (long lists, Python-side defaults) are executed by SQLAlchemy as usual.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen
from sqlalchemy import Connection
from sqlalchemy.exc import MultipleResultsFound, NoResultFound

from svcserver.kernel.cache import BoundedCache

MAX_PLANS = 1_024  # a few hundred statements are prebuilt; those built per call are bounded
MAX_LIST = 16  # values of an expanding list; each length needs a plan of its own
Convert = Callable[[Any], Any]
SEEN_ONCE, IMPOSSIBLE = "seen once", "impossible"


class Rows:
    """A statement's result: the part of SQLAlchemy's ``CursorResult`` that stores use."""

    __slots__ = ("_rows", "rowcount")

    def __init__(self, rows: list[Any], rowcount: int) -> None:
        self._rows, self.rowcount = rows, rowcount

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def all(self) -> list[Any]:
        return self._rows

    def first(self) -> Any:
        """The first row, or None."""
        return self._rows[0] if self._rows else None

    def scalar(self) -> Any:
        """The first column of the first row, or None."""
        return self._rows[0][0] if self._rows else None

    def one(self) -> Any:
        """The only row; raises as SQLAlchemy does where there is none or another."""
        if len(self._rows) != 1:
            raise MultipleResultsFound if self._rows else NoResultFound
        return self._rows[0]

    def scalar_one(self) -> Any:
        """The first column of the only row."""
        return self.one()[0]

    def scalars(self) -> Rows:
        """The first column of every row."""
        return Rows([row[0] for row in self._rows], self.rowcount)


@frozen
class Plan:
    """A compiled statement with what a run of it needs."""

    sql: str
    # name, index in its list or None, default, converter to what SQLite stores
    parameters: Sequence[tuple[str, int | None, Any, Convert | None]]
    row: Callable[[Any], Any] | None  # makes a named tuple of a row; None: the statement gives none

    def values(self, given: Mapping[str, Any]) -> list[Any]:
        """The positional parameters of a run with the ``given`` ones."""
        found = []
        for name, at, otherwise, convert in self.parameters:
            value = given.get(name, otherwise) if at is None else given[name][at]
            found.append(value if convert is None or value is None else convert(value))
        return found


@define
class Plans:
    """A bounded cache of plans by statement and parameter names."""

    # SEEN_ONCE, or IMPOSSIBLE, in place of a plan
    _known: BoundedCache[Any, Plan | str] = field(init=False)

    @_known.default
    def _nothing(self) -> BoundedCache[Any, Plan | str]:
        return BoundedCache(MAX_PLANS)

    def of(self, statement: Any, given: Mapping[str, Any], dialect: Any) -> Plan | None:
        """The plan, or None: where there can be none, and at the first run of a statement.

        A statement that was built for a single run is never seen again.
        """
        key = (statement, *given, *[len(one) for one in given.values() if type(one) is list])
        found = self._known.get(key)
        if found is None:
            self._known.put(key, SEEN_ONCE)
        elif found is SEEN_ONCE:
            found = _plan(statement, given, dialect) or IMPOSSIBLE
            self._known.put(key, found)
        return found if isinstance(found, Plan) else None


class FastConnection:
    """A SQLAlchemy connection whose ``execute`` uses plans; it delegates everything else."""

    def __init__(self, connection: Connection, plans: Plans) -> None:
        self._connection, self._plans = connection, plans
        self._raw: Any = connection.connection.dbapi_connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: Any, parameters: Any = None) -> Any:
        """As ``Connection.execute``, with every row fetched."""
        many = isinstance(parameters, list)
        given = parameters[0] if many and parameters else parameters or {}
        plan = self._plans.of(statement, given, self._connection.dialect)
        if plan is None or (many and (plan.row is not None or not parameters)):
            return self._connection.execute(statement, parameters)
        if many:
            done = self._raw.executemany(plan.sql, [plan.values(one) for one in parameters])
            return Rows([], done.rowcount)
        cursor = self._raw.execute(plan.sql, plan.values(given))
        if plan.row is None:
            return Rows([], cursor.rowcount)
        return Rows([plan.row(row) for row in cursor.fetchall()], cursor.rowcount)


def _plan(statement: Any, given: Mapping[str, Any], dialect: Any) -> Plan | None:
    if not (getattr(statement, "is_select", False) or getattr(statement, "is_dml", False)):
        return None  # other kinds do not tell whether they give rows
    columns = list(given) if getattr(statement, "is_insert", False) else None
    lists = {name: value for name, value in given.items() if type(value) is list}
    if any(not 0 < len(value) <= MAX_LIST for value in lists.values()):
        return None
    if lists:
        statement = statement.params(dict(given))  # lists are rendered only with all values given
    compiled: Any = statement.compile(
        dialect=dialect, column_keys=columns, compile_kwargs={"render_postcompile": bool(lists)}
    )
    if (not lists and compiled.post_compile_params) or compiled.literal_execute_params:
        return None
    if getattr(compiled, "insert_prefetch", ()) or getattr(compiled, "update_prefetch", ()):
        return None
    parameters: list[tuple[str, int | None, Any, Convert | None]] = []
    for name in compiled.positiontup or ():
        convert = compiled._bind_processors.get(name)
        whole, _, number = name.rpartition("_")
        if name not in compiled.binds:
            parameters.append((whole, int(number) - 1, None, convert))
            continue
        bind = compiled.binds[name]
        if bind.required and name not in given:
            return None  # SQLAlchemy raises the error that names it
        parameters.append((bind.key, None, bind.effective_value, convert))
    return Plan(str(compiled), parameters, _row_maker(compiled, dialect))


def _row_maker(compiled: Any, dialect: Any) -> Callable[[Any], Any] | None:
    columns = getattr(compiled, "_result_columns", None)
    if not columns:
        return None
    converts = [
        (at, convert)
        for at, column in enumerate(columns)
        if (convert := column.type.dialect_impl(dialect).result_processor(dialect, None))
    ]
    named: Any = namedtuple  # mypy takes only literal field names
    make: Callable[[Any], Any] = named("named", [one.keyname for one in columns], rename=True)._make
    if not converts:
        return make

    def converted(row: Any) -> Any:
        values = list(row)
        for at, convert in converts:
            values[at] = convert(values[at])
        return make(values)

    return converted
