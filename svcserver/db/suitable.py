"""Checks, before any migration, that a PostgreSQL server is suitable."""

from sqlalchemy import Engine

from svcserver.db.engine import BadDatabase, SQLAlchemyError, is_sqlite, make_engine

SHARED = (
    "DATABASE_URL leads to a connection pooler that gives each transaction another connection "
    "(pgbouncer: pool_mode=transaction or statement), so prepared statements and settings get "
    "lost; set pool_mode=session for this database, or put PostgreSQL's address into DATABASE_URL"
)
_ENCODING, _SESSION = "SHOW server_encoding", "SELECT pg_backend_pid()"


def refuse_unsuitable(engine: Engine) -> None:
    """Raise BadDatabase if the server's connection pooler or its encoding is unsuitable.

    A pooler must give all transactions of a client the same server connection. The encoding must be
    UTF-8. Raises SQLAlchemyError if the server does not answer.
    """
    if is_sqlite(engine):
        return
    probe = make_engine(engine.url, 2).execution_options(isolation_level="AUTOCOMMIT")
    try:
        with probe.connect() as older, probe.connect() as newer:
            # detects poolers that reuse the newest session, and those that reuse the oldest
            order = (older, newer, newer, older)
            sessions = [tx.exec_driver_sql(_SESSION).scalar_one() for tx in order]
            encoding = older.exec_driver_sql(_ENCODING).scalar_one()
    except SQLAlchemyError as why:
        if "statement pooling" in str(why):  # pgbouncer's refusal of the first transaction
            raise BadDatabase(SHARED) from None
        raise
    finally:
        probe.dispose()
    first, second, again, last = sessions
    if first == second or second != again or first != last:
        raise BadDatabase(SHARED)
    if encoding != "UTF8":
        raise BadDatabase(
            f"its encoding is {encoding}, which cannot store names in all alphabets; create a "
            "database with ENCODING 'UTF8' and TEMPLATE template0, and copy the data to it "
            "(svcctl db copy)"
        )
