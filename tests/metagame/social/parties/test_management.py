"""Party invites that a launcher or an owner sends. Spec: 2 §4 PartyInvite, §7."""

from typing import Any

from tests.metagame.social.parties.base import Base
from tests.support.game import Player
from tests.support.proves import proves


class ManagementTests(Base):
    def ask(self, by: Player, body: Any, **more: Any) -> Any:
        return self.game.browse("POST", "/svc/api/PartyInvite", key=by.key, json=body, **more)

    @proves("POST /svc/api/PartyInvite")
    def test_a_keys_invite_is_sent_from_the_key_owners_party(self) -> None:
        page = self.ask(self.bob, {"Username": "cAT"})
        self.assertEqual((page.status, page.json), (200, {"From": "Bob", "To": "Cat"}))
        self.assertEqual(self.invites(self.cat)[0]["sendingPlayerId"], self.bob.id)

    @proves("party_invite_refused")
    def test_the_partys_refusals_keep_their_status(self) -> None:
        self.join(self.ann, self.bob)
        self.block(self.dan, self.ann)
        for by, to, status in (
            (self.bob, "Cat", 403),
            (self.ann, "Bob", 409),
            (self.ann, "Ann", 409),
            (self.ann, "Dan", 403),
        ):
            page = self.ask(by, {"Username": to})
            self.assertEqual((page.status, page.json["error"]), (status, "party_invite_refused"))
            self.assertTrue(page.json["message"])

    @proves(
        "bad_request (PartyInvite, Friends, GuildInvite, DisbandGuild)",
        "forbidden",
        "not_found (PartyInvite, Friends, GuildInvite, DisbandGuild)",
    )
    def test_a_malformed_party_invite_is_refused(self) -> None:
        for body, status, word in (
            ({}, 400, "bad_request"),
            ({"Username": "Nobody"}, 404, "not_found"),
            ({"Username": "Bob", "From": "Cat"}, 403, "forbidden"),
        ):
            page = self.ask(self.ann, body)
            self.assertEqual((page.status, page.json["error"]), (status, word))
        page = self.game.browse("POST", "/svc/api/PartyInvite", key=self.ann.key, data=b"nope")
        self.assertEqual((page.status, page.json["error"]), (400, "bad_request"))
        page = self.game.browse("POST", "/svc/api/PartyInvite", json={"Username": "Bob"})
        self.assertEqual((page.status, page.body), (401, b""))

    @proves("POST /svc/api/PartyInvite")
    def test_an_admin_invites_for_another(self) -> None:
        root = self.game.player("Root", admin=True)
        page = self.ask(root, {"Username": "Cat", "From": "bob"})
        self.assertEqual(page.json, {"From": "Bob", "To": "Cat"})
