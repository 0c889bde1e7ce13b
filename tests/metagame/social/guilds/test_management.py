"""Guilds for owners and launchers. Spec: 2 §4 GuildInvite, Guilds, DisbandGuild, §7."""

from typing import Any

from svcserver.kernel.signals import GuildChanged
from tests.metagame.social.guilds.base import Base
from tests.support.proves import proves


class ManagementTests(Base):
    def setUp(self) -> None:
        super().setUp()
        self.root = self.game.player("Root", admin=True)

    def call(self, method: str, path: str, key: str | None, body: Any = None, **more: Any) -> Any:
        sent = {} if body is None else {"json": body}
        return self.game.browse(method, f"/svc/api/{path}", key=key, **sent, **more)

    @proves("POST /svc/api/GuildInvite")
    def test_an_account_is_invited_to_a_guild_by_its_name(self) -> None:
        self.create_guild(self.ann)
        page = self.call("POST", "GuildInvite", self.ann.key, {"Username": "bOB"})
        expected = {"From": "Ann", "To": "Bob", "Guild": "Slayers"}
        self.assertEqual((page.status, page.json), (200, expected))
        page = self.call("POST", "GuildInvite", self.root.key, {"Username": "Cat", "From": "ann"})
        self.assertEqual(page.json, expected | {"To": "Cat"})
        self.assertEqual(self.invites(self.cat)[0]["inviter_account_id"], self.ann.id)

    @proves("guild_refused")
    def test_the_guilds_refusal_keeps_status_and_code(self) -> None:
        self.create_guild(self.ann)
        self.block(self.dan, self.ann)
        for by, to, status, word in (
            (self.bob, "Cat", 404, "ExcludedAdorableQuillshot: "),
            (self.ann, "Ann", 409, "ClonedAdorableQuillshot: "),
            (self.ann, "Dan", 403, ""),
        ):
            page = self.call("POST", "GuildInvite", by.key, {"Username": to})
            self.assertEqual((page.status, page.json["error"]), (status, "guild_refused"))
            self.assertTrue(page.json["message"].startswith(word))
            self.assertFalse(page.json["message"].startswith(": "))

    @proves(
        "bad_request (PartyInvite, Friends, GuildInvite, DisbandGuild)",
        "forbidden",
        "not_found (PartyInvite, Friends, GuildInvite, DisbandGuild)",
    )
    def test_a_malformed_guild_invite_is_refused(self) -> None:
        for body, status, word in (
            ({}, 400, "bad_request"),
            ({"Username": "Nobody"}, 404, "not_found"),
            ({"Username": "Bob", "From": "Cat"}, 403, "forbidden"),
        ):
            page = self.call("POST", "GuildInvite", self.ann.key, body)
            self.assertEqual((page.status, page.json["error"]), (status, word))
        page = self.call("POST", "GuildInvite", self.ann.key, data=b"{")
        self.assertEqual((page.status, page.json["error"]), (400, "bad_request"))
        self.assertEqual(self.call("POST", "GuildInvite", None, {"Username": "x"}).status, 401)

    @proves("GET /svc/api/Guilds")
    def test_the_list_is_sorted_by_name(self) -> None:
        second, first = (
            self.create_guild(self.ann, "Slayers", "SLY"),
            self.create_guild(self.bob, "hunters"),
        )
        self.join(self.ann, self.cat)
        page = self.call("GET", "Guilds", self.root.key)
        expected = [
            [first, "hunters", "", "Bob", 1],
            [second, "Slayers", "SLY", "Ann", 2],
        ]
        self.assertEqual(page.status, 200)
        self.assertEqual([list(guild.values()) for guild in page.json], expected)
        keys = ["guildId", "name", "nameplate", "leader", "members"]
        self.assertEqual(list(page.json[0]), keys)

    @proves("POST /svc/api/DisbandGuild")
    def test_disbanding_by_id_or_by_name_in_any_case(self) -> None:
        for named in (lambda guild_id: guild_id, lambda guild_id: "sLAYERS"):
            guild_id = self.create_guild(self.ann)
            self.join(self.ann, self.bob)
            self.ack(self.invite(self.ann, self.cat))
            self.left.clear()
            page = self.call("POST", "DisbandGuild", self.root.key, {"Guild": named(guild_id)})
            self.assertEqual((page.status, page.json), (200, {"Guild": "Slayers", "Members": 2}))
            self.assertEqual(self.left, [GuildChanged(guild_id, (self.ann.id, self.bob.id))])
            self.assertEqual((self.invites(self.cat), self.mine(self.bob)), ([], None))
            self.game.clock.advance(600)

    @proves(
        "bad_request (PartyInvite, Friends, GuildInvite, DisbandGuild)",
        "not_found (PartyInvite, Friends, GuildInvite, DisbandGuild)",
    )
    def test_disbanding_a_malformed_or_unknown_guild_is_refused(self) -> None:
        for body, status, word in (
            ({}, 400, "bad_request"),
            ({"Guild": 7}, 400, "bad_request"),
            ([], 400, "bad_request"),
            ({"Guild": "nobody"}, 404, "not_found"),
            ({"Guild": ""}, 404, "not_found"),
            ({"Guild": "a\0b"}, 404, "not_found"),
        ):
            page = self.call("POST", "DisbandGuild", self.root.key, body)
            self.assertEqual((page.status, page.json["error"]), (status, word))
        page = self.call("POST", "DisbandGuild", self.root.key, data=b"{")
        self.assertEqual((page.status, page.json["error"]), (400, "bad_request"))

    @proves("GET /svc/api/Guilds", "POST /svc/api/DisbandGuild")
    def test_both_admin_routes_require_an_admin_without_a_proxy(self) -> None:
        for method, path in (("GET", "Guilds"), ("POST", "DisbandGuild")):
            for key, head, status in (
                (None, {}, 401),
                (self.ann.key, {}, 403),
                (self.root.key, {"Via": "x"}, 403),
            ):
                page = self.call(method, path, key, headers=head)
                self.assertEqual((page.status, page.body), (status, b""))
