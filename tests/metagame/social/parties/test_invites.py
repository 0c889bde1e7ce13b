"""Party invites and their answers. Spec: 1 §3 Party invite, §4 Parties, §8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from svcserver.board.waiting import at_once
from svcserver.kernel.refusals import Missing
from svcserver.kernel.signals import PartyChanged
from svcserver.metagame.social.parties.rules import MAX_SENT, Parties, PartyInvitation
from svcserver.metagame.social.parties.store import LiveParties
from tests.metagame.social.parties.base import BLOCKS, Base
from tests.support.game import GAME_SERVER_KEY
from tests.support.live import TestBoard
from tests.support.proves import proves


class InviteTests(Base):
    @proves("GET /party/invites")
    def test_an_invite_has_five_keys_and_only_the_invited_sees_it(self) -> None:
        party_id = self.poll(self.bob)["partyId"]
        self.assertEqual(self.invite(self.bob, self.ann.id, partyId="wrong"), 200)
        expected = {
            "recipientPlayerId": self.ann.id,
            "sendingPlayerId": self.bob.id,
            "partyId": party_id,
            "sendingPlatform": "win",
            "sendingDisplayName": "Bob",
        }
        self.assertEqual(self.invites(self.ann), [expected])
        self.assertEqual(self.invites(self.bob), [])
        for sent in ({}, {"token": "bogus"}, {"game_server": GAME_SERVER_KEY}):
            page = self.game.browse("GET", "/party/invites", **sent)
            self.assertEqual((page.status, page.json), (200, {"invitations": []}))

    @proves("PUT /party/invite")
    def test_unknown_recipients_are_404(self) -> None:
        for whom in (None, 7, "", "a b", "x" * 65, "UID-nobody"):
            page = self.do("PUT", "/invite", self.ann, {"recipientPlayerId": whom})
            self.assertEqual((page.status, page.json), (404, {}), whom)
        for body in ({}, []):
            self.assertEqual(self.do("PUT", "/invite", self.ann, body).status, 404)

    @proves("PUT /party/invite")
    def test_only_the_leader_invites(self) -> None:
        self.join(self.ann, self.bob)
        self.assertEqual(self.invite(self.bob, self.cat.id), 403)
        self.assertEqual(self.invite(self.bob, self.ann.id), 403)

    @proves("PUT /party/invite")
    def test_inviting_oneself_a_member_or_an_invited_player_is_409(self) -> None:
        self.assertEqual(self.invite(self.ann, self.ann.id), 409)
        self.join(self.ann, self.bob)
        self.assertEqual(self.invite(self.ann, self.bob.id), 409)
        self.assertEqual(self.invite(self.ann, self.cat.id), 200)
        self.assertEqual(self.invite(self.ann, self.cat.id), 409)

    @proves(
        "state: Party invite",
        "POST /friends/api/public/blocklist/:userId/:friendId",
        "PUT /friends/api/public/blocklist/:userId/:friendId",
        "PUT /party/invite",
    )
    def test_a_block_either_way_is_403_and_hides_the_invite(self) -> None:
        self.invite(self.ann, self.bob.id)
        party_id = self.poll(self.ann)["partyId"]
        self.block(self.bob, self.ann)
        self.assertEqual(self.invites(self.bob), [])
        self.assertEqual(self.accept(self.bob, party_id).status, 404)
        self.assertEqual(self.invite(self.ann, self.bob.id), 403)
        self.assertEqual(self.invite(self.bob, self.ann.id), 403)
        self.game.browse("DELETE", f"{BLOCKS}{self.bob.id}/{self.ann.id}", token=self.bob.token)
        self.assertEqual(self.invites(self.bob), [], "the invite is gone, not only hidden")

    def test_a_block_by_either_ends_the_invites_between_them(self) -> None:
        for by, player in ((self.ann, self.bob), (self.bob, self.ann)):
            self.assertEqual(self.invite(self.ann, self.bob.id), 200)
            self.block(by, player)
            self.game.browse("DELETE", f"{BLOCKS}{by.id}/{player.id}", token=by.token)
            self.assertEqual(self.invites(self.bob), [])

    @proves("an invite between blocked players is never listed or accepted")
    def test_an_invite_that_slipped_past_a_block_has_no_effect(self) -> None:
        self.block(self.bob, self.ann)
        invite = self.game.parts.parties.transact_with_rules(
            lambda parties: parties.invite(self.ann.id, self.bob.id)
        )
        party = at_once(invite)
        self.assertEqual(self.invites(self.bob), [])
        self.assertEqual(self.accept(self.bob, party.id).status, 404)
        status = self.do("POST", "/status", self.bob, {"playerIds": []}).json
        self.assertEqual(status["invitations"], [])

    def test_a_block_leaves_the_party(self) -> None:
        self.join(self.ann, self.bob)
        self.block(self.ann, self.bob)
        self.assertEqual(len(self.poll(self.ann)["playerIds"]), 2)

    @proves(
        "PUT /party/invite",
        "limit: Party size; pending invites per party; per recipient; invite expiry",
    )
    def test_a_full_party_invites_nobody_and_a_late_accept_is_409(self) -> None:
        party_id = self.join(self.ann, self.bob, self.cat)
        self.invite(self.ann, self.dan.id)
        self.invite(self.ann, self.eve.id)
        self.assertEqual(self.accept(self.dan, party_id).status, 200)
        self.assertEqual(len(self.invites(self.eve)), 1, "filling up removes no invite")
        page = self.accept(self.eve, party_id)
        self.assertEqual((page.status, page.json), (409, {}))
        self.assertEqual(self.invite(self.ann, self.game.player("Fay").id), 409)
        self.do("DELETE", "/member", self.dan)
        self.assertEqual(self.accept(self.eve, party_id).status, 200)

    @proves("limit: Party size; pending invites per party; per recipient; invite expiry")
    def test_a_party_has_at_most_eight_open_invites(self) -> None:
        players = [self.game.player(f"Other_{number}") for number in range(9)]
        for player in players[:8]:
            self.assertEqual(self.invite(self.ann, player.id), 200)
        self.assertEqual(self.invite(self.ann, players[8].id), 409)
        self.decline(self.ann, sendingPlayerId=self.ann.id, recipientPlayerId=players[0].id)
        self.assertEqual(self.invite(self.ann, players[8].id), 200)

    @proves("limit: Party size; pending invites per party; per recipient; invite expiry")
    def test_a_player_has_at_most_ten_open_party_invites(self) -> None:
        players = [self.game.player(f"Other_{number}") for number in range(11)]
        for player in players[:10]:
            self.assertEqual(self.invite(player, self.ann.id), 200)
        self.assertEqual(self.invite(players[10], self.ann.id), 409)
        self.game.clock.advance(300)
        self.assertEqual(self.invite(players[10], self.ann.id), 200)

    @proves("limit: Party invites sent per player")
    def test_a_player_sends_at_most_twenty_invites_in_ten_minutes(self) -> None:
        for _ in range(MAX_SENT):
            self.assertEqual(self.invite(self.ann, self.bob.id), 200)
            self.decline(self.ann, sendingPlayerId=self.ann.id, recipientPlayerId=self.bob.id)
            self.assertEqual(self.invites(self.bob), [])
        self.assertEqual(self.invite(self.ann, self.cat.id), 409)
        self.game.clock.advance(600)
        self.assertEqual(self.invite(self.ann, self.cat.id), 200)

    @proves(
        "state: Party invite",
        "limit: Party size; pending invites per party; per recipient; invite expiry",
    )
    def test_an_invite_lives_five_minutes(self) -> None:
        party_id = self.poll(self.ann)["partyId"]
        self.invite(self.ann, self.bob.id)
        self.game.clock.advance(299)
        self.assertEqual(len(self.invites(self.bob)), 1)
        self.game.clock.advance(1)
        self.assertEqual(self.invites(self.bob), [])
        self.assertEqual(self.accept(self.bob, party_id).status, 404)
        self.assertEqual(self.invite(self.ann, self.bob.id), 200)

    @proves("state: Party invite", "DELETE /party/invite", "limit: Party invites sent per player")
    def test_a_decline_pauses_that_sender_for_two_minutes(self) -> None:
        for named in ("partyId", "sendingPlayerId"):
            for value in (self.poll(self.ann)["partyId"], self.ann.id):
                self.assertEqual(self.invite(self.ann, self.bob.id), 200)
                self.decline(self.bob, **{named: value}, recipientPlayerId=self.bob.id)
                self.assertEqual(self.invites(self.bob), [])
                self.assertEqual(self.invite(self.ann, self.bob.id), 409)
                self.assertEqual(self.invite(self.cat, self.bob.id), 200)
                self.decline(self.bob, sendingPlayerId=self.cat.id)
                self.game.clock.advance(119)
                self.assertEqual(self.invite(self.ann, self.bob.id), 409)
                self.game.clock.advance(1)

    @proves("DELETE /party/invite")
    def test_withdrawing_pauses_nobody_and_someone_elses_invite_stays(self) -> None:
        self.invite(self.ann, self.bob.id)
        self.decline(self.cat, sendingPlayerId=self.ann.id, recipientPlayerId=self.bob.id)
        self.assertEqual(len(self.invites(self.bob)), 1)
        self.decline(self.ann, sendingPlayerId=self.ann.id, recipientPlayerId=self.bob.id)
        self.assertEqual(self.invites(self.bob), [])
        self.assertEqual(self.invite(self.ann, self.bob.id), 200)

    @proves("DELETE /party/invite")
    def test_dropping_a_nonexistent_invite_is_200(self) -> None:
        self.game.described.odd = True
        for body in ({}, [], {"sendingPlayerId": 7, "partyId": [], "recipientPlayerId": {}}):
            page = self.do("DELETE", "/invite", self.ann, body)
            self.assertEqual((page.status, page.json), (200, {}))

    @proves("state: Party invite")
    def test_the_senders_leaving_ends_their_invites(self) -> None:
        self.join(self.ann, self.bob)
        self.invite(self.ann, self.cat.id)
        self.do("DELETE", "/member", self.ann)
        self.assertEqual(self.invites(self.cat), [])
        self.invite(self.bob, self.cat.id)
        self.do("DELETE", "/member", self.bob)
        self.assertEqual(self.invites(self.cat), [], "the party has ended")

    def test_a_returning_sender_brings_no_old_invites_back(self) -> None:
        party_id = self.join(self.ann, self.bob)
        self.invite(self.ann, self.cat.id)
        self.do("DELETE", "/member", self.ann)
        self.invite(self.bob, self.ann.id)
        self.assertEqual(self.accept(self.ann, party_id).status, 200)
        self.assertEqual(self.invites(self.cat), [])


class AcceptTests(Base):
    @proves("PUT /party/invite/accept/:inviteId")
    def test_an_invite_is_accepted_by_party_id_or_sender(self) -> None:
        for name in ("partyId", "sendingPlayerId"):
            self.invite(self.ann, self.bob.id)
            [invite] = self.invites(self.bob)
            page = self.accept(self.bob, invite[name])
            self.assertEqual(page.status, 200)
            self.assertEqual(page.json["playerIds"], [self.ann.id, self.bob.id])
            self.assertEqual(self.invites(self.bob), [])
            self.do("DELETE", "/member", self.bob)

    @proves("PUT /party/invite/accept/:inviteId")
    def test_accepting_an_invite_leaves_the_old_party(self) -> None:
        old = self.join(self.bob, self.cat)
        self.left.clear()
        self.join(self.ann, self.bob)
        self.assertEqual(self.left, [PartyChanged(old, (self.bob.id,))])
        self.assertEqual(self.poll(self.cat)["leaderPlayerId"], self.cat.id)
        self.assertEqual(self.poll(self.cat)["partyId"], old, "the last one keeps it")

    @proves("PUT /party/invite/accept/:inviteId")
    def test_a_repeated_accept_shows_the_party_again(self) -> None:
        party_id = self.join(self.ann, self.bob)
        for named in (party_id, self.ann.id):
            page = self.accept(self.bob, named)
            self.assertEqual((page.status, page.json["partyId"]), (200, party_id))
        for named in (self.bob.id, self.cat.id, "x"):
            page = self.accept(self.bob, named)
            self.assertEqual((page.status, page.json), (404, {}), named)

    @proves("PUT /party/invite/accept/:inviteId")
    def test_a_lone_player_without_an_invite_cannot_accept(self) -> None:
        party_id = self.poll(self.bob)["partyId"]
        for named in (party_id, self.bob.id):
            self.assertEqual(self.accept(self.bob, named).status, 404)
        self.assertEqual(self.accept(self.cat, party_id).status, 404)

    @proves("PUT /party/invite/accept/:inviteId")
    def test_accepting_an_invite_for_another_player_is_404(self) -> None:
        self.invite(self.ann, self.bob.id)
        [invite] = self.invites(self.bob)
        self.assertEqual(self.accept(self.cat, invite["partyId"]).status, 404)

    def test_an_invite_that_ended_meanwhile_is_missing(self) -> None:
        live = TestBoard()
        live_parties = LiveParties(live.board)

        def do(work: Callable[[Parties], Any]) -> Any:
            return at_once(live_parties.transact_with_rules(work))

        def invite() -> PartyInvitation:
            do(lambda parties: parties.invite("ann", "bob"))
            [invite_found] = do(lambda parties: parties.invites_to("bob"))
            return invite_found

        def is_missing(invitation: PartyInvitation) -> None:
            self.assertRaises(Missing, do, lambda parties: parties.accept(invitation))

        first = invite()
        do(lambda parties: parties.withdraw("ann", "bob"))
        is_missing(first)
        live.now = 1.0
        again = invite()
        is_missing(first)
        do(lambda parties: parties.leave("ann"))
        is_missing(again)
