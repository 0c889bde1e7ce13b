"""Requests and replies match the OpenAPI document.

This file sends every GET request. The feature tests send the other requests, and
``tests/support/described.py`` compares each of them, including the query arguments and headers.
"""

import unittest
from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypedDict

from twisted.trial.unittest import SynchronousTestCase
from twisted.web.http_headers import Headers

from svcserver.metagame.once import Again
from svcserver.metagame.owner.dashboard.document import EVERY_ROUTE
from svcserver.metagame.rows import NOBODY, Access, Row
from svcserver.web.front import FinishedRequest
from svcserver.web.openapi import template
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer, bare
from tests.support import described
from tests.support.belongings import Owner
from tests.support.described import Described
from tests.support.game import Game
from tests.support.proves import proves

STUB = {"PROGRESSION_MODE": "stub"}
QUERY = "?requiredTags=webstore&CharacterId={character_id}&UserId={user_id}&Username=Zoe_1"


class ReplyTests(SynchronousTestCase):
    def start(self, **environ: str) -> None:
        described._compared.clear()
        self.game = Game(self, **environ)
        self.boss = self.game.player("Boss_1", admin=True)
        self.ann = Owner.of(self.game, "Ann_1")
        self.names: dict[str, str] = defaultdict(lambda: "x")
        self.names |= {
            "user_id": self.ann.player.id,
            "account_id": self.ann.player.id,
            "character_id": self.ann.character,
            "objective_id": "o",
            "progression_id": "season09b",
            "content_type": "1",
            "season": "ESC_SEASON_1",
            "currency": "platinum",
            "sku_id": "bundle_armour_iron",
            "name": "Ann_1",
            "file": "app.js",
        }

    def read_all(self) -> list[str]:
        answered = []
        for row in self.game.door.rows:
            if row.method != "GET":
                continue
            path = template(row.path).format_map(self.names)
            admin = row.access in (Access.ADMIN_KEY, Access.ACCOUNT_KEY, Access.REGISTERED)
            proof: dict[str, Any] = (
                {"key": self.boss.key} if admin else {"token": self.ann.player.token}
            )
            page = self.game.browse("GET", path + QUERY.format_map(self.names), **proof)
            answered += [row.path] if page.status == 200 else []
        return answered

    @proves("svcctl openapi")
    def test_every_read_is_answered_as_described(self) -> None:
        for switches in (EVERY_ROUTE, EVERY_ROUTE | STUB, {"STATUS_EXTRA": "0"}):
            self.start(**switches)
            self.ann.add("ORE", 1)
            held = {"catalogId": "LT_BASIC", "instanceId": "i-1"}
            self.assertEqual(self.ann.transact(addInstancedItems=[held]).status, 200)
            self.assertGreater(len(self.read_all()), 50)
            self.assertEqual(self.game.described.faults, [])


class NoteRequest(TypedDict):
    text: str


class NoteReply(TypedDict):
    stored: int


async def _handler() -> Answer:
    return Answer()


class DescribedTests(SynchronousTestCase):
    """Tests of the comparison itself, with a route that contradicts its description."""

    def setUp(self) -> None:
        described._compared.clear()

    def faults(self, sent: bytes, answered: object) -> list[str]:
        shapes = {"body": NoteRequest, "reply": NoteReply, "again": Again.NATURAL}
        row = Row("POST", "/note", Access.NONE, _handler, bare, **shapes)
        request = HttpRequest("POST", b"/note", b"", Headers(), "127.0.0.1", sent)
        observer = Described()
        observer(FinishedRequest(request, row, NOBODY, 200, 0.0, answer=Answer(200, answered)))
        return observer.faults

    def test_a_body_and_reply_of_the_right_shape_have_no_fault(self) -> None:
        self.assertEqual(self.faults(b'{"text": "a"}', {"stored": 1}), [])

    def test_a_body_or_reply_of_a_wrong_type_is_a_fault(self) -> None:
        [fault] = self.faults(b'{"text": 7}', {"stored": 1})
        self.assertIn("what is sent to POST /note: 7 is not of type", fault)
        [fault] = self.faults(b'{"text": "a"}', {"stored": "one"})
        self.assertIn("what POST /note answers: 'one' is not of type", fault)

    def test_an_unknown_member_is_a_fault_in_a_reply_but_not_in_a_body(self) -> None:
        [fault] = self.faults(b"", {"stored": 1, "more": 2})
        self.assertIn("'more' was unexpected", fault)
        self.assertEqual(self.faults(b'{"text": "a", "more": 2}', {"stored": 1}), [])

    def faults_of_reading(self, read: Callable[[HttpRequest], object]) -> list[str]:
        described = {"query": {"page": int}, "headers": {"x-svc-code": str}}
        row = Row("GET", "/note", Access.NONE, _handler, bare, **described)
        request = HttpRequest("GET", b"/note", b"page=1", Headers(), "127.0.0.1", b"")
        read(request)
        observer = Described()
        observer(FinishedRequest(request, row, NOBODY, 200, 0.0, answer=Answer()))
        return observer.faults

    def test_an_argument_that_is_read_and_not_described_is_a_fault(self) -> None:
        self.assertEqual(self.faults_of_reading(lambda request: request.argument("page")), [])
        faults = self.faults_of_reading(lambda request: request.argument("size"))
        self.assertEqual(faults, ["GET /note reads ?size= and does not say so"])

    @proves("svcctl openapi")
    def test_a_header_that_is_read_and_not_described_is_a_fault(self) -> None:
        self.assertEqual(self.faults_of_reading(lambda request: request.header(b"x-svc-code")), [])
        faults = self.faults_of_reading(lambda request: request.header(b"x-svc-note"))
        self.assertEqual(faults, ["GET /note reads x-svc-note: and does not say so"])

    def test_a_fault_in_a_description_fails_the_test(self) -> None:
        class Failing(SynchronousTestCase):
            def test(self) -> None:
                Game(self).described.faults.append("what GET /x answers: no")

        result = unittest.TestResult()
        Failing("test").run(result)
        self.assertEqual(len(result.failures) + len(result.errors), 1)
