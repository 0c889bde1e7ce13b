"""Database errors that are not bugs: the server is down, busy or locked, or its disk is full.

The caller gets a 503, because a retry makes sense. The operator gets at most one log line per
minute for each kind of fault. A programming error, such as an invalid statement, is still handled
as an unexpected failure.
"""

import sqlite3
from collections.abc import Callable
from typing import Any

from attrs import define, field
from sqlalchemy.exc import DBAPIError, OperationalError
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.db.engine import describe
from svcserver.db.space import LowDiskSpace
from svcserver.kernel.refusals import Unavailable
from svcserver.kernel.throttle import Throttle

log = Logger()

RETRY_S = 2
# https://sqlite.org/rescode.html
_SQLITE = {
    "SQLITE_BUSY": "another program has locked it: stop that program",
    "SQLITE_CANTOPEN": "its files cannot be opened: check their owner and the limit on open files",
    "SQLITE_CORRUPT": "it is damaged: stop the host, and restore a backup with svcctl db restore",
    "SQLITE_FULL": "the disk is full: free some space",
    "SQLITE_IOERR": "the disk fails or is full: see the system's log",
    "SQLITE_LOCKED": "another program has locked it: stop that program",
    "SQLITE_NOTADB": "it is damaged: stop the host, and restore a backup with svcctl db restore",
    "SQLITE_NOMEM": "there is too little memory: give the machine more",
    "SQLITE_READONLY": "it is read-only: check the owner of its files, and how the disk is mounted",
}
# https://www.postgresql.org/docs/current/errcodes-appendix.html: classes of SQLSTATE
_POSTGRES = {
    "08": "the connection to it broke: is PostgreSQL running?",
    "25006": "it is read-only: is it a standby?",
    "40": "too many transactions change the same rows at the same time",
    "57014": "a statement took too long: does another program hold a lock?",
    "53": "PostgreSQL is short of memory, disk or connections",
    "57P": "PostgreSQL is stopping or starting",
    "58": "PostgreSQL's disk fails: see PostgreSQL's log",
    "XX": "it is damaged: see PostgreSQL's log",
}
_NO_ROOM = "its disk has less free space than DISK_RESERVE_MB: free some space"
_NO_STATE = "it does not answer: is PostgreSQL running?"


def cure_of(why: BaseException | None) -> str | None:
    """Return the cause and the remedy to show to operators, or None for an unknown error."""
    if isinstance(why, LowDiskSpace):
        return _NO_ROOM
    origin: Any = why.orig if isinstance(why, DBAPIError) else why
    if isinstance(origin, sqlite3.Error):
        name = getattr(origin, "sqlite_errorname", "") or ""
        return next((cure for start, cure in _SQLITE.items() if name.startswith(start)), None)
    if not isinstance(why, DBAPIError):
        return None
    state = getattr(origin, "sqlstate", None)
    if state is None:
        gone = why.connection_invalidated or isinstance(why, OperationalError)
        return _NO_STATE if gone else None
    return next((cure for start, cure in _POSTGRES.items() if state.startswith(start)), None)


def is_full(why: BaseException | None) -> bool:
    """Return whether the error ``why`` was raised because the disk is full, or almost full."""
    origin: Any = why.orig if isinstance(why, DBAPIError) else why
    return isinstance(why, LowDiskSpace) or getattr(origin, "sqlite_errorname", "") == "SQLITE_FULL"


@define
class DatabaseFaults:
    """The translation of known database errors into ``Unavailable``.

    Each kind of error is logged at most once a minute.
    """

    seconds: Callable[[], float]
    _throttle: Throttle = field(factory=Throttle, init=False)

    def refuse(self, failure: Failure) -> Failure:
        """Return an ``Unavailable`` for a known database error, else ``failure`` itself."""
        cure = cure_of(failure.value)
        if cure is None:
            return failure
        if self._throttle.due(cure, self.seconds()):
            log.error(
                "the database does not work: {why}; {cure}", why=describe(failure.value), cure=cure
            )
        return Failure(Unavailable("the database cannot serve now", retry_after_s=RETRY_S))
