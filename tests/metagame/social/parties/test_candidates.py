"""The hunt that a party waits for, as the party poll shows it. Spec: 1 §4 Parties."""

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from tests.support.game import Game

HUNT = {"gameMode": "ISLAND", "gameArgs": "", "playerHuntId": "ShatteredIsles_Hunt"}


class SilentDeployServer:
    """A deploy server that accepts every request and never answers."""

    def request(self, method: str, url: str, **sent: Any) -> Deferred[Any]:
        """Return a Deferred that never fires."""
        return Deferred()


class CandidateTests(SynchronousTestCase):
    def test_the_leaders_hunt_shows_in_every_members_poll(self) -> None:
        game = Game(self, http=SilentDeployServer())
        ann, bob = game.player("Ann"), game.player("Bob")
        party_id = game.browse("POST", "/party", token=ann.token, json={}).json["partyId"]
        body = {"recipientPlayerId": bob.id}
        game.browse("PUT", "/party/invite", token=ann.token, json=body)
        game.browse("PUT", f"/party/invite/accept/{party_id}", token=bob.token, json={})
        joining = game.browse.ask("POST", "/candidate/join", token=ann.token, json=HUNT)
        for who in (ann, bob):
            party = game.browse("POST", "/party", token=who.token, json={}).json
            self.assertEqual(party["candidateState"], "MATCHING")
            self.assertEqual(party["playerHuntId"], HUNT["playerHuntId"])
            self.assertIsInstance(party["candidateId"], str)
            states = [state["isMemberOfCandidate"] for state in party["playerStates"]]
            self.assertEqual(states, [True, True])
        game.clock.advance(2.5)
        joining.cancel()
        joining.addErrback(lambda why: None)
