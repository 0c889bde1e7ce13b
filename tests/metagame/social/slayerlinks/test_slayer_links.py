"""The routes of slayer links. Spec: 1 §3 Slayer link, §4 Slayer links, §7, §8."""

from typing import Any

from sqlalchemy import func, select

from svcserver.kernel.times import iso
from svcserver.metagame.social.slayerlinks.store import SLAYER_INVITES, SLAYER_LINKS
from tests.metagame.social.slayerlinks.base import HOUR, ROWS, Base
from tests.support.game import GAME_SERVER_KEY, START, Game
from tests.support.proves import proves


class ReadTests(Base):
    @proves("GET /slayerlink/status_good")
    def test_the_status_has_invites_links_and_limits(self) -> None:
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

    @proves("GET /slayerlink/invites")
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

    @proves("GET /slayerlink/links")
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

    @proves("GET /slayerlink/links")
    def test_links_are_sorted_by_slot(self) -> None:
        for partner, slot in ((self.bob, 3), (self.cat, 1), (self.dan, 2)):
            self.link(self.ann, partner, slot)
        self.assertEqual([link["slot"] for link in self.links(self.ann)], [1, 2, 3])

    @proves("every route acts as the bearer's player")
    def test_every_row_needs_a_player(self) -> None:
        for method, path in ROWS:
            page = self.game.browse(method, "/slayerlink" + path)
            self.refused(page, 401)
            page = self.game.browse(method, "/slayerlink" + path, game_server=GAME_SERVER_KEY)
            self.refused(page, 403)

    @proves("SLAYER_LINKS=0", "SLAYER_LINKS")
    def test_slayer_links_0_is_the_empty_404_before_any_credential(self) -> None:
        game = Game(self, SLAYER_LINKS="0")
        for method, path in ROWS:
            page = game.browse(method, "/slayerlink" + path)
            self.assertEqual((page.status, page.body), (404, b""))

    @proves("reward routes answer 404")
    def test_the_reward_routes_are_404(self) -> None:
        for method, path in (("PUT", "/links/rewards"), ("GET", f"/links/rewards/{self.ann.id}/1")):
            self.assertEqual(self.do(method, path, self.ann).status, 404)


class EndTests(Base):
    @proves("state: Slayer link invite and link")
    def test_a_link_runs_168_hours_and_frees_slot_and_pair(self) -> None:
        self.link(self.ann, self.bob, 1)
        self.game.clock.advance(168 * HOUR - 1)
        self.assertEqual(len(self.links(self.ann)), 1)
        self.refused(self.put(self.ann, self.cat, 1), 409)
        self.game.clock.advance(1)
        self.assertEqual(self.links(self.ann), [])
        self.link(self.ann, self.bob, 1)

    @proves("state: Slayer link invite and link")
    def test_unfriending_or_blocking_cancels_invites_and_leaves_links(self) -> None:
        for kind, method in (("friends", "DELETE"), ("blocklist", "POST")):
            partner = self.bob if kind == "friends" else self.cat
            self.link(self.ann, partner, 1 if kind == "friends" else 2)
            third = self.dan if kind == "friends" else self.eve
            self.invite(self.ann, third, 3)
            self.social(method, kind, self.ann, partner)
            self.social(method, kind, third, self.ann)
            self.assertEqual(self.invites(self.ann), [])
            self.assertEqual(self.invites(third), [])
            self.refused(self.post(third, "accept", self.ann), 409)
            self.assertIn(partner.id, [link["account_id"] for link in self.links(self.ann)])

    @proves("DELETE /slayerlink/invites/:accountId")
    def test_an_own_id_deletes_all_invites_and_another_id_only_theirs(self) -> None:
        self.invite(self.ann, self.bob, 1)
        self.invite(self.ann, self.cat, 2)
        self.invite(self.dan, self.ann, 1)
        self.invite(self.eve, self.ann, 1)
        drop = "/invites/"
        self.assertEqual(self.ok(self.do("DELETE", drop + self.bob.id, self.ann)), {})
        self.assertEqual(self.ok(self.do("DELETE", drop + self.dan.id, self.ann)), {})
        left = {invite["account_id"] for invite in self.invites(self.ann)}
        self.assertEqual(left, {self.cat.id, self.eve.id})
        self.assertEqual(self.ok(self.do("DELETE", drop + "UID-nobody", self.ann)), {})
        self.refused(self.do("DELETE", drop + "not.an.id", self.ann), 400)
        self.assertEqual(self.ok(self.do("DELETE", drop + self.ann.id, self.ann)), {})
        self.assertEqual(self.invites(self.ann), [])
        self.ok(self.post(self.ann, "cancel", self.cat))
        self.ok(self.post(self.ann, "reject", self.eve))

    @proves("DELETE /slayerlink/links")
    def test_ending_a_link_ends_it_for_both(self) -> None:
        for named in (
            lambda: {"account_id": self.bob.id, "slot": 2, "delete_pair": False},
            lambda: {"account_id": self.bob.id},
            lambda: {"slot": "2"},
        ):
            self.link(self.ann, self.bob, 2, slot=3)
            self.assertEqual(self.ok(self.do("DELETE", "/links", self.ann, named())), {})
            self.assertEqual((self.links(self.ann), self.links(self.bob)), ([], []))

    @proves("DELETE /slayerlink/links")
    def test_a_delete_that_matches_no_link_ends_no_link(self) -> None:
        self.game.described.odd = True
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

    @proves("DELETE /slayerlink/links")
    def test_a_link_named_in_the_query_is_deleted(self) -> None:
        whom = f"account_id={self.bob.id}"
        for query in (f"{whom}&slot=2&delete_pair=true", whom, "slot=2"):
            self.link(self.ann, self.bob, 2)
            self.assertEqual(self.ok(self.do("DELETE", f"/links?{query}", self.ann)), {})
            self.assertEqual(self.links(self.bob), [], query)

    def test_expired_links_and_invites_are_deleted_from_the_database(self) -> None:
        self.link(self.ann, self.bob, 1)
        for later, friend, links, invites in (
            (168 * HOUR, self.cat, 0, 2),
            (24 * HOUR, self.dan, 0, 2),
        ):
            self.game.clock.advance(later)
            self.invite(self.ann, friend, 2)
            self.ok(self.post(self.ann, "cancel", friend))
            self.assertEqual(
                (self.count(SLAYER_LINKS), self.count(SLAYER_INVITES)), (links, invites)
            )

    def count(self, table: Any) -> int:
        rows = select(func.count()).select_from(table)
        return int(self.game.ledger.run(lambda tx: tx.execute(rows).scalar_one()))


class AvailabilityTests(Base):
    @proves("POST /slayerlink/availability")
    def test_availability_lists_each_id_once_in_the_requested_order(self) -> None:
        self.game.described.odd = True
        ids = [self.cat.id, "UID-nobody", self.bob.id, self.cat.id, 7, None, self.ann.id]
        available = self.free(self.ann, *ids)
        self.assertEqual(
            list(available.items()),
            [
                (self.cat.id, True),
                ("UID-nobody", False),
                (self.bob.id, True),
                (self.ann.id, False),
            ],
        )

    @proves("POST /slayerlink/availability")
    def test_a_linked_invited_or_blocked_player_is_not_available(self) -> None:
        self.link(self.ann, self.bob, 1)
        self.invite(self.ann, self.cat, 2)
        self.invite(self.dan, self.ann, 1)
        available = self.free(self.ann, self.bob.id, self.cat.id, self.dan.id, self.eve.id)
        self.assertEqual(list(available.values()), [False, False, False, True])
        self.assertEqual(self.free(self.bob, self.eve.id), {self.eve.id: False})
        self.social("POST", "blocklist", self.eve, self.ann)
        self.assertEqual(self.free(self.ann, self.eve.id), {self.eve.id: False})

    @proves("POST /slayerlink/availability")
    def test_players_without_a_free_slot_are_not_available(self) -> None:
        for partner, slot in ((self.bob, 1), (self.cat, 2), (self.dan, 3)):
            self.link(self.ann, partner, slot)
        self.assertEqual(self.free(self.ann, self.eve.id), {self.eve.id: False})
        self.assertEqual(self.free(self.eve, self.ann.id), {self.ann.id: False})

    @proves("limit: Slayer links")
    def test_availability_reads_the_first_50_ids_and_only_lists(self) -> None:
        self.game.described.odd = True
        ids = [f"UID-{number}" for number in range(60)]
        self.assertEqual(list(self.free(self.ann, *ids)), ids[:50])
        for body in ({}, [], {"account_ids": "x"}, {"account_ids": {}}):
            page = self.do("POST", "/availability", self.ann, body)
            self.assertEqual(self.ok(page), {"availability": []})
