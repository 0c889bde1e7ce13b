"""A PostgreSQL server is rejected if two queries on one connection reach different sessions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from attrs import define
from sqlalchemy import create_engine
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.engine import BadDatabase
from svcserver.db.suitable import refuse_unsuitable


@define
class Server:
    """A fake server; each query for the session id gets the next item of ``sessions``."""

    sessions: list[int]
    encoding: str = "UTF8"
    answer: int | str = 0

    def execution_options(self, isolation_level: str) -> Server:
        return self

    @contextmanager
    def connect(self) -> Iterator[Server]:
        yield self

    def exec_driver_sql(self, statement: str) -> Server:
        self.answer = self.encoding if "encoding" in statement else self.sessions.pop(0)
        return self

    def scalar_one(self) -> int | str:
        return self.answer

    def dispose(self) -> None:
        """Do nothing."""


class SuitableTests(SynchronousTestCase):
    def ask(self, server: Server) -> None:
        engine = create_engine("postgresql+psycopg://db.example/svc")
        with mock.patch("svcserver.db.suitable.make_engine", return_value=server):
            refuse_unsuitable(engine)

    def test_connections_with_a_session_of_their_own_are_taken(self) -> None:
        self.ask(Server([7, 8, 8, 7]))

    def test_sessions_that_change_are_refused(self) -> None:
        newest, oldest_of_two, oldest_of_three = [7, 7, 7, 7], [7, 8, 7, 8], [7, 8, 9, 7]
        for sessions in (newest, oldest_of_two, oldest_of_three):
            why = self.assertRaises(BadDatabase, self.ask, Server(sessions))
            self.assertIn("pool_mode=session", str(why))

    def test_another_encoding_is_refused(self) -> None:
        why = self.assertRaises(BadDatabase, self.ask, Server([7, 8, 8, 7], "LATIN1"))
        self.assertIn("its encoding is LATIN1", str(why))
