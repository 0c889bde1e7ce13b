"""What others did between a request and its repeat stays; and nothing is said that is not so."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.kernel.repeats import LATE_MS
from svcserver.kernel.signals import Blocked, GuildChanged, Unfriended
from svcserver.metagame.social.friends.acts import FriendActs
from tests.metagame.play.matchmaking.test_ended_sessions import FULL
from tests.metagame.repeats.base import BLOCKED, FRIENDS, HUNT, Town
from tests.support.game import GAME_SERVER_KEY, Player


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.town = Town(self)
        self.ann, self.bob, self.cat = self.town.ann, self.town.bob, self.town.cat

    def lost(self, who: Player, line: str, body: Any = None) -> None:
        """It was done, and the answer lost; all that follows comes a second later."""
        self.town.did(who, line, body)
        self.town.pass_time()


class PartyTests(Case):
    def test_who_led_and_handed_the_party_back_does_not_lead_again(self) -> None:
        self.town.party(self.ann, self.bob)
        promote = f"PUT /party/member/promote/{self.bob.id}"
        self.lost(self.ann, promote)
        self.town.did(self.bob, f"PUT /party/member/promote/{self.ann.id}")
        self.assertEqual(self.town.again(self.ann, promote, waited_s=1.0).status, 200)
        self.assertEqual(self.town.leader(self.ann), "Ann")
        self.town.pass_time(9.0)  # asked anew, that went before
        self.assertEqual(self.town.again(self.ann, promote, waited_s=1.0).status, 200)
        self.assertEqual(self.town.leader(self.ann), "Bob")

    def test_a_third_who_leads_now_goes_on(self) -> None:
        self.town.party(self.ann, self.bob, self.cat)
        promote = f"PUT /party/member/promote/{self.bob.id}"
        self.lost(self.ann, promote)
        self.town.did(self.bob, f"PUT /party/member/promote/{self.cat.id}")
        self.assertEqual(self.town.again(self.ann, promote).status, 200)
        self.assertEqual(self.town.leader(self.ann), "Cat")

    def test_that_the_party_went_to_and_fro_is_no_sign_that_a_third_was_given_it(self) -> None:
        self.town.party(self.ann, self.bob, self.cat)
        self.town.did(self.ann, f"PUT /party/member/promote/{self.bob.id}")
        self.town.did(self.bob, f"PUT /party/member/promote/{self.ann.id}")
        page = self.town.again(self.ann, f"PUT /party/member/promote/{self.cat.id}")
        self.assertEqual(page.status, 200)
        self.assertEqual(self.town.leader(self.ann), "Cat")

    def test_who_came_and_left_is_not_invited_again_and_who_came_back_not_kicked(self) -> None:
        wish = {"recipientPlayerId": self.bob.id}
        party_id = self.town.party(self.ann, self.cat)
        accept = f"PUT /party/invite/accept/{party_id}"
        self.lost(self.ann, "PUT /party/invite", wish)
        self.town.did(self.bob, accept, {})
        self.town.did(self.bob, "DELETE /party/member")
        self.assertEqual(self.town.again(self.ann, "PUT /party/invite", wish).status, 200)
        self.assertEqual(self.town.did(self.bob, "GET /party/invites")["invitations"], [])
        self.town.pass_time(9.0)  # asked anew, that went before
        self.assertEqual(self.town.again(self.ann, "PUT /party/invite", wish).status, 200)
        self.town.did(self.bob, accept, {})
        kick = f"DELETE /party/member/{self.bob.id}"
        self.lost(self.ann, kick)
        self.town.did(self.ann, "PUT /party/invite", wish)
        self.town.did(self.bob, accept, {})
        self.assertEqual(self.town.again(self.ann, kick).status, 200)
        self.assertIn("Bob", self.town.together(self.ann))

    def test_an_invite_that_was_declined_is_not_sent_again(self) -> None:
        wish = {"recipientPlayerId": self.bob.id}
        party_id = self.town.party(self.ann)
        self.lost(self.ann, "PUT /party/invite", wish)
        self.town.did(self.bob, "DELETE /party/invite", {"partyId": party_id})
        self.assertEqual(self.town.again(self.ann, "PUT /party/invite", wish).status, 200)
        self.assertEqual(self.town.did(self.bob, "GET /party/invites")["invitations"], [])

    def test_who_was_kicked_meanwhile_is_not_told_of_a_party(self) -> None:
        party_id = self.town.party(self.ann)
        self.town.did(self.ann, "PUT /party/invite", {"recipientPlayerId": self.bob.id})
        accept = f"PUT /party/invite/accept/{party_id}"
        self.lost(self.bob, accept, {})
        self.town.did(self.ann, f"DELETE /party/member/{self.bob.id}")
        self.assertEqual(self.town.again(self.bob, accept, {}).status, 404)

    def test_a_new_leader_keeps_whom_the_old_one_has_kicked_in_vain(self) -> None:
        self.town.party(self.ann, self.bob, self.cat)
        self.town.did(self.ann, f"PUT /party/member/promote/{self.cat.id}")
        kick = f"DELETE /party/member/{self.bob.id}"
        self.assertEqual(self.town.again(self.ann, kick).status, 403)
        self.assertEqual(self.town.together(self.ann), ["Ann", "Bob", "Cat"])


class HuntTests(Case):
    def test_a_leave_does_not_end_what_the_leader_has_begun_since(self) -> None:
        for line in ("DELETE /candidate", "DELETE /candidate/leave"):
            self.town = Town(self)
            self.ann, self.bob = self.town.ann, self.town.bob
            self.town.deploy.answer = FULL  # they wait, and may leave
            self.town.party(self.ann, self.bob)
            self.town.did(self.bob, "POST /candidate/join", HUNT | {"gameMode": "CITY"})
            self.lost(self.bob, line)
            self.town.pass_time(0.5)
            found = self.town.did(self.ann, "POST /candidate/join", HUNT)["candidateId"]
            self.assertEqual(self.town.again(self.bob, line, waited_s=1.5).status, 200)
            waiting = self.town.did(self.bob, "GET /candidate/status")
            self.assertEqual(waiting["candidateId"], found)
            self.town.pass_time(LATE_MS / 1000)
            self.assertEqual(self.town.again(self.bob, line, waited_s=0.0).status, 200)
            self.assertEqual(self.town.ask(self.bob, "GET /candidate/status").status, 404)

    def test_a_leave_ends_a_wait_that_was_asked_for_before_it_and_made_after(self) -> None:
        for line in ("DELETE /candidate", "DELETE /candidate/leave"):
            for leads in (False, True):
                town = Town(self)
                town.deploy.answer = FULL
                town.party(town.ann, *([town.bob] if leads else []))
                town.again(town.ann, "POST /candidate/join", HUNT, waited_s=1.5)
                town.did(town.ann, "GET /candidate/status")
                self.assertEqual(town.again(town.ann, line).status, 200)
                self.assertEqual(town.ask(town.ann, "GET /candidate/status").status, 404)

    def test_a_join_goes_where_the_leader_has_led_meanwhile(self) -> None:
        self.town.party(self.ann, self.bob)
        city = HUNT | {"gameMode": "CITY"}
        self.lost(self.bob, "POST /candidate/join", HUNT | {"gameMode": "SHARED"})
        found = self.town.did(self.ann, "POST /candidate/join", HUNT)["candidateId"]
        self.assertEqual(self.town.again(self.bob, "POST /candidate/join", HUNT).status, 200)
        self.assertEqual(self.town.did(self.bob, "GET /candidate/status")["candidateId"], found)
        self.assertEqual(self.town.again(self.bob, "POST /candidate/join", city).status, 200)


class GuildTests(Case):
    def test_who_joined_again_is_not_kicked_again(self) -> None:
        self.town.found(self.ann, self.bob, self.cat)
        self.town.did(self.ann, f"PUT /guild/rank/{self.cat.id}/officer")
        self.town.pass_time(60.0)
        kick = f"DELETE /guild/player/{self.bob.id}"
        self.lost(self.ann, kick)
        self.town.did(self.cat, f"PUT /guild/invite/{self.bob.id}")
        invite_id = self.town.guild_invite(self.bob)
        self.town.did(self.bob, f"POST /guild/invite/accept/{invite_id}")
        self.town.pass_time()
        self.assertEqual(self.town.again(self.ann, kick, waited_s=2.0).status, 200)
        self.assertIn("Bob", self.town.ranks(self.ann))
        self.assertEqual(self.town.again(self.ann, kick, waited_s=0.5).status, 200)
        self.assertNotIn("Bob", self.town.ranks(self.ann))

    def test_who_leads_again_leads_on_and_it_is_said_that_nobody_knows(self) -> None:
        self.town.found(self.ann, self.bob)
        hand_over = f"PUT /guild/rank/{self.bob.id}/leader"
        self.lost(self.ann, hand_over)
        self.town.did(self.bob, f"PUT /guild/rank/{self.ann.id}/leader")
        page = self.town.again(self.ann, hand_over)
        self.assertEqual((page.status, page.headers.get("retry-after", "")), (503, ""))
        self.assertEqual(self.town.ranks(self.ann)["Ann"], "Leader")
        self.assertEqual(self.town.ask(self.ann, hand_over).status, 200)

    def test_an_invite_is_not_accepted_because_another_was_long_ago(self) -> None:
        self.town.found(self.ann, self.bob)
        accept = "POST /guild/invite/accept/no-such-invite"
        self.assertEqual(self.town.again(self.bob, accept, waited_s=1.0).status, 200)  # just now
        self.town.pass_time(1.0 + LATE_MS / 1000 + 0.001)
        self.assertEqual(self.town.again(self.bob, accept, waited_s=1.0).status, 404)
        self.assertEqual(self.town.again(self.cat, accept).status, 404)

    def test_an_invite_that_was_declined_is_not_sent_again(self) -> None:
        self.town.found(self.ann)
        invite = f"PUT /guild/invite/{self.bob.id}"
        self.lost(self.ann, invite)
        self.town.did(self.bob, f"DELETE /guild/invite/{self.town.guild_invite(self.bob)}")
        self.assertEqual(self.town.again(self.ann, invite).status, 429)
        self.assertEqual(self.town.did(self.bob, "GET /guild/invite/player")["invites"], [])

    def test_no_mark_lends_a_right(self) -> None:
        guild_id = self.town.found(self.ann, self.bob, self.cat)
        for line in (
            f"DELETE /guild/{guild_id}",
            f"DELETE /guild/player/{self.cat.id}",
            f"PUT /guild/rank/{self.cat.id}/officer",
            f"PUT /guild/invite/{self.town.dan.id}",
        ):
            self.assertEqual(self.town.again(self.bob, line).status, 403, line)
        self.assertEqual(self.town.ranks(self.ann)["Cat"], "Member")
        self.town.party(self.ann, self.bob)
        for other, status in ((self.ann, 403), (self.cat, 404)):
            kick = f"DELETE /party/member/{other.id}"
            self.assertEqual(self.town.again(self.bob, kick).status, status)
        invite = "PUT /party/invite"
        wish = {"recipientPlayerId": self.cat.id}
        self.assertEqual(self.town.again(self.bob, invite, wish).status, 403)


class FriendTests(Case):
    def between(self) -> list[str]:
        path = f"GET {FRIENDS}/{self.ann.id}?includePending=true"
        return [one["status"] for one in self.town.did(self.ann, path)]

    def test_who_was_declined_or_unfriended_since_does_not_ask_anew(self) -> None:
        ask = f"POST {FRIENDS}/{self.ann.id}/{self.bob.id}"
        for asked_before in (False, True):  # by Bob, so that hers accepts it
            if asked_before:
                self.town.did(self.bob, f"POST {FRIENDS}/{self.bob.id}/{self.ann.id}")
                self.town.pass_time(60.0)
            self.lost(self.ann, ask)
            self.town.did(self.bob, f"DELETE {FRIENDS}/{self.bob.id}/{self.ann.id}")
            self.town.pass_time()
            self.assertEqual(self.town.again(self.ann, ask, waited_s=2.0).status, 204)
            self.assertEqual(self.between(), [])
            self.town.pass_time(9.0)  # asked anew, that went before
            self.assertEqual(self.town.again(self.ann, ask, waited_s=1.0).status, 204)
            self.assertEqual(self.between(), ["PENDING"])
            self.town.did(self.bob, f"DELETE {FRIENDS}/{self.bob.id}/{self.ann.id}")
            self.town.pass_time(60.0)

    def test_one_who_declines_while_the_repeat_is_under_way_is_not_asked_anew(self) -> None:
        ask = f"POST {FRIENDS}/{self.ann.id}/{self.bob.id}"
        self.lost(self.ann, ask)
        look = FriendActs._has_ended

        def late(*asked: Any) -> Any:
            found = look(*asked)  # and then another worker writes
            self.town.did(self.bob, f"DELETE {FRIENDS}/{self.bob.id}/{self.ann.id}")
            return found

        self.patch(FriendActs, "_has_ended", late)
        self.assertEqual(self.town.again(self.ann, ask).status, 204)
        self.assertEqual(self.between(), [])

    def test_who_asks_after_an_end_that_is_done_later_has_asked(self) -> None:
        self.town.befriend(self.ann, self.bob)
        self.town.pass_time(60.0)
        pair = f"{FRIENDS}/{self.ann.id}/{self.bob.id}"
        self.assertEqual(self.town.again(self.ann, f"DELETE {pair}", waited_s=9.0).status, 204)
        self.assertEqual(self.town.again(self.ann, f"POST {pair}", waited_s=1.0).status, 204)
        self.assertEqual(self.between(), ["PENDING"])

    def test_what_the_other_asks_meanwhile_stays(self) -> None:
        self.town.befriend(self.ann, self.bob)
        self.town.pass_time(60.0)
        end = f"DELETE {FRIENDS}/{self.ann.id}/{self.bob.id}"
        self.lost(self.ann, end)
        self.town.did(self.bob, f"POST {FRIENDS}/{self.bob.id}/{self.ann.id}")
        self.town.pass_time()
        self.assertEqual(self.town.again(self.ann, end, waited_s=2.0).status, 204)
        path = f"GET {FRIENDS}/{self.ann.id}?includePending=true"
        [waiting] = self.town.did(self.ann, path)
        self.assertEqual(waiting["status"], "PENDING")
        self.assertEqual(self.town.again(self.ann, end, waited_s=0.5).status, 204)
        self.assertEqual(self.town.did(self.ann, path), [])

    def test_a_link_that_was_declined_or_accepted_is_not_asked_for_again(self) -> None:
        self.town.befriend(self.ann, self.bob)
        wish = {"account_id": self.bob.id, "slot": 1}
        for action in ("reject", "accept"):
            page = self.town.ask(self.ann, "PUT /slayerlink/invite", wish)
            self.town.pass_time()
            answer = {"action": action, "account_id": self.ann.id}
            self.town.did(self.bob, "POST /slayerlink/invite", answer)
            again = self.town.again(self.ann, "PUT /slayerlink/invite", wish)
            self.assertEqual((again.status, again.json), (200, page.json))
            found = self.town.did(self.bob, "GET /slayerlink/invites")["payload"]["invites"]
            self.assertEqual(found, [])
            self.town.pass_time(60.0)

    def test_a_link_that_is_asked_for_meanwhile_is_not_dropped(self) -> None:
        self.town.befriend(self.ann, self.bob)
        drop = f"DELETE /slayerlink/invites/{self.bob.id}"
        self.lost(self.bob, drop)
        wish = {"account_id": self.bob.id, "slot": 1}
        self.town.did(self.ann, "PUT /slayerlink/invite", wish)
        self.town.pass_time()
        self.assertEqual(self.town.again(self.bob, drop, waited_s=2.0).status, 200)
        found = self.town.did(self.bob, "GET /slayerlink/invites")["payload"]["invites"]
        self.assertEqual(len(found), 1)


class LinkTests(Case):
    def invited(self) -> None:
        """Ann invites Bob to a link, and some time goes by."""
        wish = {"account_id": self.bob.id, "slot": 1}
        self.town.did(self.ann, "PUT /slayerlink/invite", wish)
        self.town.pass_time(60.0)

    def test_an_answer_means_no_invite_that_came_after_it(self) -> None:
        self.town.befriend(self.ann, self.bob)
        self.invited()
        answer = {"action": "reject", "account_id": self.ann.id}
        self.lost(self.bob, "POST /slayerlink/invite", answer)
        self.invited()
        path = "GET /slayerlink/invites"
        for waited_s, waiting in ((61.0, 1), (0.0, 0)):
            page = self.town.again(self.bob, "POST /slayerlink/invite", answer, waited_s)
            self.assertEqual(page.status, 200)
            found = self.town.did(self.bob, path)["payload"]["invites"]
            self.assertEqual(len(found), waiting)

    def test_who_has_ended_a_link_and_invites_anew_is_not_linked_by_an_older_answer(self) -> None:
        self.town.befriend(self.ann, self.bob)
        self.invited()
        answer = {"action": "accept", "account_id": self.ann.id}
        self.lost(self.bob, "POST /slayerlink/invite", answer)
        self.town.did(self.ann, "DELETE /slayerlink/links", {"account_id": self.bob.id})
        self.invited()
        for waited_s, linked in ((61.0, 0), (0.0, 1)):
            page = self.town.again(self.bob, "POST /slayerlink/invite", answer, waited_s)
            self.assertEqual(page.status, 200)
            found = self.town.did(self.bob, "GET /slayerlink/links")["payload"]["links"]
            self.assertEqual(len(found), linked)

    def test_ones_own_invite_is_canceled_though_it_is_made_later(self) -> None:
        self.town.befriend(self.ann, self.bob)
        wish = {"account_id": self.bob.id, "slot": 1}
        cancel = wish | {"action": "cancel"}
        self.town.again(self.ann, "PUT /slayerlink/invite", wish, waited_s=1.5)
        page = self.town.again(self.ann, "PUT /slayerlink/invite", cancel)
        self.assertEqual(page.status, 200)
        found = self.town.did(self.ann, "GET /slayerlink/invites")["payload"]["invites"]
        self.assertEqual(found, [])


class TellingTests(Case):
    """The first try may have been done by a process that ended before it told anybody."""

    def twice(self, who: Player, line: str) -> list[Any]:
        """What is told of the second one."""
        self.lost(who, line)
        told: list[Any] = []
        news = self.town.game.parts.news
        for one in (news.guild_changed, news.unfriended, news.blocked, news.friend_accepted):
            one.connect(told.append)
        self.assertIn(self.town.again(who, line).status, (200, 204))
        return told

    def test_who_left_a_guild_is_told_of_again(self) -> None:
        guild_id = self.town.found(self.ann, self.bob, self.cat)
        self.town.pass_time(60.0)
        kicked = GuildChanged(guild_id, (self.bob.id,))
        self.assertEqual(self.twice(self.ann, f"DELETE /guild/player/{self.bob.id}"), [kicked])
        left = GuildChanged("", (self.cat.id,))
        self.assertEqual(self.twice(self.cat, "DELETE /guild/player"), [left])
        gone = GuildChanged(guild_id, ())
        self.assertEqual(self.twice(self.ann, f"DELETE /guild/{guild_id}"), [gone])

    def test_who_is_back_in_the_guild_is_not_said_to_have_left(self) -> None:
        self.town.found(self.ann, self.bob)
        kick = f"DELETE /guild/player/{self.bob.id}"
        self.town.did(self.ann, kick)
        self.town.did(self.ann, f"PUT /guild/invite/{self.bob.id}")
        invite_id = self.town.guild_invite(self.bob)
        self.town.pass_time()
        self.town.did(self.bob, f"POST /guild/invite/accept/{invite_id}")
        told: list[Any] = []
        self.town.game.parts.news.guild_changed.connect(told.append)
        self.assertEqual(self.town.again(self.ann, kick, waited_s=9.0).status, 200)
        self.assertEqual(told, [])

    def test_that_two_are_friends_is_told_again_by_who_accepted(self) -> None:
        ann, bob = self.ann.id, self.bob.id
        self.town.did(self.ann, f"POST {FRIENDS}/{ann}/{bob}")
        told = self.twice(self.bob, f"POST {FRIENDS}/{bob}/{ann}")
        self.assertEqual([(one.asked, one.accepted_by) for one in told], [(ann, bob)])
        self.town.again(self.ann, f"POST {FRIENDS}/{ann}/{bob}")  # she has accepted nothing
        self.assertEqual(len(told), 1)

    def test_that_two_were_friends_before_it_was_asked_for_is_not_told_again(self) -> None:
        self.town.befriend(self.ann, self.bob)
        self.town.pass_time(60.0)
        accept = f"POST {FRIENDS}/{self.bob.id}/{self.ann.id}"
        self.assertEqual(self.twice(self.bob, accept), [])

    def test_that_two_are_no_friends_or_apart_is_told_again(self) -> None:
        pair = f"{self.ann.id}/{self.bob.id}"
        self.town.befriend(self.ann, self.bob)
        ended, blocked = (one(self.ann.id, self.bob.id) for one in (Unfriended, Blocked))
        self.assertEqual(self.twice(self.ann, f"DELETE {FRIENDS}/{pair}"), [ended])
        self.assertEqual(self.twice(self.ann, f"POST {BLOCKED}/{pair}"), [blocked])


class LoadoutTests(Case):
    def test_what_a_game_server_saved_meanwhile_stays(self) -> None:
        path = f"/loadout/{self.ann.id}/{self.town.character(self.ann)}/0"

        def named(name: str) -> dict[str, str]:
            slot = {"slot_index": 0, "update_version": 1, "custom_name": name}
            return {"data": json.dump(slot).decode()}

        self.lost(self.ann, f"POST {path}", named("Mine"))
        self.town.game.browse("POST", path, json=named("Theirs"), game_server=GAME_SERVER_KEY)
        self.town.pass_time()

        def again(name: str, waited_s: float) -> str:
            page = self.town.again(self.ann, f"POST {path}", named(name), waited_s=waited_s)
            self.assertEqual(page.status, 200)
            return str(page.json["payload"]["loadouts"][0]["custom_name"])

        self.assertEqual(again("Mine", 2.1), "Theirs")
        # asked for just before the first try was saved; it waited where nothing counts the time
        self.assertEqual(again("Mine", 1.9), "Theirs")
        self.assertEqual(again("Mine", 0.999), "Mine")  # asked for after theirs, if only just
