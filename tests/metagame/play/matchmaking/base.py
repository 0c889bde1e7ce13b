"""Players and a deploy server with fixed replies, for the matchmaking tests."""

import json
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.headers import MATCH
from tests.support.browser import Page
from tests.support.game import Game, Player

HUNT = {"gameMode": "ISLAND", "gameArgs": "", "playerHuntId": "Hunt_A"}


CITY = {"gameMode": "CITY", "gameArgs": "", "playerHuntId": "ShatteredIsles_ReturnTo_City"}


KEYS = ["candidateId", "gameMode", "huntId", "status", "statusReason"]


class Reply:
    """A response of the deploy server."""

    def __init__(self, code: int, body: Any) -> None:
        self.code, self.body = code, body

    def json(self) -> Deferred[Any]:
        if isinstance(self.body, bytes):
            return fail(ValueError("not JSON"))
        return succeed(json.loads(json.dumps(self.body)))


class Deploy:
    """A treq client that records requests and returns the response chosen by the test."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.ids: list[str] = []  # the matches asked for
        self.answer: Any = Reply(200, {"host": "203.0.113.9", "port": 8775})
        self.held: list[Deferred[Any]] = []
        self.hold = False

    def request(self, method: str, url: str, **sent: Any) -> Deferred[Any]:
        assert url == "http://127.0.0.1:61001/api/matchmaker/handle-matchmaking-for-player"
        self.note(sent["json"], sent["headers"])
        if self.hold:
            self.held.append(Deferred())
            return self.held[-1]
        return fail(self.answer) if isinstance(self.answer, Exception) else succeed(self.answer)

    def note(self, body: dict[str, Any], headers: dict[bytes, bytes]) -> None:
        self.ids.append(headers[MATCH].decode())
        self.requests.append(body)


class MatchmakingCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.start()

    def start(self, **environ: str) -> None:
        self.deploy = Deploy()
        self.game = Game(self, http=self.deploy, **environ)
        self.players = [self.game.player(f"player_{n}") for n in range(6)]
        self.ann, self.bob = self.players[:2]

    def join(self, player: Player, **body: Any) -> Page:
        return self.game.browse("POST", "/candidate/join", json=body, token=player.token)

    def status(self, player: Player) -> Page:
        return self.game.browse("GET", "/candidate/status", token=player.token)

    def party(self, leader: Player, *members: Player) -> None:
        for member in members:
            invited = {"recipientPlayerId": member.id}
            self.game.browse("POST", "/party", json={}, token=member.token)
            page = self.game.browse("PUT", "/party/invite", json=invited, token=leader.token)
            self.assertEqual(page.status, 200, page.body)
            invites = self.game.browse("GET", "/party/invites", token=member.token).json
            party_id = (
                invites["payload"]["invitations"][0]["partyId"]
                if "payload" in invites
                else invites["invitations"][0]["partyId"]
            )
            page = self.game.browse("PUT", f"/party/invite/accept/{party_id}", token=member.token)
            self.assertEqual(page.status, 200, page.body)
