"""What the client reads of a candidate, and of regions. Spec: 1 §4 Matchmaking."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.launch_requests import ISLAND
from svcserver.metagame.play.matches import Entry, Match, Server, State
from svcserver.metagame.play.matchmaking import wire


def entry(party: str | None = None) -> Entry:
    match = Match("m", "Hunt", "7", "", ["ann", "bob"], True, 0.0, party_id=party)
    match.server = Server("192.0.2.7", 7777)
    return Entry("c", "Hunt", "7", match)


class ReplyTests(SynchronousTestCase):
    def test_there_is_one_region(self) -> None:
        for target, urls in (("", []), ("https://x.invalid/QoS", ["https://x.invalid/QoS"])):
            pings = {"maxPingingStepTime": 3, "pingCount": 5, "pingFrequency": 0.25}
            self.assertEqual(
                wire.show_regions(target),
                {"code": 200, "message": "success", "payload": {**pings, "regionUrls": urls}},
            )

    def test_a_wish_is_checked_before_anybody_asks_for_a_server(self) -> None:
        asked = wire.CandidateWish(ISLAND, "", "7").checked()
        self.assertEqual((asked.game_mode, asked.hunt_id), (ISLAND, "7"))

    def test_a_join_says_matching_and_nothing_of_a_server(self) -> None:
        self.assertEqual(
            wire.show_joined(entry()),
            {
                "candidateId": "c",
                "gameMode": "Hunt",
                "huntId": "7",
                "status": "MATCHING",
                "statusReason": None,
            },
        )

    def test_alone_one_sees_oneself_and_the_island(self) -> None:
        said = wire.show_standing("ann", entry(), State.MATCHING, "123")
        self.assertEqual(
            said,
            {
                "candidateId": "c",
                "candidateStatusPeriodMillis": 10_000,
                "gameMode": "ISLAND",
                "huntId": "7",
                "playerStates": {"ann": {}},
                "status": "MATCHING",
                "statusDuration": 0.0,
                "statusReason": None,
            },
        )

    def test_in_a_party_one_sees_all_and_the_server_once_it_is_there(self) -> None:
        said = wire.show_standing("ann", entry("p"), State.IN_PROGRESS, "123")
        self.assertEqual((said["gameMode"], said["playerStates"]), ("Hunt", {"ann": {}, "bob": {}}))
        self.assertEqual(
            said["serverInfo"],
            {
                "buildId": "123_1.4.4_shipping",
                "gameSessionId": "c",
                "host": "192.0.2.7",
                "port": 7777,
            },
        )
        self.assertEqual(
            list(said)[-4:], ["serverInfo", "status", "statusDuration", "statusReason"]
        )
