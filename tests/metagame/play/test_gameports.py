"""The game ports are closed for players whose sessions have ended, and for nobody else."""

import json
from typing import Any

from treq.testing import StubTreq
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.resource import Resource

from svcserver.kernel.secrets import Secret
from svcserver.metagame.play.gameports import (
    AGAIN_S,
    HERE_S,
    LATE_S,
    MAX_NETWORKS,
    MAX_UNDER_WAY,
    TWICE_S,
    GamePorts,
)
from tests.support.proves import proves

SECRET = "helper-secret-helper-secret-helper"
ANN, BOB, HOME, CAFE = "ann", "bob", "203.0.113.7", "2001:db8:1:2::/64"


class Helper(Resource):
    """A fake allowlist helper that records requests and answers with ``status``."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.status = 200
        self.withdrawn: list[str] = []

    def render_POST(self, request: Any) -> Any:
        assert request.path == b"/withdraw"
        assert request.getHeader(b"x-allowlist-secret") == SECRET.encode()
        self.withdrawn.append(json.loads(request.content.read())["network"])
        request.setResponseCode(self.status)
        return b"{}"


class GamePortsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.helper = Clock(), Helper()
        self.http = StubTreq(self.helper)
        urls = ["http://127.0.0.1:61005"]
        self.ports = GamePorts(self.http, self.clock, urls, Secret(SECRET), lambda _: HOME)

    def withdrawn(self, after_s: float = 0.0) -> list[str]:
        self.http.flush()
        self.clock.pump([after_s])
        self.http.flush()
        networks, self.helper.withdrawn = self.helper.withdrawn, []
        return networks

    @proves("a ban or a kick shuts the game ports")
    def test_an_end_closes_the_players_networks_twice(self) -> None:
        self.ports.note_network(ANN, HOME)
        self.ports.note_network(ANN, CAFE)
        self.ports.note_network(BOB, "203.0.113.8")
        self.ports.close(ANN)
        self.assertEqual(sorted(self.withdrawn()), sorted([HOME, CAFE]))
        self.assertEqual(sorted(self.withdrawn(TWICE_S)), sorted([HOME, CAFE]))
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.ports.close(ANN)  # as if another process had published the change again
        self.assertEqual(self.withdrawn(TWICE_S), [])

    @proves("a ban or a kick shuts the game ports")
    def test_a_shared_network_stays_open_until_others_leave(self) -> None:
        self.ports.note_network(BOB, HOME)
        self.clock.advance(HERE_S)
        self.ports.note_network(ANN, HOME)
        self.ports.close(ANN)
        self.assertEqual(self.withdrawn(TWICE_S), [])
        self.clock.advance(1)
        self.ports.note_network(ANN, HOME)
        self.ports.close(ANN)
        self.assertEqual(self.withdrawn(), [HOME])

    @proves("a ban or a kick shuts the game ports")
    def test_a_shared_network_is_closed_once_all_its_players_are(self) -> None:
        for player in (ANN, BOB):
            self.ports.note_network(player, HOME)
        for player in (ANN, BOB):
            self.ports.close(player)
        self.assertEqual(self.withdrawn(), [HOME])

    def test_a_returning_kicked_player_is_not_closed_a_second_time(self) -> None:
        self.ports.note_network(ANN, HOME)
        self.ports.close(ANN)
        self.assertEqual(self.withdrawn(), [HOME])
        self.clock.advance(LATE_S)
        self.ports.note_network(ANN, HOME)
        self.assertEqual(self.withdrawn(TWICE_S), [])

    def test_a_request_that_was_let_in_just_before_does_not_count(self) -> None:
        self.ports.note_network(ANN, HOME)
        self.ports.close(ANN)
        self.ports.note_network(ANN, HOME)
        self.assertEqual((self.withdrawn(), self.withdrawn(TWICE_S)), ([HOME], [HOME]))

    def test_an_absent_helper_is_retried_and_given_up_with_a_line(self) -> None:
        self.helper.status = 503
        self.ports.note_network(ANN, HOME)
        self.ports.close(ANN)
        self.assertEqual(self.withdrawn(), [HOME])
        for wait_s in AGAIN_S:
            self.assertEqual(self.withdrawn(wait_s), [HOME])
        self.withdrawn(TWICE_S)
        self.helper.status = 200
        self.assertEqual(self.withdrawn(AGAIN_S[0]), [HOME])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_loopback_is_not_closed_and_few_networks_are_remembered(self) -> None:
        self.ports.note_network(ANN, "")
        for last in range(MAX_NETWORKS + 3):
            self.ports.note_network(ANN, f"203.0.113.{last}")
        self.ports.close(ANN)
        self.assertEqual(
            self.withdrawn(), [f"203.0.113.{number}" for number in range(3, 3 + MAX_NETWORKS)]
        )

    def test_withdrawals_are_capped_and_a_stop_leaves_no_timer(self) -> None:
        for number in range(MAX_UNDER_WAY + 5):
            self.ports.note_network(f"player-{number}", f"10.0.{number >> 8}.{number & 255}")
        for number in range(MAX_UNDER_WAY + 5):
            self.ports.close(f"player-{number}")
        self.assertEqual(len(self.withdrawn()), MAX_UNDER_WAY)
        self.successResultOf(self.ports.stop())
        self.assertEqual(self.clock.getDelayedCalls(), [])
