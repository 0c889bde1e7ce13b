"""Friend requests by user name, sent from the owner's tools."""

from typing import Any

from svcserver.metagame.social.friends.rules import ACCEPTED, PENDING
from tests.metagame.social.friends.base import Base
from tests.support.game import Player
from tests.support.proves import proves


class ManagementTests(Base):
    PATH = "/svc/api/Friends"

    def ask(self, by: Player | None, body: Any, **more: Any) -> Any:
        key = by.key if by is not None else None
        return self.game.browse("POST", self.PATH, key=key, json=body, **more)

    @proves("POST /svc/api/Friends")
    def test_a_friend_request_returns_one_of_four_results(self) -> None:
        for by, to, result in (
            (self.ann, "bOB", "requested"),
            (self.ann, "Bob", "already_requested"),
            (self.bob, "ann", "accepted"),
            (self.ann, "Bob", "already_friends"),
        ):
            page = self.ask(by, {"Username": to})
            spelled = "Bob" if by is self.ann else "Ann"
            self.assertEqual(page.status, 200)
            self.assertEqual(page.json, {"From": by.name, "To": spelled, "Result": result})
        self.assertEqual(len(self.news), 1)

    @proves(
        "forbidden",
        "not_found (PartyInvite, Friends, GuildInvite, DisbandGuild)",
        "self, blocked, limit",
    )
    def test_an_invalid_or_blocked_friend_request_is_refused(self) -> None:
        self.block("POST", self.cat, self.ann.id)
        for body, status, word in (
            ({}, 400, "bad_request"),
            ({"Username": 7}, 400, "bad_request"),
            ([], 400, "bad_request"),
            ({"Username": "Nobody"}, 404, "not_found"),
            ({"Username": "Ann"}, 400, "self"),
            ({"Username": "Cat"}, 403, "blocked"),
            ({"Username": "Bob", "From": "Cat"}, 403, "forbidden"),
        ):
            page = self.ask(self.ann, body)
            self.assertEqual((page.status, page.json["error"]), (status, word), body)
            self.assertEqual(list(page.json), ["error", "message"])

    @proves("pending_limit, rate")
    def test_pending_limit_and_rate_have_their_error_codes(self) -> None:
        self.fill(self.ann, 50, status=PENDING, sent=True)
        self.assertEqual(self.ask(self.ann, {"Username": "Bob"}).json["error"], "pending_limit")
        players = [self.game.player(f"Other_{number}") for number in range(21)]
        for player in players[:20]:
            self.assertEqual(self.ask(self.cat, {"Username": player.name}).status, 200)
        page = self.ask(self.cat, {"Username": players[20].name})
        self.assertEqual((page.status, page.json["error"]), (409, "rate"))

    @proves("self, blocked, limit")
    def test_a_request_with_a_full_list_is_409_limit(self) -> None:
        self.fill(self.ann, 200, status=ACCEPTED, sent=False)
        page = self.ask(self.ann, {"Username": "Bob"})
        self.assertEqual((page.status, page.json["error"]), (409, "limit"))

    @proves("bad_request (PartyInvite, Friends, GuildInvite, DisbandGuild)")
    def test_unparseable_json_is_400_and_a_missing_key_an_empty_401(self) -> None:
        page = self.game.browse("POST", self.PATH, key=self.ann.key, data=b"{")
        self.assertEqual((page.status, page.json["error"]), (400, "bad_request"))
        for key in (None, "UUK_" + "0" * 48):
            page = self.game.browse("POST", self.PATH, key=key, json={"Username": "Bob"})
            self.assertEqual((page.status, page.body), (401, b""))

    @proves("POST /svc/api/Friends")
    def test_an_admin_acts_for_another_but_not_through_a_proxy(self) -> None:
        root = self.game.player("Root", admin=True)
        page = self.ask(root, {"Username": "Bob", "From": "aNN"})
        self.assertEqual(page.json, {"From": "Ann", "To": "Bob", "Result": "requested"})
        page = self.ask(root, {"Username": "Ann", "From": self.bob.id})
        self.assertEqual(page.json["Result"], "accepted")
        page = self.ask(root, {"Username": "Ann", "From": "Nobody"})
        self.assertEqual((page.status, page.json["error"]), (404, "not_found"))
        for by in (root, self.ann):
            page = self.ask(by, {"Username": "Bob", "From": "Ann"}, headers={"Via": "x"})
            self.assertEqual((page.status, page.body), (403, b""))
        page = self.ask(self.cat, {"Username": "Bob"}, headers={"Via": "x"})
        self.assertEqual(page.status, 200)
