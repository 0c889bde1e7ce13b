"""Spec: 1 §3 Slayer link, §4 Slayer links, §7, §8."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.times import iso
from svcserver.metagame.slayerlinks.rules import Status, slot_of
from svcserver.metagame.slayerlinks.store import SLAYER_INVITES, SLAYER_LINKS
from tests.support.game import GAME_SERVER_KEY, START, Game, Player

ROWS = (
    ("GET", "/status_good"),
    ("GET", "/invites"),
    ("GET", "/links"),
    ("PUT", "/invite"),
    ("POST", "/invite"),
    ("DELETE", "/invites/x"),
    ("DELETE", "/links"),
    ("POST", "/availability"),
)
HOUR = 3600


class Base(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        names = ("Ann", "Bob", "Cat", "Dan", "Eve")
        self.ann, self.bob, self.cat, self.dan, self.eve = self.players = [
            self.game.player(name) for name in names
        ]
        for one in self.players[1:]:
            self.befriend(self.ann, one)

    def befriend(self, one: Player, other: Player) -> None:
        for a, b in ((one, other), (other, one)):
            self.social("POST", "friends", a, b)

    def social(self, method: str, kind: str, a: Player, b: Player) -> None:
        path = f"/friends/api/public/{kind}/{a.id}/{b.id}"
        self.assertEqual(self.game.browse(method, path, token=a.token).status, 204)

    def do(self, method: str, path: str, by: Player, body: Any = None) -> Any:
        sent = {} if body is None else {"json": body}
        token = self.game.parts.tokens.sign(by.id)  # days pass here; a token has one
        return self.game.browse(method, "/slayerlink" + path, token=token, **sent)

    def ok(self, page: Any) -> Any:
        self.assertEqual(page.status, 200, page.body)
        self.assertEqual(list(page.json), ["code", "message", "payload"])
        self.assertEqual((page.json["code"], page.json["message"]), (None, "OK"))
        return page.json["payload"]

    def refused(self, page: Any, status: int) -> None:
        self.assertEqual(page.status, status, page.body)
        self.assertEqual(list(page.json), ["code", "message", "payload"])
        self.assertEqual((page.json["code"], page.json["payload"]), (str(status), None))
        self.assertTrue(page.json["message"])

    def put(self, by: Player, to: Any, slot: Any = 1, **more: Any) -> Any:
        whom = to.id if isinstance(to, Player) else to
        body = {"account_id": whom, "slot": slot, "action_source": "social_panel"} | more
        return self.do("PUT", "/invite", by, body)

    def post(self, by: Player, action: Any, other: Player | None = None, **more: Any) -> Any:
        body = {"action": action} | ({"account_id": other.id} if other else {}) | more
        return self.do("POST", "/invite", by, body)

    def invite(self, by: Player, to: Player, slot: Any = 1) -> str:
        return str(self.ok(self.put(by, to, slot))["link_id"])

    def link(self, by: Player, to: Player, senders: int = 1, **more: Any) -> str:
        self.invite(by, to, senders)
        return str(self.ok(self.post(to, "accept", by, **more))["link_id"])

    def invites(self, who: Player) -> Any:
        return self.ok(self.do("GET", "/invites", who))["invites"]

    def links(self, who: Player) -> Any:
        return self.ok(self.do("GET", "/links", who))["links"]

    def free(self, who: Player, *ids: Any) -> dict[str, bool]:
        page = self.do("POST", "/availability", who, {"account_ids": list(ids)})
        listed = self.ok(page)["availability"]
        return {one["account_id"]: one["available"] for one in listed}


class ReadTests(Base):
    def test_status_has_its_shape(self) -> None:
        payload = self.ok(self.do("GET", "/status_good", self.ann))
        self.assertEqual(list(payload), ["invites", "links", "config"])
        self.assertEqual(
            payload,
            {
                "invites": [],
                "links": [],
                "config": {"link_duration_hours": 168, "invite_expiry_hours": 24},
            },
        )

    def test_an_invite_is_seen_by_both_with_the_senders_slot(self) -> None:
        link_id = self.invite(self.ann, self.bob, 2)
        expected = {
            "account_id": self.bob.id,
            "slot": 2,
            "direction": "Sent",
            "status": "Pending",
            "expires": iso(START + 24 * HOUR),
            "link_id": link_id,
        }
        self.assertEqual(self.invites(self.ann), [expected])
        expected |= {"account_id": self.ann.id, "direction": "Received"}
        self.assertEqual(self.invites(self.bob), [expected])
        self.assertEqual(self.ok(self.do("GET", "/status_good", self.bob))["invites"], [expected])
        self.assertEqual(self.invites(self.cat), [])

    def test_a_link_is_seen_by_both_in_their_own_slot(self) -> None:
        link_id = self.link(self.ann, self.bob, 3, slot=2)
        expected = {
            "account_id": self.bob.id,
            "linked_account_id": self.bob.id,
            "slot": 3,
            "ends": iso(START + 168 * HOUR),
            "link_id": link_id,
            "prize_pool": [],
        }
        self.assertEqual(self.links(self.ann), [expected])
        expected |= {"account_id": self.ann.id, "linked_account_id": self.ann.id, "slot": 2}
        self.assertEqual(self.links(self.bob), [expected])
        self.assertEqual(self.invites(self.ann), [])

    def test_links_are_sorted_by_slot(self) -> None:
        for other, slot in ((self.bob, 3), (self.cat, 1), (self.dan, 2)):
            self.link(self.ann, other, slot)
        self.assertEqual([one["slot"] for one in self.links(self.ann)], [1, 2, 3])

    def test_every_row_needs_a_player(self) -> None:
        for method, path in ROWS:
            page = self.game.browse(method, "/slayerlink" + path)
            self.refused(page, 401)
            page = self.game.browse(method, "/slayerlink" + path, game_server=GAME_SERVER_KEY)
            self.refused(page, 403)

    def test_slayer_links_0_is_the_empty_404_before_any_credential(self) -> None:
        game = Game(self, SLAYER_LINKS="0")
        for method, path in ROWS:
            page = game.browse(method, "/slayerlink" + path)
            self.assertEqual((page.status, page.body), (404, b""))

    def test_the_reward_routes_are_404(self) -> None:
        for method, path in (("PUT", "/links/rewards"), ("GET", f"/links/rewards/{self.ann.id}/1")):
            self.assertEqual(self.do(method, path, self.ann).status, 404)


class InviteTests(Base):
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
        self.assertEqual([*Status], words)

    def test_numeric_texts_are_slots(self) -> None:
        self.invite(self.ann, self.bob, "2")
        self.assertEqual(self.invites(self.ann)[0]["slot"], 2)
        self.assertEqual([slot_of(one) for one in ("1", 3, 2.0, "4", "²")], [1, 3, 2, None, None])

    def test_yourself_strangers_and_the_unknown(self) -> None:
        self.refused(self.put(self.ann, self.ann), 409)
        self.refused(self.put(self.ann, "UID-nobody"), 404)
        self.refused(self.put(self.bob, self.cat), 403)

    def test_a_pending_friend_is_no_friend(self) -> None:
        self.social("POST", "friends", self.bob, self.cat)
        self.refused(self.put(self.bob, self.cat), 403)

    def test_a_block_is_403_both_ways(self) -> None:
        self.social("POST", "blocklist", self.bob, self.ann)
        self.refused(self.put(self.ann, self.bob), 403)
        self.refused(self.put(self.bob, self.ann), 403)

    def test_again_gives_the_same_id_even_with_another_slot(self) -> None:
        link_id = self.invite(self.ann, self.bob, 1)
        self.assertEqual(self.invite(self.ann, self.bob, 1), link_id)
        self.assertEqual(self.invite(self.ann, self.bob, 2), link_id)
        self.assertEqual([one["slot"] for one in self.invites(self.ann)], [1])

    def test_what_is_tied_already_is_409(self) -> None:
        self.invite(self.ann, self.bob, 1)
        self.refused(self.put(self.bob, self.ann), 409)
        self.refused(self.put(self.ann, self.cat, 1), 409)
        self.ok(self.post(self.bob, "accept", self.ann))
        self.refused(self.put(self.ann, self.bob, 2), 409)
        self.refused(self.put(self.bob, self.ann, 2), 409)
        self.refused(self.put(self.ann, self.cat, 1), 409)

    def test_they_need_a_free_slot(self) -> None:
        for other, slot in ((self.bob, 1), (self.cat, 2), (self.dan, 3)):
            self.invite(self.ann, other, slot)
        self.refused(self.put(self.eve, self.ann), 409)
        self.ok(self.post(self.ann, "cancel", self.dan))
        self.invite(self.eve, self.ann)

    def test_twenty_new_invites_in_ten_minutes(self) -> None:
        for _ in range(20):
            self.invite(self.ann, self.bob)
            self.invite(self.ann, self.bob)
            self.ok(self.post(self.ann, "cancel", self.bob))
        self.refused(self.put(self.ann, self.bob), 409)
        self.game.clock.advance(600)
        self.invite(self.ann, self.bob)

    def test_an_invite_lives_24_hours(self) -> None:
        first = self.invite(self.ann, self.bob)
        self.game.clock.advance(24 * HOUR - 1)
        self.assertEqual(len(self.invites(self.bob)), 1)
        self.game.clock.advance(1)
        self.assertEqual(self.invites(self.bob), [])
        self.refused(self.post(self.bob, "accept", self.ann), 409)
        self.assertNotEqual(self.invite(self.ann, self.bob), first)
        self.ok(self.post(self.bob, "accept", self.ann))

    def test_put_with_the_action_cancel_cancels(self) -> None:
        link_id = self.invite(self.ann, self.bob)
        self.assertEqual(
            self.ok(self.put(self.ann, self.bob, action="cancel")), {"link_id": link_id}
        )
        self.assertEqual(self.invites(self.ann), [])


class AnswerTests(Base):
    def test_the_same_answer_again_is_fine_and_another_is_409(self) -> None:
        for action, by, other in (
            ("accept", self.bob, self.ann),
            ("reject", self.cat, self.ann),
            ("cancel", self.ann, self.dan),
        ):
            to = by if by is not self.ann else other
            link_id = self.invite(self.ann, to, {"accept": 1, "reject": 2, "cancel": 3}[action])
            for _ in range(2):
                self.assertEqual(self.ok(self.post(by, action, other)), {"link_id": link_id})
            for wrong, who, whom in (
                ("accept", to, self.ann),
                ("reject", to, self.ann),
                ("cancel", self.ann, to),
            ):
                if wrong != action:
                    self.refused(self.post(who, wrong, whom), 409)

    def test_only_its_own_side_answers(self) -> None:
        self.invite(self.ann, self.bob)
        for action, by, other in (
            ("accept", self.ann, self.bob),
            ("reject", self.ann, self.bob),
            ("cancel", self.bob, self.ann),
            ("accept", self.cat, self.ann),
        ):
            self.refused(self.post(by, action, other), 404)
        self.refused(self.post(self.bob, "accept"), 404)

    def test_unknown_actions_are_400(self) -> None:
        self.invite(self.ann, self.bob)
        for action in (None, "ACCEPT", "x", 7, []):
            self.refused(self.post(self.bob, action, self.ann), 400)

    def test_an_id_in_the_body_is_tried_first_among_ones_own(self) -> None:
        first = self.invite(self.ann, self.bob)
        second = self.invite(self.cat, self.ann, 1)
        for key in ("link_id", "invite_id"):
            page = self.post(self.bob, "reject", self.cat, **{key: first})
            self.assertEqual(self.ok(page), {"link_id": first})
        self.refused(self.post(self.bob, "accept", None, link_id=second), 404)
        page = self.post(self.ann, "accept", self.cat, link_id=first)
        self.assertEqual(self.ok(page), {"link_id": second}, "not one's own: by the account")

    def test_the_newest_invite_decides(self) -> None:
        self.invite(self.ann, self.bob)
        self.ok(self.post(self.bob, "reject", self.ann))
        second = self.invite(self.ann, self.bob)
        self.assertEqual(self.ok(self.post(self.bob, "accept", self.ann)), {"link_id": second})

    def test_the_wanted_slot_if_free_else_the_first_free_one(self) -> None:
        self.befriend(self.bob, self.cat)
        self.invite(self.bob, self.cat, 1)
        self.link(self.ann, self.bob, 1, slot=1)
        self.assertEqual(self.links(self.bob)[0]["slot"], 2, "1 holds a waiting invite")
        for other, wanted, slot in (
            (self.cat, 3, 3),
            (self.dan, None, 1),
            (self.eve, 0, 1),
        ):
            link_id = self.link(self.ann, other, 2, slot=wanted)
            self.assertEqual(self.links(other)[0]["slot"], slot)
            self.ok(self.do("DELETE", "/links", self.ann, {"account_id": other.id, "slot": 2}))
            self.assertNotIn(link_id, [one["link_id"] for one in self.links(self.ann)])

    def test_accepting_without_a_free_slot_is_409(self) -> None:
        self.invite(self.eve, self.ann)
        for other, slot in ((self.bob, 1), (self.cat, 2), (self.dan, 3)):
            self.invite(self.ann, other, slot)
        self.refused(self.post(self.ann, "accept", self.eve), 409)
        self.assertEqual(len(self.invites(self.eve)), 1, "the invite still waits")


class EndTests(Base):
    def test_a_link_runs_168_hours_and_frees_slot_and_pair(self) -> None:
        self.link(self.ann, self.bob, 1)
        self.game.clock.advance(168 * HOUR - 1)
        self.assertEqual(len(self.links(self.ann)), 1)
        self.refused(self.put(self.ann, self.cat, 1), 409)
        self.game.clock.advance(1)
        self.assertEqual(self.links(self.ann), [])
        self.link(self.ann, self.bob, 1)

    def test_unfriending_or_blocking_cancels_invites_and_leaves_links(self) -> None:
        for kind, method in (("friends", "DELETE"), ("blocklist", "POST")):
            other = self.bob if kind == "friends" else self.cat
            self.link(self.ann, other, 1 if kind == "friends" else 2)
            third = self.dan if kind == "friends" else self.eve
            self.invite(self.ann, third, 3)
            self.social(method, kind, self.ann, other)
            self.social(method, kind, third, self.ann)
            self.assertEqual(self.invites(self.ann), [])
            self.assertEqual(self.invites(third), [])
            self.refused(self.post(third, "accept", self.ann), 409)
            self.assertIn(other.id, [one["account_id"] for one in self.links(self.ann)])

    def test_ones_own_id_drops_all_and_anothers_only_theirs(self) -> None:
        self.invite(self.ann, self.bob, 1)
        self.invite(self.ann, self.cat, 2)
        self.invite(self.dan, self.ann, 1)
        self.invite(self.eve, self.ann, 1)
        drop = "/invites/"
        self.assertEqual(self.ok(self.do("DELETE", drop + self.bob.id, self.ann)), {})
        self.assertEqual(self.ok(self.do("DELETE", drop + self.dan.id, self.ann)), {})
        left = {one["account_id"] for one in self.invites(self.ann)}
        self.assertEqual(left, {self.cat.id, self.eve.id})
        self.assertEqual(self.ok(self.do("DELETE", drop + "UID-nobody", self.ann)), {})
        self.refused(self.do("DELETE", drop + "not.an.id", self.ann), 400)
        self.assertEqual(self.ok(self.do("DELETE", drop + self.ann.id, self.ann)), {})
        self.assertEqual(self.invites(self.ann), [])
        self.ok(self.post(self.ann, "cancel", self.cat))
        self.ok(self.post(self.ann, "reject", self.eve))

    def test_ending_a_link_ends_it_for_both(self) -> None:
        for named in (
            lambda: {"account_id": self.bob.id, "slot": 2, "delete_pair": False},
            lambda: {"account_id": self.bob.id},
            lambda: {"slot": "2"},
        ):
            self.link(self.ann, self.bob, 2, slot=3)
            self.assertEqual(self.ok(self.do("DELETE", "/links", self.ann, named())), {})
            self.assertEqual((self.links(self.ann), self.links(self.bob)), ([], []))

    def test_what_does_not_match_ends_nothing(self) -> None:
        self.link(self.ann, self.bob, 2)
        for body in (
            {"account_id": self.bob.id, "slot": 1},
            {"account_id": self.cat.id, "slot": 2},
            {"account_id": self.bob.id, "slot": 9},
            {"slot": 0},
            {"account_id": 7},
            {},
            [],
        ):
            self.assertEqual(self.ok(self.do("DELETE", "/links", self.ann, body)), {})
        self.assertEqual(len(self.links(self.bob)), 1)

    def test_the_query_names_a_link_too(self) -> None:
        self.link(self.ann, self.bob, 2)
        path = f"/links?account_id={self.bob.id}&slot=2&delete_pair=true"
        self.assertEqual(self.ok(self.do("DELETE", path, self.ann)), {})
        self.assertEqual(self.links(self.bob), [])

    def test_what_has_ended_is_swept(self) -> None:
        self.link(self.ann, self.bob, 1)
        for later, links, invites in ((168 * HOUR, 0, 2), (24 * HOUR, 0, 2)):
            self.game.clock.advance(later)
            self.invite(self.ann, self.cat, 2)
            self.ok(self.post(self.ann, "cancel", self.cat))
            self.assertEqual(
                (self.count(SLAYER_LINKS), self.count(SLAYER_INVITES)), (links, invites)
            )

    def count(self, table: Any) -> int:
        rows = select(func.count()).select_from(table)
        return int(self.game.ledger.now(lambda tx: tx.execute(rows).scalar_one()))


class AvailabilityTests(Base):
    def test_in_the_asked_order_each_once(self) -> None:
        asked = [self.cat.id, "UID-nobody", self.bob.id, self.cat.id, 7, None, self.ann.id]
        found = self.free(self.ann, *asked)
        self.assertEqual(
            list(found.items()),
            [
                (self.cat.id, True),
                ("UID-nobody", False),
                (self.bob.id, True),
                (self.ann.id, False),
            ],
        )

    def test_who_is_tied_or_no_friend_is_not_available(self) -> None:
        self.link(self.ann, self.bob, 1)
        self.invite(self.ann, self.cat, 2)
        self.invite(self.dan, self.ann, 1)
        found = self.free(self.ann, self.bob.id, self.cat.id, self.dan.id, self.eve.id)
        self.assertEqual(list(found.values()), [False, False, False, True])
        self.assertEqual(self.free(self.bob, self.eve.id), {self.eve.id: False})
        self.social("POST", "blocklist", self.eve, self.ann)
        self.assertEqual(self.free(self.ann, self.eve.id), {self.eve.id: False})

    def test_both_need_a_free_slot(self) -> None:
        for other, slot in ((self.bob, 1), (self.cat, 2), (self.dan, 3)):
            self.link(self.ann, other, slot)
        self.assertEqual(self.free(self.ann, self.eve.id), {self.eve.id: False})
        self.assertEqual(self.free(self.eve, self.ann.id), {self.ann.id: False})

    def test_the_first_50_of_a_list_and_nothing_of_anything_else(self) -> None:
        asked = [f"UID-{number}" for number in range(60)]
        self.assertEqual(list(self.free(self.ann, *asked)), asked[:50])
        for body in ({}, [], {"account_ids": "x"}, {"account_ids": {}}):
            page = self.do("POST", "/availability", self.ann, body)
            self.assertEqual(self.ok(page), {"availability": []})
