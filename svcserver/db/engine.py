"""The SQLAlchemy engine for DATABASE_URL, configured so that committed writes are durable."""

import os
import socket
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.exc import SQLAlchemyError as SQLAlchemyError
from sqlalchemy.pool import NullPool

DEFAULT_URL = "sqlite:///svc.db"
LONGEST_NAME = 63  # maximum bytes of a name in PostgreSQL
CONNECTIONS = 8  # PostgreSQL connections of one process (DATABASE_CONNECTIONS)

_PRAGMAS = (
    "page_size=16384",  # only for a new file; twice the saves per second of 4 KiB pages
    "journal_mode=WAL",
    "synchronous=FULL",  # NORMAL may lose acknowledged saves on a power failure
    "cache_size=-32768",
    "wal_autocheckpoint=4000",  # 64 MiB; the ledger checkpoints by itself (sqlite.py)
    "journal_size_limit=134217728",
    "busy_timeout=5000",
    "foreign_keys=ON",
)

_POSTGRESQL = {
    "client_encoding": "utf8",  # a database with the locale C would return plain bytes
    "connect_timeout": 10,  # seconds
    "keepalives_idle": 30,  # a dead server is detected within a minute
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}
ESCAPES = (
    "must be postgresql://USER:PASSWORD@HOST:PORT/NAME, with / @ and : "
    "of a password written as %2F %40 and %3A"
)


class BadDatabase(Exception):
    """The error for an unusable database; ``str()`` gives the reason, without credentials."""


def database_url(text: str) -> URL:
    """Parse a database URL from the settings; raises ValueError if the URL is unusable."""
    try:
        url = make_url(text.strip())
    except ArgumentError:
        raise ValueError("must be a database URL such as sqlite:///svc.db") from None
    except ValueError:  # the error text could contain a part of a password
        raise ValueError(ESCAPES) from None
    if url.get_backend_name() == "postgresql":
        is_escaped = text.count("@") < 2 and "@" not in (url.database or "")
        if not is_escaped or not 0 < (url.port or 1) < 65_536:
            raise ValueError(ESCAPES)
        return url.set(drivername="postgresql+psycopg")
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        if url.host:
            raise ValueError("must have a file name after three slashes, as in sqlite:///svc.db")
        return url
    raise ValueError("must begin with sqlite:/// or postgresql://")


def sqlite_url(file: Path) -> str:
    """Return the DATABASE_URL of an SQLite file; special characters are escaped."""
    return "sqlite:///" + str(file).replace("%", "%25").replace("?", "%3F")


def is_sqlite(engine: Engine) -> bool:
    """Return True if the database is SQLite, False if it is PostgreSQL."""
    return engine.dialect.name == "sqlite"


def make_engine(url: URL, connections: int = CONNECTIONS, program: str = "svcctl") -> Engine:
    """Return an SQLAlchemy engine that hides statement parameters in logs and errors.

    The engine does not connect yet. ``connections`` is the maximum number of connections to
    PostgreSQL. ``program`` is the name that PostgreSQL shows for these connections.
    """
    if url.get_backend_name() == "sqlite":
        engine = create_engine(
            url,
            hide_parameters=True,
            poolclass=NullPool,
            connect_args={"check_same_thread": False, "isolation_level": None},
        )
        event.listen(engine, "connect", _prepare_sqlite)
        return engine
    return create_engine(
        url,
        hide_parameters=True,
        pool_size=connections,
        max_overflow=0,
        pool_pre_ping=True,
        connect_args={**_POSTGRESQL, "application_name": _listed_as(program)},
    )


def _listed_as(program: str) -> str:
    """Return the name under which PostgreSQL lists this process's connections."""
    return f"{program} (process {os.getpid()} on {socket.gethostname()})"[:LONGEST_NAME]


def describe(why: BaseException | None) -> str:
    """Return the first line of the driver's own error message."""
    origin = getattr(why, "orig", None) or why
    return str(origin).strip().splitlines()[0] if str(origin).strip() else type(origin).__name__


def _prepare_sqlite(connection: Any, record: Any) -> None:
    """Set the pragmas of a new connection."""
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
