"""The routes of parties. Spec: 1 §3 Party invite, §4 Parties, §7, §8; 2 §4 PartyInvite, §7."""

from collections.abc import Callable
from typing import Any, TypeVar

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.kinds import Kind
from svcserver.kernel.refusals import Conflict
from svcserver.kernel.signals import PartyChanged
from svcserver.kernel.times import DAY_S
from svcserver.metagame.social.parties import store
from svcserver.metagame.social.parties.rules import Parties, Party, PartyCandidate
from svcserver.metagame.social.parties.store import LiveParties
from svcserver.metagame.social.parties.wire import show_party
from tests.metagame.social.parties.base import Base
from tests.support.game import GAME_SERVER_KEY
from tests.support.live import TestBoard
from tests.support.proves import proves

T = TypeVar("T")


class PollTests(Base):
    @proves("POST /party", "party of one: placeholder candidate; PARTY_SOLO_STUB=0")
    def test_a_party_of_one_has_exactly_the_placeholder_shape(self) -> None:
        party = self.poll(self.ann)
        self.assertEqual(
            party,
            {
                "candidateId": "SOLO_CANDIDATE",
                "candidateState": "QUEUED_FOR_START",
                "gauntletLevel": None,
                "leaderPlayerId": self.ann.id,
                "partyId": party["partyId"],
                "playerHuntId": None,
                "playerStates": [
                    {
                        "playerId": self.ann.id,
                        "isMemberOfCandidate": True,
                        "platform": "win",
                        "displayName": "Ann",
                        "consoleSessionId": None,
                    }
                ],
            },
        )
        self.assertEqual(self.poll(self.ann), party, "the id is stable")

    @proves("POST /party")
    def test_a_party_of_two_has_eight_keys_in_join_order(self) -> None:
        party_id = self.join(self.bob, self.ann)
        party = self.poll(self.ann)
        self.assertEqual(
            list(party),
            [
                "partyId",
                "leaderPlayerId",
                "playerIds",
                "playerStates",
                "candidateState",
                "candidateId",
                "playerHuntId",
                "gauntletLevel",
            ],
        )
        self.assertEqual(party["partyId"], party_id)
        self.assertEqual(party["leaderPlayerId"], self.bob.id)
        self.assertEqual(party["playerIds"], [self.bob.id, self.ann.id])
        names = [state["displayName"] for state in party["playerStates"]]
        self.assertEqual(names, ["Bob", "Ann"])
        for key in ("candidateState", "candidateId", "playerHuntId", "gauntletLevel"):
            self.assertIsNone(party[key])
        self.assertEqual({state["isMemberOfCandidate"] for state in party["playerStates"]}, {False})

    @proves("POST /party")
    def test_a_candidate_shows_in_the_party(self) -> None:
        candidate = PartyCandidate("c", "MATCHING", "hunt", frozenset({"a"}))
        shown = show_party(Party("p", "a", ("a", "b")), {"a": "A", "b": "B"}, candidate)
        self.assertEqual(
            (shown["candidateId"], shown["candidateState"], shown["playerHuntId"]),
            ("c", "MATCHING", "hunt"),
        )
        members = [state["isMemberOfCandidate"] for state in shown["playerStates"]]
        self.assertEqual(members, [True, False])

    @proves("POST /party")
    def test_the_party_poll_takes_any_body_but_requires_a_player(self) -> None:
        self.game.described.odd = True
        for sent in ({}, {"json": []}, {"json": {}}, {"data": b""}):
            page = self.game.browse("POST", "/party", token=self.ann.token, **sent)
            self.assertEqual(page.status, 200)
        rows = (
            ("POST", ""),
            ("PUT", "/invite"),
            ("PUT", "/invite/accept/x"),
            ("DELETE", "/invite"),
            ("DELETE", "/member"),
            ("DELETE", "/member/x"),
            ("PUT", "/member/promote/x"),
            ("DELETE", "/leader/x"),
            ("POST", "/status"),
        )
        for method, path in rows:
            page = self.game.browse(method, "/party" + path)
            self.assertEqual(page.status, 401, path)
            page = self.game.browse(method, "/party" + path, game_server=GAME_SERVER_KEY)
            self.assertEqual(page.status, 403, path)

    def test_a_renamed_member_shows_the_new_name(self) -> None:
        root = self.game.player("Root", admin=True)
        self.poll(self.ann)
        body = {"UserId": self.ann.id, "NewUsername": "Anna"}
        self.game.browse("POST", "/svc/api/RenameUser", key=root.key, json=body)
        self.assertEqual(self.poll(self.ann)["playerStates"][0]["displayName"], "Anna")


class NoSoloStubTests(Base):
    environ = {"PARTY_SOLO_STUB": "0", "ACCOUNT_DISPLAY_NAME": "0"}  # noqa: RUF012

    @proves(
        "party of one: placeholder candidate; PARTY_SOLO_STUB=0",
        "ACCOUNT_DISPLAY_NAME (party replies)",
        "PARTY_SOLO_STUB",
    )
    def test_a_party_of_one_has_no_candidate_and_no_name(self) -> None:
        party = self.poll(self.ann)
        self.assertEqual((party["candidateId"], party["candidateState"]), (None, None))
        [state] = party["playerStates"]
        self.assertEqual((state["isMemberOfCandidate"], state["displayName"]), (False, {}))
        self.assertEqual(len(party), 7)
        self.invite(self.ann, self.bob.id)
        self.assertEqual(self.invites(self.bob)[0]["sendingDisplayName"], {})


class LeaveTests(Base):
    @proves("DELETE /party/member")
    def test_leaving_is_always_200(self) -> None:
        for _ in range(2):
            page = self.do("DELETE", "/member", self.ann)
            self.assertEqual((page.status, page.json), (200, {}))

    @proves("DELETE /party/member")
    def test_a_leaver_gets_a_new_party_and_the_next_in_order_leads(self) -> None:
        party_id = self.join(self.ann, self.bob, self.cat)
        self.left.clear()
        self.do("DELETE", "/member", self.ann)
        self.assertEqual(self.left, [PartyChanged(party_id, (self.ann.id,))])
        self.assertNotEqual(self.poll(self.ann)["partyId"], party_id)
        self.assertEqual(self.poll(self.cat)["leaderPlayerId"], self.bob.id)

    @proves("DELETE /party/member/:memberId")
    def test_a_member_kicked_by_the_leader_is_in_another_party(self) -> None:
        party_id = self.join(self.ann, self.bob, self.cat)
        page = self.do("DELETE", f"/member/{self.bob.id}", self.ann)
        self.assertEqual((page.status, page.json), (200, {}))
        self.assertNotEqual(self.poll(self.bob)["partyId"], party_id)
        self.assertEqual(self.poll(self.ann)["playerIds"], [self.ann.id, self.cat.id])

    @proves("DELETE /party/member/:memberId")
    def test_a_kick_by_a_member_is_403_and_of_a_stranger_404(self) -> None:
        self.join(self.ann, self.bob, self.cat)
        for by, whom, status in (
            (self.bob, self.cat.id, 403),
            (self.bob, self.dan.id, 404),
            (self.ann, self.dan.id, 404),
            (self.dan, self.ann.id, 404),
        ):
            page = self.do("DELETE", f"/member/{whom}", by)
            self.assertEqual((page.status, page.json), (status, {}))

    @proves("DELETE /party/member/:memberId")
    def test_members_can_remove_themselves_from_the_party(self) -> None:
        party_id = self.join(self.ann, self.bob)
        page = self.do("DELETE", f"/member/{self.bob.id}", self.bob)
        self.assertEqual(page.status, 200)
        self.assertNotEqual(self.poll(self.bob)["partyId"], party_id)

    @proves("PUT /party/member/promote/:memberId")
    def test_the_leader_hands_over(self) -> None:
        self.join(self.ann, self.bob)
        for by, whom, status in (
            (self.bob, self.ann.id, 403),
            (self.bob, self.cat.id, 403),
            (self.ann, self.cat.id, 404),
            (self.ann, self.bob.id, 200),
            (self.ann, self.bob.id, 403),
            (self.bob, self.bob.id, 200),
            (self.cat, self.ann.id, 404),
        ):
            page = self.do("PUT", f"/member/promote/{whom}", by)
            self.assertEqual((page.status, page.json), (status, {}))
        self.assertEqual(self.poll(self.ann)["leaderPlayerId"], self.bob.id)
        self.assertEqual(self.poll(self.ann)["playerIds"], [self.ann.id, self.bob.id])


class SilenceTests(Base):
    def test_reading_drops_a_member_silent_for_over_two_minutes(self) -> None:
        self.join(self.ann, self.bob)
        self.game.clock.advance(120)
        self.assertEqual(len(self.poll(self.ann)["playerIds"]), 2)
        self.game.clock.advance(0.5)
        self.assertNotIn("playerIds", self.poll(self.ann))

    def test_heartbeats_polls_and_actions_keep_a_member(self) -> None:
        self.join(self.ann, self.bob)
        signs = [
            lambda: self.game.browse("POST", "/heartbeat", token=self.bob.token, json={}),
            lambda: self.poll(self.bob),
            lambda: self.do("POST", "/status", self.bob, {"playerIds": []}),
            lambda: self.do("DELETE", "/invite", self.bob, {}),
            lambda: self.do("DELETE", f"/leader/{self.ann.id}", self.bob),
            lambda: self.accept(self.bob, "x"),
            lambda: self.invite(self.bob, self.cat.id),
        ]
        for sign in signs:
            self.game.clock.advance(100)
            sign()
            self.assertEqual(len(self.poll(self.ann)["playerIds"]), 2)

    @proves("DELETE /party/leader/:leaderId")
    def test_a_silent_leader_is_removed_and_an_active_leader_is_not(self) -> None:
        self.join(self.ann, self.bob, self.cat)
        for advance in (60, 60):
            self.game.clock.advance(advance)
            self.poll(self.bob)
            self.poll(self.cat)
            page = self.do("DELETE", f"/leader/{self.ann.id}", self.bob)
            self.assertEqual((page.status, page.json), (200, {}))
            self.assertEqual(self.poll(self.bob)["leaderPlayerId"], self.ann.id)
        self.game.clock.advance(1)
        self.do("DELETE", f"/leader/{self.ann.id}", self.bob)
        self.assertEqual(self.poll(self.cat)["leaderPlayerId"], self.bob.id)
        self.assertEqual(self.do("DELETE", "/leader/x", self.dan).status, 200)

    def test_the_last_party_member_is_never_dropped(self) -> None:
        party_id = self.poll(self.ann)["partyId"]
        self.game.clock.advance(1000)
        self.assertEqual(self.poll(self.ann)["partyId"], party_id)

    def test_the_member_seen_last_leads_a_party_that_is_all_silent(self) -> None:
        party_id = self.join(self.ann, self.bob, self.cat)
        for who in (self.cat, self.ann, self.bob):
            self.game.clock.advance(1)
            self.poll(who)
        self.game.clock.advance(500)
        status = self.do("POST", "/status", self.dan, {"playerIds": [self.bob.id, self.ann.id]})
        [party] = status.json["parties"]
        self.assertEqual((party["partyId"], party["leaderPlayerId"]), (party_id, self.bob.id))


class StatusTests(Base):
    @proves("POST /party/status")
    def test_a_status_lists_each_party_once_and_the_callers_invites(self) -> None:
        self.game.described.odd = True
        first = self.join(self.ann, self.bob)
        second = self.poll(self.cat)["partyId"]
        self.invite(self.ann, self.dan.id)
        ids = [self.ann.id, self.bob.id, "UID-nobody", 7, None, self.cat.id, self.eve.id]
        reply = self.do("POST", "/status", self.dan, {"playerIds": ids}).json
        self.assertEqual([entry["partyId"] for entry in reply["parties"]], [first, second])
        self.assertEqual([entry["partyId"] for entry in reply["invitations"]], [first])

    @proves("POST /party/status", "limit: /party/status player ids")
    def test_a_status_reads_only_the_first_16_player_ids(self) -> None:
        self.poll(self.ann)
        ids = ["UID-x"] * 15 + [self.ann.id]
        self.assertEqual(len(self.status_of(ids)["parties"]), 1)
        ids = ["UID-x"] * 16 + [self.ann.id]
        self.assertEqual(self.status_of(ids)["parties"], [])

    @proves("POST /party/status")
    def test_a_status_request_without_a_list_gets_two_empty_lists(self) -> None:
        self.game.described.odd = True
        self.invite(self.ann, self.dan.id)
        for ids in (None, "x", {}, 7):
            self.assertEqual(self.status_of(ids), {"parties": [], "invitations": []})
        page = self.do("POST", "/status", self.dan, [])
        self.assertEqual(page.json, {"parties": [], "invitations": []})

    def status_of(self, ids: Any) -> Any:
        return self.do("POST", "/status", self.dan, {"playerIds": ids}).json


class BoundTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.live = TestBoard()
        self.parties = LiveParties(self.live.board)

    def do(self, now: float, work: Callable[[Parties], T]) -> T:
        return self.live.do(lambda transaction: work(self.parties.rules_on(transaction)), now)

    def held(self) -> list[int]:
        return [self.live.board.held(kind) for kind in (store.PARTIES, store.PARTY_OF)]

    def test_the_oldest_party_is_dropped_at_the_limit(self) -> None:
        self.patch(store, "PARTIES", evolve(store.PARTIES, most=3))
        for number in range(5):
            self.do(0.0, lambda parties, who=f"p{number}": parties.poll(who))
        self.assertEqual(self.live.board.held(store.PARTIES), 3)
        self.assertIsNone(self.do(0.0, lambda parties: parties.party_of("p0")))
        self.assertIsNotNone(self.do(0.0, lambda parties: parties.party_of("p4")))

    def test_the_party_and_invites_of_a_long_absent_player_are_deleted(self) -> None:
        self.do(0.0, lambda parties: parties.poll("ann"))
        self.do(3500.0, lambda parties: parties.invite("bob", "ann"))
        self.do(3602.0, lambda parties: parties.poll("bob"))
        self.assertIsNone(self.do(3602.0, lambda parties: parties.party_of("ann")))
        self.assertEqual(self.held(), [1, 1])
        for seconds in range(200):
            self.do(4000.0 + seconds, lambda parties: parties.poll("bob"))
        held = [self.live.board.held(kind) for kind in (store.RECEIVED, store.PENDING)]
        self.assertEqual(held, [0, 0])

    def test_a_party_of_one_lasts_an_hour_of_silence(self) -> None:
        first = self.do(0.0, lambda parties: parties.poll("ann"))
        self.assertEqual(self.do(3600.0, lambda parties: parties.party_of("ann")), first)
        self.assertIsNone(self.do(3600.5, lambda parties: parties.party_of("ann")))

    def test_a_party_of_two_long_gone_is_forgotten(self) -> None:
        self.do(0.0, lambda parties: parties.invite("ann", "bob"))
        self.do(0.0, lambda parties: parties.accept(parties.invites_to("bob")[0]))
        self.assertIsNone(self.do(4000.0, lambda parties: parties.party_of("bob")))
        self.assertIsNone(self.do(4000.0, lambda parties: parties.party_of("ann")))
        self.assertEqual(self.held(), [0, 0])

    def test_parties_and_invites_that_nobody_reads_are_deleted(self) -> None:
        self.do(0.0, lambda parties: parties.invite("ann", "bob"))
        self.do(0.0, lambda parties: parties.accept(parties.invites_to("bob")[0]))
        for seconds in range(200):
            self.do(2 * DAY_S + seconds, lambda parties: parties.poll("cat"))
        self.assertEqual(self.held(), [1, 1])

    def test_a_kick_is_a_sign_of_life(self) -> None:
        self.do(0.0, lambda parties: parties.invite("ann", "bob"))
        self.do(0.0, lambda parties: parties.accept(parties.invites_to("bob")[0]))
        self.do(59.0, lambda parties: parties.mark_seen("bob"))
        # until this kick, ann has been silent for longer than bob
        self.do(121.0, lambda parties: parties.kick("ann", "bob"))
        party = self.do(121.0, lambda parties: parties.party_of("ann"))
        self.assertEqual(party.members if party else (), ("ann",))

    def test_the_oldest_decline_is_forgotten(self) -> None:
        self.patch(store, "DECLINED", evolve(store.DECLINED, most=2))
        for sender in ("s0", "s1", "s2"):
            self.do(0.0, lambda parties, sender=sender: parties.invite(sender, "ann"))
            self.assertTrue(
                self.do(0.0, lambda parties, sender=sender: parties.decline("ann", [sender]))
            )
        self.do(1.0, lambda parties: parties.invite("s0", "ann"))
        for sender in ("s1", "s2"):
            with self.assertRaises(Conflict):
                self.do(1.0, lambda parties, sender=sender: parties.invite(sender, "ann"))

    def test_a_party_still_works_when_an_entry_is_missing(self) -> None:
        self.do(0.0, lambda parties: parties.invite("ann", "bob"))
        [invite] = self.do(0.0, lambda parties: parties.invites_to("bob"))
        party = self.do(0.0, lambda parties: parties.accept(invite))
        entries: tuple[tuple[Kind[Any], str], ...] = (
            (store.PARTY_OF, "bob"),
            (store.LAST_POLL, "bob"),
            (store.PARTIES, party.id),
        )
        for kind, key in entries:
            self.live.do(lambda transaction, kind=kind, key=key: transaction.drop(kind, key))
            again = self.do(0.0, lambda parties: parties.poll("bob"))
            self.assertIn("bob", again.members)
            self.do(0.0, lambda parties: parties.kick("bob", "bob"))
            self.assertIsNone(self.do(0.0, lambda parties: parties.party_of("bob")))
