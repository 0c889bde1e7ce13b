"""Each request that players can make, sent a second time. See ``svcserver/metagame/once.py``."""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.tables import METADATA
from svcserver.kernel import json
from svcserver.metagame.once import Again
from svcserver.metagame.owner.people.data import OF_NOBODY, account_columns
from tests.metagame.attempts.base import (
    BLOCKED,
    CASES,
    FRIENDS,
    HUNT,
    PLAIN,
    SECRET,
    GameFixture,
    PlayerRequest,
    case,
    plain,
)
from tests.metagame.belongings.inventory.base import sword
from tests.support.browser import Page

HERE = Path(__file__).parents[1]
REFUSED = ("POST /key/generate",)  # always

OWN = re.compile(r"^@?(?:case|plain)\(", re.MULTILINE)
# a feature's own tests may contain cases of its routes
for file in sorted(HERE.rglob("test_*.py")):
    if file != Path(__file__) and OWN.search(file.read_text()):
        import_module(".".join(file.relative_to(HERE.parents[1]).with_suffix("").parts))

plain("POST /account/mapping", body={"accountIds": []})
plain("POST /accountinfo/public", body={"displayName": "Bob_1"})
plain("POST /launcher/invite", body={"InviteCode": "ABCD-EFGH-JKMN"})
plain("POST /launcher/name-free", body={"Username": "Free_1"})
plain("POST /account/migrate")
plain("POST /event", body={})
plain("POST /heartbeat", body={})
plain("POST /key/generate", afresh=400)
plain("POST /motd/", afresh=204)
plain("POST /profile/update")
plain("POST /reconcile")
plain("POST /candidate/player/alive", body={})
plain("POST /candidate/player/register")
plain("POST /guild/validate", body={"name": "Slayers", "nameplate": ""})
plain("POST /inventory/<character_id>/<change_list>", "/inventory/x/y")
plain("PUT /gamesession/epic")
plain("DELETE /account/api/oauth/sessions/kill")
plain("DELETE /account/api/oauth/sessions/kill/<token>", "/account/api/oauth/sessions/kill/x")


case("POST /account/api/oauth/token", 200)(
    lambda fixture: (
        fixture.ann,
        "POST /account/api/oauth/token",
        {"exchange_code": fixture.ann.key},
    )
)
case("POST /party", 200)(lambda fixture: (fixture.ann, "POST /party", {}))
case("POST /candidate/join", 200)(lambda fixture: (fixture.ann, "POST /candidate/join", HUNT))


@case("PUT /character", 200)
def create(fixture: GameFixture) -> PlayerRequest:
    fixture.character(fixture.ann)
    fixture.pass_time(9.0)
    return fixture.ann, "PUT /character", {"name": "Second"}


case("POST /login", 200)(lambda fixture: (fixture.ann, "POST /login", {"email": fixture.ann.id}))
case("POST /party/status", 200)(
    lambda fixture: (fixture.ann, "POST /party/status", {"playerIds": [fixture.bob.id]})
)
case("POST /slayerlink/availability", 200)(
    lambda fixture: (
        fixture.ann,
        "POST /slayerlink/availability",
        {"account_ids": [fixture.bob.id]},
    )
)


# -- what is held ------------------------------------------------------------


@case("POST /character", 409)
def save(fixture: GameFixture) -> PlayerRequest:
    body = {"characterId": fixture.character(fixture.ann), "data": '{"a":"1"}', "updateVersion": 5}
    return fixture.ann, "POST /character", body


@case("POST /inventory", 200)
def transact(fixture: GameFixture) -> PlayerRequest:
    items = [{"catalogId": "ORE", "quantity": 3}]
    body = {"characterId": fixture.character(fixture.ann), "addStackedItems": items}
    return fixture.ann, "POST /inventory", body | {"transactionId": "t-1"}


@case("POST /inventory/instanceditem", 409)
def item(fixture: GameFixture) -> PlayerRequest:
    character = fixture.character(fixture.ann)
    body = {"characterId": character, "addInstancedItems": [sword()], "transactionId": "t-1"}
    fixture.did(fixture.ann, "POST /inventory", body)
    newer = {"characterId": character, **sword(2, '{"a":1}')}
    return fixture.ann, "POST /inventory/instanceditem", newer


@case("POST /loadout/<user_id>/<character_id>/<index>", 200)
def arm(fixture: GameFixture) -> PlayerRequest:
    document = json.dump({"slot_index": 0, "update_version": 1, "custom_name": "Hunt"}).decode()
    path = f"/loadout/{fixture.ann.id}/{fixture.character(fixture.ann)}/0"
    return fixture.ann, f"POST {path}", {"data": document}


@case("POST /notification/<currency>", 204)
def redeem(fixture: GameFixture) -> PlayerRequest:
    fixture.character(fixture.ann)
    offer = fixture.did(fixture.ann, "GET /product/skus/public?requiredTags=webstore")[0]["id"]
    token = fixture.did(fixture.ann, f"GET /token/platinum/{offer}")["purchaseToken"]
    return fixture.ann, f"POST /notification/platinum?token={token}", None


@case("POST /encountered-content/<character_id>", 200)
def meet(fixture: GameFixture) -> PlayerRequest:
    path = f"/encountered-content/{fixture.character(fixture.ann)}"
    return fixture.ann, f"POST {path}", {"content_type": 1, "content_id": "Beast"}


@case("POST /encountered-content/query/<character_id>", 200)
def met(fixture: GameFixture) -> PlayerRequest:
    path = f"/encountered-content/query/{fixture.character(fixture.ann)}"
    return fixture.ann, f"POST {path}", {"content_types": [1]}


# -- hunts -------------------------------------------------------------------


@case("POST /candidate/join/<candidate_id>", 200)
def follow(fixture: GameFixture) -> PlayerRequest:
    fixture.party(fixture.ann, fixture.bob)
    candidate = fixture.did(fixture.ann, "POST /candidate/join", HUNT)["candidateId"]
    return fixture.bob, f"POST /candidate/join/{candidate}", None


@case("DELETE /candidate", 200)
def cancel(fixture: GameFixture) -> PlayerRequest:
    fixture.did(fixture.ann, "POST /candidate/join", HUNT)
    fixture.pass_time()
    return fixture.ann, "DELETE /candidate", None


case("DELETE /candidate/leave", 200)(
    lambda fixture: (fixture.ann, "DELETE /candidate/leave", cancel(fixture)[2])
)


# -- friends and slayer links ------------------------------------------------


case("POST /friends/api/public/friends/<user_id>/<friend_id>", 204)(
    lambda fixture: (fixture.ann, f"POST {FRIENDS}/{fixture.ann.id}/{fixture.bob.id}", None)
)


@case("DELETE /friends/api/public/friends/<user_id>/<friend_id>", 204)
def unfriend(fixture: GameFixture) -> PlayerRequest:
    fixture.befriend(fixture.ann, fixture.bob)
    return fixture.ann, f"DELETE {FRIENDS}/{fixture.ann.id}/{fixture.bob.id}", None


case("POST /friends/api/public/blocklist/<user_id>/<friend_id>", 204)(
    lambda fixture: (fixture.ann, f"POST {BLOCKED}/{fixture.ann.id}/{fixture.bob.id}", None)
)


@case("PUT /friends/api/public/blocklist/<user_id>/<friend_id>", 204)
def put_block(fixture: GameFixture) -> PlayerRequest:
    return fixture.ann, f"PUT {BLOCKED}/{fixture.ann.id}/{fixture.bob.id}", None


@case("DELETE /friends/api/public/blocklist/<user_id>/<friend_id>", 204)
def unblock(fixture: GameFixture) -> PlayerRequest:
    fixture.did(*put_block(fixture))
    return fixture.ann, f"DELETE {BLOCKED}/{fixture.ann.id}/{fixture.bob.id}", None


@case("PUT /slayerlink/invite", 200)
def ask_link(fixture: GameFixture) -> PlayerRequest:
    fixture.befriend(fixture.ann, fixture.bob)
    return fixture.ann, "PUT /slayerlink/invite", {"account_id": fixture.bob.id, "slot": 1}


@case("POST /slayerlink/invite", 200)
def accept_link(fixture: GameFixture) -> PlayerRequest:
    fixture.did(*ask_link(fixture))
    fixture.pass_time()
    return (
        fixture.bob,
        "POST /slayerlink/invite",
        {"action": "accept", "account_id": fixture.ann.id},
    )


@case("DELETE /slayerlink/invites/<account_id>", 200)
def drop_links(fixture: GameFixture) -> PlayerRequest:
    fixture.did(*ask_link(fixture))
    fixture.pass_time()
    return fixture.bob, f"DELETE /slayerlink/invites/{fixture.bob.id}", None


@case("DELETE /slayerlink/links", 200)
def end_link(fixture: GameFixture) -> PlayerRequest:
    fixture.did(*accept_link(fixture))
    return fixture.ann, "DELETE /slayerlink/links", {"account_id": fixture.bob.id}


# -- parties -----------------------------------------------------------------


@case("PUT /party/invite", 409)
def invite(fixture: GameFixture) -> PlayerRequest:
    return fixture.ann, "PUT /party/invite", {"recipientPlayerId": fixture.bob.id}


@case("PUT /party/invite/accept/<invite_id>", 200)
def accept(fixture: GameFixture) -> PlayerRequest:
    fixture.did(*invite(fixture))
    return fixture.bob, f"PUT /party/invite/accept/{fixture.party(fixture.ann)}", {}


@case("DELETE /party/invite", 200)
def decline(fixture: GameFixture) -> PlayerRequest:
    fixture.did(*invite(fixture))
    return fixture.bob, "DELETE /party/invite", {"partyId": fixture.party(fixture.ann)}


@case("DELETE /party/member", 200)
def part(fixture: GameFixture) -> PlayerRequest:
    fixture.party(fixture.ann, fixture.bob)
    return fixture.bob, "DELETE /party/member", None


@case("DELETE /party/member/<member_id>", 404)
def kick(fixture: GameFixture) -> PlayerRequest:
    fixture.party(fixture.ann, fixture.bob)
    return fixture.ann, f"DELETE /party/member/{fixture.bob.id}", None


@case("PUT /party/member/promote/<member_id>", 403)
def promote(fixture: GameFixture) -> PlayerRequest:
    fixture.party(fixture.ann, fixture.bob)
    return fixture.ann, f"PUT /party/member/promote/{fixture.bob.id}", None


@case("DELETE /party/leader/<leader_id>", 200)
def drop_leader(fixture: GameFixture) -> PlayerRequest:
    fixture.party(fixture.ann, fixture.bob)
    return fixture.bob, f"DELETE /party/leader/{fixture.ann.id}", None


# -- guilds ------------------------------------------------------------------


@case("PUT /guild/invite/<account_id>", 409)
def guild_invite(fixture: GameFixture) -> PlayerRequest:
    fixture.create_guild(fixture.ann)
    return fixture.ann, f"PUT /guild/invite/{fixture.bob.id}", None


@case("POST /guild/invite/accept/<invite_id>", 404)
def guild_accept(fixture: GameFixture) -> PlayerRequest:
    fixture.did(*guild_invite(fixture))
    return fixture.bob, f"POST /guild/invite/accept/{fixture.guild_invite(fixture.bob)}", None


@case("DELETE /guild/invite/<invite_id>", 404)
def guild_decline(fixture: GameFixture) -> PlayerRequest:
    fixture.did(*guild_invite(fixture))
    return fixture.bob, f"DELETE /guild/invite/{fixture.guild_invite(fixture.bob)}", None


@case("DELETE /guild/player", 404)
def guild_leave(fixture: GameFixture) -> PlayerRequest:
    fixture.create_guild(fixture.ann, fixture.bob)
    return fixture.bob, "DELETE /guild/player", None


@case("DELETE /guild/player/<account_id>", 404)
def guild_kick(fixture: GameFixture) -> PlayerRequest:
    fixture.create_guild(fixture.ann, fixture.bob)
    fixture.pass_time()
    return fixture.ann, f"DELETE /guild/player/{fixture.bob.id}", None


@case("PUT /guild/rank/<account_id>/<rank>", 403)
def hand_over(fixture: GameFixture) -> PlayerRequest:
    fixture.create_guild(fixture.ann, fixture.bob)
    return fixture.ann, f"PUT /guild/rank/{fixture.bob.id}/leader", None


case("DELETE /guild/<guild_id>", 404)(
    lambda fixture: (
        fixture.ann,
        f"DELETE /guild/{fixture.create_guild(fixture.ann, fixture.bob)}",
        None,
    )
)
ANEW = re.compile(rb'"(?:sessionid|[a-z_]*token|expires_[a-z]+)":("[^"]*"|[0-9]+)')
"""What is drawn anew for each answer, and means the same."""


def same(body: bytes) -> bytes:
    return ANEW.sub(b'"anew"', body)


class AttemptTests(SynchronousTestCase):
    # slow: every route of players, most in fixtures of their own
    def test_a_second_attempt_counts_once_and_is_answered_as_the_first(self) -> None:
        for name, (afresh, made) in CASES.items():
            fixture, control = self.fixtures(name)
            request, request_id = made(fixture), fixture.new_id()
            first = fixture.send(request_id, 1, *request)
            self.assertIn(first.status, (200, 204) if name not in REFUSED else (400,), name)
            state = fixture.state()
            self.assertEqual(
                unknown_to_deletion(fixture, state), [], "declare it with info=ACCOUNT"
            )
            self.assertEqual(fixture.keeps(request_id), name in self.stored, name)
            fixture.pass_time()
            again = fixture.send(request_id, 2, *request)
            self.assertEqual((again.status, same(again.body)), (first.status, same(first.body)))
            self.assertEqual(fixture.state(), state, name)
            # a request with an unknown id runs as if it had just arrived
            self.assertEqual(fixture.send(fixture.new_id(), 2, *request).status, afresh, name)
            if control is not fixture:  # the same holds if the first attempt never arrived
                request = made(control)
                self.assertEqual(control.send(request_id, 2, *request).status, first.status, name)
                self.assertEqual(counts(control.state()), counts(state), name)
                fixture.end()
                control.end()

    def fixtures(self, name: str) -> tuple[GameFixture, GameFixture]:
        """Return two equal fixtures, or one fixture twice if the request needs no preparation."""
        if name not in PLAIN:
            return GameFixture(self), GameFixture(self)
        self.shared = self.shared or GameFixture(self)
        return self.shared, self.shared

    def setUp(self) -> None:
        self.shared: GameFixture | None = None
        rows = GameFixture(self).game.door.rows
        self.stored = {row.name for row in rows if row.again is Again.STORED}

    def test_every_repeatable_row_of_players_has_a_test_case(self) -> None:
        rows = {
            row.name
            for row in GameFixture(self).game.door.rows
            if row.again in (Again.STORED, Again.NATURAL) and not row.game_server
        }
        self.assertEqual(rows, CASES.keys())

    def test_rows_that_game_servers_write_do_nothing_for_a_player(self) -> None:
        fixture = GameFixture(self)
        for row in fixture.game.door.rows:
            if row.game_server and row.method != "GET":
                path = row.path.replace("<user_id>", fixture.ann.id)
                line = f"{row.method} {re.sub('[<>]', '', path)}"
                state, request_id = fixture.state(), fixture.new_id()
                first = fixture.send(request_id, 1, fixture.ann, line, {})
                self.assertEqual(
                    fixture.send(request_id, 2, fixture.ann, line, {}).status, first.status
                )
                self.assertEqual(fixture.state(), state, row.name)


class NeverTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.fixture = GameFixture(self)
        # no route describes this reply, because the gateway defines it
        self.fixture.game.described.odd = True

    def assert_lost(self, page: Page) -> None:
        self.assertEqual((page.status, page.json), (502, {"error": "bad_gateway"}))
        self.assertNotIn("retry-after", page.headers)

    def test_a_retried_request_for_a_key_gets_no_second_key(self) -> None:
        fixture, name = self.fixture, {"Username": "New_1"}
        state = fixture.state()
        self.assert_lost(
            fixture.send(fixture.new_id(), 2, fixture.ann, "POST /svc/api/Register", name)
        )
        self.assertEqual(fixture.state(), state)
        marks = {
            "x-svc-gateway": SECRET,
            "x-svc-request-id": fixture.new_id(),
            "x-svc-attempt": "2",
        }
        key = fixture.ann.key
        self.assert_lost(
            fixture.game.browse("POST", "/launcher/new-key", json={}, key=key, headers=marks)
        )
        self.assertEqual(fixture.state(), state)

    def test_an_inventory_transaction_without_an_id_is_made_once(self) -> None:
        fixture, (ann, line, body) = self.fixture, transact(self.fixture)
        del body["transactionId"]
        request_id = fixture.new_id()
        self.assertEqual(fixture.send(request_id, 1, ann, line, body).status, 200)
        state = fixture.state()
        self.assert_lost(fixture.send(request_id, 2, ann, line, body))
        self.assertEqual(fixture.state(), state)


def counts(state: dict[str, Any]) -> dict[str, int]:
    return {kind: len(rows) for kind, rows in state.items()}


def unknown_to_deletion(fixture: GameFixture, state: dict[str, Any]) -> list[str]:
    """Return the columns that hold a player's id in rows that are not deleted with that player."""
    players = {player.id for player in (fixture.ann, fixture.bob, fixture.cat, fixture.dan)}
    columns = []
    for name, table in METADATA.tables.items():
        if name not in (*OF_NOBODY, "accounts"):
            for values in state.get(name, ()):
                row = dict(zip(table.c.keys(), values, strict=True))
                others = players - {row[column] for column in account_columns(table)}
                columns += [f"{name}.{column}" for column, value in row.items() if value in others]
    return columns
