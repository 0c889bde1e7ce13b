"""Invites to a link and their answers. Spec: 1 §3 Slayer link, §4 Slayer links, §7, §8."""

from sqlalchemy import func, select

from svcserver.kernel.readers import reader
from svcserver.kernel.shapes import Lenient
from svcserver.metagame.social.slayerlinks.rules import InviteStatus
from svcserver.metagame.social.slayerlinks.store import SLAYER_INVITES
from svcserver.metagame.social.slayerlinks.wire import Slot
from tests.metagame.social.slayerlinks.base import HOUR, Base
from tests.support.proves import proves

slot_of = reader(Lenient[Slot])


class InviteTests(Base):
    @proves("PUT /slayerlink/invite", "Slayer link refusals")
    def test_bad_account_ids_and_slots_are_400(self) -> None:
        for whom in (None, "", 7, "a b", "x" * 65):
            self.refused(self.put(self.ann, whom), 400)
        for slot in (None, 0, 4, 1.5, "", "0", "x", True, [], -1, "1 ", 10**30):
            self.refused(self.put(self.ann, self.bob, slot), 400)
        for body in ({}, []):
            self.refused(self.do("PUT", "/invite", self.ann, body), 400)

    def test_a_slot_is_a_small_number_or_its_digits(self) -> None:
        for sent in (3, 3.0, "3", "003"):
            self.assertEqual(slot_of(sent), 3)
        for sent in (0, 4, 2.5, True, "", "0003", "+3", "\u0663", None, [3]):
            self.assertIsNone(slot_of(sent))
        words = ["PENDING", "ACCEPTED", "DECLINED", "CANCELED"]
        self.assertEqual([*InviteStatus], words)

    def test_numeric_texts_are_slots(self) -> None:
        self.invite(self.ann, self.bob, "2")
        self.assertEqual(self.invites(self.ann)[0]["slot"], 2)
        self.assertEqual([slot_of(text) for text in ("1", 3, 2.0, "4", "²")], [1, 3, 2, None, None])

    @proves("Slayer link refusals")
    def test_inviting_oneself_a_stranger_or_nobody_is_refused(self) -> None:
        self.refused(self.put(self.ann, self.ann), 409)
        self.refused(self.put(self.ann, "UID-nobody"), 404)
        self.refused(self.put(self.bob, self.cat), 403)

    def test_a_pending_friend_is_no_friend(self) -> None:
        self.social("POST", "friends", self.bob, self.cat)
        self.refused(self.put(self.bob, self.cat), 403)

    @proves("Slayer link refusals")
    def test_an_invite_between_blocked_players_is_403_both_ways(self) -> None:
        self.social("POST", "blocklist", self.bob, self.ann)
        self.refused(self.put(self.ann, self.bob), 403)
        self.refused(self.put(self.bob, self.ann), 403)

    @proves("PUT /slayerlink/invite")
    def test_a_repeated_invite_has_the_same_id_and_slot(self) -> None:
        link_id = self.invite(self.ann, self.bob, 1)
        self.assertEqual(self.invite(self.ann, self.bob, 1), link_id)
        self.assertEqual(self.invite(self.ann, self.bob, 2), link_id)
        self.assertEqual([invite["slot"] for invite in self.invites(self.ann)], [1])

    @proves("PUT /slayerlink/invite")
    def test_an_invite_for_a_linked_player_or_slot_is_409(self) -> None:
        self.invite(self.ann, self.bob, 1)
        self.refused(self.put(self.bob, self.ann), 409)
        self.refused(self.put(self.ann, self.cat, 1), 409)
        self.ok(self.post(self.bob, "accept", self.ann))
        self.refused(self.put(self.ann, self.bob, 2), 409)
        self.refused(self.put(self.bob, self.ann, 2), 409)
        self.refused(self.put(self.ann, self.cat, 1), 409)

    @proves("limit: Slayer links")
    def test_an_invite_to_a_player_without_a_free_slot_is_409(self) -> None:
        for partner, slot in ((self.bob, 1), (self.cat, 2), (self.dan, 3)):
            self.invite(self.ann, partner, slot)
        self.refused(self.put(self.eve, self.ann), 409)
        self.ok(self.post(self.ann, "cancel", self.dan))
        self.invite(self.eve, self.ann)

    @proves("limit: Slayer links")
    def test_a_21st_new_invite_in_ten_minutes_is_409(self) -> None:
        for _ in range(20):
            self.invite(self.ann, self.bob)
            self.invite(self.ann, self.bob)
            self.ok(self.post(self.ann, "cancel", self.bob))
        self.refused(self.put(self.ann, self.bob), 409)
        self.game.clock.advance(600)
        self.invite(self.ann, self.bob)

    def test_inviting_and_canceling_all_day_leaves_few_rows(self) -> None:
        for number in range(60):
            link_id = self.invite(self.ann, self.bob)
            self.ok(self.post(self.ann, "cancel", self.bob))
            self.assertEqual(
                self.ok(self.post(self.ann, "cancel", link_id=link_id)), {"link_id": link_id}
            )
            if number % 20 == 19:
                self.game.clock.advance(600)
        count = select(func.count()).select_from(SLAYER_INVITES)
        self.assertEqual(self.game.ledger.run(lambda tx: tx.execute(count).scalar()), 20)

    @proves("state: Slayer link invite and link", "limit: Slayer links")
    def test_an_invite_lives_24_hours(self) -> None:
        first = self.invite(self.ann, self.bob)
        self.game.clock.advance(24 * HOUR - 1)
        self.assertEqual(len(self.invites(self.bob)), 1)
        self.game.clock.advance(1)
        self.assertEqual(self.invites(self.bob), [])
        self.refused(self.post(self.bob, "accept", self.ann), 409)
        self.assertNotEqual(self.invite(self.ann, self.bob), first)
        self.ok(self.post(self.bob, "accept", self.ann))

    @proves("PUT /slayerlink/invite")
    def test_put_with_the_action_cancel_cancels(self) -> None:
        link_id = self.invite(self.ann, self.bob)
        self.assertEqual(
            self.ok(self.put(self.ann, self.bob, action="cancel")), {"link_id": link_id}
        )
        self.assertEqual(self.invites(self.ann), [])


class AnswerTests(Base):
    @proves("POST /slayerlink/invite")
    def test_an_answer_may_be_repeated_but_not_changed(self) -> None:
        for action, by, partner in (
            ("accept", self.bob, self.ann),
            ("reject", self.cat, self.ann),
            ("cancel", self.ann, self.dan),
        ):
            to = by if by is not self.ann else partner
            link_id = self.invite(self.ann, to, {"accept": 1, "reject": 2, "cancel": 3}[action])
            for _ in range(2):
                self.assertEqual(self.ok(self.post(by, action, partner)), {"link_id": link_id})
            for wrong, who, whom in (
                ("accept", to, self.ann),
                ("reject", to, self.ann),
                ("cancel", self.ann, to),
            ):
                if wrong != action:
                    self.refused(self.post(who, wrong, whom), 409)

    @proves("POST /slayerlink/invite")
    def test_an_answer_from_the_wrong_player_is_404(self) -> None:
        self.invite(self.ann, self.bob)
        for action, by, partner in (
            ("accept", self.ann, self.bob),
            ("reject", self.ann, self.bob),
            ("cancel", self.bob, self.ann),
            ("accept", self.cat, self.ann),
        ):
            self.refused(self.post(by, action, partner), 404)

    @proves("Slayer link refusals")
    def test_an_answer_that_names_neither_account_nor_invite_is_400(self) -> None:
        self.invite(self.ann, self.bob)
        for more in ({}, {"account_id": ""}, {"account_id": 7}, {"link_id": "", "invite_id": ""}):
            for action in ("accept", "reject", "cancel"):
                self.refused(self.post(self.bob, action, None, **more), 400)
        cancel = {"action": "cancel", "slot": 1}
        self.refused(self.do("PUT", "/invite", self.ann, cancel), 400)
        self.refused(self.post(self.bob, "accept", None, link_id="nobody's"), 404)

    @proves("Slayer link refusals")
    def test_unknown_actions_are_400(self) -> None:
        self.invite(self.ann, self.bob)
        for action in (None, "ACCEPT", "x", 7, []):
            self.refused(self.post(self.bob, action, self.ann), 400)

    @proves("POST /slayerlink/invite")
    def test_an_invite_id_counts_only_for_the_callers_own_invites(self) -> None:
        first = self.invite(self.ann, self.bob)
        second = self.invite(self.cat, self.ann, 1)
        for key in ("link_id", "invite_id"):
            page = self.post(self.bob, "reject", self.cat, **{key: first})
            self.assertEqual(self.ok(page), {"link_id": first})
        self.refused(self.post(self.bob, "accept", None, link_id=second), 404)
        page = self.post(self.ann, "accept", self.cat, link_id=first)
        self.assertEqual(self.ok(page), {"link_id": second}, "not one's own: by the account")

    @proves("POST /slayerlink/invite")
    def test_the_newest_invite_decides(self) -> None:
        self.invite(self.ann, self.bob)
        self.ok(self.post(self.bob, "reject", self.ann))
        second = self.invite(self.ann, self.bob)
        self.assertEqual(self.ok(self.post(self.bob, "accept", self.ann)), {"link_id": second})

    @proves("POST /slayerlink/invite")
    def test_accepting_takes_the_wanted_slot_or_the_first_free_slot(self) -> None:
        self.befriend(self.bob, self.cat)
        self.invite(self.bob, self.cat, 1)
        self.link(self.ann, self.bob, 1, slot=1)
        self.assertEqual(self.links(self.bob)[0]["slot"], 2, "1 holds a waiting invite")
        for partner, wanted, slot in (
            (self.cat, 3, 3),
            (self.dan, None, 1),
            (self.eve, 0, 1),
        ):
            link_id = self.link(self.ann, partner, 2, slot=wanted)
            self.assertEqual(self.links(partner)[0]["slot"], slot)
            self.ok(self.do("DELETE", "/links", self.ann, {"account_id": partner.id, "slot": 2}))
            self.assertNotIn(link_id, [link["link_id"] for link in self.links(self.ann)])

    @proves("Slayer link refusals")
    def test_accepting_without_a_free_slot_is_409(self) -> None:
        self.invite(self.eve, self.ann)
        for partner, slot in ((self.bob, 1), (self.cat, 2), (self.dan, 3)):
            self.invite(self.ann, partner, slot)
        self.refused(self.post(self.ann, "accept", self.eve), 409)
        self.assertEqual(len(self.invites(self.eve)), 1, "the invite still waits")
