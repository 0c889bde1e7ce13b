"""A launch waits for a restart of the deploy server, and is requested only once."""

from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionLost, ConnectionRefusedError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.headers import MATCH
from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.metagame.play.deploy_client import RESTARTS_S, DeployClient, DeployFailed
from svcserver.metagame.play.matches import Server
from tests.support.proves import proves

HUNT = LaunchRequest("ISLAND", "", "some hunt", ("UID-a",))


class Reply:
    code = 200

    def json(self) -> Deferred[Any]:
        return succeed({"host": "203.0.113.9", "port": 8775})


@define
class Restarting:
    """A fake of treq whose deploy server is restarting."""

    why: Exception | None = field(factory=ConnectionRefusedError)
    requests: int = 0
    sent: dict[str, Any] = field(factory=dict)

    def request(self, method: str, url: str, **sent: Any) -> Deferred[Any]:
        self.requests += 1
        self.sent = sent
        return succeed(Reply()) if self.why is None else fail(self.why)


class RestartTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.http = Clock(), Restarting()
        self.client = DeployClient(self.http, self.clock, "127.0.0.1:61001", 30.0)

    def launch(self) -> Deferred[Server]:
        return Deferred.fromCoroutine(self.client.launch(HUNT, "match"))

    def test_a_launch_waits_until_the_deploy_server_is_back(self) -> None:
        launched = self.launch()
        self.clock.pump([0.25] * 4)
        self.assertNoResult(launched)
        self.http.why = None
        self.clock.advance(0.25)
        self.assertEqual(self.successResultOf(launched), Server("203.0.113.9", 8775))

    @proves("deploy: POST /api/matchmaker/handle-matchmaking-for-player")
    def test_the_body_has_four_members_and_a_header_the_match(self) -> None:
        self.http.why = None
        self.successResultOf(self.launch())
        self.assertEqual(
            self.http.sent["json"],
            {
                "GameMode": HUNT.game_mode,
                "GameArgs": HUNT.game_args,
                "HuntId": HUNT.hunt_id,
                "ExpectedPlayers": list(HUNT.players),
            },
        )
        self.assertEqual(self.http.sent["headers"], {MATCH: b"match"})

    def test_a_deploy_server_that_stays_down_fails_the_launch(self) -> None:
        launched = self.launch()
        self.clock.pump([0.25] * int(RESTARTS_S / 0.25))
        self.failureResultOf(launched, DeployFailed)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_request_that_may_have_arrived_is_not_sent_again(self) -> None:
        self.http.why = ConnectionLost()
        self.failureResultOf(self.launch(), DeployFailed)
        self.assertEqual(self.http.requests, 1)

    def test_a_launch_key_lookup_retries_then_returns_false(self) -> None:
        known = Deferred.fromCoroutine(self.client.find_launch_key("ab" * 32))
        self.clock.advance(0.25)
        self.assertNoResult(known)
        self.clock.pump([0.25] * int(RESTARTS_S / 0.25))
        self.assertFalse(self.successResultOf(known))
