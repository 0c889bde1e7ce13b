"""A rejected write leaves a row in the event log and changes nothing else."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.http_headers import Headers

from svcserver.kernel.refusals import Conflict
from svcserver.metagame.accounts import recorded
from svcserver.metagame.accounts.eventlog import PROGRESSION_EVENTS
from svcserver.metagame.accounts.rules import InviteCode
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.rows import Call, Caller
from svcserver.web.request import HttpRequest
from tests.support.game import Game


class RefusedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.ann = self.game.player("Ann_1")
        self.log = self.game.parts.events
        request = HttpRequest("POST", b"/progression/x", b"", Headers(), "127.0.0.1", b"{}")
        call = Call(Caller(game_server=True), {}, request)
        self.entry = recorded.entry(self.game.parts.acting, call, self.ann.id, str)

    def write(self, work: Any) -> Deferred[str]:
        return Deferred.fromCoroutine(self.log.write(self.entry, work))

    def events(self) -> list[tuple[int, str]]:
        wanted = select(PROGRESSION_EVENTS.c.status, PROGRESSION_EVENTS.c.note)
        return [tuple(row) for row in self.game.ledger.run(lambda tx: tx.execute(wanted).all())]

    def codes(self) -> list[str]:
        return [
            invite.code for invite in self.game.ledger.run(lambda tx: SqlAccounts(tx).invites())
        ]

    @staticmethod
    def refusing(tx: Connection, notes: list[str]) -> str:
        SqlAccounts(tx).put_invite(InviteCode("code", 1, False))
        notes.append("half done")
        raise Conflict("no more")

    def test_a_refused_write_is_rolled_back_and_its_event_is_logged(self) -> None:
        self.failureResultOf(self.write(self.refusing), Conflict)
        self.assertEqual((self.codes(), self.events()), ([], [(409, "half done; no more")]))

    def test_a_failed_write_leaves_neither_rows_nor_events(self) -> None:
        def fails(tx: Connection, notes: list[str]) -> str:
            SqlAccounts(tx).put_invite(InviteCode("code", 1, False))
            raise ZeroDivisionError

        self.failureResultOf(self.write(fails), ZeroDivisionError)
        self.assertEqual((self.codes(), self.events()), ([], []))

    def test_an_event_is_logged_although_the_client_disconnected(self) -> None:
        begun: Deferred[None] = Deferred()
        write = self.game.ledger.write
        ways = [lambda work, scope: begun.addCallback(lambda _: write(work, scope)), write]
        self.patch(self.game.ledger, "write", lambda work, scope: ways.pop(0)(work, scope))
        pending = self.write(self.refusing)
        pending.addErrback(lambda why: None)
        pending.cancel()
        begun.callback(None)
        self.assertEqual((self.codes(), len(self.events())), ([], 1))
