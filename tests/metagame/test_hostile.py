"""Every route gives a documented answer, whatever its path, body or token contains.

This also holds on PostgreSQL, which rejects a NUL character or a text that is too long.
"""

from typing import Any

from twisted.internet.defer import maybeDeferred
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.http_headers import Headers

from svcserver.metagame.owner.dashboard.document import EVERY_ROUTE
from svcserver.metagame.rows import Row
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer
from tests.support.game import GAME_SERVER_KEY, Game
from tests.support.proves import proves

SWITCHES = {**EVERY_ROUTE, "PROGRESSION_ALLOW_DELETE": "1"}
ODD_SEGMENTS = ("x%00y", "%F0%9F%98%80", "x" * 300, "99999999999999999999", "%25", "-1")
QUERY = b"accountId=%00&UserId=%00&CharacterId=%00&offset=-1"
ODD_IDS = ("x\0y", "y" * 300, "\U0001f600", "UID-gone")


class HostileTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self, **SWITCHES)
        self.game.described.odd = True
        self.ann = self.game.player("Ann_1")

    def check(self, row: Row, segment: str, **headers: str) -> None:
        path = row.path
        for name in row.parameters:
            path = path.replace(f"<{name}>", segment)
        sent = Headers()
        for header, value in headers.items():
            sent.setRawHeaders(header.replace("_", "-").encode(), [value.encode()])
        body = b"" if row.method == "GET" else b'{"a":["\\u0000"]}'
        request = HttpRequest(row.method, path.encode(), QUERY, sent, "127.0.0.1", body)
        answer: Any = self.game.door.answer  # an Answer, or a Deferred of one
        reply: Answer = self.successResultOf(maybeDeferred(answer, request))
        # there is no deploy server in this test
        away = reply.status == 503 and "no_deploy" in str(reply.body)
        self.assertTrue(reply.status < 500 or away, (row.name, segment, reply.body))

    @proves("never an unexpected 500, whatever is sent")
    def test_no_odd_path_is_a_500(self) -> None:
        for row in self.game.door.rows:
            for segment in ODD_SEGMENTS if row.parameters else ("",):
                self.check(row, segment, authorization=f"Bearer {self.ann.token}")
                self.check(row, segment, x_svc_gameserver_apikey=GAME_SERVER_KEY)

    @proves("never an unexpected 500, whatever is sent")
    def test_no_odd_path_is_a_500_to_an_admin(self) -> None:
        boss = self.game.player("Boss_1", admin=True)
        for row in self.game.door.rows:
            if row.access.value.startswith("admin"):
                for segment in ODD_SEGMENTS if row.parameters else ("",):
                    self.check(row, segment, x_svc_user_api_key=boss.key)

    @proves("never an unexpected 500, whatever is sent")
    def test_no_odd_account_id_in_a_token_of_ours_is_a_500(self) -> None:
        for token in map(self.game.parts.tokens.sign, ODD_IDS):
            for row in self.game.door.rows:
                self.check(row, "UID-x", authorization=f"Bearer {token}")
