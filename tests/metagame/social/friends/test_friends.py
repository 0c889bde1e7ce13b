"""The routes of friends. Spec: 1 §4 Friends, §6, §7, §8; 2 §4 Friends, §7."""

from typing import Any

from twisted.internet.defer import Deferred

from svcserver.kernel.signals import Blocked, FriendAccepted, Unfriended
from svcserver.kernel.times import iso
from svcserver.metagame.social.friends.acts import FriendActs
from svcserver.metagame.social.friends.rules import ACCEPTED, PENDING, Friendship
from svcserver.metagame.social.friends.store import SqlFriends
from tests.metagame.social.friends.base import BLOCKS, FRIENDS, Base
from tests.support.game import GAME_SERVER_KEY, START, Game, Player
from tests.support.proves import proves


class RequestTests(Base):
    @proves(
        "state: Friend request",
        "GET /friends/api/public/friends/:userId",
        "POST /friends/api/public/friends/:userId/:friendId",
        "event 4: acceptance, unfriending and blocks are announced",
    )
    def test_a_request_is_pending_until_the_other_posts_back(self) -> None:
        page = self.game.browse(
            "POST", f"{FRIENDS}{self.ann.id}/{self.bob.id}", token=self.ann.token
        )
        self.assertEqual((page.status, page.body), (204, b""))
        entry = {
            "accountId": self.bob.id,
            "status": "PENDING",
            "direction": "OUTBOUND",
            "created": iso(START),
        }
        self.assertEqual(self.list_of(self.ann), [entry])
        entry = entry | {"accountId": self.ann.id, "direction": "INBOUND"}
        self.assertEqual(self.list_of(self.bob), [entry])
        self.assertEqual(self.list_of(self.ann, pending=False), [])
        self.game.clock.advance(5)
        self.assertEqual(self.friend("POST", self.bob, self.ann.id), 204)
        accepted = entry | {"status": "ACCEPTED"}
        self.assertEqual(self.list_of(self.bob, pending=False), [accepted])
        self.assertEqual(self.news, [FriendAccepted(self.ann.id, self.bob.id, iso(START))])

    @proves("POST /friends/api/public/friends/:userId/:friendId")
    def test_a_repeated_request_changes_nothing(self) -> None:
        self.befriend(self.ann, self.bob)
        for first, second in ((self.ann, self.bob), (self.bob, self.ann)):
            self.assertEqual(self.friend("POST", first, second.id), 204)
        self.game.clock.advance(1)
        self.assertEqual(self.friend("POST", self.ann, self.cat.id), 204)
        self.assertEqual(self.friend("POST", self.ann, self.cat.id), 204)
        self.assertEqual([first["status"] for first in self.list_of(self.ann)], [ACCEPTED, PENDING])

    @proves(
        "state: Friend request",
        "DELETE /friends/api/public/friends/:userId/:friendId",
        "event 4: acceptance, unfriending and blocks are announced",
    )
    def test_either_side_ends_a_request_or_friendship(self) -> None:
        for first, second in ((self.ann, self.bob), (self.bob, self.ann)):
            self.friend("POST", self.ann, self.bob.id)
            self.assertEqual(self.friend("DELETE", first, second.id), 204)
            self.assertEqual(self.list_of(self.ann), [])
            self.assertEqual(self.news, [])
            self.befriend(self.ann, self.bob)
            self.news.clear()
            self.assertEqual(self.friend("DELETE", first, second.id), 204)
            self.assertEqual(self.list_of(self.bob), [])
            self.assertEqual(self.news, [Unfriended(first.id, second.id)])
            self.news.clear()

    @proves("DELETE /friends/api/public/friends/:userId/:friendId")
    def test_ending_a_friendship_that_does_not_exist_is_204(self) -> None:
        for whom in (self.bob.id, "UID-nobody", self.ann.id):
            self.assertEqual(self.friend("DELETE", self.ann, whom), 204)
        self.assertEqual(self.news, [])

    @proves("POST /friends/api/public/friends/:userId/:friendId", "friend refusals")
    def test_a_friend_request_to_oneself_or_nobody_is_refused(self) -> None:
        for whom, status in (
            ("not.an.id", 404),
            ("x" * 65, 404),
            (self.ann.id, 400),
            ("UID-nobody", 404),
        ):
            path = f"{FRIENDS}{self.ann.id}/{whom}"
            page = self.game.browse("POST", path, token=self.ann.token)
            self.assertEqual((page.status, page.body), (status, b""), whom)
        self.assertEqual(self.friend("DELETE", self.ann, "not.an.id"), 404)

    @proves("POST /friends/api/public/friends/:userId/:friendId")
    def test_only_the_own_list_may_be_changed(self) -> None:
        for prefix, methods in ((FRIENDS, ("POST", "DELETE")), (BLOCKS, ("POST", "PUT", "DELETE"))):
            for method in methods:
                path = f"{prefix}{self.bob.id}/{self.cat.id}"
                for sent, status in (
                    ({"token": self.ann.token}, 403),
                    ({}, 401),
                    ({"game_server": GAME_SERVER_KEY}, 403),
                ):
                    self.assertEqual(self.game.browse(method, path, **sent).status, status)
        self.assertEqual(self.list_of(self.bob), [])

    @proves("POST /friends/api/public/friends/:userId/:friendId")
    def test_a_block_either_way_refuses_a_request(self) -> None:
        self.block("POST", self.ann, self.bob.id)
        self.assertEqual(self.friend("POST", self.ann, self.bob.id), 403)
        self.assertEqual(self.friend("POST", self.bob, self.ann.id), 403)

    @proves("limit: Friends and blocks per account")
    def test_the_list_holds_200_on_either_side(self) -> None:
        self.fill(self.ann, 199, status=ACCEPTED, sent=False)
        self.assertEqual(self.friend("POST", self.bob, self.ann.id), 204)
        self.assertEqual(self.friend("POST", self.cat, self.ann.id), 409)
        self.assertEqual(self.friend("POST", self.ann, self.cat.id), 409)
        self.assertEqual(self.friend("POST", self.ann, self.bob.id), 204, "the 200th")

    @proves("limit: Friends and blocks per account")
    def test_accepting_beyond_200_friends_is_refused(self) -> None:
        self.fill(self.ann, 200, status=ACCEPTED, sent=False)
        request = Friendship(self.bob.id, self.ann.id, PENDING, 1)
        self.game.ledger.run(lambda tx: SqlFriends(tx).add(request))
        self.assertEqual(self.friend("POST", self.ann, self.bob.id), 409)

    @proves("limit: Unanswered friend requests out; new requests")
    def test_fifty_unanswered_requests_are_the_most(self) -> None:
        self.fill(self.ann, 49, status=PENDING, sent=True)
        self.assertEqual(self.friend("POST", self.ann, self.bob.id), 204)
        self.assertEqual(self.friend("POST", self.ann, self.cat.id), 409)
        self.friend("DELETE", self.ann, self.bob.id)
        self.assertEqual(self.friend("POST", self.ann, self.cat.id), 204)

    @proves("limit: Unanswered friend requests out; new requests")
    def test_received_requests_do_not_count_as_unanswered(self) -> None:
        self.fill(self.ann, 60, status=PENDING, sent=False)
        self.assertEqual(self.friend("POST", self.ann, self.bob.id), 204)

    @proves("limit: Unanswered friend requests out; new requests")
    def test_a_21st_new_request_in_ten_minutes_is_409(self) -> None:
        players = [self.game.player(f"Other_{number}") for number in range(21)]
        for player in players[:20]:
            self.assertEqual(self.friend("POST", self.ann, player.id), 204)
            self.assertEqual(self.friend("POST", self.ann, player.id), 204)
            self.assertEqual(self.friend("DELETE", self.ann, player.id), 204)
        self.assertEqual(self.friend("POST", self.ann, players[20].id), 409)
        self.assertEqual(self.friend("POST", self.bob, self.ann.id), 204)
        self.assertEqual(self.friend("POST", self.ann, self.bob.id), 204, "accepting is free")
        self.game.clock.advance(600)
        self.assertEqual(self.friend("POST", self.ann, players[20].id), 204)

    @proves("limit: Unanswered friend requests out; new requests")
    def test_refused_requests_cost_no_place(self) -> None:
        for _ in range(25):
            self.assertEqual(self.friend("POST", self.ann, "UID-nobody"), 404)
        self.assertEqual(self.friend("POST", self.ann, self.bob.id), 204)


class ListTests(Base):
    @proves("GET /friends/api/public/blocklist/:userId", "GET /friends/api/public/friends/:userId")
    def test_a_list_is_empty_for_another_missing_or_bad_token(self) -> None:
        self.befriend(self.ann, self.bob)
        self.block("PUT", self.ann, self.cat.id)
        for token in (self.bob.token, None, "rubbish"):
            page = self.game.browse("GET", FRIENDS + self.ann.id, token=token)
            self.assertEqual((page.status, page.json), (200, []))
            page = self.game.browse("GET", BLOCKS + self.ann.id, token=token)
            self.assertEqual((page.status, page.json), (200, {"blockedUsers": []}))

    @proves("GET /friends/api/public/friends/:userId")
    def test_friends_are_listed_from_the_oldest_to_the_newest(self) -> None:
        for friend in (self.cat, self.bob):
            self.friend("POST", self.ann, friend.id)
            self.game.clock.advance(1)
        listed = [entry["accountId"] for entry in self.list_of(self.ann)]
        self.assertEqual(listed, [self.cat.id, self.bob.id])

    @proves("GET /friends/api/public/friends/:userId")
    def test_pending_friends_are_listed_only_for_the_word_true(self) -> None:
        self.friend("POST", self.ann, self.bob.id)
        path = f"{FRIENDS}{self.ann.id}?includePending=1"
        self.assertEqual(self.game.browse("GET", path, token=self.ann.token).json, [])

    @proves(
        "GET /friends/api/public/list/:namespace/:userId/recentPlayers",
        "GET /friends/api/v1/:userId/settings",
    )
    def test_recent_players_are_empty_and_invites_are_public(self) -> None:
        path = "/friends/api/public/list/any/UID-x/recentPlayers"
        self.assertEqual(self.game.browse("GET", path).json, [])
        page = self.game.browse("GET", "/friends/api/v1/UID-x/settings")
        self.assertEqual(page.json, {"acceptInvites": "public"})

    @proves("MISC_ROUTES (the four friends reads)")
    def test_misc_routes_0_hides_the_four_reads_and_nothing_else(self) -> None:
        game = Game(self, MISC_ROUTES="0")
        ann, bob = game.player("Ann"), game.player("Bob")
        for path in (
            FRIENDS + ann.id,
            BLOCKS + ann.id,
            "/friends/api/public/list/any/UID-x/recentPlayers",
            "/friends/api/v1/UID-x/settings",
        ):
            page = game.browse("GET", path, token=ann.token)
            self.assertEqual((page.status, page.body), (404, b""))
        page = game.browse("POST", f"{FRIENDS}{ann.id}/{bob.id}", token=ann.token)
        self.assertEqual(page.status, 204)


class BlockTests(Base):
    def blocked(self, who: Player) -> list[str]:
        page = self.game.browse("GET", BLOCKS + who.id, token=who.token).json
        return list(page["blockedUsers"])

    @proves(
        "DELETE /friends/api/public/blocklist/:userId/:friendId",
        "GET /friends/api/public/blocklist/:userId",
        "POST /friends/api/public/blocklist/:userId/:friendId",
        "PUT /friends/api/public/blocklist/:userId/:friendId",
        "event 4: acceptance, unfriending and blocks are announced",
    )
    def test_a_block_is_kept_and_ends_the_friendship(self) -> None:
        for method in ("POST", "PUT"):
            self.befriend(self.ann, self.bob)
            self.news.clear()
            self.assertEqual(self.block(method, self.ann, self.bob.id), 204)
            self.assertEqual(self.blocked(self.ann), [self.bob.id])
            self.assertEqual(self.blocked(self.bob), [])
            self.assertEqual(self.list_of(self.ann), [])
            self.assertEqual(self.list_of(self.bob), [])
            self.assertEqual(self.block(method, self.ann, self.bob.id), 204)
            self.assertEqual(self.news, [Blocked(self.ann.id, self.bob.id)])
            self.assertEqual(self.block("DELETE", self.ann, self.bob.id), 204)
            self.assertEqual(self.blocked(self.ann), [])

    @proves(
        "POST /friends/api/public/blocklist/:userId/:friendId",
        "PUT /friends/api/public/blocklist/:userId/:friendId",
        "friend refusals",
    )
    def test_a_block_of_oneself_or_nobody_is_refused(self) -> None:
        for whom, status in (("not.an.id", 404), (self.ann.id, 400), ("UID-nobody", 404)):
            self.assertEqual(self.block("POST", self.ann, whom), status)
            self.assertEqual(self.block("PUT", self.ann, whom), status)
        self.assertEqual(self.block("DELETE", self.ann, "not.an.id"), 404)
        self.assertEqual(self.block("DELETE", self.ann, "UID-nobody"), 204)

    @proves("limit: Friends and blocks per account")
    def test_a_201st_block_is_409(self) -> None:
        def work(tx: Any) -> None:
            for number in range(199):
                SqlFriends(tx).block(self.ann.id, f"UID-x{number}", 1)

        self.game.ledger.run(work)
        self.assertEqual(self.block("POST", self.ann, self.bob.id), 204)
        self.assertEqual(self.block("POST", self.ann, self.cat.id), 409)
        self.assertEqual(self.block("POST", self.ann, self.bob.id), 204, "blocked already")
        self.assertEqual(len(self.blocked(self.ann)), 200)

    @proves("DELETE /friends/api/public/blocklist/:userId/:friendId")
    def test_unblocking_does_not_restore_a_friendship(self) -> None:
        self.befriend(self.ann, self.bob)
        self.block("POST", self.ann, self.bob.id)
        self.block("DELETE", self.ann, self.bob.id)
        self.assertEqual(self.list_of(self.ann), [])
        self.assertEqual(self.friend("POST", self.bob, self.ann.id), 204)

    def test_a_block_and_the_end_of_friendship_share_a_transaction(self) -> None:
        self.befriend(self.ann, self.bob)
        self.news.clear()

        def broken(tx: Any, first: str, second: str) -> None:
            raise ZeroDivisionError

        parts = self.game.parts
        acts = FriendActs(
            parts.data,
            parts.board,
            parts.wall_clock,
            parts.news.blocked,
            also_block=[broken],
            also_unfriend=[broken],
        )
        for act in (acts.block, acts.unfriend):
            result = Deferred.fromCoroutine(act(self.ann.id, self.bob.id))
            self.failureResultOf(result, ZeroDivisionError)
        self.assertEqual(self.blocked(self.ann), [])
        self.assertEqual(len(self.list_of(self.ann, pending=False)), 1)
        self.assertEqual(self.news, [])
