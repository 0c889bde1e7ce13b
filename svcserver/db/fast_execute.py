"""Executes compiled statements directly on the driver, at a third of SQLAlchemy's CPU cost.

On SQLite, the driver's cursor executes the statements. On PostgreSQL, they are sent in libpq's
pipeline mode (``pipelined.py``).

SQLAlchemy still compiles every statement. The parts that are the same in each run (the SQL text,
the order of the parameters, the names of the columns) are cached as a plan. SQLAlchemy
itself executes statements with an empty or long ``IN`` list, or with defaults that Python computes.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import define, field, frozen
from sqlalchemy import Connection, Float, LargeBinary, Numeric
from sqlalchemy.exc import MultipleResultsFound, NoResultFound

from svcserver.kernel.cache import BoundedCache

MAX_PLANS = 1_024  # a few hundred statements are prebuilt; others are built per call
MAX_LIST = 16  # values of an expanding list; each length needs its own plan
_FLOAT8, _NUMERIC = 701, 1700
Convert = Callable[[Any], Any]
SEEN_ONCE, IMPOSSIBLE = "seen once", "impossible"


class Rows:
    """A statement's result, with the methods of SQLAlchemy's ``CursorResult`` that we use."""

    __slots__ = ("_rows", "rowcount")

    def __init__(self, rows: list[Any], rowcount: int) -> None:
        self._rows, self.rowcount = rows, rowcount

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def all(self) -> list[Any]:
        return self._rows

    def first(self) -> Any:
        """Return the first row, or None."""
        return self._rows[0] if self._rows else None

    def scalar(self) -> Any:
        """Return the first column of the first row, or None."""
        return self._rows[0][0] if self._rows else None

    def one(self) -> Any:
        """Return the only row; raises SQLAlchemy's errors if there are no rows or several."""
        if len(self._rows) != 1:
            raise MultipleResultsFound if self._rows else NoResultFound
        return self._rows[0]

    def scalar_one(self) -> Any:
        """Return the first column of the only row; raises the same errors as ``one``."""
        return self.one()[0]

    def scalars(self) -> Rows:
        """Return the first column of every row."""
        return Rows([row[0] for row in self._rows], self.rowcount)


@frozen
class ExecutionPlan:
    """A compiled statement in the form that the driver executes."""

    sql: str
    values: Callable[[Mapping[str, Any]], Sequence[Any]]  # returns the parameters in order
    row: Callable[[Any], Any] | None  # converts a tuple to a named row; None: no rows
    writes: bool = False


@define
class Plans:
    """A bounded cache of execution plans."""

    most_listed: int = MAX_LIST
    # a plain dict, because its look-up is fast; it is cleared when it is full
    _plans: dict[Any, ExecutionPlan] = field(factory=dict, init=False, repr=False)
    _known: BoundedCache[Any, str] = field(init=False)  # SEEN_ONCE or IMPOSSIBLE

    @_known.default
    def _nothing(self) -> BoundedCache[Any, str]:
        return BoundedCache(MAX_PLANS)

    def plan_for(
        self, statement: Any, parameters: Mapping[str, Any], dialect: Any
    ) -> ExecutionPlan | None:
        """Return the statement's plan, or None if SQLAlchemy must execute the statement.

        The first run creates no plan, because many statements are built for a single run.
        """
        key = (statement, *parameters)
        return self._plans.get(key) or self._find_plan(key, parameters, dialect)

    def _find_plan(
        self, key: Any, parameters: Mapping[str, Any], dialect: Any
    ) -> ExecutionPlan | None:
        lengths = [len(value) for value in parameters.values() if type(value) is list]
        if lengths:  # a plan for each length
            key = (*key, *lengths)
            plan = self._plans.get(key)
            if plan is not None:
                return plan
        state = self._known.get(key)
        if state is None:
            self._known.put(key, SEEN_ONCE)
        if state is not SEEN_ONCE:
            return None
        plan = _plan(key[0], parameters, dialect, self.most_listed)
        if plan is None:
            self._known.put(key, IMPOSSIBLE)
            return None
        if len(self._plans) >= MAX_PLANS:  # an LRU order would slow down each lookup
            self._plans.clear()
        self._plans[key] = plan
        return plan


class FastConnection:
    """A SQLAlchemy connection whose ``execute`` runs a cached ``ExecutionPlan`` if there is one."""

    def __init__(self, connection: Connection, plans: Plans) -> None:
        self._connection, self._plans = connection, plans
        raw: Any = connection.connection.dbapi_connection
        self._cursor = raw.cursor()  # one cursor is enough: all rows are fetched immediately
        self.dialect = connection.dialect  # stored, because ``__getattr__`` takes a microsecond

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: Any, parameters: Any = None) -> Any:
        """Execute like ``Connection.execute``, but fetch all rows immediately."""
        many = type(parameters) is list
        values = parameters[0] if many and parameters else parameters or {}
        plan = self._plans.plan_for(statement, values, self.dialect)
        if plan is None or (many and (plan.row is not None or not parameters)):
            return self._connection.execute(statement, parameters)
        if many:
            done = self._cursor.executemany(plan.sql, list(map(plan.values, parameters)))
            return Rows([], done.rowcount)
        cursor = self._cursor.execute(plan.sql, plan.values(values))
        if plan.row is None:
            return Rows([], cursor.rowcount)
        return Rows(list(map(plan.row, cursor.fetchall())), cursor.rowcount)


def _plan(
    statement: Any, parameters: Mapping[str, Any], dialect: Any, most_listed: int
) -> ExecutionPlan | None:
    if not (getattr(statement, "is_select", False) or getattr(statement, "is_dml", False)):
        return None  # other statements may or may not return rows
    columns = list(parameters) if getattr(statement, "is_insert", False) else None
    lists = {name: value for name, value in parameters.items() if type(value) is list}
    if any(not 0 < len(value) <= most_listed for value in lists.values()):
        return None
    if lists:
        statement = statement.params(
            dict(parameters)
        )  # lists can be rendered only with their values
    compiled: Any = statement.compile(
        dialect=dialect,
        column_keys=columns,
        compile_kwargs={"render_postcompile": bool(lists)},
        for_executemany=dialect.name != "sqlite",  # otherwise every insert returns its row number
    )
    if not is_usable(compiled):
        return None
    if (not lists and compiled.post_compile_params) or compiled.literal_execute_params:
        return None
    if getattr(compiled, "insert_prefetch", ()) or getattr(compiled, "update_prefetch", ()):
        return None
    values = _values(compiled, parameters)
    if values is None:
        return None
    writes = bool(getattr(statement, "is_dml", False))
    return ExecutionPlan(str(compiled), values, _row_maker(compiled, dialect), writes)


def is_usable(compiled: Any) -> bool:
    """Return whether SQLAlchemy's compiled statement has the private attributes that plans need."""
    return hasattr(compiled, "_bind_processors") and hasattr(compiled, "_result_columns")


def _values(compiled: Any, parameters: Mapping[str, Any]) -> Callable[[Any], Sequence[Any]] | None:
    """Return a function that puts the parameters into the order that the driver needs.

    The function is one compiled expression, so that a call costs little.
    """
    names: dict[str, Any] = {}
    parts = []
    for at, name in enumerate(compiled.positiontup or ()):
        convert = compiled._bind_processors.get(name)
        whole, _, number = name.rpartition("_")
        bind = compiled.binds.get(name)
        if bind is None:
            part = f"parameters[{whole!r}][{int(number) - 1}]"
        elif bind.key in parameters:
            part = f"parameters[{bind.key!r}]"
        elif bind.required:
            return None  # SQLAlchemy's error is the clearest
        else:
            names[f"constant{at}"], part = bind.effective_value, f"constant{at}"
        if convert is not None and not _is_bytes(bind):
            names[f"convert{at}"] = convert
            part = f"(None if (value := {part}) is None else convert{at}(value))"
        parts.append(part + ",")
    made: Callable[[Any], Sequence[Any]] = eval(  # noqa: S307 - names of our own statements alone
        f"lambda parameters: ({' '.join(parts)})", names
    )
    return made


def _is_bytes(value: Any) -> bool:
    """Return whether the type of ``value`` is binary."""
    return isinstance(getattr(value, "type", None), LargeBinary)


def _row_maker(compiled: Any, dialect: Any) -> Callable[[Any], Any] | None:
    columns = compiled._result_columns
    if not columns:
        return None
    converts = [
        (at, convert)
        for at, column in enumerate(columns)
        if (convert := _convert(column.type, dialect)) and not _is_bytes(column)
    ]
    named: Any = namedtuple  # mypy takes only literal field names
    row = named("named", [column.keyname for column in columns], rename=True)
    make: Callable[[Any], Any] = partial(tuple.__new__, row)  # like _make, but not in Python code
    if not converts:
        return make

    def converted(row: Any) -> Any:
        values = list(row)
        for at, convert in converts:
            values[at] = convert(values[at])
        return make(values)

    return converted


def _convert(kind: Any, dialect: Any) -> Convert | None:
    """Return the function that converts the driver's values; None if they need no conversion."""
    convert: Convert | None = kind.dialect_impl(dialect).result_processor(dialect, _oid(kind))
    return convert


def _oid(kind: Any) -> int | None:
    """Return PostgreSQL's type number (OID) of a Float or Numeric column type, else None.

    SQLAlchemy needs the number to choose a conversion.
    """
    if isinstance(kind, Float):
        return _FLOAT8
    return _NUMERIC if isinstance(kind, Numeric) else None
