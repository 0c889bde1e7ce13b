"""A connection to PostgreSQL on which many statements take only one round trip.

The connection uses libpq's pipeline mode: statements are prepared once, sent together and answered
together. Only one thread may use a connection. A broken connection is opened again at its next use.
"""

import select
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

from attrs import frozen
from psycopg import Error, OperationalError, pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

MAX_PREPARED = 2_048  # a few hundred statements, some in several lengths of a list
ANSWER_S = 45.0  # the server's own statement timeout is shorter
_TEXT, _BINARY = pq.Format.TEXT, pq.Format.BINARY
Sent = list[str | None]  # per reply: the SQL of a statement to prepare, or None for a command
_DONE = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)


class ConnectionGone(Exception):
    """The error for a broken connection; ``error`` is SQLAlchemy's error for the same fault."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Unsure(ConnectionGone):
    """The error for a connection that broke during a commit; the commit may have succeeded."""


class CommandFailed(Exception):
    """A command failed and aborted the transaction; ``at`` is the index of the command."""

    def __init__(self, at: int, error: Exception) -> None:
        super().__init__(str(error))
        self.at, self.error = at, error


@frozen
class Command:
    """A statement with ``$1`` placeholders, and its values in the form that ``encoded`` returns."""

    sql: str
    values: Sequence[bytes | None] = ()
    formats: Sequence[pq.Format] = ()


def encoded(value: Any) -> tuple[bytes | None, pq.Format] | None:
    """Return a value as bytes with their format, or None if the driver must convert the value."""
    kind = type(value)
    if kind is str:
        return None if "\0" in value else (value.encode(), _TEXT)
    if kind is bytes:
        return value, _BINARY
    if value is None:
        return None, _TEXT
    if kind is bool:
        return b"t" if value else b"f", _TEXT
    if kind is int:
        return b"%d" % value, _TEXT
    return (repr(value).encode(), _TEXT) if kind is float else None


class Pipeline:
    """A connection in pipeline mode, which sends commands and reads their results."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Any = None
        self._pg: Any = None
        self._loader: Any = None
        self._names: dict[str, bytes] = {}
        self._number = 0  # number of the last prepared statement
        self._first: list[Command] = []  # to be sent before the next command
        self._owed: deque[Sent] = deque()  # batches whose replies were not read yet
        self._poll: Any = None

    @property
    def dialect(self) -> Any:
        return self._engine.dialect

    @property
    def failed(self) -> bool:
        """True if the transaction has failed and can only be rolled back."""
        return bool(self._pg.transaction_status == pq.TransactionStatus.INERROR)

    def begin(self, *first: Command) -> None:
        """Begin a transaction; the BEGIN is sent together with the next command."""
        self.open()
        if len(self._names) >= MAX_PREPARED:
            self._forget()
        self._first = list(first)

    def exchange(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands and return the result of each; raises CommandFailed or ConnectionGone."""
        first, self._first = self._first, []
        self._send([*first, *commands])
        try:
            return self._answers()[len(first) :]
        except CommandFailed as why:
            why.at -= len(first)
            raise

    def commit(self) -> None:
        """Commit the transaction; return when it is on disk."""
        if self._first:
            self._first = []  # nothing was done
            return
        try:
            [result] = self.exchange([COMMIT])
        except ConnectionGone as why:
            raise Unsure(why.error) from why
        if result.command_status != b"COMMIT":
            raise CommandFailed(
                0, self._as_sqlalchemy(OperationalError("the transaction was rolled back"))
            )

    def end_reading(self) -> None:
        """End a read-only transaction; do not wait for the reply."""
        if self._first:
            self._first = []
            return
        with suppress(ConnectionGone):  # the next user of the connection reconnects
            self._send([COMMIT])

    def roll_back(self) -> None:
        """Roll the transaction back; if that fails, close the connection instead."""
        self._first = []
        if self._pg is None:
            return
        try:
            self._answers()
            if self._pg.transaction_status != pq.TransactionStatus.IDLE:
                self.exchange([ROLLBACK])
        except (CommandFailed, ConnectionGone):
            self.close()

    def rows(self, result: Any, make: Callable[[Any], Any] | None) -> list[Any]:
        """Return a list of the result's rows, each created by ``make``."""
        if make is None or not result.ntuples:
            return []
        self._loader.set_pgresult(result)
        loaded: list[Any] = self._loader.load_rows(0, result.ntuples, make)
        return loaded

    def plainly(self, run: Callable[[Connection], Any]) -> Any:
        """Call ``run`` with the SQLAlchemy connection, outside pipeline mode; return the result."""
        if self._first:
            self.exchange([])
        self._answers()
        try:
            self._pg.exit_pipeline_mode()
        except Error as why:  # the connection broke, or has unexpected replies
            raise ConnectionGone(why) from why
        try:
            return run(self._connection)
        except DBAPIError as why:
            if self._pg.status != pq.ConnStatus.OK:
                raise ConnectionGone(why) from why
            raise
        finally:
            if self._pg.status == pq.ConnStatus.OK:
                self._pg.enter_pipeline_mode()

    def open(self) -> None:
        """Connect unless already connected; raises SQLAlchemy's errors."""
        if self._pg is not None:
            if self._pg.status == pq.ConnStatus.OK:
                return
            self.close()
        connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        raw: Any = connection.connection.dbapi_connection
        raw.prepare_threshold = None  # the driver must not prepare statements itself
        self._connection, self._pg, self._loader = connection, raw.pgconn, Transformer(raw)
        self._names, self._owed = {}, deque()
        self._pg.nonblocking = 1
        self._pg.enter_pipeline_mode()
        self._poll = select.poll()
        self._poll.register(self._pg.socket, select.POLLIN)

    def close(self) -> None:
        connection, self._connection, self._pg = self._connection, None, None
        if connection is not None:
            connection.invalidate()
            connection.close()

    # -- below: libpq --------------------------------------------------------

    def _send(self, commands: Sequence[Command]) -> None:
        sent: Sent = []
        try:
            for command in commands:
                name = self._names.get(command.sql)
                if name is None:
                    name = self._prepare(command.sql)
                    sent.append(command.sql)
                self._pg.send_query_prepared(name, command.values, command.formats, _BINARY)
                sent.append(None)
            self._pg.pipeline_sync()
            self._owed.append(sent)
            self._pg.flush()
        except Error as why:
            raise self._gone(why) from why

    def _prepare(self, sql: str) -> bytes:
        self._number += 1
        name = self._names[sql] = b"svc_%d" % self._number
        self._pg.send_prepare(name, sql.encode())
        return name

    def _forget(self) -> None:
        """Make the server drop all prepared statements."""
        self._names = {}
        try:
            self._pg.send_query_params(b"DEALLOCATE ALL", None)
            self._pg.pipeline_sync()
        except Error as why:
            raise self._gone(why) from why
        self._owed.append([None])

    def _answers(self) -> list[Any]:
        """Return the results of the last batch; results of earlier batches are discarded."""
        results: list[Any] = []
        while self._owed:
            results = self._answer(self._owed.popleft())
        return results

    def _answer(self, sent: Sent) -> list[Any]:
        results: list[Any] = []
        failed: Error | None = None
        try:
            for sql in sent:
                result = self._next()
                if result.status not in _DONE:
                    failed = failed or error_from_result(result)
                    if sql is not None:
                        self._names.pop(sql, None)
                elif sql is None and failed is None:
                    results.append(result)
                self._pg.get_result()  # None: the end of this result
            self._next()  # the end of all results
        except Error as why:
            raise self._gone(failed or why) from why
        if failed is not None:
            if (failed.sqlstate or "").startswith("57P"):  # the server closes the connection
                raise self._gone(failed)
            raise CommandFailed(len(results), self._as_sqlalchemy(failed))
        return results

    def _next(self) -> Any:
        unsent = self._pg.flush()
        while self._pg.is_busy():
            self._poll.modify(self._pg.socket, _BOTH if unsent else select.POLLIN)
            if not self._poll.poll(ANSWER_S * 1000):
                raise OperationalError("PostgreSQL does not answer")
            self._pg.consume_input()
            unsent = unsent and self._pg.flush()
        result = self._pg.get_result()
        if result is None:
            raise OperationalError("the connection to PostgreSQL broke")
        return result

    def _gone(self, why: Error) -> ConnectionGone:
        self.close()
        return ConnectionGone(self._as_sqlalchemy(why, gone=True))

    def _as_sqlalchemy(self, why: Error, *, gone: bool = False) -> Exception:
        """Return the error that SQLAlchemy would have raised for a driver error."""
        error: Any = DBAPIError.instance(
            "",
            None,
            why,
            Error,
            hide_parameters=True,
            connection_invalidated=gone,
            dialect=self.dialect,
        )
        return cast(Exception, error)


COMMIT, ROLLBACK = Command("COMMIT"), Command("ROLLBACK")
_BOTH = select.POLLIN | select.POLLOUT
