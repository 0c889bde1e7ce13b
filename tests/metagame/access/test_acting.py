"""The caller of a request, and the account that the request is for.

Spec: 1 §4 access labels, §5.6; 2 §7.
"""

from typing import Any

from attrs import frozen
from twisted.internet.defer import Deferred, succeed
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.http_headers import Headers

from svcserver.kernel.refusals import Forbidden, Malformed, Missing, Unauthenticated
from svcserver.metagame.access.acting import Acting, check_owner, own
from svcserver.metagame.accounts.behalf import NotDirect, sender_of
from svcserver.metagame.rows import Access, Call, Caller, Row
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer, bare

ANN, BOB = "UID-ann", "UID-bob"
PLAYER, SERVER = Caller(ANN), Caller(game_server=True)
FORWARDING, ADMIN = Caller(ANN, game_server=True), Caller(ANN, admin=True)


def call(caller: Caller, **headers: str) -> Call:
    sent = Headers({name: [value] for name, value in headers.items()})
    return Call(caller, {}, HttpRequest("POST", b"/x", b"", sent, "127.0.0.1", b"{}"))


class SubjectTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.acting = Acting(lambda: 0.0)

    def test_only_a_player_never_acts_for_a_named_account(self) -> None:
        for ask in (self.acting.reads, self.acting.writes):
            accounts = [ask(call(caller), BOB) for caller in (PLAYER, SERVER, FORWARDING, ADMIN)]
            self.assertEqual(accounts, [ANN, BOB, BOB, BOB])

    def test_a_request_that_names_no_account_acts_on_the_tokens_account(self) -> None:
        self.assertEqual(self.acting.writes(call(PLAYER), None), ANN)
        self.assertEqual(self.acting.writes(call(FORWARDING), None), ANN)
        with self.assertRaises(Forbidden):
            self.acting.writes(call(SERVER), None)

    def test_only_a_write_to_another_account_than_the_tokens_is_logged(self) -> None:
        with capturedLogs() as events:
            self.acting.reads(call(FORWARDING), BOB)
            for caller, named in ((FORWARDING, ANN), (SERVER, BOB), (ADMIN, BOB), (PLAYER, BOB)):
                self.acting.writes(call(caller), named)
        self.assertEqual(events, [])
        with capturedLogs() as events:
            for _ in range(3):
                self.acting.writes(call(FORWARDING), BOB)
        self.assertEqual([(event["named"], event["forwarded"]) for event in events], [(BOB, ANN)])

    def test_a_request_for_another_account_is_logged_once(self) -> None:
        with capturedLogs() as events:
            accounts = [
                self.acting.itself(call(PLAYER), account_id) for account_id in (ANN, BOB, BOB)
            ]
        self.assertEqual(accounts, [ANN, ANN, ANN])
        self.assertEqual([(event["named"], event["account"]) for event in events], [(BOB, ANN)])

    def test_a_player_names_its_own_account_or_is_refused(self) -> None:
        self.assertEqual(own(call(PLAYER), ANN), ANN)
        self.assertRaises(Forbidden, own, call(PLAYER), BOB)


class OwnerTests(SynchronousTestCase):
    def refused(self, caller: Caller, named: str, **marks: bool) -> bool:
        row = Row("GET", "/x/<user_id>", Access.TOKEN, _nothing, bare, **marks)
        try:
            check_owner(row, caller, named)
        except Forbidden:
            return True
        return False

    def test_marks_of_a_row_refuse_players_but_no_game_servers(self) -> None:
        for caller, of_own, server in (
            (PLAYER, [False, True], [True, True]),
            (SERVER, [False, False], [False, False]),
            (FORWARDING, [False, False], [False, False]),
        ):
            self.assertEqual(
                [self.refused(caller, account_id, own=True) for account_id in (ANN, BOB)], of_own
            )
            refused = [
                self.refused(caller, account_id, game_server=True) for account_id in (ANN, BOB)
            ]
            self.assertEqual(refused, server)
            self.assertFalse(self.refused(caller, BOB))


async def _nothing(*arguments: Any) -> Answer:
    raise AssertionError("never called")


@frozen
class Known:
    """A directory that finds the existing accounts by id or by name."""

    names: dict[str, str]

    def account_of_id(self, account_id: str) -> Deferred[str | None]:
        return succeed(account_id if account_id in self.names.values() else None)

    def account_named(self, username: str) -> Deferred[str | None]:
        return succeed(self.names.get(username))


class SenderTests(SynchronousTestCase):
    people = Known({"Ann": ANN, "Bob": BOB})

    def ask(self, sent: Call, named: str | None) -> Deferred[str]:
        read = None if named is None else lambda: named
        return Deferred.fromCoroutine(sender_of(sent, self.people, read))

    def test_the_sender_is_the_key_owner_or_the_account_an_admin_names(self) -> None:
        self.assertEqual(self.successResultOf(self.ask(call(PLAYER), None)), ANN)
        for named in (BOB, "Bob"):
            self.assertEqual(self.successResultOf(self.ask(call(ADMIN), named)), BOB)

    def test_refusals_come_in_the_order_proxy_rights_body_account(self) -> None:
        def unreadable() -> str:
            raise Malformed("From must be a text")

        proxied = call(Caller(ANN), Via="x")
        for sent, kind in (
            (proxied, NotDirect),
            (call(PLAYER), Forbidden),
            (call(ADMIN), Malformed),
        ):
            asking = Deferred.fromCoroutine(sender_of(sent, self.people, unreadable))
            self.failureResultOf(asking, kind)
        self.failureResultOf(self.ask(call(ADMIN), "Nobody"), Missing)
        self.failureResultOf(self.ask(call(Caller("UID-gone")), None), Unauthenticated)
