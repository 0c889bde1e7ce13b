"""What is answered fits what the OpenAPI document says of it, and so does what is sent.

Here every read is asked for; writes are compared wherever a feature test does one.
"""

from __future__ import annotations

import unittest
from collections import defaultdict
from typing import Any, TypedDict

from twisted.trial.unittest import SynchronousTestCase
from twisted.web.http_headers import Headers

from svcserver.kernel.shapes import further_members
from svcserver.metagame.owner.dashboard.document import EVERY_ROUTE
from svcserver.metagame.replies import worded
from svcserver.metagame.rows import NOBODY, Access, Row
from svcserver.web.front import FinishedRequest
from svcserver.web.openapi_paths import template
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer, Refuse, bare
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


class NoteWish(TypedDict):
    text: str


class NoteReply(TypedDict):
    kept: int


@further_members("A note may have anything.")
class OpenReply(NoteReply):
    """As a note, and more."""


async def _handler() -> Answer:
    return Answer()


class DescribedTests(SynchronousTestCase):
    """The comparison itself, with a row that says one thing and does another."""

    def setUp(self) -> None:
        described._compared.clear()

    def faults(
        self,
        sent: bytes,
        answered: object,
        *,
        status: int = 200,
        odd: bool = False,
        refuse: Refuse = bare,
        reply: Any = NoteReply,
    ) -> list[str]:
        row = Row("POST", "/note", Access.NONE, _handler, refuse, body=NoteWish, reply=reply)
        asked = HttpRequest("POST", b"/note", b"", Headers(), "127.0.0.1", sent)
        observer = Described(odd=odd)
        answer = Answer(status, answered)
        if isinstance(answered, bytes):
            answer.content_type = "text/html"
        observer(FinishedRequest(asked, row, NOBODY, status, 0.0, answer=answer))
        return observer.faults

    def test_what_fits_is_no_fault(self) -> None:
        self.assertEqual(self.faults(b'{"text": "a"}', {"kept": 1}), [])

    def test_another_body_either_way_is_one(self) -> None:
        [said] = self.faults(b'{"text": 7}', {"kept": 1})
        self.assertIn("what is sent to POST /note: 7 is not of type", said)
        [said] = self.faults(b'{"text": "a"}', {"kept": "one"})
        self.assertIn("what POST /note answers: 'one' is not of type", said)

    def test_a_member_that_the_shape_of_the_reply_does_not_name_is_one(self) -> None:
        [said] = self.faults(b"", {"kept": 1, "more": 2})
        self.assertIn("'more' was unexpected", said)
        self.assertEqual(self.faults(b'{"text": "a", "more": 2}', {"kept": 1}), [])

    def test_unless_the_shape_says_that_there_may_be_more(self) -> None:
        self.assertEqual(self.faults(b"", {"kept": 1, "more": 2}, reply=OpenReply), [])

    def test_what_is_odd_on_purpose_is_none(self) -> None:
        self.assertEqual(self.faults(b'{"text": 7}', {"kept": 1}, odd=True), [])

    def test_a_success_without_its_body_is_one(self) -> None:
        self.assertEqual(self.faults(b"", None), ["what POST /note answers: nothing"])
        self.assertEqual(self.faults(b"", None, status=204), ["what POST /note answers: 204"])

    def test_a_refusal_that_is_worded_otherwise_is_one(self) -> None:
        self.assertEqual(self.faults(b'{"text": 7}', None, status=400), [])
        self.assertEqual(self.faults(b"x", b"<p>", status=400), [])
        [said] = self.faults(b"", {"error": "gone"}, status=404)
        self.assertEqual(said, 'how POST /note refuses with 404: {"error":"gone"}')
        fine = {"error": "not_found", "message": "no such note"}
        self.assertEqual(self.faults(b"", fine, status=404, refuse=worded), [])
        self.assertEqual(self.faults(b"", None, status=401, refuse=worded), [])
        [said] = self.faults(b"", None, status=404, refuse=worded)
        self.assertEqual(said, "how POST /note refuses with 404: nothing")
        [said] = self.faults(b"", {"error": "not_found"}, status=404, refuse=worded)
        self.assertIn("'message' is a required property", said)

    def test_a_game_fails_the_test_that_saw_one(self) -> None:
        class Failing(SynchronousTestCase):
            def test(self) -> None:
                Game(self).described.faults.append("what GET /x answers: no")

        result = unittest.TestResult()
        Failing("test").run(result)
        self.assertEqual(len(result.failures) + len(result.errors), 1)
